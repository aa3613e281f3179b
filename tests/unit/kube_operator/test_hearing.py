"""A watch that has gone deaf is found, and one that hears is never taken for deaf."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.support.kube_life import whole_life
from tests.support.kube_rig import KubeRig, streamapp

from headwater_operator.handlers.hearing import Hearing
from headwater_operator.handlers.process import deafness
from headwater_operator.kube.api import PODS
from headwater_operator.kube.errors import ApiUnavailableError

SWEEP_MS = 30_000


@dataclass
class Ears:
    """One kind of object, a watch of it, sweeps, and a clock turned by hand."""

    now_ms: int = 0
    is_deaf: bool = False
    live: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hearing = Hearing(lambda: self.now_ms, SWEEP_MS)
        self.hearing.begin()
        self._version = 0

    def change(self, uid: str) -> None:
        self._version += 1
        self.live[uid] = str(self._version)
        if not self.is_deaf:
            self.hearing.hear("pods", uid, self.live[uid])

    def sweep(self, pause_ms: int = SWEEP_MS) -> int:
        """Let time pass and sweep; return for how long the watch is deaf."""
        self.now_ms += pause_ms
        self.hearing.compare({"pods": dict(self.live)}, self.now_ms)
        return self.hearing.deaf_ms()["pods"]


@pytest.fixture
def ears() -> Ears:
    ears = Ears()
    ears.change("a")
    ears.change("b")
    ears.sweep()
    return ears


def test_a_change_of_which_nothing_was_heard_until_two_sweeps_later_makes_it_deaf(
    ears: Ears,
) -> None:
    ears.is_deaf = True
    ears.change("a")

    assert [ears.sweep() for _ in range(4)] == [0, 0, 60_000, 90_000]


def test_however_the_pauses_between_sweeps_vary_it_is_the_second_one_after(ears: Ears) -> None:
    ears.is_deaf = True
    ears.change("a")

    assert ears.sweep(33_000) == 0
    assert ears.sweep(33_000) == 0
    assert ears.sweep(27_000) == 60_000


def test_an_object_that_was_never_heard_of_counts(ears: Ears) -> None:
    ears.is_deaf = True
    ears.change("c")

    assert [ears.sweep() for _ in range(3)] == [0, 0, 60_000]


def test_an_object_that_changes_all_the_time_is_heard_of_and_arouses_nothing(ears: Ears) -> None:
    for _ in range(20):
        # The sweep has seen a version that is told of a moment later, and so on.
        ears.live["a"] = f"told of later {ears.now_ms}"
        assert ears.sweep(pause_ms=15_000) == 0
        ears.hearing.hear("pods", "a", f"an older one {ears.now_ms}")
        assert ears.sweep(pause_ms=15_000) == 0
        ears.now_ms += 1
        ears.hearing.hear("pods", "a", ears.live["a"])


def test_one_deaf_object_among_others_that_are_heard_of_is_enough(ears: Ears) -> None:
    ears.live["a"] = "the watch of its namespace is dead"

    for _ in range(3):
        ears.change("b")
        deaf_ms = ears.sweep()

    assert deaf_ms == 60_000


def test_it_hears_again_as_soon_as_it_has_told(ears: Ears) -> None:
    ears.is_deaf = True
    ears.change("a")
    for _ in range(3):
        ears.sweep()

    ears.now_ms += 1
    ears.hearing.hear("pods", "a", ears.live["a"])

    assert ears.sweep() == 0


def test_an_object_that_is_gone_is_no_reason_any_more(ears: Ears) -> None:
    ears.is_deaf = True
    ears.change("a")
    for _ in range(3):
        ears.sweep()

    ears.live.clear()

    assert ears.sweep() == 0


def test_after_a_long_pause_the_watch_has_its_full_time_again(ears: Ears) -> None:
    ears.is_deaf = True
    ears.change("a")
    ears.sweep()

    # Nothing could be listed for ten minutes, or the process was frozen.
    assert [ears.sweep(pause_ms) for pause_ms in (600_000, SWEEP_MS, SWEEP_MS)] == [0, 0, 60_000]


def test_before_the_watches_begin_nothing_is_missed() -> None:
    hearing = Hearing(lambda: 0, SWEEP_MS)

    hearing.compare({"pods": {"a": "1"}}, 0)

    assert hearing.deaf_ms() == {}


@pytest.mark.parametrize("seed", range(20))
def test_a_watch_that_is_late_and_skips_versions_is_never_taken_for_deaf(seed: int) -> None:
    chance, ears = random.Random(seed), Ears()
    told: list[tuple[int, str, str]] = []
    next_sweep_ms = SWEEP_MS
    for step in range(2_000):
        ears.now_ms += chance.randrange(500)
        if chance.random() < 0.3:
            uid = f"pod-{chance.randrange(5)}"
            ears.live[uid] = str(step)
            told.append((ears.now_ms + chance.randrange(20_000), uid, str(step)))
        if chance.random() < 0.02 and ears.live:
            del ears.live[chance.choice(sorted(ears.live))]
        due = sorted(each for each in told if each[0] <= ears.now_ms)
        told = [each for each in told if each[0] > ears.now_ms]
        for _, uid, version in due:
            ears.hearing.hear("pods", uid, version)
        if ears.now_ms >= next_sweep_ms:
            assert ears.sweep(pause_ms=0) == 0
            next_sweep_ms = ears.now_ms + chance.randint(27_000, 33_000)


def test_what_the_probes_say() -> None:
    assert deafness({}) == deafness({"pods": 0}) == ""
    said = "watches are deaf: pods for 61 s, streamapps for 401 s"
    assert deafness({"streamapps": 401_000, "pods": 61_000, "streamworkers": 0}) == said
    assert deafness({"streamapps": 400_001, "pods": 61_000}, more_than_ms=400_000) == (
        "watches are deaf: streamapps for 400 s"
    )


def test_in_a_whole_life_no_watch_is_taken_for_deaf() -> None:
    rig = KubeRig()

    whole_life(rig)

    rig.turn(400)
    assert set(rig.operator.hearing.deaf_ms().values()) == {0}


def test_an_operator_that_hears_nothing_of_pods_finds_out_and_goes_on() -> None:
    rig = KubeRig()
    rig.operator.deaf_to.add(PODS.plural)
    rig.apply(streamapp())

    rig.until(lambda: rig.operator.hearing.deaf_ms().get("pods"), turns=1_000)

    assert {kind for kind, ms in rig.operator.hearing.deaf_ms().items() if ms} == {"pods"}
    assert rig.is_ready()


def test_while_nothing_can_be_listed_no_watch_is_taken_for_deaf() -> None:
    def refused(verb: str, plural: str, name: str) -> None:
        raise ApiUnavailableError(f"no answer to {verb} {plural} {name}")

    rig = KubeRig()
    rig.apply(streamapp())
    rig.until(rig.is_ready)
    rig.turn(200)
    rig.operator.deaf_to.add(PODS.plural)
    rig.node.end("wc-w-0")
    rig.api.on_call = lambda *call: refused(*call) if rig.is_operator_at_work else None
    rig.turn(2_000)

    assert not any(rig.operator.hearing.deaf_ms().values())
