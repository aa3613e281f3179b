"""What Spark's driver tells of itself, asked with every look, and shown less often.

A status that changed with every micro-batch would be written for ever: the numbers in it are of
some moment within the last seconds. What the driver calls itself is shown at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater_operator.decide.observed import ProcessState
from headwater_operator.observe.driver import DriverAnswer

if TYPE_CHECKING:
    from headwater_operator.decide.observed import Observed
    from headwater_operator.observe.numbers import NumbersSource
    from headwater_operator.views import PodView

_SHOWN_MS: Final = 15_000
"""The numbers that are shown are renewed after so long."""
_BELIEVED_MS: Final = 30_000
"""A driver that does not answer is taken to be as it has said for so long."""


@dataclass(slots=True)
class DriverTold:
    """Remembers answers of one application's driver; all of it can be lost.

    Attributes:
        pod: the uid of the pod that has answered.
        answer: its last one.
        answered_ms: when it came.
        shown: the answer whose numbers are shown.
        shown_ms: since when.
    """

    pod: str = ""
    answer: DriverAnswer = field(default_factory=DriverAnswer)
    answered_ms: int = 0
    shown: DriverAnswer = field(default_factory=DriverAnswer)
    shown_ms: int = 0

    def observe(
        self, observed: Observed, pod: PodView | None, source: NumbersSource, now_ms: int
    ) -> Observed:
        """Return a snapshot with what the driver says, if there is one that can be asked.

        Args:
            observed: the snapshot, read just now.
            pod: the driver's.
            source: who is asked.
            now_ms: of a clock that never goes back.
        """
        if pod is None or pod.state is not ProcessState.RUNNING or not pod.endpoint:
            return observed
        if pod.uid != self.pod:
            self.pod, self.answer, self.shown = pod.uid, DriverAnswer(), DriverAnswer()
            self.shown_ms = now_ms - _SHOWN_MS
        told = source.ask_driver(pod.endpoint)
        # Its generation is known to itself only after it has begun.
        is_told = bool(told.state)
        if is_told:
            self.answer, self.answered_ms = told, now_ms
        elif now_ms - self.answered_ms > _BELIEVED_MS:
            self.answer = DriverAnswer()
        if self.answer.state != self.shown.state or now_ms - self.shown_ms >= _SHOWN_MS:
            self.shown, self.shown_ms = self.answer, now_ms
        shown = self.shown
        driver = replace(
            observed.driver,
            has_answered=is_told,
            state=self.answer.state,
            batches=self.answer.batches,
            last_batch=shown.last_batch,
            input_rows_per_second=round(shown.input_rows_per_second),
            processed_rows_per_second=round(shown.processed_rows_per_second),
            tasks=max(len(self.answer.tasks), len(shown.tasks)),
        )
        return replace(observed, driver=driver)
