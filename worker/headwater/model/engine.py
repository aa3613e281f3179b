"""Which engine runs an application: one record beside the manifest of backfills.

    absent = Native, generation 0 ──► Spark 1 taken ──► Spark 1 fenced ──► Native 2 taken ──► …

Whoever takes an application over for an engine writes the next generation, as the driver: with the
transactional id ``<application id>-spark-driver``. It is *taken* then, and nobody may run. Next it
fences every transactional id of the engine that leaves, and writes that this is done: only a
generation that is *fenced* has a holder. Whoever finds one that was left unfenced takes over once
more, and so fences again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from headwater.errors import EngineError
from headwater.model.lifecycle import Engine

_VERSION: Final = 1
_DRIVER: Final = "driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """Who may run one application.

    Attributes:
        engine: the engine.
        generation: counts the take-overs; what belongs to an earlier one writes nothing more.
        attempt: counts the drivers of this generation. A driver raises it when it begins, and its
            tasks write nothing once it is another: they may outlive their driver.
        since_ms: wall-clock time of the take-over.
        tasks: the names of Spark's tasks, those of earlier generations too: whoever takes over
            for the workers fences them, whatever the topology is by then.
        workers: the transactional ids of workers that those who took over knew of: whoever takes
            over for Spark fences them, though it may know of none.
        is_fenced: every id of the engine that leaves was fenced; before, nobody may run.
    """

    engine: Engine = Engine.NATIVE
    generation: int = 0
    attempt: int = 0
    since_ms: int = 0
    tasks: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    is_fenced: bool = True

    @property
    def holder(self) -> Engine | None:
        """The engine that may run; ``None`` while a take-over is not finished."""
        return self.engine if self.is_fenced else None

    def is_same_run(self, other: EngineRecord) -> bool:
        """Whether tasks of one may write under the other."""
        ours = (self.engine, self.generation, self.attempt)
        return ours == (other.engine, other.generation, other.attempt)

    def encode(self) -> bytes:
        """Return what is written to the topic."""
        return json.dumps(
            {
                "version": _VERSION,
                "engine": self.engine.value,
                "generation": self.generation,
                "attempt": self.attempt,
                "sinceMs": self.since_ms,
                "tasks": list(self.tasks),
                "workers": list(self.workers),
                "fenced": self.is_fenced,
            }
        ).encode()


def decode(data: bytes, topic: str) -> EngineRecord:
    """Read what ``EngineRecord.encode`` wrote.

    Raises:
        EngineError: it is of a version that this one does not know, or no such record at all.
    """
    try:
        fields: Any = json.loads(data)
        version = fields["version"]
        if version == _VERSION:
            return EngineRecord(
                engine=Engine(fields["engine"]),
                generation=int(fields["generation"]),
                attempt=int(fields["attempt"]),
                since_ms=int(fields["sinceMs"]),
                tasks=tuple(map(str, fields["tasks"])),
                # Who wrote neither had fenced everything before anybody was given anything.
                workers=tuple(map(str, fields.get("workers", ()))),
                is_fenced=bool(fields.get("fenced", True)),
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(
            f"topic {topic} does not say which engine runs the application ({error!r}); if nobody "
            "else writes there, delete the topic and reset the application"
        ) from error
    raise EngineError(
        f"topic {topic} says in version {version} which engine runs the application, written by a "
        "newer Headwater; use that one"
    )


def spark_transactional_id(application_id: str, owner: object) -> str:
    """Return ``<application id>-spark-<owner>``: of one of Spark's tasks."""
    return f"{application_id}-spark-{owner}"


def driver_transactional_id(application_id: str) -> str:
    """Return the id with which manifests and engine records are written: one driver at a time."""
    return spark_transactional_id(application_id, _DRIVER)
