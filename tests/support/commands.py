"""``up``, ``reset``, ``scale`` and ``down`` against the real decision, on a Kafka of values.

The glue is that of the local control loop (``AppRecord``, ``decide``); workers do at once what
their specs say, a reset takes some rounds. Whoever breaks a law raises ``LawBrokenError``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headwater.model.duties import CreateTopics, DutyResult, Reset, ResetDone, TopicsCreated
from headwater.model.lifecycle import ClientState
from headwater_operator.decide import Decision, Intent, Observed, decide
from headwater_operator.local.records import AppRecord
from tests.unit.decide.cluster import Cluster, make_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.model.duties import Duty
    from headwater.model.streamapp import StreamApp

COMMANDS: Final = ("up", "reset", "scale", "down")
INTERNAL: Final = frozenset(("wc-words-repartition", "wc-counts-changelog"))
PATIENCE: Final = 400
RESET_TAKES: Final = 2


class LawBrokenError(AssertionError):
    """A command has claimed what is not so, or has not come to its end."""


@dataclass
class Kafka(Cluster):
    """The world, with committed offsets and with resets that take time.

    Attributes:
        offsets: partitions for which the group has committed an offset.
        asked: rounds since a reset was begun, by duty.
        done: answers to duties, as workers keep them.
    """

    offsets: set[str] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)
    done: dict[str, DutyResult] = field(default_factory=dict)
    request: int = 0

    def observed(self) -> Observed:
        return replace(super().observed(), request=self.request)

    def follow(self) -> None:
        super().follow()
        for view in self.views.values():
            worker = view.worker
            for task in worker.spec.active_for(worker.status.incarnation):
                missing = INTERNAL - self.topics.keys()
                if missing:
                    raise LawBrokenError(f"{task} runs, but {sorted(missing)} do not exist")
                self.offsets.add(str(task))

    def follow_one(self, name: str) -> None:
        super().follow_one(name)
        results = self.views[name].worker.status.duty_results
        self.change(name, duty_results=tuple(one for one in results if one.id in self.done))

    def answer(self, duty: Duty) -> DutyResult:
        if duty.id in self.done:
            return self.done[duty.id]
        if isinstance(duty, Reset):
            waited = self.asked[duty.id] = self.asked.get(duty.id, 0) + 1
            result: DutyResult = ResetDone(id=duty.id)
            if waited <= RESET_TAKES:
                return result  # not given: see follow_one
            self.delete(duty)
        elif isinstance(duty, CreateTopics):
            new = {topic.name: topic.partitions for topic in duty.topics}
            self.topics |= {name: count for name, count in new.items() if name not in self.topics}
            result = TopicsCreated(id=duty.id, partitions=new)
        else:
            result = super().answer(duty)
        self.done[duty.id] = result
        return result

    def delete(self, duty: Reset) -> None:
        self.offsets.clear()
        for topic in duty.internal_topics:
            self.topics.pop(topic, None)


class Person:
    """Types commands, and holds each to what it says.

    Args:
        kafka: the world.
    """

    def __init__(self, kafka: Kafka | None = None) -> None:
        self.kafka = kafka if kafka is not None else Kafka()
        self.record: AppRecord | None = None
        self._replicas = 1
        self._waiting: list[int] = []
        """Requests of ``reset`` commands that still run, perhaps in another terminal."""
        self._was_reset = False

    def fork(self) -> Person:
        """Return another one to whom the same has happened; what is in their dicts is immutable."""
        other = copy(self)
        other._waiting = self._waiting.copy()
        other.kafka = copy(self.kafka)
        for name, value in vars(self.kafka).items():
            if isinstance(value, dict | set | list):
                setattr(other.kafka, name, value.copy())
        return other

    def types(self, command: str, *, rounds: int | None = None) -> None:
        """Type a command and wait for its end, or for so many rounds at most."""
        match command:
            case "up":
                before = self.record or AppRecord(app=self._app(), applied=0)
                self.record = replace(before.asked(Intent.RUN), app=self._app())
                self._wait(self._runs, "up", rounds)
            case "reset":
                self._reset(rounds)
            case "scale":
                self._replicas = 3 - self._replicas
                if self.record is not None:
                    self.record = replace(self.record, app=self._app())
                    self._wait(self._is_settled, "scale", rounds)
            case "down":
                self._down(rounds)
            case _:
                raise AssertionError(command)

    def _down(self, rounds: int | None) -> None:
        if self.record is not None:
            self.record = self.record.asked(Intent.STOP)
            self._wait(self._is_stopped, "down", rounds)

    def _app(self) -> StreamApp:
        return make_app(replicas=self._replicas)

    def _reset(self, rounds: int | None) -> None:
        if self.record is None:
            return
        self.record = self.record.asked(Intent.RESET)
        request = self.record.applied
        self._waiting.append(request)
        self._wait(lambda: request not in self._waiting, "reset", rounds)

    def is_reset(self, request: int) -> bool | None:
        """What ``headwater reset`` says: done, not yet, or that it was overruled (``None``)."""
        assert self.record is not None
        return self.record.is_reset(request)

    def _hear_resets(self) -> None:
        for request in list(self._waiting):
            is_reset = self.is_reset(request)
            if is_reset is not False:
                self._waiting.remove(request)
            if is_reset:
                self._check_reset()

    def _check_reset(self) -> None:
        left = sorted(INTERNAL & self.kafka.topics.keys())
        if left or self.kafka.offsets or self.kafka.views:
            raise LawBrokenError(
                f"reset says that it is done; there are still the topics {left}, "
                f"{len(self.kafka.offsets)} offsets, the workers {sorted(self.kafka.views)}"
            )

    def _wait(self, is_so: Callable[[], bool], command: str, rounds: int | None) -> None:
        for _ in range(PATIENCE if rounds is None else rounds):
            self.round()
            if is_so():
                return
        if rounds is None:
            raise LawBrokenError(f"{command} does not end: {self.kafka.status}")

    def round(self) -> None:
        """One turn of the control loop, as ``local/loop.py`` makes it."""
        assert self.record is not None
        kafka, record = self.kafka, self.record
        kafka.app, kafka.intent, kafka.request = record.app, record.intent, record.applied
        decision = self.decide()
        for action in decision.actions:
            kafka.act(action)
        is_over = decision.status.state is ClientState.NOT_RUNNING
        if is_over and not kafka.views and not decision.actions and record.intent is Intent.RESET:
            self.record = self.record.after_reset(record.applied)
        self._hear_resets()
        kafka.follow()
        kafka.now_ms += 500

    def decide(self) -> Decision:
        """Decide once, and remember."""
        kafka = self.kafka
        decision = decide(kafka.observed(), kafka.memory, kafka.now_ms)
        kafka.memory, kafka.status = decision.memory, decision.status
        return decision

    def _runs(self) -> bool:
        status = self.kafka.status
        if status.failure is not None:
            raise LawBrokenError(f"up fails: {status.failure}")
        return status.state is ClientState.RUNNING

    def _is_settled(self) -> bool:
        assert self.record is not None
        intent = self.record.intent
        return self._runs() if intent is Intent.RUN else self._is_stopped()

    def _is_stopped(self) -> bool:
        return all(view.process.is_proof_of_end for view in self.kafka.views.values())


class KeepsResetDone(Person):
    """Planted: the control loop's memory takes an earlier reset for the one that is asked for."""

    def decide(self) -> Decision:
        # Without the number of the request, and with what it has forgotten since.
        self.kafka.request = 1
        decision = super().decide()
        self._was_reset = self._was_reset or decision.memory.reset_done
        self.kafka.memory = replace(self.kafka.memory, reset_done=self._was_reset)
        return decision


class KeepsTopics(Person):
    """Planted: the control loop believes in the topics that it has seen before a reset."""

    def decide(self) -> Decision:
        before = self.kafka.memory
        decision = super().decide()
        after = decision.memory
        if after.partitions is None and before.partitions is not None:
            known = replace(after, partitions=before.partitions, members=before.members)
            self.kafka.memory = replace(known, looked_ms=self.kafka.now_ms)
        return decision


class ClaimsWhenOverruled(Person):
    """Planted: ``reset`` takes any other wish for the end of its own."""

    def is_reset(self, request: int) -> bool | None:
        assert self.record is not None
        del request
        return self.record.intent is not Intent.RESET


class DeletesNothing(Kafka):
    """Planted: a worker says that it has reset, and has not looked."""

    def delete(self, duty: Reset) -> None:
        del duty
