"""Finds ``headwater_native``, the optional C extension of the hot path, and tries it.

It is not used where anything about it is in doubt: another version, a librdkafka that lacks a
function, a plug-in that librdkafka does not call. Then the clients are those in Python, which do
the same (docs/adr/0098).
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka import Producer, cimpl

from headwater.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.kafka.newest import ChangelogRun
    from headwater.ports import Headers, RawRecord, Send

log = logging.getLogger(__name__)

_INTERFACE: Final = 2
"""Of the extension, as this version uses it."""
_MAJOR: Final = 2
"""Of librdkafka, whose public functions are used."""
_PATHS: Final = "plugin.library.paths"
_SWITCH_OFF: Final = "headwater.native=false keeps it off"
NO_EXTENSIONS: Final = "HEADWATER_NO_EXTENSIONS"
"""A variable of the environment: with any value, ``auto`` takes the path in Python."""


class Reader(Protocol):
    """Takes the records of a consumer's partitions; one thread uses it."""

    def follow(self, topic: str, partition: int) -> None:
        """Have the records of a partition come here."""

    def leave(self, topic: str, partition: int) -> None:
        """Have them stay with their partition."""

    def read(
        self, timeout_ms: int
    ) -> tuple[
        Sequence[tuple[str, int, list[RawRecord], int, int, int]],
        Sequence[tuple[int, str, str | None, int, int]],
        int,
    ]:
        """Wait for the first record only; return what is there.

        Returns:
            Batches: topic, partition, records, the offset behind them, bytes of the longest value,
            and the offset of a record whose header name was not UTF-8, or -1.
            Events: code, reason, topic, partition, offset.
            How many there were of both.
        """
        ...

    def read_runs(
        self, timeout_ms: int
    ) -> tuple[
        Sequence[tuple[str, int, ChangelogRun, int, int, int]],
        Sequence[tuple[int, str, str | None, int, int]],
        int,
    ]:
        """As ``read``, with a run in the place of the records of a batch."""
        ...

    def close(self) -> None:
        """Let go of the consumer, before it is closed."""


class Sender(Protocol):
    """Sends to one topic."""

    send: Send

    def times_sent(self) -> int:
        """Return how often ``send`` was called."""
        ...


class Writer(Protocol):
    """Sends by a producer."""

    produce: Callable[..., None]
    """As the producer's, by position."""

    def sender(
        self, topic: str, failed: Callable[[int, Any, Any, int, Headers, Any], None], detour: Send
    ) -> Sender:
        """Return what sends to a topic.

        Args:
            topic: by the broker's name.
            failed: called with the code of the client, and the record, that was not taken.
            detour: sends while the writer is redirected.
        """
        ...

    def direct(self) -> None:
        """Queue what senders are given."""

    def hold(self, held: list[tuple[Any, ...]]) -> None:
        """Append it, as ``produce`` wants it."""

    def redirect(self) -> None:
        """Have senders take their detour."""

    def has_failures(self) -> bool:
        """Whether something was queued and not delivered."""
        ...

    def take_failures(self) -> list[tuple[int, str, bytes | None, bytes | None, int]]:
        """Return, once, code, topic, value, key and partition of such records, but purged ones."""
        ...

    def close(self) -> None:
        """Let go of the producer's topics; senders can send no more."""


class NativeModule(Protocol):
    """The extension."""

    INTERFACE: int
    RecordReader: Callable[[Any, int], Reader]
    RecordRun: Callable[[list[RawRecord]], ChangelogRun]
    RecordWriter: Callable[[Any, Callable[[int], None]], Writer]
    RecordUpdater: Callable[..., Any]
    """See ``headwater.state.layers.updaters``."""

    def find(self, path: str) -> str:
        """Find librdkafka's functions behind a loaded library; return librdkafka's version.

        Raises:
            ImportError: it is not loaded, or lacks a function.
        """
        ...

    def plugin_path(self) -> str:
        """Return the file that librdkafka is to load."""
        ...

    def expect(self, failures_only: bool, /) -> None:  # noqa: FBT001
        """The next client of this thread is about to be claimed by a reader or writer.

        Args:
            failures_only: spare librdkafka the reports of deliveries. Nothing wakes a flush then
                when the last one is done: it finds out within 10 ms.
        """


class Native(NamedTuple):
    """The extension, found and tried."""

    module: NativeModule
    path: str

    def settings(self, given: Mapping[str, Any], *, failures_only: bool = False) -> dict[str, Any]:
        """Return settings of a client that librdkafka hands over; the next call makes it.

        Args:
            given: those of the client in Python.
            failures_only: as ``NativeModule.expect``.
        """
        others = given.get(_PATHS)
        self.module.expect(failures_only)
        return {**given, _PATHS: f"{self.path};{others}" if others else self.path}


def native(wanted: str) -> Native | None:
    """Return the extension if it is there, works, and is wanted.

    Args:
        wanted: ``headwater.native``: ``true``, ``false`` or ``auto``.

    Raises:
        ConfigError: it is wanted by ``true`` and cannot be used.
    """
    if wanted == "false" or (wanted == "auto" and os.environ.get(NO_EXTENSIONS)):
        return None
    found = _tried()
    if isinstance(found, Native):
        return found
    if wanted == "true":
        raise ConfigError(
            f"headwater.native is true, but {found}; install headwater[native] for "
            f"confluent-kafka {confluent_kafka.__version__}, or set it to auto"
        )
    return None


@cache
def _tried() -> Native | str:
    """Return the extension, or why it is not used, which is logged once unless it is not there."""
    try:
        module: NativeModule = import_module("headwater_native")
    except ModuleNotFoundError as error:
        if error.name == "headwater_native":
            return "headwater_native is not installed"
        return _unused(f"headwater_native cannot be imported: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the other path works
        return _unused(f"headwater_native cannot be imported: {error}")
    try:
        return _try(module)
    except Exception as error:  # noqa: BLE001
        return _unused(str(error))


def _unused(why: str) -> str:
    log.warning("%s; records take the path in Python. %s, and this line away", why, _SWITCH_OFF)
    return why


def _try(module: NativeModule) -> Native:
    """Have librdkafka load the plug-in and hand a client over, which talks to nobody.

    Raises:
        ImportError: which says why it cannot be used.
    """
    if module.INTERFACE != _INTERFACE:
        raise ImportError(
            f"headwater_native is of another version (interface {module.INTERFACE}, not "
            f"{_INTERFACE})"
        )
    version = module.find(cimpl.__file__)
    if int(version.split(".")[0]) != _MAJOR or version != confluent_kafka.libversion()[0]:
        raise ImportError(f"headwater_native has found librdkafka {version}")
    path = module.plugin_path()
    if ";" in path:
        raise ImportError(f"librdkafka cannot load a plug-in whose path has a semicolon: {path}")
    found = Native(module, path)
    try:
        producer = Producer(found.settings({"log_level": 0}))
        module.RecordWriter(producer, _nobody).close()
    except (confluent_kafka.KafkaException, RuntimeError) as error:
        raise ImportError(f"headwater_native cannot be used: {error}") from error
    log.info(
        "records take the path in C: headwater_native with librdkafka %s. Should a process die of "
        "it, %s",
        version,
        _SWITCH_OFF,
    )
    return found


def _nobody(_code: int) -> None:
    """Nothing is sent to try it."""
