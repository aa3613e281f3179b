"""A processor's test context does what Kafka's ``MockProcessorContext`` does, but where it says."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.java.tool import Answering

from headwater import PunctuationType, Record, Serdes
from headwater.errors import HeadwaterError
from headwater.testing import CapturedForward, ProcessorTestContext

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.java

REFUSED: Final = "refused"
DIFFERENCES: Final[dict[str, tuple[Any, Any]]] = {
    "stream time before": (REFUSED, -1),
    "system time before": (REFUSED, 0),
    "store that is not there": ("null", REFUSED),
    "interval of 0": ("taken", REFUSED),
}
"""What Java says, and what a task says: docs/testing.md tells them."""


def tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (HeadwaterError, ValueError):
        return REFUSED


def told(answer: object) -> str:
    """Java's answer without names of classes and addresses."""
    text = str(answer)
    if text == "null":
        return text
    return REFUSED if text.startswith(REFUSED) else "taken"


def forwarded(forwards: list[CapturedForward[str, int]]) -> list[list[Any]]:
    return [
        [it.record.key, it.record.value, it.record.timestamp, it.child or ""] for it in forwards
    ]


def seen() -> dict[str, Any]:
    """The calls of ``tests/java/mock/MockContext.java``, and what they give."""
    context: ProcessorTestContext[str, int] = ProcessorTestContext(
        {"application.id": "app", "default.key.serde": Serdes.string, "consumer.mine": "5"}
    )
    found: dict[str, Any] = {
        "application id": context.application_id,
        "task": str(context.task_id),
        "own setting": context.app_configs_with_prefix("consumer.")["mine"],
        "place before": context.record_metadata() is not None,
        "stream time before": tried(context.current_stream_time_ms),
        "system time before": tried(context.current_system_time_ms),
        "store that is not there": tried(lambda: context.get_state_store("none")),
    }
    context.set_record_metadata("topic", 3, 7)
    place = context.record_metadata()
    assert place is not None
    found["place"] = f"{place.topic}-{place.partition}@{place.offset}"
    context.set_current_stream_time_ms(5)
    context.set_current_system_time_ms(9)
    found["times"] = [context.current_stream_time_ms(), context.current_system_time_ms()]
    context.set_current_stream_time_ms(2)
    found["stream time set back"] = context.current_stream_time_ms()

    context.forward(Record("all", 1, 10))
    context.forward(Record("one", 2, 11), "child")
    context.forward(Record("other", 3, 12), "sister")
    found["forwarded"] = forwarded(context.forwarded())
    found["forwarded to child"] = forwarded(context.forwarded("child"))
    found["forwarded to nobody"] = forwarded(context.forwarded("nobody"))
    context.reset_forwards()
    found["forwards forgotten"] = len(context.forwarded())

    found["committed before"] = context.committed()
    context.commit()
    found["committed"] = context.committed()
    context.reset_commit()
    found["commit forgotten"] = context.committed()

    fired: list[int] = []
    kind = PunctuationType
    first = context.schedule(100, kind.STREAM_TIME, fired.append)
    context.schedule(timedelta(seconds=1), kind.WALL_CLOCK_TIME, fired.append, start_ms=30)
    context.set_current_stream_time_ms(1_000)
    found["fired by itself"] = len(fired)
    first.cancel()
    scheduled = []
    for it in context.scheduled_punctuators:
        it.punctuate(42)
        scheduled.append([it.interval_ms, it.kind.name, it.cancelled])
    found["scheduled"] = scheduled
    found["fired"] = fired
    found["interval of 0"] = tried(lambda: context.schedule(0, kind.STREAM_TIME, fired.append))
    return found


def test_the_context_does_what_kafkas_does_but_for_four_things() -> None:
    java = Answering("mock", "MockContext")
    theirs = java.ask({})
    java.close()
    for name in DIFFERENCES:
        theirs[name] = told(theirs[name])

    ours = seen()

    assert {name: (theirs[name], ours[name]) for name in DIFFERENCES} == DIFFERENCES
    assert {k: v for k, v in ours.items() if k not in DIFFERENCES} == {
        k: v for k, v in theirs.items() if k not in DIFFERENCES
    }
