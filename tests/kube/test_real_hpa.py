"""Real workers whose number a HorizontalPodAutoscaler sets by lag, as KEDA has it done.

The autoscaler is that of kube-controller-manager. Its metric is served as KEDA's metrics server
serves one; KEDA itself does not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kubernetes.client import CustomObjectsApi

from headwater_operator.kube.api import STREAM_APPS
from tests.kube.definitions import APPS, GROUP, VERSION
from tests.kube.external_metrics import ExternalMetrics
from tests.kube.story import APP, Counting, explained, step, until_shared
from tests.support.counting import PAUSE_VARIABLE

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.kube.control_plane import ControlPlane
    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
]

PAUSE_MS: Final = 4
"""Two workers can process 500 records per second at most."""
PER_WORKER: Final = 500
"""So much of the metric asks for a worker."""
AUTO: Final = {
    "mode": "Auto",
    "minReplicas": 2,
    "maxReplicas": 3,
    "targetCatchUp": "30s",
    "behavior": {
        "scaleUp": {"stabilizationWindow": "2s"},
        "scaleDown": {"stabilizationWindow": "2s"},
    },
}
FOREVER_S: Final = 3_600


def autoscaler(metric: str, *, down_after_s: int = 0) -> dict[str, Any]:
    """A HorizontalPodAutoscaler by an external metric."""
    wanted = {"type": "AverageValue", "averageValue": str(PER_WORKER)}
    external = {"metric": {"name": metric}, "target": wanted}
    target = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "StreamApp", "name": APP}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": APP},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": 2,
            "maxReplicas": 3,
            "metrics": [{"type": "External", "external": external}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": down_after_s}},
        },
    }


class GroupLag:
    """How far the consumer group of an application id is behind, as KEDA asks Kafka for it."""

    def __init__(self, counting: Counting) -> None:
        self._admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})
        self._group = counting.prefix
        topic = f"{counting.prefix}-in"
        self._parts = [TopicPartition(topic, number) for number in range(counting.partitions)]

    def now(self) -> int:
        """Records that are not committed yet."""
        asked = ConsumerGroupTopicPartitions(self._group, self._parts)
        [listed] = self._admin.list_consumer_group_offsets([asked]).values()
        committed = {each.partition: each.offset for each in listed.result(30).topic_partitions}
        ends = self._admin.list_offsets({each: OffsetSpec.latest() for each in self._parts})
        return sum(
            end.result(30).offset - max(committed[part.partition], 0) for part, end in ends.items()
        )


def generation(journey: Journey) -> int:
    """How often the specification was written."""
    found = journey.api.get(STREAM_APPS, journey.namespace, APP) or {}
    return int(found["metadata"]["generation"])


def replicas(journey: Journey) -> int:
    found = journey.api.get(STREAM_APPS, journey.namespace, APP) or {}
    return int(found["spec"]["replicas"])


def test_an_autoscaler_of_kubernetes_follows_the_lag_of_the_group_and_each_update_is_counted_once(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    control_plane: ControlPlane,
    cluster: Cluster,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, records_per_s=600)
    lag = GroupLag(counting)
    metrics = {"lag": lag.now}
    with (
        explained(journey, own_installation.process("first"), cluster),
        ExternalMetrics(journey.api, control_plane.authority, journey.namespace, metrics),
    ):
        with step("two workers, and an autoscaler of Kubernetes"):
            journey.apply(counting.app(replicas=2, env={PAUSE_VARIABLE: str(PAUSE_MS)}))
            until_shared(journey, 2)
            counting.feed(f"first-{number}" for number in range(200))
            begun, before = generation(journey), journey.uids()
            # Less lag while the third worker catches up must not take it away again.
            journey.apply(autoscaler("lag", down_after_s=FOREVER_S))
        with step("more comes in than two can process: from two to three"), counting.under_load():
            journey.until(lambda: replicas(journey) == 3, "the autoscaler to ask for a third")
            until_shared(journey, 3)
        assert before.items() <= journey.uids().items()
        assert "autoscaling" not in journey.status()
        with step("nothing comes in: from three to two"):
            counting.until_counted()
            assert lag.now() == 0
            journey.apply(autoscaler("lag"))
            journey.until(lambda: replicas(journey) == 2, "the autoscaler to ask for two")
            until_shared(journey, 2)
        assert generation(journey) == begun + 2, "once up, once down"
        counting.feed(f"last-{number}" for number in range(200))
        journey.kubectl("delete", f"hpa/{APP}")
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


class Both:
    """An application in mode Auto, and somebody else who writes its scale."""

    def __init__(self, journey: Journey) -> None:
        self._journey = journey

    def decided(self) -> dict[str, Any]:
        """What the status says of the number of workers."""
        found: dict[str, Any] = self._journey.status().get("autoscaling") or {}
        return found

    def until_overruled(self, by: str, *, counts: int, advised: int) -> None:
        """Wait until Auto would have another number, and says whose number counts."""

        def is_overruled() -> bool:
            said = self.decided()
            numbers = said.get("replicas"), said.get("desired")
            return numbers == (counts, advised) and f"because {by} writes it" in said["reason"]

        what = f"{counts} workers to count, because {by} has written it, and not {advised}"
        self._journey.until(is_overruled, what)

    def until_decided(self, count: int) -> None:
        """Wait until the number that Auto has decided counts, and nobody else is named."""

        def is_decided() -> bool:
            said = self.decided()
            return said.get("replicas") == count and "writes it" not in said["reason"]

        self._journey.until(is_decided, f"autoscaling to decide for {count}")


def test_in_mode_auto_the_number_of_another_autoscaler_counts_and_nothing_goes_back_and_forth(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    control_plane: ControlPlane,
    kube_api: ApiClient,
    cluster: Cluster,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, records_per_s=600)
    wanted, both = {"workers": 3}, Both(journey)
    metrics = {"wanted": lambda: PER_WORKER * wanted["workers"]}
    with (
        explained(journey, own_installation.process("first"), cluster),
        ExternalMetrics(journey.api, control_plane.authority, journey.namespace, metrics),
    ):
        with step("two workers in mode Auto"):
            pause = {PAUSE_VARIABLE: str(PAUSE_MS)}
            journey.apply(counting.app(replicas=2, autoscaling=AUTO, env=pause))
            until_shared(journey, 2)
            counting.feed(f"first-{number}" for number in range(200))
            begun, before = generation(journey), journey.uids()
        with step("an autoscaler of Kubernetes wants three, and Auto two"):
            journey.apply(autoscaler("wanted"))
            journey.until(lambda: replicas(journey) == 3, "the autoscaler to ask for a third")
            until_shared(journey, 3)
            both.until_overruled("kube-controller-manager", counts=3, advised=2)
            assert before.items() <= journey.uids().items()
        with counting.under_load():
            with step("it wants two, and Auto three"):
                wanted["workers"] = 2
                until_shared(journey, 2)
                before = journey.uids()
                both.until_overruled("kube-controller-manager", counts=2, advised=3)
                assert journey.uids() == before
            assert generation(journey) == begun + 2, "it has written twice, and Auto never"
            with step("without it, and with a number of a user's, Auto decides again"):
                journey.kubectl("delete", f"hpa/{APP}")
                journey.scale(3)
                both.until_decided(3)
                until_shared(journey, 3)
            with step("KEDA writes the scale itself"):
                scale_as(kube_api, journey, "keda", 2)
                until_shared(journey, 2)
                both.until_overruled("keda", counts=2, advised=3)
            counting.until_more()
        counting.until_counted()
        assert generation(journey) == begun + 4
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


def scale_as(client: ApiClient, journey: Journey, manager: str, count: int) -> None:
    """Write the scale subresource under somebody's name."""
    CustomObjectsApi(client).patch_namespaced_custom_object_scale(
        GROUP,
        VERSION,
        journey.namespace,
        APPS,
        APP,
        {"spec": {"replicas": count}},
        field_manager=manager,
    )
