"""Where Java's answer to a random topology with joins is not ours, on purpose.

``docs/java-and-python.md`` lists both for users; ``test_joins.py`` has a case of each.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_REFUSALS = re.compile(
    r"StateStore \S+ is not added yet|null keyChangingChild|Invalid partition: -1\b"
    r'|Cannot invoke "String.getBytes\(java.nio.charset.Charset\)" because "this.topic" is null'
    r'|Cannot invoke "org.apache.kafka.streams.(state.ValueAndTimestamp.value|kstream.Windowed.key)'
)
_WHOLE_NUMBERS = re.compile(
    r"java\.lang\.(Integer|Long) cannot be cast to class java\.lang\.(Integer|Long|Float|Double)"
)


OF_STORES = "Skipping record for expired segment."
"""What stores of windows and sessions in memory log, and in Java none on disk."""
UNPLACED = (
    OF_STORES,
    "Skipping record for expired put.",
    "Skipping out-of-order record from versioned table while performing table-table join.",
)
"""Lines of Java that do not say which record was dropped. Ours do, on purpose."""


def logged_as_by_java(lines: Iterable[Sequence[str]]) -> list[str]:
    """Return our lines about dropped records as Java writes them.

    That is without the task and the node or store, with which each begins. Nor does Java name the
    record in those of ``UNPLACED``.
    """
    return [_without_place(line.partition(": ")[2]) for _, line in lines]


def _without_place(line: str) -> str:
    said = re.sub(r" topic=\[\S+\] partition=\[-?\d+\] offset=\[-?\d+\]$", "", line)
    return said if said in UNPLACED else line


def without_addresses(description: str) -> str:
    """Return a description without what Java prints of a lambda, its address in memory."""
    return re.sub(r"extractor class: .*\)", "extractor class: ?)", description)


def has_pattern(request: Mapping[str, Any]) -> bool:
    """Whether a topic is read by pattern, of which Java's driver does not tell what it is."""
    return any("pattern" in step for step in request["steps"])


def without_offset(entry: str) -> str:
    """Return the value of a buffer's changelog without the offset of its record.

    Java's driver counts the records of a pattern as those of one topic.
    """
    return entry[:16] + entry[32:]


def refused_by_java_alone(answer: Mapping[str, Any]) -> bool:
    """Whether Java cannot build, or run, what makes sense.

    It writes a join before the table whose store it looks values up in: a named group that is
    aggregated again moves its repartition node behind the join. And it merges repartitions only if
    no two of them lie below one operation below the change of the key. What a punctuation forwards
    has no partition to which a join by a foreign key could send its answer, and no topic that the
    changelog of a suppression could name. A sliding window that was deleted in the record cache has
    no value where one is wanted. Keys of windows have no bytes for null, which a left join by
    foreign key wants when a row is deleted.
    """
    error = answer.get("error", {})
    said = f"{error.get('message', '')} {error.get('cause', '')}"
    return _REFUSALS.search(said) is not None


def moves_a_repartition_to_other_values(
    request: Mapping[str, Any], answer: Mapping[str, Any]
) -> bool:
    """Whether Java cannot run what it has optimised, and nor can we.

    A repartition below a join with a global table goes up to where the key changed. There values
    have the type they had before the join, and its serde is of those behind it.
    """
    return answer.get("error", {}).get("at") == "run" and may_move_a_repartition(request)


def may_move_a_repartition(request: Mapping[str, Any]) -> bool:
    """Whether repartitions are merged, and a join with a global table may lie between them."""
    asked = request["config"].get("topology.optimization", "")
    joins = any("selector" in step for step in request["steps"])
    return bool(re.search("all|merge", asked)) and joins


def takes_whole_numbers_alike(answer: Mapping[str, Any]) -> bool:
    """Whether Java failed because an int is no long or double: here a whole number is each."""
    return _WHOLE_NUMBERS.search(answer["error"]["cause"]) is not None


def order_decides_what_is_late(request: Mapping[str, Any]) -> bool:
    """Whether the order of records of one time decides what a versioned store drops as late.

    With a record cache, many records of one time wait at once. Java's driver has one task for all
    sub-topologies: its queue gives them in another order than a task of Kafka Streams would.
    """
    versioned = any("history_ms" in step.get("materialized", {}) for step in request["steps"])
    return bool(request.get("commit_every")) and versioned


def written_together(ours: str) -> set[str]:
    """Return the topics that several sub-topologies write, as our description has it.

    With a record cache the order there is that in which tasks flush theirs: Java's driver has one
    task for all sub-topologies, which flushes by store, and in a cluster there is no order at all.
    """
    found = Counter(
        topic
        for part in ours.split("Sub-topology: ")[1:]
        for topic in set(re.findall(r"Sink: \S+ \(topic: (\S+)\)", part))
    )
    return {topic for topic, count in found.items() if count > 1}


def subscribes_from_no_partition(answer: Mapping[str, Any]) -> bool:
    """Whether what a punctuation forwards subscribes from partition -1, as it does in Java.

    An answer goes there, which fails, unless the join has a partitioner of its own.
    """
    return any(
        "subscription-registration" in record["topic"].lower()
        and record["value"] is not None
        and record["value"].endswith("ffffffff")
        for record in answer["produced"]
    )


def tells_windows_twice(request: Mapping[str, Any]) -> bool:
    """Whether final results of windows in memory may come twice, or in another order, in Java.

    Its record cache and its store in memory sort two keys otherwise if one is the other with zeros
    behind it, and a scan over both takes their rows for different ones.
    """
    steps = request["steps"]
    closing = {step["id"] for step in steps if step.get("emit") == "close"}
    in_memory = any(
        step.get("on") in closing and step.get("materialized", {}).get("persistent") is False
        for step in steps
    )
    keys = {record["key"] for record in request["inputs"] if record.get("key") is not None}
    return in_memory and any(key.endswith("00") and key[:-2] in keys for key in keys)


def forgotten(answer: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return changelogs with keys of which a version was deleted at its own time.

    Of such a version Java may keep no trace.
    """
    last: dict[tuple[str, str], tuple[Any, int]] = {}
    found: set[tuple[str, str]] = set()
    for record in answer["produced"]:
        key, now = (record["topic"], record["key"]), (record["value"], record["timestamp"])
        value, time = last.get(key, (None, -1))
        if now[0] is None and value is not None and now[1] == time:
            found.add(key)
        last[key] = now
    return found


def merges_too_much(request: Mapping[str, Any], answer: Mapping[str, Any], ours: str) -> bool:
    """Whether Java takes away a repartition below a merge that the other stream needs.

    Either the topic is not there, or the other stream goes around it: then a sub-topology reads
    what it writes, and that of ours does not.

    Args:
        request: what was asked.
        answer: Java's.
        ours: our description.
    """
    asked = request["config"].get("topology.optimization", "")
    if not re.search("all|merge", asked) or all(step["op"] != "merge" for step in request["steps"]):
        return False
    theirs = answer["describe"]
    return _repartitioned(theirs) < _repartitioned(ours) or _circles(theirs) > _circles(ours)


def _repartitioned(description: str) -> set[str]:
    return set(re.findall(r"topics: \[(\S+-repartition)\]", description))


def _circles(description: str) -> set[str]:
    """Return the repartition topics that a sub-topology reads as well as writes."""
    return {
        topic
        for part in description.split("Sub-topology: ")[1:]
        for topic in _repartitioned(part)
        if f"(topic: {topic})" in part
    }


def check_copartitioned(
    request: Mapping[str, Any], ours: Iterable[Iterable[str]], java: Iterable[Iterable[str]]
) -> None:
    """Check groups of topics: Java forgets a source that has become another's or is used again.

    It does not always unite groups that share a topic, which is enforced all the same; a topic
    alone is no group.
    """
    mine, theirs = _united(ours), _united(java)
    if _may_forget(request["steps"]):
        assert all(any(part <= whole for whole in mine) for part in theirs), (mine, theirs)
    else:
        assert sorted(map(sorted, mine)) == sorted(map(sorted, theirs))


def _united(groups: Iterable[Iterable[str]]) -> list[set[str]]:
    united: list[set[str]] = []
    for group in map(set, groups):
        apart = [other for other in united if not other & group]
        united = [*apart, group.union(*(other for other in united if other & group))]
    return [group for group in united if len(group) > 1]


_AGGREGATING = {"count", "reduce", "aggregate", "windowed_by", "cogroup"}


def _streams_of(join: Mapping[str, Any]) -> set[str]:
    """Return the streams whose repartitions a join uses, maybe those of an earlier one."""
    return {join["on"], join["with"]} if "windows" in join else {join["on"]}


def _may_forget(steps: Sequence[Mapping[str, Any]]) -> bool:
    read = Counter(topic for step in steps for topic in step.get("topics", ()))
    used = Counter(step.get("on") for step in steps if step["op"] in _AGGREGATING)
    joined = Counter(
        stream for step in steps if step["op"].endswith("join") for stream in _streams_of(step)
    )
    named = {step["id"] for step in steps if step.get("grouped", {}).get("name")}
    return (
        any(count > 1 for count in read.values())
        or any(count > 1 for step, count in used.items() if step in named)
        or any(count > 1 for count in joined.values())
        # Below a suppression or a join by foreign key, where a table comes from is forgotten.
        or any(step["op"] == "suppress" or "foreign_key" in step for step in steps)
    )
