"""``Suppressed``: how long updates of a table are kept back, and how large a buffer may grow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater.errors import TopologyError
from headwater.model.durations import LONG_MAX, millis
from headwater.model.naming import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.model.durations import Duration

_UNBOUNDED: Final = LONG_MAX


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How large a buffer may grow, and what happens then (Kafka's ``Suppressed.BufferConfig``).

    Made by :meth:`max_records`, :meth:`max_bytes` or :meth:`unbounded`.

    Attributes:
        records_max: how many keys it holds.
        bytes_max: how much their bytes take, by Kafka Streams' arithmetic.
        emits_early: a full buffer lets its oldest updates go; otherwise it is an error.
        logging: it has a changelog.
        topic_config: settings of the changelog topic.
    """

    records_max: int = _UNBOUNDED
    bytes_max: int = _UNBOUNDED
    emits_early: bool = False
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, limit in (("records", self.records_max), ("bytes", self.bytes_max)):
            given: object = limit
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise TopologyError(
                    f"BufferConfig: at most {given!r} {what}; pass a whole number from 0"
                )

    @classmethod
    def max_records(cls, limit: int) -> BufferConfig:
        """Return a buffer for so many keys, which lets its oldest updates go when it is full."""
        return cls(records_max=limit, emits_early=True)

    @classmethod
    def max_bytes(cls, limit: int) -> BufferConfig:
        """Return a buffer for so many bytes, which lets its oldest updates go when it is full."""
        return cls(bytes_max=limit, emits_early=True)

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """Return a buffer without bounds."""
        return cls()

    def with_max_records(self, limit: int) -> BufferConfig:
        """Return the same buffer for so many keys."""
        return replace(self, records_max=limit)

    def with_max_bytes(self, limit: int) -> BufferConfig:
        """Return the same buffer for so many bytes."""
        return replace(self, bytes_max=limit)

    def with_no_bound(self) -> BufferConfig:
        """Return the same buffer without bounds."""
        return replace(self, records_max=_UNBOUNDED, bytes_max=_UNBOUNDED, emits_early=False)

    def shut_down_when_full(self) -> BufferConfig:
        """Return the same buffer; when it is full, that is a ``BufferFullError``."""
        return replace(self, emits_early=False)

    def emit_early_when_full(self) -> BufferConfig:
        """Return the same buffer; when it is full, the oldest updates go on before their time."""
        return replace(self, emits_early=True)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> BufferConfig:
        """Return the same buffer with a changelog, whose topic has these configs."""
        return replace(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> BufferConfig:
        """Return the same buffer without a changelog: what it holds is lost with its task."""
        return replace(self, logging=False, topic_config={})


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Which updates of a table are kept back.

    Made by :meth:`until_time_limit` or :meth:`until_window_closes`.

    Attributes:
        limit_ms: for how long after the first update of a key; ``None``: until its window closes.
        buffer: where they wait.
        name: of the node; the buffer is called after it.
    """

    limit_ms: int | None
    buffer: BufferConfig
    name: str | None = None

    @classmethod
    def until_time_limit(cls, limit: Duration, buffer: BufferConfig) -> Suppressed:
        """Keep updates back until ``limit`` of stream time after the first one of their key.

        Raises:
            TopologyError: ``limit`` is no duration, or negative.
        """
        limit_ms = millis("Suppressed.until_time_limit", limit)
        if limit_ms < 0:
            raise TopologyError(f"Suppressed.until_time_limit: {limit_ms} ms is less than nothing")
        return cls(limit_ms, _checked(buffer))

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig) -> Suppressed:
        """Keep updates of a windowed table back until their window and its grace are over.

        Raises:
            TopologyError: the buffer may let updates go before that.
        """
        if _checked(buffer).emits_early:
            raise TopologyError(
                "Suppressed.until_window_closes: the buffer emits early, so results would not be "
                "final; take BufferConfig.unbounded(), or shut_down_when_full()"
            )
        return cls(None, buffer)

    def with_name(self, name: str) -> Suppressed:
        """Return the same with a name for the node."""
        return replace(self, name=check_name("node", name))


def _checked(buffer: BufferConfig) -> BufferConfig:
    given: object = buffer
    if not isinstance(given, BufferConfig):
        raise TopologyError(
            f"Suppressed: {given!r:.100} is no BufferConfig; pass BufferConfig.unbounded() or the "
            "like"
        )
    return buffer
