"""What Spark's driver says of itself at ``/status``; no answer is an answer without anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headwater_operator.observe.asking import Question

_TIMEOUT_S: Final = 1.0
_STATES: Final = ("STARTING", "RUNNING", "STOPPING", "FAILED")
_LARGEST: Final = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverAnswer:
    """What a driver has told.

    Attributes:
        state: STARTING, RUNNING, STOPPING or FAILED; empty if it has not answered.
        generation: of the take-over that it was started for.
        batches: how many micro-batches it has done.
        last_batch: number of its last micro-batch; -1 before the first.
        input_rows: of that batch.
        duration_ms: of that batch.
        input_rows_per_second: during that batch.
        processed_rows_per_second: during that batch.
        tasks: the names of its tasks.
    """

    state: str = ""
    generation: int = 0
    batches: int = 0
    last_batch: int = -1
    input_rows: int = 0
    duration_ms: int = 0
    input_rows_per_second: float = 0.0
    processed_rows_per_second: float = 0.0
    tasks: tuple[str, ...] = ()


def question(address: str, *, timeout_s: float = _TIMEOUT_S) -> Question[DriverAnswer]:
    """Return the question to the driver at ``host:port``."""
    return Question(address, "/status", parse, DriverAnswer(), timeout_s=timeout_s)


def parse(data: object) -> DriverAnswer:
    """Read the answer of ``/status``.

    Raises:
        ValueError: the answer is of another kind.
        KeyError: something is missing in it.
        OverflowError: a number in it is infinite.
    """
    if not isinstance(data, dict):
        raise ValueError(f"expected an object, got {data!r:.80}")  # noqa: TRY004  # bad data
    batch = data.get("lastBatch") or {}
    if data["state"] not in _STATES:
        raise ValueError(f"a driver has no state {data['state']!r:.80}")
    return DriverAnswer(
        state=str(data["state"]),
        generation=_count(data["generation"]),
        batches=_count(data.get("batches") or 0),
        last_batch=_count(batch.get("id", -1)),
        input_rows=_count(batch.get("inputRows") or 0),
        duration_ms=_count(batch.get("durationMs") or 0),
        input_rows_per_second=float(_count(data.get("inputRowsPerSecond") or 0.0)),
        processed_rows_per_second=float(_count(data.get("processedRowsPerSecond") or 0.0)),
        tasks=tuple(sorted(data.get("tasks") or {})),
    )


def _count(value: float | str) -> int:
    """Return a number that a status can hold, rounded.

    Raises:
        ValueError: it is none.
        OverflowError: it is infinite.
    """
    return min(max(round(float(value)), -1), _LARGEST)
