"""What the operator's metrics say of autoscaling, which a panel and an alert are about."""

from __future__ import annotations

from tests.support.kube_rig import NAMESPACE, KubeRig

APP = {"streamapp_namespace": NAMESPACE, "streamapp": "wc"}


def told(rig: KubeRig, name: str, **labels: str) -> float | None:
    """The number that is scraped; None if there is none."""
    found = f"headwater_operator_streamapp_{name}"
    return rig.operator.metrics.registry.get_sample_value(found, {**APP, **labels})


def test_a_lag_that_cannot_be_read_is_told_until_autoscaling_is_taken_out(ready: KubeRig) -> None:
    assert told(ready, "workers_desired") is None

    ready.set("/spec/autoscaling", value={"mode": "Auto", "maxReplicas": 4, "targetLag": 9})
    ready.until(lambda: told(ready, "autoscaling", mode="Auto", reason="LagUnknown") == 1)

    assert told(ready, "workers_desired") == told(ready, "workers_ready") == 2
    ready.set("/spec/autoscaling", value=None)
    ready.until(lambda: told(ready, "workers_desired") is None)
    assert told(ready, "autoscaling", mode="Auto", reason="LagUnknown") is None
