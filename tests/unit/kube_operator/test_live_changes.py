"""Every field of a StreamApp says what its change asks for, and what is live is live.

The table below has an entry for each live field: another value of it, and the test on real parts,
or of the decision, that sees it take effect without another pod.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig

from headwater.errors import SpecError
from headwater.model.changes import rolled_part
from headwater.model.fields import Change
from headwater.model.livesettings import LiveSettings, live_options, live_settings, with_live
from headwater.model.streamapp import StreamAppSpec, parse
from headwater.rocksdb_settings import LIVE_MINIMA, PREFIX, TRIGGERS
from headwater_operator.kube.api import PODS, STREAM_APPS, STREAM_WORKERS
from headwater_operator.observe.snapshot import read_worker
from headwater_operator.spec import field_changes, live_changes_page
from headwater_operator.spec.changing import BEGIN, END

ROOT = Path(__file__).parents[3]
KUBE, DECIDE = "tests/kube/test_", "tests/unit/decide/test_"
SCALING = f"{KUBE}real_scaling.py::test_workers_of_an_installed_chart_are_scaled"
LIVE = f"{KUBE}live_changes.py::test_running_workers_take_over"
ROUNDS = "tests/unit/kube_operator/test_rounds.py::"
ROCKSDB = "tests/unit/state/test_rocksdb_options.py::test_an_option_is_changed_in_an_open_store"
STANDBYS = f"{DECIDE}standbys.py::"
SCALED = f"{DECIDE}autoscaling.py::test_"
SPARK = f"{DECIDE}engines.py::test_what_a_driver_is_started_from_has_changed"

SEEN: dict[str, tuple[dict[str, object], str]] = {
    "replicas": ({"replicas": 3}, SCALING),
    "threadsPerWorker": ({"threadsPerWorker": 2}, LIVE),
    "suspend": ({"suspend": True}, f"{ROUNDS}test_suspending_stops"),
    "paused": ({"paused": True}, f"{ROUNDS}test_another_number_of_threads_and_a_pause"),
    "assignment.standbyReplicas": ({"assignment": {"standbyReplicas": 1}}, SCALING),
    "assignment.acceptableRecoveryLag": (
        {"assignment": {"acceptableRecoveryLag": 0}},
        f"{STANDBYS}test_another_acceptable_lag",
    ),
    "assignment.maxWarmupReplicas": (
        {"assignment": {"maxWarmupReplicas": 5}},
        "tests/property/test_refiner_laws.py::test_from_any_state_the_target",
    ),
    "assignment.warmupTimeout": (
        {"assignment": {"warmupTimeout": "1s"}},
        f"{STANDBYS}test_a_warm_up_without_progress",
    ),
    "assignment.moveDelay": (
        {"assignment": {"moveDelay": "1s"}},
        f"{DECIDE}life.py::test_the_tasks_of_a_dead_worker_do_not_wait_for_ever",
    ),
    "assignment.moveWindows": (
        {"assignment": {"moveWindows": [{"start": "02:00", "end": "03:00"}]}},
        f"{DECIDE}moving.py::test_a_lost_workers_tasks_move_at_once",
    ),
    "assignment.topologyKeys": (
        {"assignment": {"topologyKeys": ["rack"]}},
        f"{STANDBYS}test_standbys_are_spread_over_zones",
    ),
    **{
        f"autoscaling.{path}": ({"autoscaling": {"maxReplicas": 2, **given}}, f"{SCALED}{test}")
        for path, given, test in (
            ("mode", {"mode": "Auto"}, "advice_is_given"),
            ("minReplicas", {"minReplicas": 2}, "nothing_comes_in"),
            ("maxReplicas", {"maxReplicas": 3}, "what_waits_brings"),
            ("targetCatchUp", {"targetCatchUp": "10m"}, "what_waits_brings"),
            ("targetLag", {"targetLag": 5}, "what_waits_brings"),
            (
                "behavior.scaleUp.stabilizationWindow",
                {"behavior": {"scaleUp": {"stabilizationWindow": "5m"}}},
                "what_waits_brings",
            ),
            (
                "behavior.scaleDown.stabilizationWindow",
                {"behavior": {"scaleDown": {"stabilizationWindow": "5m"}}},
                "what_can_be_processed",
            ),
            ("schedule", {"schedule": []}, "a_schedule_has_bounds"),
        )
    },
    "scaleDown.policy": (
        {"scaleDown": {"policy": "Newest"}},
        f"{DECIDE}state.py::test_of_balanced_workers",
    ),
    "scaleDown.workersToRemove": ({"scaleDown": {"workersToRemove": ["wc-w-0"]}}, SCALING),
    "scaleDown.drainTimeout": (
        {"scaleDown": {"drainTimeout": "1s"}},
        f"{STANDBYS}test_a_worker_that_goes_waits_no_longer",
    ),
    "kafka.topics": (
        {"kafka": {"topics": [{"name": "in"}]}},
        "tests/unit/test_listed_topics.py::test_a_topic_that_is_listed_while_tasks_run",
    ),
    "config[metrics.recording.level]": ({"config": {"metrics.recording.level": "DEBUG"}}, LIVE),
    **{
        f"config[{PREFIX}{name}]": (
            {"config": {f"{PREFIX}{name}": 4 * least + TRIGGERS.get(name, 0)}},
            ROCKSDB,
        )
        for name, least in LIVE_MINIMA.items()
    },
    "logging.level": ({"logging": {"level": "DEBUG"}}, LIVE),
    "spark.master": ({"spark": {"master": "local[1]"}}, SPARK),
    "spark.triggerInterval": ({"spark": {"triggerInterval": "5s"}}, SPARK),
    "spark.maxOffsetsPerTrigger": ({"spark": {"maxOffsetsPerTrigger": 7}}, SPARK),
    "spark.config": ({"spark": {"config": {"spark.ui.enabled": "false"}}}, SPARK),
    "state.size": ({"state": {"size": "20Gi"}}, f"{ROUNDS}test_volumes_grow_with_the_size"),
    "state.retention.whenScaled": ({"state": {"retention": {"whenScaled": "Delete"}}}, SCALING),
    "state.retention.whenDeleted": (
        {"state": {"retention": {"whenDeleted": "Delete"}}},
        f"{ROUNDS}test_deleting_a_streamapp_deletes_its_volumes",
    ),
    **{
        f"state.volumeClaim.{part}": (
            {"state": {"volumeClaim": {part: {"a": "b"}}}},
            "tests/unit/kube_operator/test_sidecars.py::test_labels_of_claims_are_given",
        )
        for part in ("labels", "annotations")
    },
    "upgrade.onFailure": (
        {"upgrade": {"onFailure": "RollBack"}},
        "tests/unit/kube_operator/test_roll_back.py::test_a_revision_that_cannot_start",
    ),
    "upgrade.canary": (
        {"upgrade": {"canary": "1m"}},
        f"{DECIDE}rolling.py::test_the_first_of_a_new_revision",
    ),
    "upgrade.readyTimeout": (
        {"upgrade": {"readyTimeout": "1s"}},
        f"{DECIDE}rolling.py::test_a_replaced_worker_that_does_not_become_ready",
    ),
}
"""By path below ``spec``: another value, and the test that sees such a change take effect."""
TAKE_PODS_AWAY = {"suspend", "scaleDown.workersToRemove"}
"""What asks for fewer pods, or for others, by its meaning."""


def spec_of(**more: object) -> StreamAppSpec:
    return parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "counter"},
            "spec": {"topology": {"module": "shop:build"}, **more},
        }
    ).spec


def live_paths() -> list[str]:
    return [
        each.path.removeprefix("spec.") for each in field_changes() if each.change is Change.LIVE
    ]


def test_every_field_has_a_class_and_every_live_one_its_proof() -> None:
    assert [each.path for each in field_changes() if each.change is None] == []
    assert sorted(SEEN) == sorted(live_paths())
    for path, (_, proof) in SEEN.items():
        file, _, test = proof.partition("::")
        assert f"def {test}" in (ROOT / file).read_text(), f"{path}: there is no {proof}"


def test_the_page_lists_every_field_as_it_is() -> None:
    page = (ROOT / "docs" / "live-changes.md").read_text()

    assert live_changes_page(page) == page
    rows = page.partition(BEGIN)[2].partition(END)[0]
    assert [f"`{each.path}`" in rows for each in field_changes()].count(False) == 0


@pytest.mark.parametrize("path", sorted(SEEN))
def test_a_live_field_replaces_no_pod(path: str, ready: KubeRig) -> None:
    before = {pod: ready.uid(PODS, pod) for pod in ready.names(PODS)}
    given, _ = SEEN[path]
    for name, value in given.items():
        ready.set(f"/spec/{name}", value)

    ready.turn(30)

    if path in TAKE_PODS_AWAY:
        assert sorted(ready.names(PODS)) != sorted(before)
    else:
        assert {pod: ready.uid(PODS, pod) for pod in before} == before
    assert ready.status()["observedGeneration"] == generation(ready)


def generation(rig: KubeRig) -> int:
    found = rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    return int(found["metadata"]["generation"])


def test_live_settings_reach_every_worker_and_can_be_taken_back(ready: KubeRig) -> None:
    assert set(told(ready)) == {None}, "nothing was ever said"

    ready.set("/spec/logging", {"level": "DEBUG"})
    ready.set("/spec/config", {"metrics.recording.level": "trace"})
    wanted = LiveSettings(logging_level="DEBUG", metrics_level="TRACE")
    ready.until(lambda: set(told(ready)) == {wanted})

    ready.set("/spec/logging", {})
    ready.set("/spec/config", {})
    ready.until(lambda: set(told(ready)) == {LiveSettings()})


def told(rig: KubeRig) -> list[LiveSettings | None]:
    return [read_worker(each).spec.live for each in rig.api.list(STREAM_WORKERS, NAMESPACE)]


def test_on_spark_another_log_level_is_another_driver() -> None:
    assert rolled_part(spec_of()) == rolled_part(spec_of(logging={"level": "DEBUG"}))

    spark = [
        rolled_part(spec_of(engine="Spark", **more))
        for more in ({}, {"logging": {"level": "DEBUG"}})
    ]
    assert spark[0] != spark[1]


def test_other_options_of_config_are_rolled_out_beside_a_live_one() -> None:
    plain = rolled_part(spec_of(config={"poll.ms": 5}))

    assert rolled_part(spec_of(config={"poll.ms": 5, "metrics.recording.level": "off"})) == plain
    assert rolled_part(spec_of(config={"poll.ms": 6, "metrics.recording.level": "off"})) != plain
    assert rolled_part(spec_of(config={"metrics.recording.level": "off"})) == rolled_part(spec_of())


def test_a_metrics_level_that_is_none_is_refused_before_a_worker_hears_of_it() -> None:
    with pytest.raises(SpecError, match="expected one of OFF, INFO, DEBUG and TRACE"):
        spec_of(config={"metrics.recording.level": "LOUD"})


def test_options_of_rocksdb_that_are_no_numbers_are_refused_and_others_are_rolled_out() -> None:
    for value in ("64k", 5, "-70000", "1.5e6"):
        with pytest.raises(SpecError, match="expected a whole number, at least 65536"):
            spec_of(config={"rocksdb.write_buffer_size": value})
    plain = rolled_part(spec_of())

    assert rolled_part(spec_of(config={"rocksdb.write_buffer_size": "70000"})) == plain
    assert rolled_part(spec_of(config={"rocksdb.block_size": 8192})) != plain


def test_live_settings_take_the_place_of_those_in_a_configuration() -> None:
    started = {"application.id": "a", "logging.level": "INFO", "metrics.recording.level": "debug"}
    spec = spec_of(logging={"level": "a=DEBUG"})

    assert live_options(started) == LiveSettings(logging_level="INFO", metrics_level="DEBUG")
    assert with_live(started, live_settings(spec)) == {
        "application.id": "a",
        "logging.level": "a=DEBUG",
    }
