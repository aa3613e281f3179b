"""Native -> Spark -> Native by editing the StreamApp under ``headwater up``, with exact counts."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chaos.kills import Trap
from tests.chaos.test_zombies import Zombie
from tests.support.engines import WITHOUT_SPARK, Switching
from tests.support.local_cluster import is_gone
from tests.support.waiting import wait_for

from headwater.model.lifecycle import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture
def switching(tmp_path: Path, bootstrap_servers: str, topic_prefix: str) -> Iterator[Switching]:
    with Switching(tmp_path, bootstrap_servers, topic_prefix) as running:
        yield running


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(WITHOUT_SPARK, id="without-spark", marks=pytest.mark.soak),
        pytest.param({}, id="on-spark", marks=pytest.mark.spark),
    ],
)
def test_an_application_goes_to_spark_and_back_and_counts_each_record_once(
    switching: Switching, program: dict[str, str]
) -> None:
    switching.up(Engine.NATIVE, **program)
    switching.wait_native()
    switching.edit(Engine.SPARK)
    switching.wait_spark()
    switching.wait_some_counted()

    driver, generation = switching.driver, switching.cluster.supervisor.generation
    os.kill(switching.cluster.supervisor.loop_pid, signal.SIGKILL)
    switching.wait_new_loop(generation)
    switching.wait_spark()
    assert switching.driver == driver, "the next control loop adopts the driver"

    os.kill(driver.pid, signal.SIGKILL)
    switching.wait_another_driver(driver)
    switching.wait_spark()
    switching.wait_some_counted()

    switching.edit(Engine.NATIVE)
    switching.wait_native()
    switching.finish()


@pytest.mark.parametrize(
    "point", ["loop.reported", pytest.param("loop.acted", marks=pytest.mark.soak)]
)
def test_a_control_loop_that_is_killed_between_two_steps_hands_over_all_the_same(
    switching: Switching, tmp_path: Path, point: str
) -> None:
    """At its next step after the change, and at its next one after the take-over.

    ``tests/unit/decide/test_engines.py`` kills it between any two steps.
    """
    trap = tmp_path / "trap"
    trap.touch()
    armed = {"HEADWATER_FAILPOINTS": f"{point}=kill!{trap}"}
    switching.up(Engine.NATIVE, **WITHOUT_SPARK, **armed)
    switching.wait_native()
    for engine in (Engine.SPARK, Engine.NATIVE):
        taken = switching.cluster.status.engine.generation
        switching.edit(engine)
        switching.kill_loop_by(trap)
        switching.wait_taken(after=taken)
        switching.kill_loop_by(trap)
        if engine is Engine.SPARK:
            switching.wait_spark()
            switching.wait_some_counted()
        else:
            switching.wait_native()
    switching.finish()


def test_a_worker_frozen_in_its_transaction_over_the_switch_makes_nothing_visible(
    switching: Switching, tmp_path: Path
) -> None:
    trap = Trap("commit.flushed", tmp_path / "trap")
    trap.close()
    switching.up(Engine.NATIVE, **WITHOUT_SPARK, **trap.environment)
    switching.wait_native()
    trap.set()
    zombie = Zombie(switching.cluster, trap.caught())

    switching.edit(Engine.SPARK)
    switching.wait_taken(after=0)
    zombie.wake()

    # On a slow machine it is killed before it has noticed.
    wait_for(
        lambda: "FencedError" in zombie.log or is_gone(zombie.main),
        what="the worker to be fenced",
        timeout_s=240,
    )
    switching.wait_spark()
    switching.wait_some_counted()
    switching.edit(Engine.NATIVE)
    switching.wait_native()
    switching.finish()
