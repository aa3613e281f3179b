"""The StreamApp's ``spec.autoscaling``: how many workers there are to be, decided by lag."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from headwater.errors import SpecError
from headwater.model import cron
from headwater.model.fields import Rule, meta

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORKERS_MAX: Final = 10_000
_CRON: Final = meta(pattern=cron.PATTERN, meaning=cron.MEANING, max_length=100)
_AT_LEAST_ONE: Final = meta(minimum=1, maximum=_WORKERS_MAX)


class AutoscalingMode(StrEnum):
    """Whether what is decided is carried out."""

    ADVISE = "Advise"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpBehavior:
    """How soon workers are added.

    Attributes:
        stabilization_window_ms: the smallest number that was right during this time counts.
    """

    stabilization_window_ms: int = field(
        default=60_000, metadata=meta(json="stabilizationWindow", duration=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownBehavior:
    """How soon workers are taken away.

    Attributes:
        stabilization_window_ms: the greatest number that was right during this time counts.
    """

    stabilization_window_ms: int = field(
        default=600_000, metadata=meta(json="stabilizationWindow", duration=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingBehavior:
    """How soon the number of workers changes, as of a HorizontalPodAutoscaler.

    Attributes:
        scale_up: how soon workers are added.
        scale_down: how soon workers are taken away.
    """

    scale_up: ScaleUpBehavior = ScaleUpBehavior()
    scale_down: ScaleDownBehavior = ScaleDownBehavior()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWindow:
    """A time that comes again, with bounds of its own.

    Attributes:
        name: what it is called in the status.
        start: when it begins, as cron writes it, in UTC.
        end: when it ends, as cron writes it, in UTC.
        min_replicas: the least number of workers meanwhile; left out: as at other times.
        max_replicas: the greatest number of workers meanwhile; left out: as at other times.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                "!has(self.minReplicas) || !has(self.maxReplicas) "
                "|| self.minReplicas <= self.maxReplicas"
            ),
            message="minReplicas is greater than maxReplicas: exchange them",
            field="minReplicas",
            holds=lambda window: (
                window.min_replicas is None
                or window.max_replicas is None
                or window.min_replicas <= window.max_replicas
            ),
        ),
    )

    name: str = field(
        metadata=meta(
            pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            meaning="lower-case letters, digits and '-'",
            max_length=63,
        )
    )
    start: str = field(metadata=_CRON)
    end: str = field(metadata=_CRON)
    min_replicas: int | None = field(default=None, metadata=_AT_LEAST_ONE)
    max_replicas: int | None = field(default=None, metadata=_AT_LEAST_ONE)

    def problem(self, minute: int) -> str:
        """Say why it never begins or ends; empty if it does.

        Args:
            minute: the time of day, in minutes since 1970.
        """
        for name, text in (("start", self.start), ("end", self.end)):
            try:
                found = cron.parse(text).last(minute)
            except SpecError as error:
                return f"spec.autoscaling.schedule {self.name!r}: {name}: {error}"
            if found is None:
                return (
                    f"spec.autoscaling.schedule {self.name!r} is passed over: its {name} "
                    f"{text!r} never comes; correct it"
                )
        return ""

    def has(self, minute: int) -> bool:
        """Whether it has begun and not ended.

        Args:
            minute: the time of day, in minutes since 1970.
        """
        if self.problem(minute):
            return False
        start, end = cron.parse(self.start).last(minute), cron.parse(self.end).last(minute)
        assert start is not None
        assert end is not None
        return start > end


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingSpec:
    """How many workers there are to be, decided from lag, rates and what a restore costs.

    Attributes:
        mode: Advise says in the status how many workers there should be; Auto sees to it.
        min_replicas: the least number of workers.
        max_replicas: the greatest number of workers.
        target_catch_up_ms: records that wait are to be processed within this time; less than a
            second counts as one.
        target_lag: at most so many input records are to wait, of all tasks together.
        behavior: how soon the number changes.
        schedule: times with bounds of their own. Where several have begun, the greatest
            minReplicas and the smallest maxReplicas count, and maxReplicas before minReplicas.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="(has(self.minReplicas) ? self.minReplicas : 1) <= self.maxReplicas",
            message="minReplicas is greater than maxReplicas: exchange them",
            field="minReplicas",
            holds=lambda spec: spec.min_replicas <= spec.max_replicas,
        ),
        Rule(
            cel="has(self.targetCatchUp) != has(self.targetLag)",
            message="set one target: targetCatchUp, a time, or targetLag, a number of records",
            holds=lambda spec: (spec.target_catch_up_ms is None) != (spec.target_lag is None),
        ),
    )

    mode: AutoscalingMode = AutoscalingMode.ADVISE
    min_replicas: int = field(default=1, metadata=_AT_LEAST_ONE)
    max_replicas: int = field(metadata=_AT_LEAST_ONE)
    target_catch_up_ms: int | None = field(
        default=None, metadata=meta(json="targetCatchUp", duration=True)
    )
    target_lag: int | None = field(
        default=None, metadata=meta(minimum=1, maximum=1_000_000_000_000)
    )
    behavior: ScalingBehavior = ScalingBehavior()
    schedule: tuple[ScheduleWindow, ...] = field(
        default=(), metadata=meta(keys=("name",), max_items=20)
    )

    def bounds(self, minute: int) -> tuple[int, int]:
        """Return the least and the greatest number of workers at a time.

        Args:
            minute: the time of day, in minutes since 1970; 0 when it is not known.
        """
        begun = [window for window in self.schedule if minute and window.has(minute)]
        least = max((w.min_replicas for w in begun if w.min_replicas), default=self.min_replicas)
        most = min((w.max_replicas for w in begun if w.max_replicas), default=self.max_replicas)
        return min(least, most), most

    def problems(self, minute: int) -> Iterator[str]:
        """Say which parts of the schedule are of no use.

        Args:
            minute: the time of day, in minutes since 1970; 0 when it is not known.
        """
        if minute:
            yield from filter(None, (window.problem(minute) for window in self.schedule))
