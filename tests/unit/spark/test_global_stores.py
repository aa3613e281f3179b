"""Spark refuses global stores, and says who runs them."""

from __future__ import annotations

import cloudpickle
import pytest

from headwater import StreamsBuilder, TopologyError
from headwater.native.application import ApplicationSettings
from headwater.spark.application import Application


def _build(builder: StreamsBuilder) -> None:
    builder.global_table("glob", store="everywhere")
    builder.stream("in").to("out")


def test_a_global_table_is_named_with_who_can_run_it() -> None:
    config = {"application.id": "app", "bootstrap.servers": "nowhere:9092"}
    settings = ApplicationSettings(config=config, topology=cloudpickle.dumps(_build))

    with pytest.raises(TopologyError, match=r"everywhere: let workers run it"):
        Application(settings)
