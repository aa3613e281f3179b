"""The query process takes over settings while it runs."""

from __future__ import annotations

import gc
import socket
from typing import TYPE_CHECKING, cast

import pytest

from headwater.dsl.loading import SourceText
from headwater.ids import TaskId
from headwater.metrics_settings import RecordingLevel
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.application import ApplicationSettings
from headwater.native.blocks import shared_blocks
from headwater.native.messages import ChildSettings, Configure, Stop, Stopped
from headwater.native.queries.process import answer
from headwater.native.queries.secondaries import Secondaries
from headwater.native.queries.values import QuerySettings
from headwater.rocksdb_settings import RocksSettings
from headwater.state.directory import StateDirectory
from headwater.state.restore import open_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.native.process import Link
    from headwater.state import RocksBackend

TASK = TaskId(0, 0)
STORE = StoreSpec(name="store", kind=StoreKind.KEY_VALUE)
TOPOLOGY = """
from headwater import StreamsBuilder

def build():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()
"""


class Script:
    """The end of a pipe at which the parent says some things, one after the other."""

    def __init__(self, *commands: object) -> None:
        self._commands = list(commands)
        self.said: list[object] = []

    def wait(self, timeout_s: float) -> object:
        """The next of them."""
        return self._commands.pop(0)

    def send(self, message: object) -> None:
        """Keep it."""
        self.said.append(message)


@pytest.fixture(autouse=True)
def collected_as_before() -> Iterator[None]:
    """A process of its own may set what holds for all of it."""
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


# The process has the socket of callers until it ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_its_block_cache_takes_another_size_also_with_stores_open(tmp_path: Path) -> None:
    application = ApplicationSettings(
        config={"application.id": "a", "rocksdb.block_cache_size": 1_000_000},
        topology=SourceText(text=TOPOLOGY, function="build"),
    )
    child = ChildSettings(
        application_id="a",
        worker="w-0",
        slot=0,
        application=application,
        state_dir=str(tmp_path),
        cache_bytes=0,
    )
    directory = StateDirectory(tmp_path, "a")
    primary = open_backend(STORE, directory.store(TASK, STORE.name), holder="test")
    blocks = shared_blocks(application.parsed())
    rocksdb = RocksSettings(given=(("block_cache_size", 2_000_000), ("write_buffer_size", 70_000)))
    link = Script(Configure(levels={}, metrics_level=RecordingLevel.INFO, rocksdb=rocksdb), Stop())
    mine, its = socket.socketpair()

    with mine, Secondaries(directory, blocks).store(TASK, STORE).reading() as (opened, _):
        before = capacity(opened)
        answer(QuerySettings(child=child, channel=its.detach()), cast("Link", link), blocks)

        assert (before, capacity(opened)) == (1_000_000, 2_000_000)
    assert link.said == [Stopped()]
    primary.close()


def capacity(store: RocksBackend) -> int | None:
    return store._db.property_int_value("rocksdb.block-cache-capacity")
