"""What a StreamThread sees of global stores: those that its worker keeps once, and its own copies.

The first are files of the GlobalStreamThread, read as RocksDB secondaries. Two numbers in mapped
memory say whether there is anything new, so a turn of the loop costs next to nothing as long as
there is not. If there is, the store is caught up, at most every 20 ms, and forgets the rows that
have changed. Nothing changes while a record is processed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.native.clock import SystemClock
from headwater.native.global_reader import GlobalReader
from headwater.native.global_stores import open_global_store
from headwater.processor.environment import GlobalStore
from headwater.state.directory import StateDirectory
from headwater.state.global_store import (
    SETTLED_BYTES,
    GlobalStoreSight,
    is_shared,
    shared_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.topology import Topology
    from headwater.native.clients import TaskClients
    from headwater.native.messages import ChildSettings
    from headwater.state import BlockCache, LayeredStore

_RENEW_S: Final = 0.02
"""A catch-up takes about a millisecond: so often it costs a StreamThread some percent at most."""


class GlobalSight:
    """Gives the tasks of one StreamThread the global stores.

    Args:
        settings: of the StreamThread.
        topology: names the stores.
        clients: read the topics of its own copies.
        blocks: the process' block cache.
        heartbeat: called now and then while copies are filled.

    Attributes:
        stores: the stores by name; empty before ``bootstrap``.
    """

    def __init__(
        self,
        settings: ChildSettings,
        topology: Topology,
        clients: TaskClients[Any],
        blocks: BlockCache,
        heartbeat: Callable[[], None],
    ) -> None:
        self.stores: dict[str, GlobalStore] = {}
        self._shared = shared_groups(topology)
        self._config = clients.access.config
        self._directory = StateDirectory(Path(settings.state_dir), settings.application_id)
        self._name = str(settings.slot)
        self._copies = GlobalReader(
            [group for group in topology.global_subtopologies if not is_shared(group.stores[0])],
            clients.access,
            clients.global_consumer,
            SystemClock(),
            heartbeat,
        )
        self._seen: list[tuple[GlobalStoreSight, LayeredStore]] = []
        self._blocks = blocks

    def bootstrap(self) -> None:
        """Open what is shared, and fill the copies; does nothing the second time.

        Raises:
            HeadwaterError: as ``GlobalReader.bootstrap``.
            StateError: a shared store is not filled, or cannot be read.
        """
        self._copies.bootstrap()
        self.stores |= self._copies.stores
        for group in self._shared[len(self._seen) :]:
            (spec,) = group.stores
            sight = GlobalStoreSight(spec, self._directory, self._name, self._blocks)
            try:
                store = open_global_store(group, self._config, sight.backend, SETTLED_BYTES)
            except BaseException:
                sight.close()
                raise
            self._seen.append((sight, store))
            self.stores[spec.name] = GlobalStore(store, spec.kind)

    def update(self) -> None:
        """See what was written since, if anything was; waits for nobody.

        Raises:
            HeadwaterError: as ``GlobalReader.update``.
            StateError: a shared store cannot be read any more.
        """
        for sight, store in self._seen:
            numbers = sight.numbers
            if numbers[1] != sight.batch or numbers[0] != sight.generation:
                now = time.monotonic()
                if now - sight.renewed_at >= _RENEW_S:
                    sight.renewed_at = now
                    sight.renew(store)
        self._copies.update()

    def close(self) -> None:
        """Close the copies, and read no more."""
        self._copies.close()
        for sight, _ in self._seen:
            sight.close()
        self._seen.clear()
