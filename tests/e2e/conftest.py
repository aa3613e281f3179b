"""The journey's settings. Without an image named, nothing here is collected: it needs a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.settings import OPTIONAL, REQUIRED, NotToldError, Settings, variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.counted import Counted
    from tests.e2e.site import Site
    from tests.e2e.tools import Reader

_HERE = Path(__file__).parent
_STEP_S = 3_600
# The others are options of every test.
_OWN = [name for name in (*REQUIRED, *OPTIONAL) if name not in ("kubeconfig", "bootstrap")]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e", "the user's journey on a cluster")
    for name in _OWN:
        flag = f"--{name.replace('_', '-')}"
        group.addoption(flag, help=f"{variable(name)} of make e2e-cluster")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whoever runs all tests has no cluster in mind, and no image on it."""
    return config.getoption("worker_image", None) is None or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The steps come in the order of the files; what cannot be done here is left out, aloud."""
    mine = [item for item in items if item.path.is_relative_to(_HERE)]
    mine.sort(key=lambda item: (item.path.name, item.reportinfo()[1] or 0, item.name))
    items[:] = [*(item for item in items if item not in mine), *mine]
    for item in mine:
        item.add_marker(pytest.mark.e2e)
        item.add_marker(pytest.mark.timeout(_STEP_S))
    out = [item for item in mine if _needs(item) and not _is_given(config, _needs(item))]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)


def _needs(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("needs")
    return tuple(marker.args) if marker is not None else ()


def _is_given(config: pytest.Config, names: tuple[str, ...]) -> bool:
    return all(getattr(told(config), name) for name in names)


def told(config: pytest.Config) -> Settings:
    """What the journey was told, checked or not."""
    named = {name: config.getoption(name, None) or "" for name in (*REQUIRED, *OPTIONAL)}
    return Settings(**named)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("worker_image", None) is None:
        return
    for step, needed in told(config).left_out().items():
        terminalreporter.write_line(f"LEFT OUT: {step}, for want of {needed}")


@pytest.fixture(scope="session")
def settings(request: pytest.FixtureRequest) -> Settings:
    found = told(request.config)
    try:
        found.check()
    except NotToldError as error:
        raise pytest.UsageError(str(error)) from error
    return found


@pytest.fixture(scope="session")
def site(settings: Settings) -> Iterator[Site]:
    """The cluster, with a namespace of our own; both are left as they were."""
    from tests.e2e.site import Site

    with Site(settings) as place:
        yield place


@pytest.fixture(scope="session")
def counted(site: Site, settings: Settings) -> Iterator[Counted]:
    """The word count's topics, what was sent, and what has come out."""
    from tests.e2e.counted import Counted

    with Counted(settings.bootstrap, site.namespace) as words:
        yield words


@pytest.fixture
def reader(site: Site, settings: Settings, tmp_path: Path) -> Reader:
    """Somebody who follows the page on tools for a cluster, as an administrator."""
    from tests.e2e.tools import Reader

    return Reader(site, tmp_path, Path(settings.kubeconfig).absolute())


@pytest.fixture(autouse=True)
def explained(request: pytest.FixtureRequest, site: Site) -> Iterator[None]:
    """Let a step that fails show what the cluster says."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed > before:
        print(site.explain())
