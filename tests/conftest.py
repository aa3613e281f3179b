"""Fixtures and options shared by every tier: one private broker per run, unique names, seeds."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from headwater.local.broker import KafkaBroker
from tests import record
from tests.caches import NO_FETCH
from tests.kube.definitions import crds, stream_apps, stream_workers
from tests.kube.fixtures import (
    control_plane,
    helm,
    kube_api,
    kubeconfig,
    kubectl,
    namespace,
)
from tests.parts import LEFT_TO_OTHERS, MINUTES
from tests.record import NEEDS
from tests.support import bytecode, examples, sampled, spark_classes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

ROOT = Path(__file__).parent.parent
__all__ = [
    "control_plane",
    "crds",
    "helm",
    "kube_api",
    "kubeconfig",
    "kubectl",
    "namespace",
    "stream_apps",
    "stream_workers",
]

# How long an example takes says how busy the machine is, and nothing about the code.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

os.environ.setdefault(spark_classes.OPTIONS, spark_classes.options())

# What the processes of the tests import is compiled once.
os.environ.update(bytecode.KEPT)

# Nor is what a private Kafka does in a test: it starts with two thirds of the work.
os.environ.setdefault("HEADWATER_KAFKA_OPTS", "-XX:TieredStopAtLevel=1")

# What a test needs is in the cache, or the test fails with the command that puts it there.
for _name, _value in NO_FETCH.items():
    os.environ.setdefault(_name, _value)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap", metavar="HOST:PORT", help="use this running broker instead of a private one"
    )
    parser.addoption(
        "--kubeconfig", metavar="PATH", help="use this Kubernetes cluster instead of a private one"
    )
    parser.addoption(
        "--seed-base",
        metavar="TEXT",
        help="what seeded tests derive from (default: the git commit)",
    )
    parser.addoption(
        "--seeds",
        type=int,
        metavar="N",
        help="how many seeds each seeded test runs (default: its own)",
    )
    parser.addoption(
        "--share",
        type=float,
        default=1.0,
        metavar="FRACTION",
        help="which part of its own number of seeds or examples a test runs (default: all)",
    )
    parser.addoption(
        "--one-in",
        type=int,
        default=1,
        metavar="N",
        help="run one in N of the tests marked sampled, chosen by the seed base (default: all)",
    )
    record.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "seeded(n, least=1, most=n): runs n times, or a share of it, with a parameter `seed`",
    )
    examples.take_share(config.getoption("--share"))
    record.begin(config)
    # A run in the background ignores Ctrl-C, and so would every program that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Whatever talks to the private control plane or another cluster is marked ``kube``.

    Sampled tests are chosen among those that the other options have left.
    """
    for item in items:
        if not {"control_plane", "kubeconfig"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kube)
    yield
    sampled.deselect(config, items, seed_base(config), config.getoption("--one-in"))


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed base: {seed_base(config)} (repeat with --seed-base)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is required, a test that skips itself has failed."""
    report = record.with_needs(item, (yield))
    if report.skipped and os.environ.get("HEADWATER_REQUIRE_ALL"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but everything is required here: {report.longrepr}"
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where the time went, and what is left to other commits.

    A test with two markers counts for both.
    """
    took_s: Counter[str] = Counter()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            for name, needs in report.user_properties:
                if name == NEEDS:
                    took_s.update(dict.fromkeys(needs, report.duration))
    shares = (f"{marker} {seconds / 60:.1f}" for marker, seconds in took_s.most_common())
    terminalreporter.write_line(f"{MINUTES}{', '.join(shares)}")
    if left_out := config.stash.get(sampled.LEFT_OUT, 0):
        terminalreporter.write_line(f"{LEFT_TO_OTHERS}{left_out}")


def seed_base(config: pytest.Config) -> str:
    """Text that all seeds of this run derive from."""
    chosen: str | None = config.getoption("--seed-base")
    if chosen:
        return chosen
    return _commit() or "headwater"


@cache
def _commit() -> str:
    shown = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()


def seeds(
    config: pytest.Config, *, default: int, least: int = 1, most: int | None = None
) -> list[str]:
    """Seeds for one seeded test; each is good for ``random.Random(seed)``."""
    asked: int | None = config.getoption("--seeds")
    share: float = config.getoption("--share")
    base = seed_base(config)
    return [f"{base}:{number}" for number in range(how_many(default, asked, share, least, most))]


def how_many(
    own: int, asked: int | None, share: float, least: int = 1, most: int | None = None
) -> int:
    """Return how many seeds a test with ``own`` seeds runs; never none, whatever the share.

    Args:
        own: of the whole.
        asked: by ``--seeds``.
        share: of ``own``.
        least: of a share.
        most: of a share; as many as ``own`` by default.
    """
    if asked:
        return asked
    found = max(least, round(own * share))
    return found if most is None or share >= 1 else min(found, most)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked ``@pytest.mark.seeded(N)`` with a parameter ``seed`` runs N times."""
    marker = metafunc.definition.get_closest_marker("seeded")
    if marker is not None:
        found = seeds(metafunc.config, default=marker.args[0], **marker.kwargs)
        metafunc.parametrize("seed", found, ids=[f"seed{n}" for n in range(len(found))])


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """The private broker of this run, started when the first test asks for it.

    The tests' records are of 1970 and a transaction's marker is of now, which ends the segment; the
    log cleaner, which comes every 15 s, may then compact it under a test that counts records.
    """
    with KafkaBroker(overrides={"log.roll.ms": str(2**63 - 1)}) as running:
        yield running


@pytest.fixture
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """Address of a broker: the one named by ``--bootstrap``, else the private one."""
    chosen: str | None = request.config.getoption("--bootstrap")
    if chosen:
        return chosen
    running: KafkaBroker = request.getfixturevalue("broker")
    return running.bootstrap_servers


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test and no other run uses: for topics, groups, application ids."""
    words = "".join(c if c.isalnum() else "-" for c in request.node.name)[:40].strip("-")
    return f"{words}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic_prefix(unique_name: str) -> str:
    """As ``unique_name``; read ``f"{topic_prefix}-input"``."""
    return unique_name
