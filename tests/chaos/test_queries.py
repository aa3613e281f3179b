"""Queries while tasks move and processes are killed: each answer is one that the store had."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from tests.conftest import seed_base
from tests.support import pages
from tests.support.local_cluster import APP, Load, LocalCluster, create_topics, streamapp
from tests.support.query_storm import KINDS, PARTITIONS, Asked, Reader, Truth
from tests.support.waiting import wait_for
from tests.support.worker import child_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.sampled, pytest.mark.slow]

READERS: Final = 3
READS: Final = 100_000
"""Of a soak; a share of these else."""
FEWEST: Final = 2_000
LATER: Final = 1_000
"""So many offsets later a store holds something else."""
STORES: Final = {"module": "tests.support.several_stores:build"}


@pytest.fixture
def cluster(tmp_path: Path, topic_prefix: str) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, topic_prefix) as running:
        yield running


def test_each_answer_is_one_that_the_store_had_at_some_commit_whatever_moves_or_dies(
    cluster: LocalCluster,
    bootstrap_servers: str,
    topic_prefix: str,
    request: pytest.FixtureRequest,
) -> None:
    share: float = request.config.getoption("--share")
    seed, reads = seed_base(request.config), max(FEWEST, round(READS * share))
    topic = f"{topic_prefix}-in"
    create_topics(bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    load = Load(bootstrap_servers, topic_prefix, records_per_s=1_000)
    options = {"topology": STORES, "assignment": {"standbyReplicas": 1}}
    cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=2, **options))
    load.start()
    cluster.wait_running(replicas=2)
    each = reads // READERS + 1
    readers = [Reader(cluster, topic, f"{seed}{n}", each, KINDS) for n in range(READERS)]
    for reader in readers:
        reader.start()

    storm(cluster, readers, rounds=max(1, round(10 * share)))

    for reader in readers:
        reader.join(600)
        assert not reader.is_alive(), (len(reader.answers), reader.refusals, cluster.worker_logs())
    load.stop()
    run_page(cluster)
    answers = [answer for reader in readers for answer in reader.answers]
    truth = Truth(bootstrap_servers, topic, f"{topic_prefix}-counts-changelog")
    wrong = truth.wrong(answers)
    refusals = sum((reader.refusals for reader in readers), Counter())
    kinds = Counter(answer.kind for answer in answers)
    print(f"seed {seed}: {len(answers):,} answers, {len(wrong)} wrong, refused: {dict(refusals)}")
    print(f"seed {seed}: of each kind: {dict(kinds)}")
    assert [reader.unexpected for reader in readers] == [[]] * READERS
    assert [reader.steps_back for reader in readers] == [[]] * READERS
    assert [_difference(asked, wanted) for asked, wanted in wrong[:5]] == []
    assert len({answer.offset for answer in answers}) > 20
    assert min(kinds.values()) > 5
    assert kinds.keys() == KINDS.keys()
    later = [
        answer._replace(
            offset=answer.offset + LATER, changelog_offset=answer.changelog_offset + LATER
        )
        for answer in answers
    ]
    caught = Counter(answer.kind for answer, _ in truth.wrong(later))
    assert caught.keys() == KINDS.keys(), f"wrong at another position: {caught}"


def _difference(asked: Asked, wanted: Any) -> tuple[Any, ...]:
    """What was found and wanted, of rows only those that differ."""
    question = asked[:6]
    if not isinstance(wanted, dict):
        return question, asked.found, wanted
    found = asked.found
    keys = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
    return question, len(wanted), {key: (found.get(key), wanted.get(key)) for key in keys[:20]}


def storm(cluster: LocalCluster, readers: list[Reader], *, rounds: int) -> None:
    """Kill a StreamThread, a query process and a worker; scale to one and back; again."""
    for _ in range(rounds):
        for kind in ("StreamThread", "Queries"):
            for process in cluster.processes().values():
                if (child := child_of(process.pid, kind)) is not None:
                    child.kill()
                    break
            some_more(readers)
        psutil.Process(next(iter(cluster.processes().values())).pid).kill()
        some_more(readers)
        cluster.wait_running(replicas=2)
        cluster.command("scale", APP, "--replicas", "1")
        cluster.wait_running(replicas=1)
        some_more(readers)
        cluster.command("scale", APP, "--replicas", "2")
        cluster.wait_running(replicas=2)


def blocks(page: str, language: str) -> list[str]:
    """What is written in a language on a page of docs."""
    return list(pages.blocks(Path(__file__).parents[2] / "docs" / page, language))


def run_page(cluster: LocalCluster) -> None:
    """Run the commands of the page: each finds what there is."""
    commands = [line for block in blocks("queries.md", "sh") for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "headwater"
        assert "key-1" in cluster.command(*arguments)


def some_more(readers: list[Reader]) -> None:
    """Wait until each reader has had more answers, or is done."""
    before = [len(reader.answers) for reader in readers]
    wait_for(
        lambda: all(
            len(reader.answers) > seen + 50 or not reader.is_alive()
            for reader, seen in zip(readers, before, strict=True)
        ),
        what="more answers",
        timeout_s=120,
    )
