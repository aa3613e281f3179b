"""A person is told why nothing happens, and not kept waiting for it for ever."""

from __future__ import annotations

import pytest

from headwater.model.appstatus import AppStatus, Failure
from headwater.model.lifecycle import ClientState
from headwater_operator.local.patience import Patience


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def status(error: str, worker: str = "", state: ClientState = ClientState.CREATED) -> AppStatus:
    failure = Failure(error=error, message="...", worker=worker) if error else None
    return AppStatus(state=state, failure=failure)


def ends_after_s(failing: AppStatus, *, at_most: int = 1_000) -> int | None:
    """Seconds until patience is over; ``None`` if it is not within ``at_most``."""
    clock = Clock()
    patience = Patience(clock)
    for second in range(at_most):
        if patience.is_over("app", failing):
            return second
        clock.now += 1
    return None


@pytest.mark.parametrize(
    ("failing", "seconds"),
    [
        pytest.param(status("KafkaAuthError"), 0, id="wrong password"),
        pytest.param(status("ChangelogLostError"), 0, id="a changelog that is gone"),
        pytest.param(status("MissingTopicError"), 10, id="no source topic"),
        pytest.param(status("PartitionMismatchError"), 10, id="wrong partitions"),
        pytest.param(status("GroupInUseError"), 90, id="foreign member that stays"),
        pytest.param(status("TopologyError"), 120, id="workers that differ"),
        pytest.param(status("OSError", "w-0"), 120, id="error of somebody else"),
        pytest.param(status("KafkaUnavailableError", "w-0"), 0, id="worker gave the broker up"),
        pytest.param(status("StoreLockedError", "w-0"), 0, id="worker gave the store up"),
        pytest.param(status("KafkaUnavailableError"), None, id="broker the workers wait for"),
    ],
)
def test_a_failure_stands_for_as_long_as_time_may_cure_it(
    failing: AppStatus, seconds: int | None
) -> None:
    assert ends_after_s(failing) == seconds


def test_what_was_overcome_or_changed_is_counted_from_the_beginning() -> None:
    clock = Clock()
    patience = Patience(clock)
    for better in (status(""), status("MissingTopicError", state=ClientState.RUNNING)):
        assert not patience.is_over("app", status("MissingTopicError"))
        clock.now += 9
        assert not patience.is_over("app", better)
        clock.now += 9
    assert not patience.is_over("app", status("MissingTopicError"))
    clock.now += 9
    assert not patience.is_over("app", status("PartitionMismatchError"))
    clock.now += 9
    assert not patience.is_over("app", status("PartitionMismatchError"))


def test_applications_are_counted_apart() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert not patience.is_over("one", status("MissingTopicError"))
    clock.now += 10

    assert not patience.is_over("other", status("MissingTopicError"))
    assert patience.is_over("one", status("MissingTopicError"))
