"""A pytest plug-in: the fixture ``headwater`` makes test drivers, and closes them after the test.

    def test_words_are_counted(headwater):
        driver = headwater(build, {"default.key.serde": "string"})
        driver.create_input_topic("lines").pipe_input("k", "hello world")

pytest finds it by its entry point. It imports nothing of Headwater before a test asks for the
fixture.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headwater import StreamsBuilder, Topology
    from headwater.testing import TopologyTestDriver

__all__ = ["Drivers", "headwater"]


class Drivers:
    """Makes drivers, which are closed when the test has ended."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def __call__(
        self,
        topology: Topology | StreamsBuilder | Callable[..., Any] | str,
        config: Mapping[str, object] | None = None,
        **options: Any,
    ) -> TopologyTestDriver:
        """Return a driver.

        Args:
            topology: a ``Topology``, a ``StreamsBuilder``, the function that draws on one, or its
                import path, such as ``"app:build"``.
            config: the application's; the application id may be left out.
            options: further ones of ``TopologyTestDriver``, such as ``partitions``.

        Raises:
            ImportPathError: the path leads to no function, or the function makes no topology.
            TopologyError: the topology breaks a rule.
        """
        from headwater import StreamsBuilder  # noqa: PLC0415 - see the module
        from headwater.dsl.loading import build_topology, load_topology  # noqa: PLC0415
        from headwater.testing import TopologyTestDriver  # noqa: PLC0415

        if isinstance(topology, str):
            topology = load_topology(topology, config)
        elif isinstance(topology, StreamsBuilder):
            topology = topology.build(config)
        elif callable(topology):
            topology = build_topology(topology, config=config)
        return self._open.enter_context(TopologyTestDriver(topology, config, **options))

    def close(self) -> None:
        """Close the drivers, the last one first; each is closed, whatever another raises."""
        self._open.close()


@pytest.fixture
def headwater() -> Iterator[Drivers]:
    """What makes drivers for a test; the module shows how."""
    drivers = Drivers()
    yield drivers
    drivers.close()
