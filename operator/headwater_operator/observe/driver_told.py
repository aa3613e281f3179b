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
    from headwater_operator.decide.observed import DriverView, Observed
    from headwater_operator.observe.numbers import NumbersSource
    from headwater_operator.views import PodView

_SHOWN_MS: Final = 15_000
"""The numbers that are shown are renewed after so long."""


@dataclass(slots=True)
class DriverTold:
    """Remembers answers of one application's driver; all of it can be lost.

    One that does not answer is taken to be as it has said last: what becomes of it is decided by
    for how long it has been silent.

    Attributes:
        shown_for_ms: so long the numbers that are shown stay.
        attempt: tells which driver has answered.
        answer: its last one.
        shown: the answer whose numbers are shown.
        shown_ms: since when.
    """

    shown_for_ms: int = _SHOWN_MS
    attempt: int = 0
    answer: DriverAnswer = field(default_factory=DriverAnswer)
    shown: DriverAnswer = field(default_factory=DriverAnswer)
    shown_ms: int = 0

    def observe(
        self, observed: Observed, pod: PodView | None, source: NumbersSource, now_ms: int
    ) -> Observed:
        """Return a snapshot with what the driver says, if there is one.

        Args:
            observed: the snapshot, read just now.
            pod: the driver's.
            source: who is asked.
            now_ms: of a clock that never goes back.
        """
        can_answer = pod is not None and pod.state is ProcessState.RUNNING and pod.endpoint
        answer = source.ask_driver(pod.endpoint) if pod and can_answer else DriverAnswer()
        return replace(observed, driver=self.take_in(observed.driver, answer, now_ms))

    def take_in(self, driver: DriverView, answer: DriverAnswer, now_ms: int) -> DriverView:
        """Return a driver with what it says, or has said last.

        Args:
            driver: what is known of it without asking.
            answer: an empty one, if it has not answered.
            now_ms: of a clock that never goes back.
        """
        if driver.process.is_proof_of_end:
            return driver
        if driver.attempt != self.attempt:
            self.attempt, self.answer, self.shown = driver.attempt, DriverAnswer(), DriverAnswer()
            self.shown_ms = now_ms - self.shown_for_ms
        # Its generation is known to itself only after it has begun.
        is_told = bool(answer.state)
        if is_told:
            self.answer = answer
        is_old = now_ms - self.shown_ms >= self.shown_for_ms
        if self.answer.state != self.shown.state or is_old:
            self.shown, self.shown_ms = self.answer, now_ms
        shown = self.shown
        return replace(
            driver,
            has_answered=is_told,
            state=self.answer.state,
            batches=self.answer.batches,
            last_batch=shown.last_batch,
            input_rows_per_second=round(shown.input_rows_per_second),
            processed_rows_per_second=round(shown.processed_rows_per_second),
            tasks=max(len(self.answer.tasks), len(shown.tasks)),
        )
