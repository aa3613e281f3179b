"""Queries of an application that runs: by the program, and over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.creating import create_known
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for
from tests.support.worker import Counting

from headwater import (
    ContextualProcessor,
    KafkaStreams,
    Materialized,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Window,
    Windowed,
)
from headwater.errors import StreamsNotStartedError, StreamsStoppedError, UnknownStateStoreError
from headwater.ids import TopicPartition
from headwater.model.lifecycle import ClientState
from headwater.model.positions import Position, PositionBound
from headwater.model.queries import (
    FailureReason,
    KeyQuery,
    MultiVersionedKeyQuery,
    QueryResult,
    RangeQuery,
    StateQueryRequest,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from headwater.model.storemeta import (
    QueryableStoreType,
    QueryableStoreTypes,
    StoreQueryParameters,
)
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

MINUTE = 60_000
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
    shown = {"Authorization": f"Bearer {streams.state_token}"}
    question = urllib.request.Request(f"http://{streams.endpoint}{path}", headers=shown)
    try:
        with urllib.request.urlopen(question, timeout=10) as answer:
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
    if streams.state_token:  # in a pod there is none
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://{streams.endpoint}/state", timeout=10)
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


STORES_WITH_HEADERS = (
    Stores.timestamped_key_value_store_with_headers_builder(
        Stores.persistent_timestamped_key_value_store_with_headers("kept")
    ),
    Stores.timestamped_window_store_with_headers_builder(
        Stores.in_memory_window_store("kept-windows", 60 * MINUTE, MINUTE)
    ),
    Stores.session_store_with_headers_builder(
        Stores.persistent_session_store_with_headers("kept-sessions", 60 * MINUTE)
    ),
)


class Keeping(ContextualProcessor[str, str, Any, Any]):
    """Keeps the last record of each key, with its headers."""

    def process(self, record: Record[str, str]) -> None:
        """Put it into each store."""
        key, value, at, headers = record.key, record.value, record.timestamp, record.headers
        find = self.context.get_state_store
        find("kept").put(key, value, at, headers)
        find("kept-windows").put(key, value, at, at // MINUTE * MINUTE, headers)
        find("kept-sessions").put(Windowed(key, Window(at, at)), value, headers)


def kinds_of(topic: str) -> Callable[[StreamsBuilder], None]:
    """Count in stores of every kind, on disk and in memory; keep versions of a table."""

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(topic, key_serde=Serdes.string, value_serde=Serdes.string)
        grouped = words.group_by_key()
        grouped.count(store="counts")
        grouped.count(Materialized.as_(Stores.in_memory_key_value_store("memory")))
        grouped.count(Materialized.as_(Stores.lru_map("last", 3)))
        windows = grouped.windowed_by(TimeWindows.of_size_with_no_grace(MINUTE))
        windows.count(store="windows")
        windows.count(
            Materialized.as_(Stores.in_memory_window_store("memory-windows", 60 * MINUTE, MINUTE))
        )
        sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(MINUTE))
        sessions.count(store="sessions")
        sessions.count(
            Materialized.as_(Stores.in_memory_session_store("memory-sessions", 60 * MINUTE))
        )
        for kept in STORES_WITH_HEADERS:
            builder.add_state_store(kept)
        words.process(Keeping, *(kept.name for kept in STORES_WITH_HEADERS))
        words.to_table(
            Materialized.as_(
                Stores.persistent_versioned_key_value_store("versions", 60 * MINUTE)
            ).with_value_serde(Serdes.string)
        )

    return build


class Both:
    """The same records in an application that runs and in a test driver."""

    def __init__(self, driver: TopologyTestDriver, streams: KafkaStreams, bound: Position) -> None:
        self.driver = driver
        self.streams = streams
        self._bound = PositionBound.at(bound)

    def result(self, store: str, query: Any) -> QueryResult[Any]:
        request = StateQueryRequest.in_store(store).with_query(query)
        results = self.streams.query(request.with_position_bound(self._bound)).partition_results
        return results[0]

    def view(self, store: str, kind: QueryableStoreType) -> Any:
        return self.streams.store(StoreQueryParameters.from_name_and_type(store, kind))


START = 1_700_000_000_000 // MINUTE * MINUTE
HEADERS: list[tuple[str, bytes | None]] = [("h", b"\x01"), ("none", None)]
RECORDS = [(f"k{n % 5}", f"v{n}", START + n * 7_000) for n in range(100)]


@pytest.fixture
def both(bootstrap_servers: str, unique_name: str, tmp_path: Path) -> Iterator[Both]:
    topic = unique_name
    create_known(AdminClient({"bootstrap.servers": bootstrap_servers}), NewTopic(topic, 1))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value, timestamp in RECORDS:
        producer.produce(topic, value, key, 0, timestamp=timestamp, headers=HEADERS)
    producer.flush(30)
    serdes = {"default.key.serde": "string", "default.value.serde": "string"}
    config = {
        "application.id": unique_name,
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(tmp_path / "state"),
        **serdes,
    }
    builder = StreamsBuilder()
    kinds_of(topic)(builder)
    with (
        TopologyTestDriver(builder.build(), {"application.id": unique_name, **serdes}) as driver,
        KafkaStreams(kinds_of(topic), config, http_port=0) as streams,
    ):
        source = driver.create_input_topic(topic, Serdes.string, Serdes.string)
        for key, value, timestamp in RECORDS:
            source.pipe_input(key, value, timestamp, headers=HEADERS)
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING")
        found = Both(driver, streams, Position({topic: {0: len(RECORDS) - 1}}))
        first = KeyQuery.with_key("k1")
        wait_for(lambda: found.result("counts", first).is_success, what="all", timeout_s=60)
        yield found


def test_every_kind_of_store_says_what_the_test_driver_says(both: Both, unique_name: str) -> None:
    check_key_values(both)
    check_windows(both)
    check_sessions(both)
    check_headers(both)
    check_versions(both)
    check_pages(both)
    check_metadata(both, unique_name)


def check_key_values(both: Both) -> None:
    for store in ("counts", "memory"):
        wanted = both.driver.get_timestamped_key_value_store(store)
        assert wanted is not None
        rows = list(both.result(store, TimestampedRangeQuery.with_no_bounds()).result)
        assert rows == list(wanted.all())
        assert len(rows) == 5
        for key in ("k0", "k4", "nobody"):
            found = both.result(store, TimestampedKeyQuery.with_key(key)).result
            assert found == dict(rows).get(key)

    # In the driver, as in Java, a view also shows what waits in the record cache.
    last = dict(both.result("last", RangeQuery.with_no_bounds()).result)
    assert last == dict.fromkeys(last, 20)
    assert len(last) == 3


def check_windows(both: Both) -> None:
    last = START + 12 * MINUTE
    for store in ("windows", "memory-windows"):
        timed = both.driver.get_timestamped_window_store(store)
        plain = both.driver.get_window_store(store)
        assert timed is not None
        assert plain is not None
        by_key = WindowKeyQuery.with_key_and_window_start_range("k1", 0, last)
        assert list(both.result(store, by_key).result) == list(timed.fetch("k1", 0, last))
        ranged = WindowRangeQuery.with_window_start_range(START, last)
        assert list(both.result(store, ranged).result) == list(timed.fetch_all(START, last))
        view = both.view(store, QueryableStoreTypes.window_store())
        assert list(view.all()) == list(plain.all())
        newest = START + 11 * MINUTE  # without grace, the windows before have expired on disk
        assert view.fetch("k1", newest) == plain.fetch("k1", newest) is not None
        backward = list(view.backward_fetch("k1", 0, last))
        assert backward == list(plain.backward_fetch("k1", 0, last))


def check_sessions(both: Both) -> None:
    for store in ("sessions", "memory-sessions"):
        sessions = both.driver.get_session_store(store)
        assert sessions is not None
        found = list(both.result(store, WindowRangeQuery.with_key("k1")).result)
        assert found == list(sessions.fetch("k1"))
        assert found
        view = both.view(store, QueryableStoreTypes.session_store())
        assert list(view.find_sessions("k1", 0, START * 2)) == found


def check_headers(both: Both) -> None:
    types = QueryableStoreTypes
    values = both.driver.get_timestamped_key_value_store_with_headers("kept")
    windows = both.driver.get_timestamped_window_store_with_headers("kept-windows")
    sessions = both.driver.get_session_store_with_headers("kept-sessions")
    assert values is not None
    assert windows is not None
    assert sessions is not None
    view = both.view("kept", types.timestamped_key_value_store_with_headers())
    assert list(view.all()) == list(values.all())
    assert view.get("k1") == values.get("k1")
    assert view.get("k1").headers == HEADERS
    plain = both.view("kept", types.key_value_store())
    assert plain.get("k1") == view.get("k1").value
    view = both.view("kept-windows", types.timestamped_window_store_with_headers())
    assert list(view.all()) == list(windows.all()) != []
    view = both.view("kept-sessions", types.session_store_with_headers())
    assert list(view.fetch("k1")) == list(sessions.fetch("k1")) != []
    with pytest.raises(UnknownStateStoreError, match="with timestamps; read it as that"):
        both.view("counts", types.timestamped_key_value_store_with_headers())


def check_versions(both: Both) -> None:
    versions = both.driver.get_versioned_key_value_store("versions")
    assert versions is not None
    for time in (START, START + 100_000, START + 300_000):
        query = VersionedKeyQuery.with_key("k2").as_of(time)
        assert both.result("versions", query).result == versions.get("k2", time)
    every = list(both.result("versions", MultiVersionedKeyQuery.with_key("k2")).result)
    assert [(one.value, one.timestamp) for one in every] == [
        (value, timestamp) for key, value, timestamp in reversed(RECORDS) if key == "k2"
    ]
    assert [one.valid_to for one in every] == [None, *(one.timestamp for one in every[:-1])]
    unknown = both.result("versions", KeyQuery.with_key("k2"))
    assert unknown.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    status, answer = get(both.streams, f"/state/versions/keys/k2?asOf={START + 100_000}")
    wanted = versions.get("k2", START + 100_000)
    assert wanted is not None
    assert (status, answer["value"]) == (200, wanted.value)
    assert len(get(both.streams, "/state/versions/versions/k2")[1]["rows"]) == 20


def check_pages(both: Both) -> None:
    for store in ("windows", "memory-windows"):
        pages: list[tuple[str, int]] = []
        cursor = ""
        while True:
            _, page = get(both.streams, f"/state/{store}/windows?limit=7{cursor}")
            pages += [(row["key"], row["window"]["start"]) for row in page["rows"]]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
        windows = both.driver.get_window_store(store)
        assert windows is not None
        assert pages == [(key.key, key.window.start_ms) for key, _ in windows.all()]
    assert len(get(both.streams, "/state/sessions/sessions/k1")[1]["rows"]) >= 1
    assert len(get(both.streams, "/state/memory/keys")[1]["rows"]) == 5


def check_metadata(both: Both, topic: str) -> None:
    lags = both.streams.all_local_store_partition_lags()
    assert {lag.offset_lag for found in lags.values() for lag in found.values()} == {0}
    host = both.streams.query_metadata_for_key("memory", "k1").active_host
    assert f"{host.host}:{host.port}" == both.streams.endpoint
    (client,) = both.streams.streams_metadata_for_store("memory")
    assert client.host_info == host
    assert client.topic_partitions == {TopicPartition(topic, 0)}
