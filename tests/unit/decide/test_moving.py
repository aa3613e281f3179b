"""Moves for balance wait for a window; moves that are needed never do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.decide.acting import Acting
from tests.unit.decide.cluster import Cluster, make_app, task

from headwater.model.codec import decode
from headwater.model.movewindows import MoveWindow, may_move, next_opening, shown, unknown_zone
from headwater.model.streamaction_status import ActionPhase

NIGHT = {"start": "02:00", "end": "05:00"}
CLOSED = "2026-03-04T12:00"
OPEN = "2026-03-04T03:00"


def minute(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 60


def windows(*given: dict[str, object]) -> list[MoveWindow]:
    return [decode(MoveWindow, each, path="w", strict=True) for each in given]


@pytest.mark.parametrize(
    ("window", "now", "is_open", "opens"),
    [
        (NIGHT, "2026-03-04T02:00", True, ""),
        (NIGHT, "2026-03-04T04:59", True, ""),
        (NIGHT, "2026-03-04T05:00", False, "2026-03-05T02:00:00Z"),
        ({**NIGHT, "days": ["Sat"]}, OPEN, False, "2026-03-07T02:00:00Z"),
        ({**NIGHT, "days": ["Sat"]}, "2026-03-07T03:00", True, ""),
        # A window that lasts over midnight belongs to the day on which it opens.
        ({"start": "22:00", "end": "01:00", "days": ["Sun"]}, "2026-03-09T00:30", True, ""),
        (
            {"start": "22:00", "end": "01:00", "days": ["Sun"]},
            "2026-03-08T00:30",
            False,
            "2026-03-08T22:00:00Z",
        ),
        ({"start": "06:00", "end": "06:00", "days": ["Wed"]}, "2026-03-05T05:59", True, ""),
        # By the clocks of Berlin, which go forward on 29 March 2026 at two o'clock.
        ({**NIGHT, "timeZone": "Europe/Berlin"}, "2026-03-04T01:00", True, ""),
        (
            {**NIGHT, "start": "03:30", "timeZone": "Europe/Berlin"},
            "2026-03-28T23:00",
            False,
            "2026-03-29T01:30:00Z",
        ),
    ],
)
def test_a_window_is_open_by_the_clocks_of_its_zone(
    window: dict[str, object], now: str, is_open: bool, opens: str
) -> None:
    given = windows(window)

    assert may_move(given, minute(now)) == is_open
    if not is_open:
        assert shown(next_opening(given, minute(now))) == opens


def test_without_windows_tasks_move_at_any_time() -> None:
    assert may_move((), 0)


def test_a_time_zone_that_nobody_knows_is_named() -> None:
    given = windows(NIGHT, {**NIGHT, "timeZone": "Mars/Base"})

    assert unknown_zone(given[:1]) == ""
    assert unknown_zone(given).startswith("spec.assignment.moveWindows[1].timeZone: 'Mars/Base'")


def at(cluster: Cluster, now: str) -> Cluster:
    cluster.minute = minute(now)
    return cluster


def begun(**spec: object) -> Cluster:
    """Two workers that share the tasks, outside the window; one of them has come back."""
    policy = {"standbyReplicas": 1, "moveWindows": [NIGHT]}
    cluster = at(Cluster(app=make_app(assignment=policy, **spec)), CLOSED)
    cluster.rounds()
    assert [len(cluster.held(name)) for name in ("wc-w-0", "wc-w-1")] == [2, 2]
    return cluster


def lost_and_back(cluster: Cluster) -> Cluster:
    cluster.end("wc-w-1")
    cluster.rounds()
    return cluster


def test_a_lost_workers_tasks_move_at_once_and_come_back_in_the_window() -> None:
    cluster = lost_and_back(begun())

    held = cluster.held("wc-w-0")
    assert "1_1" in held, "its standby has taken the task over"
    assert cluster.round() == ()
    decision = cluster.decide()
    assert "for balance wait" in decision.held_back
    assert "until 2026-03-05T02:00:00Z (spec.assignment.moveWindows): " in decision.held_back
    assert "1_1 from wc-w-0 to wc-w-1" in decision.held_back
    assert decision.status.reason.startswith("all 4 tasks run; ")
    assert decision.unsettled == "", "who waits for a roll-out does not wait for a night"

    at(cluster, OPEN).rounds()

    assert [len(cluster.held(name)) for name in ("wc-w-0", "wc-w-1")] == [2, 2]
    assert cluster.decide().held_back == ""


def test_a_worker_that_is_added_gets_its_share_at_any_time() -> None:
    cluster = begun()

    cluster.app = cluster.app.with_replicas(4)
    cluster.rounds(30)

    assert sorted(len(cluster.held(name)) for name in cluster.views) == [1, 1, 1, 1]
    assert [name for name in cluster.views if cluster.spec(name).joining] == []
    assert cluster.decide().held_back == ""


def test_a_worker_that_goes_lets_its_tasks_move_at_any_time() -> None:
    cluster = begun()

    cluster.app = cluster.app.with_replicas(1)
    cluster.rounds(20)

    assert sum(len(cluster.held(name)) for name in cluster.views) == 4
    assert len([name for name in cluster.views if cluster.held(name)]) == 1


def test_a_window_that_closes_leaves_what_has_not_moved() -> None:
    cluster = begun()
    cluster.slow.add("wc-w-1")
    at(lost_and_back(cluster), OPEN).rounds(3)
    assert "1_1" in cluster.held("wc-w-0"), "its copy has not caught up yet"

    cluster.slow.clear()
    at(cluster, CLOSED).rounds()

    assert "1_1" in cluster.held("wc-w-0")
    assert task("1_1") not in cluster.spec("wc-w-1").active


def test_a_worker_that_a_roll_out_replaces_gets_its_share_again() -> None:
    policy = {"standbyReplicas": 1, "moveWindows": [NIGHT]}
    cluster = at(Cluster(app=make_app(assignment=policy), revision="one"), CLOSED)
    cluster.rounds()

    cluster.revision = "two"
    cluster.rounds(60)

    assert {view.revision for view in cluster.views.values()} == {"two"}
    assert [len(cluster.held(name)) for name in ("wc-w-0", "wc-w-1")] == [2, 2]


def test_the_decision_is_the_same_for_the_same_minute() -> None:
    cluster = lost_and_back(begun())

    assert cluster.decide().held_back == cluster.decide().held_back != ""


def test_a_task_that_an_action_moves_does_not_wait_for_a_window() -> None:
    """MoveTask is exempt: somebody has asked for this move."""
    cluster = Acting(
        app=make_app(assignment={"standbyReplicas": 1, "moveWindows": [NIGHT]}),
    )
    at(cluster, CLOSED).rounds()
    [one] = [each for each in cluster.held("wc-w-0") if each.startswith("1_")]

    cluster.ask("MoveTask", moveTask={"task": one, "worker": "wc-w-1"})
    cluster.rounds(30)

    assert cluster.asked.phase is ActionPhase.COMPLETE, cluster.asked.message
    assert one in cluster.held("wc-w-1")
    assert [len(cluster.held(name)) for name in ("wc-w-0", "wc-w-1")] == [2, 2]
