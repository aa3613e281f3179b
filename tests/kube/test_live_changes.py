"""Real workers take over what a StreamApp says of logs, metrics and threads: no pod is replaced."""

from __future__ import annotations

import re
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml

from headwater_operator.kube.api import CLAIMS
from tests.kube.kubelet.storage import FIXED, ZONAL
from tests.kube.story import APP, Counting, Workers, explained, step, until_shared
from tests.support import pages

if TYPE_CHECKING:
    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

CHATTY = """
import logging, os
from headwater import Serdes

log = logging.getLogger("shop.orders")


def build(builder):
    prefix = os.environ["HEADWATER_TEST_TOPICS"]
    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .peek(lambda key, value: log.debug("have seen %s", key))
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
"""
KEYS = [f"key-{number}" for number in range(40)]
OF_DEBUG = "stream_task_process_latency_avg{"


def test_running_workers_take_over_logs_metrics_and_threads_and_count_each_update_once(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    workers = Workers(journey)
    with explained(journey, own_installation.process("first"), cluster):
        with step("two workers, of which one has a volume that cannot grow"):
            state = {"storageClassName": FIXED, "size": "10Gi"}
            journey.apply(counting.app(replicas=1, topology={"inline": CHATTY}, state=state))
            journey.until(lambda: journey.names(CLAIMS), "the first volume")
            other = {"storageClassName": ZONAL, "size": "10Gi"}
            journey.patch_all({"/spec/state": other, "/spec/replicas": 2})
            until_shared(journey, 2)
            counting.feed(KEYS)
        before = journey.uids(), journey.status()["revision"]["current"]
        with step("another log level, and back"):
            journey.patch("/spec/logging", {"level": "INFO,shop=DEBUG"})
            until_taken_over(journey, workers, "INFO,shop=DEBUG")
            counting.feed(f"loud-{key}" for key in KEYS)
            for name in journey.held():
                assert "have seen loud-" in cluster.log(journey.namespace, name), name
            journey.patch("/spec/logging", {})
            until_taken_over(journey, workers, "")
            counting.feed(f"quiet-{key}" for key in KEYS)
            for name in journey.held():
                assert "have seen quiet-" not in cluster.log(journey.namespace, name), name
        with counting.under_load():
            with step("another metrics level, and back, under load"):
                assert not any(OF_DEBUG in metrics(workers, name) for name in journey.held())
                journey.patch("/spec/config/metrics.recording.level", "DEBUG")
                journey.until(
                    lambda: all(OF_DEBUG in metrics(workers, name) for name in journey.held()),
                    "metrics of level DEBUG",
                )
                journey.patch("/spec/config/metrics.recording.level", "INFO")
                journey.until(
                    lambda: not any(OF_DEBUG in metrics(workers, name) for name in journey.held()),
                    "no metrics of level DEBUG",
                )
            with step("more threads"):
                journey.patch("/spec/threadsPerWorker", 2)
                journey.until(
                    lambda: all(
                        len(workers.tasks(name)["threads"]) == 2 for name in journey.held()
                    ),
                    "a second StreamThread in each worker",
                )
            with step("larger volumes"):
                grow(journey)
            with step("smaller write buffers, in every open store"):
                journey.patch("/spec/config/rocksdb.write_buffer_size", 1_048_576)
                journey.until(
                    lambda: buffers(journey, cluster) == {"1048576"}, "smaller write buffers"
                )
        counting.until_counted()
        with step("the operator is told to look on, with the commands of the page"):
            look_on(journey)
        assert (journey.uids(), journey.status()["revision"]["current"]) == before
        with step("tasks come back to a worker that was lost once a window is open"):
            wait_for_a_window(journey, cluster)
        counting.feed(KEYS)
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


def buffers(journey: Journey, cluster: Cluster) -> set[str]:
    """The sizes of write buffers that RocksDB has noted last, of every database."""
    found = set()
    for claim in journey.api.list(CLAIMS, journey.namespace):
        noted = list(cluster.storage.path(claim["spec"]["volumeName"]).rglob("OPTIONS-*"))
        for directory in {path.parent for path in noted}:
            newest = max(path for path in noted if path.parent == directory)
            try:
                text = newest.read_text()
            except FileNotFoundError:  # RocksDB has written a newer one
                return set()
            found |= set(re.findall(r"^  write_buffer_size=(\d+)$", text, re.MULTILINE))
    return found


def grow(journey: Journey) -> None:
    """A volume grows where it is; a claim that cannot is named, with its class and the way out."""
    fixed, grown = (f"{name}-state" for name in sorted(journey.held()))
    journey.patch("/spec/state/size", "20Gi")
    wanted = {fixed: ("10Gi", "10Gi"), grown: ("20Gi", "20Gi")}
    journey.until(lambda: sizes(journey) == wanted, "one larger volume")
    journey.until_degraded("VolumeTooSmall")
    message = journey.condition("Degraded")[2]
    assert message.startswith(f"{fixed} holds less than spec.state.size (20Gi)"), message
    assert f"Set allowVolumeExpansion in its storage class {FIXED}" in message
    journey.patch("/spec/state/size", "10Gi")
    journey.until(lambda: journey.condition("Degraded")[0] == "False", "the size taken back")
    assert sizes(journey) == wanted


def sizes(journey: Journey) -> dict[str, tuple[str, str]]:
    """What claims ask for, and what they have."""
    return {
        each["metadata"]["name"]: (
            each["spec"]["resources"]["requests"]["storage"],
            each["status"].get("capacity", {}).get("storage", ""),
        )
        for each in journey.api.list(CLAIMS, journey.namespace)
    }


def look_on(journey: Journey) -> None:
    """While the annotation is there, nothing is acted on; once it is gone, everything is."""
    pause, go_on = (
        block.strip().replace("word-count", APP).split()[1:]
        for block in pages.blocks("live-changes.md")
    )
    journey.kubectl(*pause)
    journey.until(lambda: journey.condition("Paused")[:2] == ("True", "Annotation"), "a pause")
    journey.patch("/spec/assignment", {"standbyReplicas": 1})
    acted_on = journey.status()["observedGeneration"]
    journey.kubectl(*go_on)
    journey.until(
        lambda: (
            journey.status()["observedGeneration"] > acted_on
            and journey.condition("StandbysReady")[:2] == ("True", "CaughtUp")
        ),
        "standbys",
    )


def wait_for_a_window(journey: Journey, cluster: Cluster) -> None:
    """The tasks of a lost worker go to their standbys at once, and back when it may be."""
    upgrade, *_, assignment = pages.blocks("live-changes.md", "yaml")
    journey.patch("/spec/upgrade", yaml.safe_load(upgrade)["spec"]["upgrade"])
    windows = yaml.safe_load(assignment)["spec"]["assignment"]["moveWindows"]
    nowhere = [{**windows[0], "timeZone": "Mars/Base"}]
    journey.patch("/spec/assignment/moveWindows", nowhere)
    journey.until(lambda: journey.condition("SpecValid")[0] == "False", "a refusal")
    assert "'Mars/Base' is not in the time-zone database" in journey.condition("SpecValid")[2]
    later = datetime.now(UTC) + timedelta(hours=12)
    closed = [{"start": f"{later:%H:%M}", "end": f"{later + timedelta(minutes=1):%H:%M}"}]
    journey.patch("/spec/assignment/moveWindows", closed)
    journey.until(journey.is_settled, "the windows to be taken over")
    cluster.kill(journey.namespace, min(journey.held()))
    journey.until(
        lambda: (
            journey.condition("AssignmentConverged")[1] == "WaitsForWindow" and journey.is_settled()
        ),
        "all tasks to run, and some to wait for a window",
    )
    assert " for balance wait" in journey.condition("AssignmentConverged")[2]
    journey.patch("/spec/assignment/moveWindows", [*closed, {"start": "00:00", "end": "00:00"}])
    until_shared(journey, 2)
    assert {len(tasks) for tasks in journey.held().values()} == {2}


def until_taken_over(journey: Journey, workers: Workers, level: str) -> None:
    """Wait until every worker has acknowledged that this log level holds."""

    def is_taken_over() -> bool:
        return all(
            worker.spec.live is not None
            and worker.spec.live.logging_level == level
            and worker.status.acknowledged_epoch >= worker.spec.epoch
            for worker in workers.all().values()
        )

    journey.until(is_taken_over, f"the log level {level!r}")


def metrics(workers: Workers, name: str) -> str:
    endpoint = workers.all()[name].status.endpoint
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=30) as answer:
        return str(answer.read().decode())
