"""What is computed as DataFrames, as values: reads, the steps of a path, what is aggregated."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.functions import Expression
    from headwater.spark.frames.kinds import Kind


class Target(StrEnum):
    """How a sub-topology is computed."""

    T1 = "t1"
    """The StreamTask itself, record by record."""
    T2 = "t2"
    """DataFrames that end in state."""
    T3 = "t3"
    """Columns on the way to a sub-topology that is T2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One topic.

    Attributes:
        topic: as the topology calls it.
        subtopology: which reads it.
        key: what keys are.
        value: what values are.
    """

    topic: str
    subtopology: int
    key: Kind
    value: Kind


@dataclass(frozen=True, slots=True)
class Where:
    """Keeps the records for which ``predicate`` is true, or with ``negate`` is not."""

    predicate: Expression
    negate: bool = False


@dataclass(frozen=True, slots=True)
class WithValue:
    """Replaces the value."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class WithKey:
    """Replaces the key."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class HasKey:
    """Passes over records without a key."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """To the partition of its key; stands for the repartition topic ``topic``."""

    topic: str


Step: TypeAlias = Where | WithValue | WithKey | HasKey | Shuffle


@dataclass(frozen=True, slots=True)
class Path:
    """How records come to a node: read, then changed step by step."""

    read: Read
    steps: tuple[Step, ...] = ()

    @property
    def shuffle(self) -> str:
        """The repartition topic on the way; empty if there is none."""
        return next((step.topic for step in self.steps if isinstance(step, Shuffle)), "")


def _looks_at_value(step: Step | None) -> bool:
    match step:
        case Where(expression) | WithValue(expression) | WithKey(expression):
            return expression.reads("value")
        case _:
            return False


class Fold(StrEnum):
    """What is made of the records of a key."""

    COUNT = "count"
    SUM = "sum"
    SMALLEST = "smallest"
    LARGEST = "largest"
    LAST = "last"
    """The one with the highest offset; null is a tombstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The state of one store.

    Attributes:
        subtopology: whose.
        store: its name.
        fold: what is made of the records of a key.
        paths: how they come.
        key: as what keys are written.
        value: as what values are written.
    """

    subtopology: int
    store: str
    fold: Fold
    paths: tuple[Path, ...]
    key: Kind
    value: Kind

    @property
    def shuffle(self) -> str:
        """The repartition topic by which the records come; empty if there is none."""
        return self.paths[0].shuffle


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Sub-topologies that are computed together, since records are shuffled between them.

    Attributes:
        subtopologies: their numbers.
        reads: the topics.
        outputs: the stores.
        shuffles: repartition topics that no record is written to, and who reads them.
    """

    subtopologies: tuple[int, ...]
    reads: tuple[Read, ...]
    outputs: tuple[Output, ...]
    shuffles: Mapping[str, int] = field(default_factory=dict)

    def only_counts(self, read: Read) -> bool:
        """Whether records of a read that have the same key need not be told apart.

        They need not if all that is made of them is a count, and nobody looks at their values but
        to see whether there is one.
        """
        uses = [
            (output.fold, step)
            for output in self.outputs
            for path in output.paths
            if path.read == read
            for step in (None, *path.steps)
        ]
        return all(fold is Fold.COUNT and not _looks_at_value(step) for fold, step in uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was decided of a sub-topology or node, and why.

    Attributes:
        target: how it is computed.
        reason: a sentence.
    """

    target: Target
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What was decided of a topology.

    Attributes:
        subtopologies: by number.
        nodes: by name: what each would allow by itself.
        units: what is computed as DataFrames.
    """

    subtopologies: Mapping[int, Verdict]
    nodes: Mapping[str, Verdict]
    units: tuple[Unit, ...]
