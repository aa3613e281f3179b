"""The chart installed, and real workers whose number follows their load, with exact counts.

They answer nobody without a token: the operator reads the load with that of its own account.
"""

from __future__ import annotations

import itertools
import time
import zipfile
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from headwater.assignor.refine import Why
from headwater.service.httpauth.judging import Reason
from headwater_operator.dashboards import WORKER
from headwater_operator.kube.api import PODS, STREAM_APPS
from tests.kube.scraping import scraped_workers
from tests.kube.shell import Shell
from tests.kube.story import APP, Counting, Workers, explained, step, until_shared
from tests.support.counting import PAUSE_VARIABLE
from tests.support.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from tests.kube.deployed import Operators
    from tests.kube.journey import Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

AUTOSCALING = {
    "mode": "Auto",
    "minReplicas": 2,
    "maxReplicas": 3,
    "targetCatchUp": "30s",
    "behavior": {
        "scaleUp": {"stabilizationWindow": "4s"},
        "scaleDown": {"stabilizationWindow": "6s"},
    },
}
TOKEN = "s3cret"
PAUSE_MS = 4
"""Two workers can process 500 records per second at most."""


def test_the_number_of_workers_follows_the_load_and_each_update_is_counted_once(
    bootstrap_servers: str,
    unique_name: str,
    operators: Operators,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    journey, cluster = operators.journey, operators.cluster
    counting = Counting(bootstrap_servers, unique_name, records_per_s=600)
    stamp_when_written(bootstrap_servers, f"{unique_name}-out")
    with (
        operators.installed(replicas=1, lease_s=60),
        explained(journey, operators, cluster),
    ):
        with step("two workers"):
            secret = f"--from-literal=token={TOKEN}"
            journey.kubectl("create", "secret", "generic", "callers", secret)
            app = counting.app(
                replicas=2,
                autoscaling=AUTOSCALING,
                env={PAUSE_VARIABLE: str(PAUSE_MS)},
                http={"authentication": {"secretRef": {"name": "callers"}, "protects": "All"}},
            )
            journey.apply(app)
            until_shared(journey, 2)
            assert_guarded(journey, tmp_path)
            before = set(journey.held())
        with step("more comes in than two can process: from two to three"), counting.under_load():
            journey.until(lambda: decided(journey).get("lag"), "the status to tell the lag")
            journey.until(lambda: decided(journey)["replicas"] == 3, "a third worker to be wanted")
            until_shared(journey, 3)
        assert_warmed_up(Workers(journey), set(journey.held()) - before)
        with step("nothing comes in: all is counted, and two are enough"):
            counting.until_counted()
            journey.until(lambda: decided(journey)["replicas"] == 2, "two workers to be wanted")
            until_shared(journey, 2)
        with step("the two go on"):
            counting.feed([f"last-{number}" for number in range(200)])
        with step("kubectl headwater shows what is printed"):
            look(journey, cluster, tmp_path / "report.zip")
        assert journey.api.get(STREAM_APPS, journey.namespace, APP)["spec"]["replicas"] == 2
        news = journey.kubectl("get", "events", "--field-selector=reason=Autoscaled")
        assert "from 2 to 3 workers" in news
        assert "from 3 to 2 workers" in news
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)
    with capsys.disabled():
        print(f"\n{longest_pause(bootstrap_servers, f'{unique_name}-out')}")


def assert_guarded(journey: Journey, directory: Path) -> None:
    """Check that who shows no token learns nothing, and that dashboards show that he asked."""
    workers, began = Workers(journey), time.time()
    chosen = {"namespace": [journey.namespace]}
    title = "Callers by HTTP that were refused"

    def ask() -> None:
        for name in workers.all():
            with pytest.raises(HTTPError, match="401"):
                workers.tasks(name)

    with scraped_workers(journey, directory, TOKEN) as server:
        shown = Shown(server, began, chosen)

        def is_shown() -> bool:
            ask()
            return shown.most(WORKER, title, time.time()) > 0

        journey.until(is_shown, "refused callers to be shown")
        [reason] = {
            series.labels["reason"]
            for query in WORKER.panel(title).queries
            for series in shown.answers(WORKER, query, time.time())
            if max(value for _, value in series.points) > 0
        }
        assert reason == Reason.MISSING


def look(journey: Journey, cluster: Cluster, file: Path) -> None:
    """Read logs by ``kubectl headwater``; nothing comes in, and all is counted."""
    shell = Shell(journey, journey.kubectl.kubeconfig)
    logged = shell.run(f"logs {APP} --tail 3").splitlines()
    names = [line.partition(" | ")[0] for line in logged]
    assert sorted(names) == sorted(3 * journey.names(PODS))
    for line in logged:
        name, _, printed = line.partition(" | ")
        assert printed in cluster.log(journey.namespace, name).splitlines()
    shell.run(f"report {APP} --file {file}")
    with zipfile.ZipFile(file) as archive:
        for name in journey.names(PODS):
            said = archive.read(f"logs/{name}.log").decode()
            assert f"{name} started {name}-StreamThread-0 as process" in said


def decided(journey: Journey) -> Mapping[str, Any]:
    """What the status says of the number of workers."""
    app = journey.api.get(STREAM_APPS, journey.namespace, APP)
    assert app is not None
    found: Mapping[str, Any] = app["status"].get("autoscaling") or {"replicas": 0}
    return found


def assert_warmed_up(workers: Workers, names: set[str]) -> None:
    """Check that workers that have come had restored their tasks before they got them."""
    assert names
    for name in names:
        spec = workers.all()[name].spec
        why = {task: placement.reason for placement in spec.why for task in placement.tasks}
        assert spec.active
        assert {why[task] for task in spec.active} <= {str(Why.CAUGHT_UP), str(Why.NEAREST)}


def stamp_when_written(bootstrap_servers: str, topic: str) -> None:
    """Have the broker stamp records with the time at which it has written them."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    entry = ConfigEntry(
        "message.timestamp.type",
        "LogAppendTime",
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def longest_pause(bootstrap_servers: str, topic: str) -> str:
    """Tell how long there was no output while records waited: what the changes have cost."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-pauses",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    found: dict[int, list[int]] = {number: [] for number in partitions}
    left = {}
    for number in partitions:
        _, left[number] = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    while any(left.values()):
        messages = consumer.consume(10_000, 2)
        if not messages:
            break  # what is left are marks of transactions
        for message in messages:
            found[message.partition()].append(message.timestamp()[1])
    consumer.close()
    # Before the last records are fed there was nothing to put out.
    each = [
        max((late - soon for soon, late in itertools.pairwise(times)), default=0)
        for times in (sorted(times)[:-60] for times in found.values())
    ]
    every = sorted(time for times in found.values() for time in times)[:-200]
    gaps = [late - soon for soon, late in itertools.pairwise(every)]
    return (
        f"from 2 to 3 workers and back under load: no output at all for {max(gaps)} ms at most, "
        f"of one partition for {max(each)} ms at most"
    )
