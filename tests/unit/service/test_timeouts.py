"""How long ``KafkaStreams`` waits is said as every duration: a ``timedelta``, or milliseconds."""

from __future__ import annotations

from datetime import timedelta
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.topologies import counts_of

from headwater import KafkaStreams
from headwater.errors import ConfigError
from headwater.model.durations import LONG_MAX
from headwater.model.lifecycle import ClientState
from headwater.service.timeouts import patience_s

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def streams(tmp_path: Path) -> KafkaStreams:
    config = {"application.id": "a", "bootstrap.servers": "no-broker:1", "state.dir": str(tmp_path)}
    return KafkaStreams(counts_of("lines"), config)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        (0, 0.0),
        (1_500, 1.5),
        (timedelta(minutes=1), 60.0),
        (timedelta(microseconds=1_999), 0.001),
        (LONG_MAX, TIMEOUT_MAX),
    ],
)
def test_a_timeout_is_a_timedelta_or_milliseconds(given: Any, seconds: float | None) -> None:
    assert patience_s("timeout", given) == seconds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.5, r"timeout is 0\.5: pass a timedelta.* or whole milliseconds"),
        ("1", "timeout is '1': pass a timedelta"),
        (True, "timeout is True: pass a timedelta"),
        (-1, "timeout is -1: it cannot be negative"),
        (timedelta(seconds=-1), "it cannot be negative"),
        (LONG_MAX + 1, "does not fit in 64 bits"),
    ],
)
@pytest.mark.parametrize("method", ["close", "wait", "remove_stream_thread"])
def test_a_wrong_timeout_is_refused_and_changes_nothing(
    streams: KafkaStreams, method: str, given: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{method}: .*{message}"):
        getattr(streams, method)(given)

    assert streams.state is ClientState.CREATED


def test_an_application_that_does_not_end_is_waited_for_no_longer(streams: KafkaStreams) -> None:
    assert not streams.wait(1)
    assert not streams.wait(timedelta(milliseconds=1))
