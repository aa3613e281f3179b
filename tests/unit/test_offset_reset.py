"""Where a source starts: the policies, as texts and as Java's functions (KIP-1106)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headwater import AutoOffsetReset, OffsetReset, StreamsBuilder, Topology
from headwater.config import StreamsConfig
from headwater.errors import ConfigError, TopologyError
from headwater.kafka.settings import offset_reset


def _config(policy: str) -> StreamsConfig:
    return StreamsConfig.parse({"application.id": "app", "auto.offset.reset": policy})


# What java.time.Duration makes of each, and how it prints it.
@pytest.mark.parametrize(
    ("given", "written", "duration_ms"),
    [
        ("PT1H", "PT1H", 3_600_000),
        ("P1D", "PT24H", 86_400_000),
        ("P2DT3H4M", "PT51H4M", 183_840_000),
        ("pt90m", "PT1H30M", 5_400_000),
        ("PT0.5S", "PT0.5S", 500),
        ("PT61S", "PT1M1S", 61_000),
        ("PT0S", "PT0S", 0),
    ],
)
def test_a_duration_is_read_and_written_as_java_does(
    given: str, written: str, duration_ms: int
) -> None:
    policy = OffsetReset(f"by_duration:{given}")

    assert policy == f"by_duration:{written}"
    assert policy.duration_ms == duration_ms
    assert offset_reset(_config(f"by_duration:{given}")) == policy


@pytest.mark.parametrize("duration", [timedelta(hours=1, milliseconds=250), 3_600_250])
def test_a_duration_is_a_timedelta_or_milliseconds(duration: timedelta | int) -> None:
    assert AutoOffsetReset.by_duration(duration) == "by_duration:PT1H0.25S"
    assert AutoOffsetReset.by_duration(duration).duration_ms == 3_600_250


def test_the_other_policies_have_no_duration() -> None:
    policies = [AutoOffsetReset.earliest(), AutoOffsetReset.latest(), AutoOffsetReset.none()]

    assert policies == ["earliest", "latest", "none"]
    assert [policy.duration_ms for policy in policies] == [None, None, None]


@pytest.mark.parametrize(
    "policy",
    [
        "sometimes",
        "by_duration",
        "by_duration:",
        "by_duration:1h",
        "by_duration:PT",
        "by_duration:P",
        "by_duration:-PT1H",
        "by_duration:PT1M2H",
    ],
)
def test_what_is_no_policy_is_refused_with_what_there_is(policy: str) -> None:
    with pytest.raises(TopologyError, match="one of earliest, latest, none, or by_duration"):
        Topology().add_source("s", "in", offset_reset=policy)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset: .*one of earliest"):
        offset_reset(_config(policy))


@pytest.mark.parametrize("duration", [-1, timedelta(seconds=-1), "1h", True])
def test_a_duration_that_is_none_or_negative_is_refused(duration: object) -> None:
    with pytest.raises(TopologyError, match="offset reset"):
        AutoOffsetReset.by_duration(duration)  # type: ignore[arg-type]


def test_streams_of_a_topic_may_agree_on_a_duration_however_it_is_written() -> None:
    builder = StreamsBuilder()
    builder.stream("in", offset_reset=AutoOffsetReset.by_duration(60_000)).to("a")
    builder.stream("in", offset_reset=OffsetReset("by_duration:PT60S")).to("b")
    builder.build()

    builder.stream("in", offset_reset=AutoOffsetReset.by_duration(60_001)).to("c")
    with pytest.raises(TopologyError, match="have two offset reset policies for in"):
        builder.build()
