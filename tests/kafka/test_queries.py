"""Queries of an application that runs: by the program, and over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import KafkaStreams
from headwater.errors import StreamsNotStartedError, StreamsStoppedError, UnknownStateStoreError
from headwater.model.lifecycle import ClientState
from headwater.model.positions import Position, PositionBound
from headwater.model.queries import (
    FailureReason,
    KeyQuery,
    RangeQuery,
    StateQueryRequest,
    TimestampedKeyQuery,
    WindowKeyQuery,
)
from headwater.model.storemeta import QueryableStoreTypes, StoreQueryParameters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

KEY_VALUES = StoreQueryParameters.from_name_and_type(
    "counts", QueryableStoreTypes.key_value_store()
)


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, changelog=False)


@pytest.fixture
def streams(counting: Counting, tmp_path: Path) -> Iterator[KafkaStreams]:
    config = {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 2,
        "state.dir": str(tmp_path / "state"),
    }
    counting.send(1_000)
    with KafkaStreams(counts_of(counting.topic), config, http_port=0) as started:
        wait_for(lambda: started.state is ClientState.RUNNING, what="RUNNING")
        wait_for(counting.all_counted, what="all counts")
        yield started


def asked(query: Any) -> StateQueryRequest:
    return StateQueryRequest.in_store("counts").with_query(query)


def get(streams: KafkaStreams, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{streams.endpoint}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_program_asks_its_stores_and_callers_do_over_http(
    counting: Counting, streams: KafkaStreams
) -> None:
    # A key is where the test has put it, and not where Kafka's partitioner would.
    found = streams.query(asked(KeyQuery.with_key("key-3")))
    assert found.only_partition_result is not None
    assert found.only_partition_result.result == counting.sent["key-3"]
    assert {p: r.value for p, r in found.partition_results.items()} == {0: None, 1: 100}

    timed = streams.query(asked(TimestampedKeyQuery.with_key("key-3"))).only_partition_result
    assert timed is not None
    assert timed.result.value == 100
    assert timed.result.timestamp > 1_600_000_000_000

    ranged = streams.query(asked(RangeQuery.with_range("key-2", "key-5").with_descending_keys()))
    assert [list(r.result) for r in ranged.partition_results.values()] == [
        [("key-4", 100), ("key-2", 100)],
        [("key-5", 100), ("key-3", 100)],
    ]

    position = found.position
    assert position == Position({counting.topic: {0: 499, 1: 499}})
    again = asked(KeyQuery.with_key("key-3")).with_position_bound(PositionBound.at(position))
    assert streams.query(again).only_partition_result is not None
    beyond = PositionBound.at(position.with_component(counting.topic, 1, 500))
    refused = streams.query(again.with_position_bound(beyond)).partition_results
    assert refused[0].is_success
    assert refused[1].failure_reason is FailureReason.NOT_UP_TO_BOUND

    unknown = streams.query(asked(WindowKeyQuery.with_key_and_window_start_range("key-3", 0, 1)))
    assert {r.failure_reason for r in unknown.partition_results.values()} == {
        FailureReason.UNKNOWN_QUERY_TYPE
    }
    elsewhere = streams.query(again.with_partitions([0, 7])).partition_results
    assert elsewhere[7].failure_reason in {
        FailureReason.NOT_PRESENT,
        FailureReason.DOES_NOT_EXIST,
    }

    check_views(counting, streams)
    check_http(counting, streams)
    view = streams.store(KEY_VALUES)
    counting.send(10)
    wait_for(counting.all_counted, what="all counts")
    wait_for(lambda: view.get("key-3") == 101, what="the next commit", timeout_s=10)


def check_views(counting: Counting, streams: KafkaStreams) -> None:
    view = streams.store(KEY_VALUES)
    assert dict(view.all()) == dict(counting.sent)
    assert view.get("key-3") == 100
    assert view.approximate_num_entries() >= 10
    assert [key for key, _ in view.prefix_scan("key-")] == [
        *(f"key-{n}" for n in (0, 2, 4, 6, 8)),
        *(f"key-{n}" for n in (1, 3, 5, 7, 9)),
    ]
    with pytest.raises(UnknownStateStoreError, match="there are counts"):
        streams.store(
            StoreQueryParameters.from_name_and_type("kounts", QueryableStoreTypes.window_store())
        )


def check_http(counting: Counting, streams: KafkaStreams) -> None:
    status, answer = get(streams, "/state/counts/keys/key-3")
    assert status == 200
    assert answer["value"] == 100
    assert answer["position"] == {counting.topic: {"1": 499}}
    rows: list[tuple[str, int]] = []
    cursor = ""
    while True:
        status, page = get(streams, f"/state/counts/keys?limit=3{cursor}")
        assert status == 200, page
        rows += [(row["key"], row["value"]) for row in page["rows"]]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert dict(rows) == dict(counting.sent)
    assert len(rows) == 10

    bound = urllib.parse.quote(json.dumps({counting.topic: {"1": 500}}))
    assert get(streams, f"/state/counts/keys/key-3?bound={bound}")[0] == 412
    assert get(streams, "/state/kounts/keys/key-3")[0] == 404
    assert get(streams, "/state/counts/windows/key-3")[0] == 400
    assert get(streams, "/state/counts/keys?cursor=abc")[1]["error"] == "InvalidCursorError"


def test_an_application_that_does_not_run_says_so(counting: Counting, tmp_path: Path) -> None:
    config = {
        "application.id": counting.application_id,
        "bootstrap.servers": counting.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
    }
    streams = KafkaStreams(counts_of(counting.topic), config)
    with pytest.raises(StreamsNotStartedError, match="start"):
        streams.query(asked(KeyQuery.with_key("a")))
    streams.close()
    with pytest.raises((StreamsStoppedError, StreamsNotStartedError)):
        streams.store(KEY_VALUES)
