"""Readers of ``tests.support.several_stores``, and what each of their answers has to be.

What the stores hold at a position is known from the input: of a key those of its records that lie
up to that offset. What a copy holds at an offset of the changelog is known from the changelog. So
each answer is checked exactly, with the position or the offset that it names.
"""

from __future__ import annotations

import bisect
import http.client
import json
import random
import struct
import threading
import time
import urllib.parse
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater_operator.local.observe import read_worker
from tests.support.local_cluster import APP, LocalCluster
from tests.support.reading import held
from tests.support.several_stores import GAP_MS, WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.model.cluster import StreamWorker

PARTITIONS: Final = 4
KEYS: Final = 997
KINDS: Final = {
    "count": 47,
    "stale": 15,
    "windows": 10,
    "sessions": 10,
    "versions": 10,
    "range": 6,
    "all": 2,
}
"""What is asked, and how often."""
_LATELY_MS: Final = 30_000
_COUNT: Final = struct.Struct(">q")


class Asked(NamedTuple):
    """One answer: the question, the position in the input, and what was found.

    Attributes:
        kind: one of ``KINDS``.
        partition: that was asked.
        about: the key, the beginning of keys, or nothing.
        since: times from then on were asked for, in milliseconds since the epoch.
        offset: of the last record that had been processed; -1 if the answer did not say.
        changelog_offset: of the store, at that moment.
        found: what the store had.
    """

    kind: str
    partition: int
    about: str
    since: int
    offset: int
    changelog_offset: int
    found: Any


class Reader(threading.Thread):
    """Asks random questions, each answer at least as new as the one before of that partition.

    Stale reads name no bound, and only copies are asked; of one worker they never go back.
    """

    def __init__(
        self, cluster: LocalCluster, topic: str, seed: str, reads: int, kinds: dict[str, int]
    ) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._topic = topic
        self._draw = random.Random(seed)
        self._reads = reads
        self._kinds = kinds
        self._at: dict[int, int] = {}
        self._copies_at: dict[tuple[str, int], int] = {}
        self._pause = threading.Event()
        self.answers: list[Asked] = []
        self.steps_back: list[str] = []
        self.refusals: Counter[str] = Counter()
        self.unexpected: list[str] = []

    def run(self) -> None:
        workers: list[StreamWorker] = []
        while len(self.answers) < self._reads and not self.unexpected:
            if not workers or self._draw.random() < 0.01:
                workers = self._workers()
            question = self._drawn()
            for worker in self._draw.sample(workers, len(workers)):
                try:
                    status, answer = self._ask(worker, question)
                except (OSError, http.client.HTTPException, ValueError):  # it ends, too
                    workers = []
                    break
                is_answer = status == 200 or answer.get("error") == "KEY_NOT_FOUND"
                if is_answer and self._note(worker, question, answer):
                    break
                if not is_answer:
                    self.refusals[str(answer.get("error"))] += 1
                    if status not in {412, 421, 503}:
                        self.unexpected.append(f"{status}: {answer}")
            else:
                self._pause.wait(0.01)  # nobody has it just now

    def _drawn(self) -> Asked:
        kind = self._draw.choices(list(self._kinds), list(self._kinds.values()))[0]
        key = f"key-{self._draw.randrange(KEYS)}"
        about = {"all": "", "range": key[:5]}.get(kind, key)
        since = int(time.time() * 1000) - _LATELY_MS
        return Asked(kind, self._draw.randrange(PARTITIONS), about, since, -1, -1, None)

    def _ask(self, worker: StreamWorker, question: Asked) -> tuple[int, dict[str, Any]]:
        path, options = _path_of(question)
        partition = question.partition
        options["partition"] = partition
        if question.kind != "stale" and partition in self._at:
            options["bound"] = json.dumps({self._topic: {partition: self._at[partition]}})
        host, _, port = worker.status.endpoint.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=15)
        try:
            target = f"/state/{path}?{urllib.parse.urlencode(options)}"
            connection.request("GET", target, headers=self._cluster.headers(worker.name))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def _note(self, worker: StreamWorker, question: Asked, answer: dict[str, Any]) -> bool:
        """Keep an answer; ``False`` for one of a store that was opened just now."""
        partition = question.partition
        read = answer["read"][str(partition)]
        offset = answer["position"].get(self._topic, {}).get(str(partition), -1)
        if question.kind == "stale":
            if read["standing"] == "running":
                return False
            place, at = (worker.status.endpoint, partition), read["changelogOffset"]
            self._look_back(at, self._copies_at.get(place, -1), f"copy of {partition} at {place}")
            self._copies_at[place] = at
        elif offset < 0:
            return False
        else:
            self._look_back(offset, self._at.get(partition, -1), f"partition {partition}")
            self._at[partition] = offset
        found = _found_in(question, answer)
        changelog_offset = read["changelogOffset"]
        kept = question._replace(offset=offset, changelog_offset=changelog_offset, found=found)
        self.answers.append(kept)
        return True

    def _look_back(self, offset: int, before: int, what: str) -> None:
        if offset < before:
            self.steps_back.append(f"{what}: {offset} after {before}")

    def _workers(self) -> list[StreamWorker]:
        workers = filter(None, map(read_worker, self._cluster.cluster.app(APP).workers()))
        return [worker for worker in workers if worker.status.endpoint]


def _path_of(question: Asked) -> tuple[str, dict[str, Any]]:
    about, since = question.about, question.since
    match question.kind:
        case "windows":
            return f"windows/windows/{about}", {"from": since}
        case "sessions":
            return f"sessions/sessions/{about}", {"from": since}
        case "versions":
            return f"versions/versions/{about}", {"from": since}
        case "range":
            return "counts/keys", {"prefix": about, "limit": 10_000}
        case "all":
            return "windows/windows", {"from": since, "limit": 10_000}
        case _:
            return f"counts/keys/{about}", {}


def _found_in(question: Asked, answer: dict[str, Any]) -> Any:
    rows = answer.get("rows", [])
    match question.kind:
        case "windows":
            return {row["window"]["start"]: row["value"] for row in rows}
        case "sessions":
            return {(row["window"]["start"], row["window"]["end"]): row["value"] for row in rows}
        case "versions":
            return [row["timestamp"] for row in rows]
        case "range":
            return {row["key"]: row["value"] for row in rows}
        case "all":
            return {(row["key"], row["window"]["start"]): row["value"] for row in rows}
        case _:
            return answer.get("value", 0)


class _Records(NamedTuple):
    """Offsets and timestamps of the records of one key, in their order."""

    offsets: list[int]
    times: list[int]

    def up_to(self, offset: int) -> list[int]:
        """The timestamps of those up to an offset."""
        return self.times[: bisect.bisect_right(self.offsets, offset)]


class Truth:
    """What every answer has to be.

    Args:
        bootstrap_servers: of the broker.
        topic: the input.
        changelog: of the store ``counts``.
    """

    def __init__(self, bootstrap_servers: str, topic: str, changelog: str) -> None:
        self._input: dict[int, dict[str, _Records]] = defaultdict(dict)
        for message in held(bootstrap_servers, topic, isolation="read_uncommitted"):
            key = (message.key() or b"").decode()
            records = self._input[message.partition() or 0].setdefault(key, _Records([], []))
            records.offsets.append(message.offset() or 0)
            records.times.append(message.timestamp()[1])
        self._kept: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
        for message in held(bootstrap_servers, changelog):
            place = message.partition() or 0, (message.key() or b"").decode()
            offsets, counts = self._kept.setdefault(place, ([], []))
            offsets.append(message.offset() or 0)
            counts.append(_COUNT.unpack(message.value() or b"")[0])

    def wrong(self, answers: Iterable[Asked]) -> list[tuple[Asked, Any]]:
        """Return the answers that no store had, each with what it should have been."""
        judged = ((asked, self._wanted(asked)) for asked in answers)
        return [(asked, wanted) for asked, wanted in judged if asked.found != wanted]

    def _wanted(self, asked: Asked) -> Any:
        keys = self._input[asked.partition]
        times = keys.get(asked.about, _Records([], [])).up_to(asked.offset)
        wanted: Any
        match asked.kind:
            case "stale":
                wanted = self._changed(asked)
            case "count":
                wanted = len(times)
                # What the changelog says at its offset is the same.
                if asked.changelog_offset >= 0 and (kept := self._changed(asked)) != wanted:
                    wanted = f"{wanted} by the input, {kept} by the changelog"
            case "windows":
                wanted = _windows(times, asked.since)
            case "sessions":
                wanted = _sessions(times, asked.since)
            case "versions":
                wanted = _versions(times, asked.since)
            case "range":
                wanted = _without_none(
                    (key, len(records.up_to(asked.offset)))
                    for key, records in keys.items()
                    if key.startswith(asked.about)
                )
            case _:
                wanted = {
                    (key, start): count
                    for key, records in keys.items()
                    for start, count in _windows(records.up_to(asked.offset), asked.since).items()
                }
        return wanted

    def _changed(self, asked: Asked) -> int:
        """Return a count as the changelog has it before an offset."""
        offsets, counts = self._kept.get((asked.partition, asked.about), ([], []))
        at = bisect.bisect_left(offsets, asked.changelog_offset)
        return counts[at - 1] if at else 0


def _windows(times: list[int], since: int) -> dict[int, int]:
    starts = Counter(time - time % WINDOW_MS for time in times[_from(times, since) :])
    return {start: count for start, count in starts.items() if start >= since}


def _sessions(times: list[int], since: int) -> dict[tuple[int, int], int]:
    """Return how many records each session has that ended since then: a long one began before."""
    found: list[tuple[int, int, int]] = []
    for at in sorted(times):
        if found and at - found[-1][1] <= GAP_MS:
            start, _, count = found[-1]
            found[-1] = start, at, count + 1
        else:
            found.append((at, at, 1))
    return {(start, end): count for start, end, count in found if end >= since}


def _versions(times: list[int], since: int) -> list[int]:
    newest_first = sorted({*times[_from(times, since) :]}, reverse=True)
    later = [time for time in newest_first if time > since]
    return later + [time for time in newest_first if time <= since][:1]


def _from(times: list[int], since: int) -> int:
    """Return from where on to look: one producer's times grow, but for its repetitions."""
    return max(0, bisect.bisect_left(times, since - 2 * WINDOW_MS) - 5)


def _without_none(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    return {key: count for key, count in counts if count}
