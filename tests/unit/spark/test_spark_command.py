"""What the driver of a continuous query is told by a StreamApp."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from headwater.cli import spark
from headwater.errors import ConfigError
from headwater.model.drivercontract import ENV_POD
from headwater.model.streamapp import parse

if TYPE_CHECKING:
    from headwater.spark.turns.driver import ContinuousSettings


def told(**given: Any) -> ContinuousSettings:
    """What the driver of a StreamApp with such a ``spec.spark`` is told."""
    app = parse(
        {
            "apiVersion": "headwater.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "orders"},
            "spec": {
                "topology": {"module": "orders:build"},
                "kafka": {"bootstrapServers": "kafka:9092"},
                "spark": given,
            },
        }
    )
    parser = argparse.ArgumentParser()
    spark.register(parser.add_subparsers())
    # With a generation, as a control loop starts it: nothing of this machine is looked at.
    arguments = parser.parse_args(["spark", "-f", "streamapp.yaml", "--generation", "1"])
    with ExitStack() as stack:
        return spark._settings(arguments, app, stack)


def test_trigger_interval_and_offsets_of_a_trigger_are_the_streamapps() -> None:
    both = told(triggerInterval="7s", maxOffsetsPerTrigger=1_234)

    assert (both.trigger_ms, both.limit) == (7_000, 1_234)
    neither = told()
    assert (neither.trigger_ms, neither.limit) == (500, 100_000)


KUBERNETES = "k8s://https://10.0.0.1:443"


def test_a_driver_in_a_pod_is_told_no_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_POD, "orders-driver")

    with pytest.raises(ConfigError, match=r"^spec\.spark\.master is k8s://.*: leave it out of"):
        told(master=KUBERNETES)
    # One of another kind leads to where the user wants it.
    assert told(master="local[2]").master == "local[2]"
    assert told(master="spark://one:7077").master == "spark://one:7077"


def test_by_hand_executors_are_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_POD, raising=False)

    with pytest.raises(ConfigError, match=r"engine: Spark and without spec\.spark\.master"):
        told(master=KUBERNETES)
