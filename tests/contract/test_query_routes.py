"""Whom ``headwater query`` asks and whose answer counts, over several workers' stores on disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.asked import KEYS, PARTITIONS, Asked, by_murmur2

from headwater.errors import QueryError, QueryFailedError
from headwater.ids import TaskId
from headwater.model.cluster import Role, StreamWorker, TaskStatus, WorkerSpec, WorkerStatus
from headwater.model.lifecycle import TaskState
from headwater.native.queries.values import Place, Standing
from headwater_operator.local.query_asking import Question, ask_for_key, ask_for_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

ACTIVE = {"requireActive": "true"}
KEY = KEYS[7]
HOME = by_murmur2(KEY)


class Several:
    """Workers, each a query process' half; one without does not answer."""

    def __init__(self, workers: dict[str, Asked | None]) -> None:
        self._workers = workers
        self.asked: list[tuple[str, str]] = []
        self.on_question: Callable[[str], None] = lambda path: None

    def all(self) -> Sequence[StreamWorker]:
        return [
            StreamWorker(name=name, spec=WorkerSpec(app="app"), status=_status_of(asked))
            for name, asked in self._workers.items()
        ]

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append((worker.name, path))
        self.on_question(path)
        asked = self._workers[worker.name]
        if asked is None:
            raise OSError("connection refused")
        return asked.get(path)


def _status_of(asked: Asked | None) -> WorkerStatus:
    tasks = {} if asked is None else asked.answerer.placements.tasks
    return WorkerStatus(
        endpoint="here:1",
        tasks=tuple(
            TaskStatus(
                task=task,
                state=TaskState.RUNNING,
                role=Role.STANDBY if place.standing is Standing.COPY else Role.ACTIVE,
            )
            for task, place in tasks.items()
        ),
    )


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Asked]]:
    every: list[Asked] = []

    def make(*here: int, copy: bool = False, **options: Any) -> Asked:
        one = Asked(tmp_path / str(len(every)), here, **options)
        if copy:
            one.place({TaskId(0, partition): Place(Standing.COPY) for partition in here})
        every.append(one)
        return one

    yield make
    for one in every:
        one.close()


def of_key(key: str = KEY, **options: str) -> Question:
    return Question(store="counts", key=key, options=ACTIVE | options)


def of_range(limit: int = 100, **options: str) -> Question:
    return Question(store="counts", key=None, options=ACTIVE | options, limit=limit)


def stale(key: str | None = KEY) -> Question:
    return Question(store="counts", key=key, options={})


# ---- one key -------------------------------------------------------------------------------------


def test_any_worker_says_who_has_a_key_and_that_one_is_asked_next(
    made: Callable[..., Asked],
) -> None:
    others = [number for number in range(PARTITIONS) if number != HOME]
    workers = Several({"w-0": made(*others[:2]), "w-1": made(others[2]), "w-2": made(HOME)})
    found = ask_for_key(workers, of_key())
    assert (found["value"], found["partition"]) == (7, HOME)
    assert [name for name, _ in workers.asked] == ["w-0", "w-2"]


def test_a_copy_that_has_not_reached_a_bound_is_passed_over(made: Callable[..., Asked]) -> None:
    copy, active = made(HOME, copy=True, read=30), made(HOME, more=100)
    bound = json.dumps({"in": {HOME: 39}})
    question = Question(store="counts", key=KEY, options={"bound": bound})

    assert ask_for_key(Several({"w-0": copy, "w-1": active}), question)["value"] == 107
    with pytest.raises(QueryFailedError, match="has reached"):
        ask_for_key(Several({"w-0": copy}), question)


def test_a_key_that_other_rules_have_placed_is_found_in_another_partition(
    made: Callable[..., Asked],
) -> None:
    elsewhere = (HOME + 1) % PARTITIONS
    homes = made(HOME, (HOME + 2) % PARTITIONS, place=lambda _: elsewhere)
    others = made(elsewhere, (HOME + 3) % PARTITIONS, place=lambda _: elsewhere)
    for first, second in ((homes, others), (others, homes)):
        found = ask_for_key(Several({"w-0": first, "w-1": second}), of_key())
        assert (found["value"], found["partition"]) == (7, elsewhere)
    workers = Several({"w-0": homes, "w-1": others})
    assert ask_for_key(workers, of_key(partition=str(elsewhere)))["value"] == 7
    absent = ask_for_key(workers, of_key(partition=str(HOME)))
    assert absent["message"] == f"store counts has no '{KEY}' in partition {HOME}"


def test_a_key_is_absent_once_all_partitions_were_asked(made: Callable[..., Asked]) -> None:
    workers = Several({"w-0": made(0, 1), "w-1": made(2, 3)})
    absent = ask_for_key(workers, of_key("nobody"))
    assert absent["error"] == "KEY_NOT_FOUND"
    assert absent["message"] == "store counts has no 'nobody': all 4 partitions were asked"


def test_a_key_is_not_absent_if_a_partition_was_not_asked(made: Callable[..., Asked]) -> None:
    key = next(name for name in ("a", "b", "c", "d", "e", "f") if by_murmur2(name) in (0, 1))
    workers = Several({"w-0": None, "w-1": made(0, 1)})
    with pytest.raises(
        QueryFailedError,
        match=rf"in partition {by_murmur2(key)}, .* but partitions 2, 3 could not be asked: "
        rf"w-0 does not answer: connection refused; .* --partition {by_murmur2(key)}",
    ):
        ask_for_key(workers, of_key(key))
    absent = ask_for_key(workers, of_key(key, partition=str(by_murmur2(key))))
    assert absent["error"] == "KEY_NOT_FOUND"


def test_nobody_answers_for_the_partition_of_a_key(made: Callable[..., Asked]) -> None:
    one = made(HOME)
    one.place({TaskId(0, HOME): Place(Standing.MOVING)})
    with pytest.raises(QueryFailedError, match=r"w-0: store counts: task .* is moving here.*again"):
        ask_for_key(Several({"w-0": one}), of_key())
    with pytest.raises(QueryFailedError, match="headwater get"):
        ask_for_key(Several({}), of_key())


def test_a_worker_that_has_just_begun_is_asked_again(made: Callable[..., Asked]) -> None:
    one = made(0, 1, 2, 3)
    places = dict(one.answerer.placements.tasks)
    one.place(places, partitions={})
    workers = Several({"w-0": one})
    left = [3]

    def knows_later(_: str) -> None:
        left[0] -= 1
        one.place(places, partitions={} if left[0] > 0 else {0: PARTITIONS})

    workers.on_question = knows_later
    assert ask_for_key(workers, of_key("nobody"))["message"].endswith("all 4 partitions were asked")
    left[0] = 3
    assert len(ask_for_range(workers, of_range())["rows"]) == len(KEYS)


def test_the_answer_of_the_active_task_counts_and_else_that_of_the_newest_copy(
    made: Callable[..., Asked],
) -> None:
    old = made(HOME, copy=True, more=100, changelog_offset=5)
    newer = made(HOME, copy=True, more=200, changelog_offset=9)
    # Under at-least-once an active task may even have read less than a copy has.
    active = made(HOME, more=300, changelog_offset=7)
    for order in ((old, newer, active), (active, newer, old), (newer, active, old)):
        workers = Several({f"w-{number}": one for number, one in enumerate(order)})
        assert ask_for_key(workers, stale())["value"] == 307
        in_range = Question(store="counts", key=None, options={"partition": str(HOME)})
        rows = ask_for_range(workers, in_range)["rows"]
        assert {row["key"]: row["value"] for row in rows}[KEY] == 307
    for copies in ((old, newer), (newer, old)):
        workers = Several({f"w-{number}": one for number, one in enumerate(copies)})
        assert ask_for_key(workers, stale())["value"] == 207
        rows = ask_for_range(workers, in_range)["rows"]
        assert {row["key"]: row["value"] for row in rows}[KEY] == 207


def test_a_copy_does_not_bring_back_what_the_active_task_has_deleted(
    made: Callable[..., Asked],
) -> None:
    copy = made(0, 1, 2, 3, copy=True, changelog_offset=5)
    active = made(0, 1, 2, 3, place=lambda _: -1, changelog_offset=6)
    for order in ((copy, active), (active, copy)):
        workers = Several({f"w-{number}": one for number, one in enumerate(order)})
        assert ask_for_key(workers, stale())["error"] == "KEY_NOT_FOUND"
        assert ask_for_range(workers, stale(None))["rows"] == []


# ---- ranges --------------------------------------------------------------------------------------


def test_a_range_has_the_rows_of_all_workers_in_the_order_of_partitions(
    made: Callable[..., Asked],
) -> None:
    workers = Several({"w-0": made(3, 1), "w-1": made(0, 2)})
    found = ask_for_range(workers, of_range())
    wanted = [(by_murmur2(key), key) for key in KEYS]
    assert [(row["partition"], row["key"]) for row in found["rows"]] == sorted(wanted)
    assert found["position"] == {"in": {str(number): 39 for number in range(PARTITIONS)}}
    few = ask_for_range(workers, of_range(limit=3))
    assert few["rows"] == found["rows"][:3]
    assert few["position"] == {"in": {"0": 39}}
    one = ask_for_range(workers, of_range(partition="2"))
    assert {row["partition"] for row in one["rows"]} == {2}


def test_a_range_goes_on_behind_a_worker_that_does_not_answer_and_names_what_it_lacks(
    made: Callable[..., Asked],
) -> None:
    workers = Several({"w-0": None, "w-1": made(0, 2)})
    with pytest.raises(
        QueryFailedError,
        match=r"^partitions 1, 3 of store counts could not be asked: no worker runs partition 1: "
        r".*w-0 does not answer: connection refused; nothing is shown.*--partition",
    ):
        ask_for_range(workers, of_range())
    assert {row["partition"] for row in ask_for_range(workers, of_range(partition="2"))["rows"]}
    assert len(ask_for_range(workers, of_range(limit=1))["rows"]) == 1  # of partition 0
    copies = made(1, 3, copy=True)
    every = Several({"w-0": None, "w-1": made(0, 2), "w-2": copies})
    assert len(ask_for_range(every, stale(None))["rows"]) == len(KEYS)


def test_a_task_that_moves_while_a_range_is_read_is_found_again(
    made: Callable[..., Asked],
) -> None:
    first, second = made(0, 1), made(2, 3)
    workers = Several({"w-0": first, "w-1": second})
    late = made(0, 1)
    late.place({})

    def moves(path: str) -> None:
        if "partition=1" in path and late.answerer.placements.tasks == {}:
            first.place({TaskId(0, 0): Place(Standing.RUNNING)})
            late.place({TaskId(0, 1): Place(Standing.RUNNING)})

    workers = Several({"w-0": first, "w-1": second, "w-2": late})
    workers.on_question = moves
    rows = ask_for_range(workers, of_range())["rows"]
    assert sorted(row["key"] for row in rows) == sorted(KEYS)


def test_a_wrong_question_is_an_error_of_its_own(made: Callable[..., Asked]) -> None:
    workers = Several({"w-0": made(0, 1), "w-1": made(2, 3)})
    with pytest.raises(QueryError, match="partitions 0 to 3, and not 9"):
        ask_for_range(workers, of_range(partition="9"))
    with pytest.raises(QueryError, match="partitions 0 to 3, and not 9"):
        ask_for_key(workers, of_key(partition="9"))
    for key in ("a", None):
        unknown = Question(store="kounts", key=key, options=ACTIVE)
        with pytest.raises(QueryError, match="no store 'kounts'"):
            (ask_for_range if key is None else ask_for_key)(workers, unknown)
    with pytest.raises(QueryError, match="limit='0' is not allowed"):
        ask_for_range(workers, of_range(limit=0))
