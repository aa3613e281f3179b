"""Tasks of a StreamThread share rounds of ten milliseconds by the time that they take."""

from __future__ import annotations

import pytest

from headwater.native.pace import CREDIT_S, LEAD_S, ROUND_S, Pace, Round


def after(rounds: int, record_us: float, *, backlog: int = 10**9) -> int:
    """The number of records of a round after some rounds, if each record takes so long."""
    pace = Pace()
    for _ in range(rounds):
        taken = min(pace.records, backlog)
        pace.adapt(taken * record_us / 1e6, ROUND_S, is_full=taken == pace.records)
    return pace.records


def rates(costs_us: list[float], seconds: float = 20.0, *, batch: int = 10**9) -> list[float]:
    """Records a second of each task, if a record costs so much.

    The first task always has records. The others have a batch each, one after the other, whenever
    they have run out: what a poll gives.
    """
    paces = [Pace() for _ in costs_us]
    processed = [0] * len(costs_us)
    waiting = [0.0] * len(costs_us)
    now, last, fed = 0.0, Round(), 0
    for _ in range(100_000):
        if now > seconds:
            break
        if not any(waiting[1:]):
            fed = fed % (len(costs_us) - 1) + 1
            waiting[fed] = batch
        waiting[0] = 10**9
        this = last.next(paces)
        for at in sorted(range(len(paces)), key=lambda at: paces[at].turn_s):
            pace = paces[at]
            if this.leaves_out(pace):
                break
            wanted = pace.records
            taken = int(min(wanted, waiting[at]))
            waiting[at] -= taken
            processed[at] += taken
            took = taken * costs_us[at] / 1e6
            now += took
            this.add(pace, took, taken, wanted)
        last = this
    return [count / now for count in processed]


@pytest.mark.parametrize("record_us", [2, 5, 50, 300, 4_000])
def test_a_round_settles_within_its_time_and_not_far_below(record_us: float) -> None:
    fastest, slowest = sorted(after(30 + n, record_us) * record_us / 1e6 for n in range(2))

    assert slowest <= ROUND_S * 1.1
    assert fastest >= ROUND_S / 4


def test_a_record_that_takes_longer_than_a_round_is_processed_alone() -> None:
    assert after(30, record_us=50_000) == 1


def test_a_round_grows_only_while_there_is_more_to_take() -> None:
    assert after(30, record_us=1, backlog=100) == 128
    assert after(30, record_us=1) > 10 * 128


def test_a_slow_round_cuts_the_next_one_to_its_share_and_fast_ones_bring_it_back() -> None:
    pace = Pace()
    for _ in range(8):
        pace.adapt(0.001, ROUND_S, is_full=True)
    before = pace.records

    pace.adapt(8 * ROUND_S, ROUND_S, is_full=True)
    slower = pace.records
    for _ in range(3):
        pace.adapt(0.001, ROUND_S, is_full=True)

    assert (slower, pace.records) == (before // 8, before)


@pytest.mark.parametrize("batch", [100, 2_000])
@pytest.mark.parametrize("slow_us", [100, 2_000, 30_000, 900_000])
def test_a_slow_task_leaves_the_others_their_share(slow_us: float, batch: int) -> None:
    """Seven fast tasks keep about seven eighths of their rate, also when they have gaps."""
    slow, *fast = rates([slow_us, *[5.0] * 7], batch=batch)

    assert sum(fast) >= 0.8 * 200_000
    assert max(fast) <= 1.2 * min(fast)
    assert slow * slow_us / 1e6 >= 0.06, "the slow task has at least half of its share"


def test_a_task_that_others_do_not_need_to_wait_for_is_never_left_out() -> None:
    slow, idle = Pace(), Pace()
    last = Round()
    for _ in range(100):
        last = last.next([slow, idle])
        last.add(idle, 0.0, 0, 1)
        assert not last.leaves_out(slow)
        last.add(slow, 5.0, 1, 1)


def test_a_task_waits_until_the_others_had_as_much_time_but_not_for_ever() -> None:
    slow, fast = Pace(), Pace()
    last = Round()
    last.add(fast, 0.004, 1, 1)
    last.add(slow, 60.0, 1, 1)
    waited_s = 0.0
    while waited_s < 10:
        last = last.next([slow, fast])
        last.add(fast, 0.004, 1, 1)
        if not last.leaves_out(slow):
            break
        waited_s += 0.004

    assert 0.9 * LEAD_S < waited_s <= LEAD_S


def test_a_task_that_had_nothing_to_do_does_not_hold_up_the_others_for_long() -> None:
    busy, idle = Pace(), Pace()
    last = Round()
    for _ in range(1_000):
        last = last.next([busy, idle])
        last.add(idle, 0.0, 0, 1)
        last.add(busy, 0.010, 1, 1)
    caught_up_s = 0.0
    while caught_up_s < 10:
        last = last.next([busy, idle])
        last.add(idle, 0.004, 1, 1)
        if not last.leaves_out(busy):
            break
        caught_up_s += 0.004

    assert caught_up_s <= CREDIT_S + ROUND_S
