"""The manifest of a backfill: what it reads, how far it has come.

    Prepared ──► Written ──► Committed
        └───────────┴──► Aborted

While it is Prepared or Written the application's state is only half loaded, and no worker may use
it. It lies in a compacted topic of its own, so that a worker sees it without anybody's help.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import BackfillError
from headwater.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION: Final = 1


class BackfillState(StrEnum):
    """How far a backfill has come."""

    PREPARED = "Prepared"
    """What it reads is fixed; topics are being made anew and filled."""
    WRITTEN = "Written"
    """All state is loaded; the offsets are being committed."""
    COMMITTED = "Committed"
    """Workers go on from here."""
    ABORTED = "Aborted"
    """Given up, its topics deleted: the application begins as after a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One backfill of one application.

    Attributes:
        generation: names the backfill.
        attempt: how often a driver has taken it up; tasks of an earlier attempt write nothing more.
        state: how far it has come.
        topology: the report's hash; another topology would go on with the wrong state.
        begun_ms: wall-clock time of the beginning, which is what the tasks' clock shows.
        outputs: what is written to topics that are not the application's own.
        start: first offset of each external source partition.
        cut: the offset up to which each is read, and from which workers go on.
        topic_ids: UUIDs of the internal topics as made anew; empty until they are.
        ends: where the changelogs end once all is written.
        tasks: the names of its tasks: whoever gives it up fences them, whatever the topology is by
            then.
        frames: sub-topologies that are computed as DataFrames. A StreamTask would go on from what
            those have loaded in part, so whoever goes on keeps to it.
        since: what ``start`` was asked for as: a word, or a time in milliseconds. ``None`` in what
            an earlier version wrote, of which it is not known.
        until: what ``cut`` was asked for as: a time in milliseconds, else all there was.
    """

    generation: str
    attempt: int
    state: BackfillState
    topology: str
    begun_ms: int
    outputs: str
    start: Mapping[TopicPartition, int]
    cut: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    frames: tuple[int, ...] = ()
    since: str | int | None = None
    until: int | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether the application's state is half loaded."""
        return self.state in {BackfillState.PREPARED, BackfillState.WRITTEN}

    def encode(self) -> bytes:
        """Return what is written to the topic."""
        return json.dumps(
            {
                "version": _VERSION,
                "generation": self.generation,
                "attempt": self.attempt,
                "state": self.state.value,
                "topology": self.topology,
                "begunMs": self.begun_ms,
                "outputs": self.outputs,
                "start": _nested(self.start),
                "cut": _nested(self.cut),
                "topicIds": dict(self.topic_ids),
                "ends": _nested(self.ends),
                "tasks": list(self.tasks),
                "frames": list(self.frames),
                "since": self.since,
                "until": self.until,
            }
        ).encode()


def manifest_topic(application_id: str) -> str:
    """Return the name of the topic that holds the manifest."""
    return f"{application_id}-backfill-manifest"


def decode(data: bytes, topic: str) -> Manifest:
    """Read what ``Manifest.encode`` wrote.

    Raises:
        BackfillError: it is of a version that this one does not know, or no manifest at all.
    """
    try:
        fields: Any = json.loads(data)
        version = fields["version"]
        if version == _VERSION:
            return Manifest(
                generation=str(fields["generation"]),
                attempt=int(fields["attempt"]),
                state=BackfillState(fields["state"]),
                topology=str(fields["topology"]),
                begun_ms=int(fields["begunMs"]),
                outputs=str(fields["outputs"]),
                start=_flat(fields["start"]),
                cut=_flat(fields["cut"]),
                topic_ids=dict(fields["topicIds"]),
                ends=_flat(fields["ends"]),
                tasks=tuple(map(str, fields["tasks"])),
                frames=tuple(map(int, fields.get("frames", ()))),
                since=_since(fields.get("since")),
                until=None if (until := fields.get("until")) is None else int(until),
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackfillError(
            f"topic {topic} holds what is no manifest of a backfill ({error!r}); if nobody else "
            "writes there, delete the topic and reset the application"
        ) from error
    raise BackfillError(
        f"topic {topic} holds a manifest of version {version}, written by a newer Headwater; use "
        "that one"
    )


def _since(given: Any) -> str | int | None:
    return given if given is None or isinstance(given, str) else int(given)


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in nested.items()
        for partition, offset in offsets.items()
    }
