"""Readers who ask for counts while tasks move, copies take over and workers die.

Each answer must be one that the store had at some commit: with the position that it names, the
count is known from the input. For a reader with a bound no position may go back.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headwater.errors import QueryError, QueryFailedError
from headwater_operator.local.query_asking import Question, ask_for_key, ask_for_range
from tests.sim.queries import ModelWorkers
from tests.sim.world import (
    CHANGELOG,
    GROUP,
    PARTITIONS,
    WORDS,
    Process,
    TopicPartition,
    ViolationError,
    partition_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.sim.broker import Record
    from tests.sim.world import World

ALL_WORDS = [f"word{number}" for number in range(9)]


class Reader(Process):
    """Asks for a word, or for all, again and again.

    Args:
        world: where the workers are.
        name: its own.
        truth: what answers are compared with.
        has_bound: each answer is to be at least as new as the one before of that partition.
    """

    def __init__(self, world: World, name: str, truth: Truth, *, has_bound: bool) -> None:
        self.truth = truth
        self.has_bound = has_bound
        self.at: dict[int, int] = {}
        self.answers: Counter[str] = Counter()
        """By what they were, or why there was none."""
        super().__init__(world, name)

    def run(self) -> Iterator[int]:
        rng = self.world.rng
        while True:
            workers = self.look()
            yield rng.choice((1, 20, 500))  # until then much may have changed
            if rng.random() < 0.2:
                self.ask_for_all(workers)
            else:
                self.ask(workers, rng.choice(ALL_WORDS), is_active=rng.random() < 0.3)
            yield 60

    def look(self) -> ModelWorkers:
        """Look up which workers there are."""
        return ModelWorkers(self.world, [self.world.read_worker(name) for name in self.world.specs])

    def ask(self, workers: ModelWorkers, word: str, *, is_active: bool) -> int | None:
        """Ask for a word; return its count, ``None`` if there was no answer."""
        partition = partition_of(word)
        options = {"requireActive": "true"} if is_active else {}
        if self.has_bound and partition in self.at:
            options["bound"] = json.dumps({WORDS: {partition: self.at[partition]}})
        try:
            answer = ask_for_key(workers, Question(store="counts", key=word, options=options))
        except QueryFailedError as error:
            self.answers[self.reason_of(error)] += 1
            return None
        except QueryError as error:
            raise ViolationError(f"{self.name} asks for {word}: {error}") from error
        self.answers["answered"] += 1
        count = int(answer.get("value", 0))
        self.check(partition, {word: count}, answer["position"])
        return count

    def ask_for_all(self, workers: ModelWorkers) -> None:
        """Ask for all words."""
        options = {"bound": json.dumps({WORDS: self.at})} if self.has_bound and self.at else {}
        question = Question(store="counts", key=None, options=options)
        try:
            answer = ask_for_range(workers, question)
        except QueryFailedError as error:
            self.answers[self.reason_of(error)] += 1
            return
        self.answers["answered"] += 1
        rows: list[dict[str, Any]] = answer["rows"]
        for partition in {partition_of(word) for word in ALL_WORDS}:
            found = {row["key"]: row["value"] for row in rows if row["partition"] == partition}
            counts = {word: found.get(word, 0) for word in ALL_WORDS if word in of(partition)}
            self.check(partition, counts, answer["position"])

    def reason_of(self, error: QueryFailedError) -> str:
        """Return why there is no answer, which must be named."""
        for reason in REASONS:
            if reason in str(error):
                return reason
        raise ViolationError(f"{self.name} is not told why there is no answer: {error}")

    def check(
        self,
        partition: int,
        counts: Mapping[str, int],
        position: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Compare an answer with what was committed."""
        read = position.get(WORDS, {}).get(str(partition))
        if read is None:
            self.check_copy(partition, counts)
            return
        place = (GROUP, TopicPartition(WORDS, partition))
        if read + 1 not in self.world.broker.every_offset.get(place, ()):
            raise ViolationError(f"{self.name} is answered at {read}, where nobody has committed")
        for word, count in counts.items():
            if count != (true := self.truth.count_at(word, read)):
                raise ViolationError(
                    f"{self.name} is answered {count} for {word} at {read}, where it was {true}"
                )
        if self.has_bound:
            if read < self.at.get(partition, -1):
                raise ViolationError(f"{self.name} goes back to {read} from {self.at[partition]}")
            self.at[partition] = read

    def check_copy(self, partition: int, counts: Mapping[str, int]) -> None:
        """A copy does not know its position: each count must be one that there was."""
        for word, count in counts.items():
            if count and count not in self.truth.ever(word):
                raise ViolationError(f"{self.name} is answered {count} for {word}, as never was")
        if self.has_bound and partition in self.at:
            raise ViolationError(f"{self.name} is answered without a position, and has a bound")


REASONS = (
    "NOT_ACTIVE",
    "reached",
    "is not on this worker",
    "does not answer",
    "could not be asked",
    "no worker runs",
    "not open yet",
    "an active, running one was required",
)
"""What a reader may be told instead of a count."""


def of(partition: int) -> list[str]:
    """The words of a partition."""
    return [word for word in ALL_WORDS if partition_of(word) == partition]


class Committed:
    """What is committed of a topic, read on with each question."""

    def __init__(self, world: World, topic: str) -> None:
        self._broker = world.broker
        self._topic = topic
        self._read = [0] * PARTITIONS
        self._of: dict[str, list[Record]] = {word: [] for word in ALL_WORDS}

    def of(self, word: str) -> list[Record]:
        """Return the records of a word."""
        number = partition_of(word)
        records, self._read[number] = self._broker.read_committed(
            TopicPartition(self._topic, number), self._read[number]
        )
        for record in records:
            self._of[str(record.key)].append(record)
        return self._of[word]


class Truth:
    """What the stores held, at each commit."""

    def __init__(self, world: World) -> None:
        self._words = Committed(world, WORDS)
        self._counts = Committed(world, CHANGELOG)

    def count_at(self, word: str, read: float) -> int:
        """How often a word came up to an offset of its partition."""
        return bisect_right(self._words.of(word), read, key=itemgetter(0))

    def ever(self, word: str) -> set[object]:
        """Every count that a word had at a commit."""
        return {record.value for record in self._counts.of(word)}


def everybody_is_answered(world: World) -> None:
    """Once all tasks run, a reader with a bound gets the newest count of each word."""
    truth = Truth(world)
    reader = Reader(world, "the last reader", truth, has_bound=True)
    end_ms = world.now_ms + 30_000
    for word in ALL_WORDS:
        total = truth.count_at(word, inf)
        while reader.ask(reader.look(), word, is_active=True) != total:
            if world.now_ms > end_ms:
                raise ViolationError(f"{word} is asked for and not found: {dict(reader.answers)}")
            world.run_until(world.now_ms + 500)
    reader.end("has seen everything")
