"""Where an application that is reset begins to read: the options of Java's StreamsResetter. Pure.

    text ──parse──► Beginning ──planned(facts)──► PlannedOffset for each partition ──► commit

The text is what an annotation, a file and a duty carry:

    now                            no offsets: auto.offset.reset decides when the application starts
    earliest | latest              the first record that there is | the end
    2026-01-31T08:00:00Z           the first record of that time or later, else the end
    PT1H30M                        as with a time, so long before the reset
    offset:500                     that offset
    shift:-100                     so far from the committed offset
    offsets:lines,0,5;lines,1,7    each partition its own

and, after a space, ``topics:lines,words``: the others keep their committed offsets, as in Java.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ResetError
from headwater.ids import TopicPartition
from headwater.model.offset_reset import iso_duration, parsed_duration
from headwater.model.tables import aligned

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPICS: Final = " topics:"
_MARK: Final = "headwater-reset:"
_EXPECTED: Final = (
    "write now, earliest, latest, a time such as 2026-01-31T08:00:00Z, a duration such as PT1H, "
    "offset:500, shift:-100, or offsets:TOPIC,PARTITION,OFFSET;..."
)
_ABSOLUTE: Final = (
    "ask for a position that does not depend on it: --to-offset, --to-datetime, --from-file or "
    "--to-earliest (in the annotation offset:N, a time, offsets:... or earliest)"
)


class Scenario(StrEnum):
    """By what the offsets are chosen."""

    AUTO = "now"
    EARLIEST = "earliest"
    LATEST = "latest"
    DATETIME = "datetime"
    DURATION = "duration"
    OFFSET = "offset"
    SHIFT = "shift"
    FILE = "offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where the application is to begin after a reset.

    Attributes:
        scenario: by what the offsets are chosen.
        number: milliseconds since 1970, milliseconds of a duration, an offset, or a distance.
        offsets: of each partition, if they were given in a file.
        topics: the input topics that are meant; empty for all.
    """

    scenario: Scenario = Scenario.AUTO
    number: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()

    @property
    def commits(self) -> bool:
        """Whether offsets are committed; else ``auto.offset.reset`` decides later."""
        return self.scenario is not Scenario.AUTO or bool(self.topics)

    def time_ms(self, now_ms: int) -> int | None:
        """Return the time whose offsets are needed; ``None`` if none are."""
        if self.scenario is Scenario.DATETIME:
            return self.number
        return now_ms - self.number if self.scenario is Scenario.DURATION else None

    def __str__(self) -> str:
        chosen = {
            Scenario.DATETIME: lambda: _iso_time(self.number),
            Scenario.DURATION: lambda: iso_duration(self.number),
            Scenario.OFFSET: lambda: f"offset:{self.number}",
            Scenario.SHIFT: lambda: f"shift:{self.number}",
            Scenario.FILE: lambda: "offsets:" + ";".join(_lines(self.offsets)),
        }.get(self.scenario, lambda: self.scenario.value)()
        return chosen + (_TOPICS + ",".join(self.topics) if self.topics else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What Kafka says of one partition before the reset.

    Attributes:
        first: the first offset that there is.
        end: of the next record.
        committed: by the application's group; ``None`` if nothing is.
        metadata: beside the committed offset; an application always writes some, a tool does not.
        at_time: of the first record at the time asked for; ``None`` if there is none.
    """

    first: int
    end: int
    committed: int | None = None
    metadata: str = ""
    at_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """The offset that a partition gets.

    Attributes:
        partition: which.
        before: committed until now; ``None`` if nothing is.
        offset: what is committed then; ``None`` if ``auto.offset.reset`` decides.
        note: what else there is to say.
        metadata: committed beside it: that of an offset that is kept, or the mark of a shift.
        is_shifted: this very reset has shifted it before.
    """

    partition: TopicPartition
    before: int | None
    offset: int | None
    note: str = ""
    metadata: str = ""
    is_shifted: bool = False


def mark_of(request: str) -> str:
    """Return what is committed beside offsets that a reset has shifted.

    Kafka Streams takes it for metadata that it does not know. It has an end of its own, because a
    client may read more than was committed (``wire.offset_metadata.without_remains``).

    Args:
        request: names the reset, unlike any other of the application; empty if nobody has.
    """
    return f"{_MARK}{request};" if request else ""


def parse(text: str) -> Beginning:
    """Read where to begin.

    Raises:
        ResetError: the text says nothing of the kind.
    """
    chosen, _, listed = text.strip().partition(_TOPICS)
    topics = tuple(filter(None, (name.strip() for name in listed.split(","))))
    if _TOPICS in text.strip() and not topics:
        raise ResetError(f"{text!r:.80} names no topic after topics:; {_EXPECTED}")
    kind, colon, rest = chosen.strip().partition(":")
    word = kind.lower()
    if not colon and word in ("now", "earliest", "latest"):
        return Beginning(scenario=Scenario(word), topics=topics)
    if word == "offsets":
        return Beginning(scenario=Scenario.FILE, offsets=parse_file(rest), topics=topics)
    if word in ("offset", "shift"):
        number = _integer(rest)
        if number is None or (word == "offset" and number < 0):
            raise ResetError(f"{chosen!r:.80}: the {word} is no whole number; {_EXPECTED}")
        return Beginning(scenario=Scenario(word), number=number, topics=topics)
    duration_ms = parsed_duration(chosen.strip())
    if duration_ms is not None:
        return Beginning(scenario=Scenario.DURATION, number=duration_ms, topics=topics)
    return Beginning(scenario=Scenario.DATETIME, number=parse_time(chosen), topics=topics)


def asked_for(options: Mapping[str, Any], file: str | None) -> Beginning:
    """Return what the options of a command say.

    Args:
        options: by name: ``to_earliest``, ``to_datetime`` ...; at most one of them says where.
        file: a reset plan, if that says where.

    Raises:
        ResetError: an option cannot be understood.
    """
    found = Beginning()
    if file is not None:
        found = Beginning(scenario=Scenario.FILE, offsets=parse_file(file))
    elif options["to_datetime"] is not None:
        found = Beginning(scenario=Scenario.DATETIME, number=parse_time(options["to_datetime"]))
    elif options["by_duration"] is not None:
        duration_ms = parsed_duration(options["by_duration"])
        if duration_ms is None:
            raise ResetError(f"{options['by_duration']!r:.80} is no duration, such as PT1H30M")
        found = Beginning(scenario=Scenario.DURATION, number=duration_ms)
    elif options["to_offset"] is not None:
        found = parse(f"offset:{options['to_offset']}")
    elif options["shift_by"] is not None:
        found = parse(f"shift:{options['shift_by']}")
    elif options["to_earliest"] or options["to_latest"]:
        found = parse("earliest" if options["to_earliest"] else "latest")
    if options["input_topics"] is None:
        return found
    return replace(found, topics=parse(f"now{_TOPICS}{options['input_topics']}").topics)


def parse_time(text: str) -> int:
    """Return a time in milliseconds since 1970; UTC if it names no zone, as in Java.

    Raises:
        ResetError: it is no time.
    """
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ResetError(f"{text!r:.80} says nothing that is known; {_EXPECTED}") from None
    found = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    if found < 0:
        raise ResetError(f"{text!r:.80} is before 1970: Kafka knows no such time; give a later one")
    return found


def parse_file(text: str) -> dict[TopicPartition, int]:
    """Read a reset plan: ``TOPIC,PARTITION,OFFSET`` a line, as Kafka's tools write it.

    Raises:
        ResetError: a line has another form, or the plan is empty.
    """
    found: dict[TopicPartition, int] = {}
    lines = [line.strip() for line in text.replace(";", "\n").splitlines()]
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        parts = [part.strip().strip('"') for part in line.split(",")]
        numbers = [_integer(part) for part in parts[1:]]
        if len(parts) != 3 or None in numbers or min(n or 0 for n in numbers) < 0 or not parts[0]:
            raise ResetError(
                f"line {number} of the reset plan is {line!r:.80}; each is TOPIC,PARTITION,OFFSET, "
                "as `kafka-consumer-groups --reset-offsets --export` writes it"
            )
        partition = TopicPartition(parts[0], numbers[0] or 0)
        if partition in found:
            raise ResetError(f"line {number} of the reset plan names {partition} again; remove one")
        found[partition] = numbers[1] or 0
    if not found:
        raise ResetError("the reset plan is empty; write TOPIC,PARTITION,OFFSET, a line for each")
    return found


def planned(
    beginning: Beginning, facts: Mapping[TopicPartition, PartitionFacts], mark: str = ""
) -> tuple[PlannedOffset, ...]:
    """Choose the offset of every input partition.

    Args:
        beginning: what is asked for.
        facts: of every partition of the application's input topics.
        mark: of this reset (:func:`mark_of`); offsets beside it have been shifted already.

    Raises:
        ResetError: an offset cannot be chosen; nothing was changed.
    """
    _check_topics(beginning, {partition.topic for partition in facts})
    _check_file(beginning, facts)
    meant = {
        partition: of
        for partition, of in facts.items()
        if not beginning.topics or partition.topic in beginning.topics
    }
    if beginning.scenario is Scenario.SHIFT:
        _check_shift(meant)
    return tuple(
        _chosen(beginning, partition, of, mark) if partition in meant else _kept(partition, of)
        for partition, of in sorted(facts.items())
    )


def table(plan: tuple[PlannedOffset, ...]) -> list[str]:
    """Return a plan as lines of text, with a heading."""
    rows = [("TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET", "")]
    rows += [
        (
            each.partition.topic,
            str(each.partition.partition),
            "-" if each.before is None else str(each.before),
            "-" if each.offset is None else str(each.offset),
            each.note,
        )
        for each in plan
    ]
    return aligned(rows, right=range(1, 4))


def _check_topics(beginning: Beginning, known: set[str]) -> None:
    unknown = sorted(set(beginning.topics) - known)
    if unknown:
        raise ResetError(
            f"{', '.join(unknown)}: no input topic of the application; its input topics are "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def _check_file(beginning: Beginning, facts: Mapping[TopicPartition, PartitionFacts]) -> None:
    if beginning.scenario is not Scenario.FILE:
        return
    unknown = sorted(set(beginning.offsets) - set(facts))
    if unknown:
        raise ResetError(
            f"the reset plan names {unknown[0]}, which is no input partition of the application; "
            "remove the line"
        )
    missing = sorted(
        partition
        for partition in facts
        if partition not in beginning.offsets
        and (not beginning.topics or partition.topic in beginning.topics)
    )
    if missing:
        raise ResetError(
            f"the reset plan lacks {missing[0]}; name every partition of the input topics, or "
            "leave topics out with --input-topics: they keep their committed offsets"
        )


def _check_shift(facts: Mapping[TopicPartition, PartitionFacts]) -> None:
    """Refuse a shift from offsets that this very reset may have deleted, or set already."""
    for partition, of in sorted(facts.items()):
        if of.committed is None:
            raise ResetError(
                f"nothing is committed for {partition} that could be shifted: the application has "
                f"not run, or this reset was interrupted after it had deleted the offsets; "
                f"{_ABSOLUTE}"
            )
        if not of.metadata:
            raise ResetError(
                f"offset {of.committed} of {partition} was set by a tool, not by the application: "
                "this reset may have shifted it already before it was interrupted, and a second "
                f"shift would count twice; {_ABSOLUTE}"
            )


def _kept(partition: TopicPartition, of: PartitionFacts) -> PlannedOffset:
    if of.committed is None:
        raise ResetError(
            f"nothing is committed for {partition} that could be kept: the application has not "
            "run, or this reset was interrupted after it had deleted the offsets; name "
            f"{partition.topic} in --input-topics, too"
        )
    return PlannedOffset(
        partition=partition,
        before=of.committed,
        offset=of.committed,
        note="kept",
        metadata=of.metadata,
    )


def _chosen(
    beginning: Beginning, partition: TopicPartition, of: PartitionFacts, mark: str
) -> PlannedOffset:
    is_shift = beginning.scenario is Scenario.SHIFT
    if is_shift and mark and of.metadata.startswith(mark):
        return PlannedOffset(
            partition=partition,
            before=of.committed,
            offset=of.committed,
            note="shifted before",
            metadata=mark,
            is_shifted=True,
        )
    wanted, note = _wanted(beginning, partition, of)
    offset = wanted
    if wanted is not None and wanted < of.first:
        offset, note = of.first, f"{wanted} is before the first record: cut to it"
    elif wanted is not None and wanted > of.end:
        offset, note = of.end, f"{wanted} is beyond the end: cut to it"
    return PlannedOffset(
        partition=partition,
        before=of.committed,
        offset=offset,
        note=note,
        metadata=mark if is_shift else "",
    )


def _wanted(
    beginning: Beginning, partition: TopicPartition, of: PartitionFacts
) -> tuple[int | None, str]:
    scenario = beginning.scenario
    if scenario is Scenario.AUTO:
        return None, "auto.offset.reset decides"
    if scenario in (Scenario.DATETIME, Scenario.DURATION):
        return (of.end, "no record is as young") if of.at_time is None else (of.at_time, "")
    chosen = {
        Scenario.EARLIEST: of.first,
        Scenario.LATEST: of.end,
        Scenario.OFFSET: beginning.number,
        Scenario.SHIFT: (of.committed or 0) + beginning.number,
        Scenario.FILE: beginning.offsets.get(partition, 0),
    }
    return chosen[scenario], ""


def _lines(offsets: Mapping[TopicPartition, int]) -> list[str]:
    return [f"{p.topic},{p.partition},{offset}" for p, offset in sorted(offsets.items())]


def _iso_time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    fraction = f".{at_ms % 1000:03d}" if at_ms % 1000 else ""
    return at.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def _integer(text: str) -> int | None:
    sign = text.strip()
    digits = sign[1:] if sign[:1] in ("+", "-") else sign
    return int(sign) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
