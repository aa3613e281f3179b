"""A StreamThread that did not answer in time is waited for briefly, until it says something."""

from __future__ import annotations

from headwater.ids import TaskId
from headwater.native.queries.answering import TaskQuestions
from headwater.native.queries.values import AskTask, TaskAnswered
from headwater.state.asks import Range

PATIENCE_S = 2.0


def question(slot: int) -> AskTask:
    return AskTask(id=-1, task=TaskId(0, slot), slot=slot, store="s", ask=Range(), limit=1)


def test_a_thread_that_is_late_is_waited_for_briefly_until_it_answers() -> None:
    sent: list[AskTask] = []
    stuck = {1}

    def send(asked: AskTask) -> None:
        sent.append(asked)
        if asked.slot not in stuck:
            questions.take(TaskAnswered(id=asked.id))

    questions = TaskQuestions(send, PATIENCE_S)
    assert questions.put(question(0)) is not None
    assert questions.put(question(1)) is None
    assert questions.patience_s(1) < PATIENCE_S
    assert questions.patience_s(0) == PATIENCE_S
    assert questions.put(question(1)) is None
    assert questions.patience_s(1) < PATIENCE_S

    questions.take(TaskAnswered(id=sent[-2].id))  # the first one that was given up
    questions.take(TaskAnswered(id=sent[-1].id))
    assert questions.patience_s(1) == PATIENCE_S

    assert questions.put(question(1)) is None
    stuck.clear()
    assert questions.put(question(1)) is not None
    assert questions.patience_s(1) == PATIENCE_S
