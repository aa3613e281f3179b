"""The topology a worker's processes were given: by import path, as text, as a pickled function."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import cloudpickle

from headwater.dsl.loading import SourceText, build_topology, load_text, load_topology
from headwater.native import logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.model.topology import Topology
    from headwater.native.application import ApplicationSettings
    from headwater.native.messages import ChildSettings

_loading: list[str] = []


def is_loading() -> bool:
    """Whether a topology's module is being imported right now, by this process."""
    return bool(_loading)


def topology_of(
    source: str | SourceText | bytes,
    import_path: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
) -> Topology:
    """Build the topology.

    Args:
        source: ``"module:function"``, a module's text, or a function pickled by cloudpickle.
        import_path: directories that are put in front of ``sys.path`` first.
        config: the application's, as it was given.

    Raises:
        ImportPathError: it leads to no topology.
        TopologyError: the topology breaks a rule.
    """
    sys.path[:0] = [path for path in import_path if path not in sys.path]
    if isinstance(source, bytes):
        function: Any = cloudpickle.loads(source)
        return build_topology(function, config=config)
    _loading.append(str(source))
    try:
        with logs.ours_kept():
            if isinstance(source, str):
                return load_topology(source, config)
            return load_text(source, config)
    finally:
        _loading.pop()


def built(application: ApplicationSettings) -> Topology:
    """Build the topology of an application as it was given.

    Raises:
        ImportPathError: it leads to no topology.
        TopologyError: the topology breaks a rule.
    """
    return topology_of(application.topology, application.import_path, application.config)


def child_topology(settings: ChildSettings) -> Topology:
    """Build the topology in a child process, then set up logging, unless its module has done so.

    Raises:
        ImportPathError: it leads to no topology.
        TopologyError: the topology breaks a rule.
    """
    topology = built(settings.application)
    logs.settle(settings.logs)
    return topology
