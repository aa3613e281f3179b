"""What the operator makes for Spark, kept word for word. ``python -m tests.golden.test_driver``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headwater.model.streamapp import parse
from headwater_operator.manifests.access import driver_role, spark_budget
from headwater_operator.manifests.driver import driver_pod, driver_service, executor_template
from headwater_operator.manifests.names import Owner
from headwater_operator.manifests.settings import Installation
from tests.golden.crds import Dumper

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY = Path(__file__).parent / "driver"
OWNER = Owner(name="orders", namespace="shop", uid="u-1")
INSTALLATION = Installation()
APP = parse(
    {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "orders"},
        "spec": {
            "topology": {"module": "shop.orders:build"},
            "engine": "Spark",
            "image": "shop/orders:1-spark",
            "replicas": 3,
            "kafka": {
                "bootstrapServers": "broker:9093",
                "tls": {"caSecretRef": {"name": "authority", "key": "root.pem"}},
                "authentication": {"type": "SCRAM-SHA-512", "secretRef": {"name": "user"}},
            },
            "podTemplate": {
                "labels": {"team": "shop"},
                "env": [{"name": "MODE", "value": "x"}],
                "resources": {"requests": {"cpu": 4}},
                "nodeSelector": {"disk": "ssd"},
                "volumes": [{"name": "models", "configMap": {"name": "models"}}],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            },
        },
    }
)
CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "pod": lambda: driver_pod(
        APP, OWNER, revision="abc", generation=7, executors=3, installation=INSTALLATION
    ),
    "executor": lambda: executor_template(APP, INSTALLATION),
    "service": lambda: driver_service(OWNER),
    "budget": lambda: spark_budget(APP, OWNER),
    "role": lambda: driver_role(OWNER),
}


def written(name: str) -> str:
    return yaml.dump(CASES[name](), Dumper=Dumper, sort_keys=False)


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_is_what_is_recorded(name: str) -> None:
    assert written(name) == (DIRECTORY / f"{name}.yaml").read_text()


if __name__ == "__main__":
    for name in CASES:
        (DIRECTORY / f"{name}.yaml").write_text(written(name))
