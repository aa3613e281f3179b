"""Spark refuses global stores and topics by pattern, and says who runs them."""

from __future__ import annotations

import re

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


def _by_pattern(builder: StreamsBuilder) -> None:
    builder.stream(re.compile("in-.*")).to("out")


def test_a_pattern_is_named_with_what_to_do() -> None:
    config = {"application.id": "app", "bootstrap.servers": "nowhere:9092"}
    settings = ApplicationSettings(config=config, topology=cloudpickle.dumps(_by_pattern))

    with pytest.raises(TopologyError, match=r"'in-\.\*': name the topics in stream.*let workers"):
        Application(settings)
