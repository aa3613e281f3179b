"""``read_topic`` and ``read_store``: what lies on Kafka as DataFrames, to look into it.

    offsets, fixed once by the driver ─► pieces of partitions ─► a reader ─► bytes made values

What is read is fixed when the function is called, so a DataFrame that is evaluated twice gives the
same records twice, unless they are deleted or compacted meanwhile. Only committed records are read.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from headwater.config import StreamsConfig
from headwater.dsl.loading import build_topology
from headwater.errors import ConfigError, MissingTopicError, TopologyError
from headwater.ids import TopicPartition
from headwater.kafka.access import Access
from headwater.model.topics import ChangelogKind
from headwater.model.topology import Topology
from headwater.native.loading import topology_of
from headwater.spark.cluster import start
from headwater.spark.tables import connector
from headwater.spark.tables.columns import KeyLayout, Shape, arrow, shaped, simple_name
from headwater.spark.tables.pieces import read_piece
from headwater.spark.tables.spans import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headwater.dsl.builder import StreamsBuilder
    from headwater.kafka.admin import Admin
    from headwater.serde import Serde
    from headwater.spark.tables.spans import Span

Place: TypeAlias = "datetime | Mapping[int, int] | None"
"""A time with a time zone, an offset for each partition, or ``None`` for the very first or last."""
Decoder: TypeAlias = "Serde[Any] | str | None"
"""A serde, the name of a built-in one, or ``None`` for the bytes."""
Reader: TypeAlias = Literal["auto", "connector", "python"]
Config: TypeAlias = "Mapping[str, str | int | float | bool]"

_PIECE: Final = 500_000
_LOOKING: Final = "headwater-look"
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.app.name": "headwater",
    "spark.sql.adaptive.enabled": "true",
}


def session(
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    *,
    with_connector: bool = False,
) -> SparkSession:
    """Start a Spark session whose Python workers are this interpreter, or return the one there is.

    Any other ``SparkSession`` serves as well, if Headwater is installed where its workers run.

    Args:
        master: as Spark writes it.
        settings: of Spark, which win over ours.
        with_connector: with the jars of Spark's Kafka connector, fetched if need be. It reads
            faster, and is then what ``reader="auto"`` takes.

    Raises:
        EnvironmentProblemError: pyspark, Java or the jars are missing, or Spark does not start.
    """
    chosen = {**_DEFAULTS, **(settings or {})}
    if with_connector:
        given = chosen.get("spark.jars")
        chosen["spark.jars"] = ",".join(filter(None, (given, connector.connector_jars())))
    return start(master, chosen)


def read_topic(
    spark: SparkSession,
    topic: str,
    config: Config,
    *,
    start: Place = None,
    end: Place = None,
    key: Decoder = None,
    value: Decoder = None,
    reader: Reader = "auto",
    piece_records: int = _PIECE,
) -> DataFrame:
    """Return the committed records of a topic.

    Columns: ``key``, ``value``, ``headers`` (array of key and value; null without any), ``topic``,
    ``partition``, ``offset``, ``timestamp``. A key or value is a string, int, bigint or double for
    the built-in serdes ``string``, ``integer``, ``long`` and ``double``, a string for ``json``
    (``from_json`` and ``parse_json`` take it from there), else binary.

    Args:
        spark: the session.
        topic: its name on the broker.
        config: options of Kafka Streams: ``bootstrap.servers``, those for security.
        start: where to begin: a time, or offsets by partition (of others nothing is read).
        end: where to end, itself not included; at most where the committed records end now.
        key: how keys are decoded.
        value: how values are.
        reader: ``connector`` is Spark's own, ``python`` is Headwater's; ``auto`` takes the first
            if the session has its jars and it understands ``config``.
        piece_records: a larger partition is read in pieces, side by side.

    Raises:
        ConfigError: an argument or an option is wrong.
        MissingTopicError: there is no such topic.
        KafkaUnavailableError: no broker answers.

    What is wrong with the records themselves is found when the DataFrame is evaluated, and comes
    as Spark's error: bytes that cannot be decoded, records that retention has deleted meanwhile.
    """
    look = _Look(spark, config, reader, piece_records)
    shape = Shape(key=_name("key", key), value=_name("value", value))
    return look.frame(look.ranges(topic, start, end), shape)


def read_store(
    spark: SparkSession,
    store: str,
    config: Config,
    *,
    topology: str | Topology | Callable[[StreamsBuilder], object] | None = None,
    layout: KeyLayout | str = KeyLayout.PLAIN,
    end: Place = None,
    key: Decoder = None,
    value: Decoder = None,
    reader: Reader = "auto",
    piece_records: int = _PIECE,
) -> DataFrame:
    """Return what a store holds, as its changelog says: the last record of each key.

    That is its state as of the last commits; keys that were deleted are not in it. Columns are
    those of ``read_topic``; with ``layout="window"`` also ``window_start`` and ``window_sequence``
    (0 unless the store keeps duplicates), with ``layout="session"`` also ``session_start`` and
    ``session_end``, and ``key`` is the key proper.

    Args:
        spark: the session.
        store: its name.
        config: options of Kafka Streams: ``application.id``, ``bootstrap.servers`` and so on.
        topology: that of the application: ``"module:function"``, the function, or what it built.
            With it the store's own serdes are used, and a store whose changelog is a source topic
            is found.
        layout: ``plain``, ``window`` or ``session``: what a key in the changelog consists of.
        end: a time or offsets of changelog partitions: the state as it was then, as far as
            compaction has left it.
        key: how keys are decoded, instead of the store's serde.
        value: how values are, instead of the store's serde.
        reader: as for ``read_topic``.
        piece_records: as for ``read_topic``.

    Raises:
        ConfigError: an argument or an option is wrong.
        ImportPathError: the topology cannot be had.
        TopologyError: it has no such store, or the store has no changelog.
        MissingTopicError: there is no changelog (yet).
        KafkaUnavailableError: no broker answers.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - heavy

    look = _Look(spark, config, reader, piece_records)
    if not config.get("application.id"):
        raise ConfigError("application.id is missing: the changelog's name begins with it")
    found = _Store(store, look.config, topology)
    shape = Shape(
        key=found.key if key is None else _name("key", key),
        value=found.value if value is None else _name("value", value),
        layout=_layout(layout),
    )
    records = look.frame(look.ranges(found.changelog, None, end), Shape())
    # A key that came by its source partition may be in several: each is an entry of its own.
    others = sql.struct("value", "headers", "topic", "offset", "timestamp")
    newest = (
        records.where("key is not null")
        .groupBy("partition", "key")
        .agg(sql.max_by(others, "offset").alias("newest"))
        .where("newest.value is not null")
        .select(
            "key",
            *(sql.col(f"newest.{name}").alias(name) for name in ("value", "headers", "topic")),
            "partition",
            *(sql.col(f"newest.{name}").alias(name) for name in ("offset", "timestamp")),
        )
    )
    return _decoded(newest, shape)


class _Store:
    """Where a store's changelog is, and how its entries are decoded."""

    def __init__(
        self,
        name: str,
        config: StreamsConfig,
        source: str | Topology | Callable[[StreamsBuilder], object] | None,
    ) -> None:
        application_id = config.application_id
        self.changelog = f"{application_id}-{name}-changelog"
        self.key = self.value = "bytes"
        if source is None:
            return
        topology = _topology(source)
        spec = topology.stores.get(name)
        report = topology.report(application_id)
        changelogs = [log for one in report.subtopologies for log in one.changelogs]
        named = sorted(log.store for log in changelogs)
        if spec is None or name not in named:
            what = "has no changelog" if spec is not None else "is not in the topology"
            raise TopologyError(
                f"store {name!r} {what}; those with one are {', '.join(named) or 'none'}"
            )
        (changelog,) = [log for log in changelogs if log.store == name]
        self.changelog = changelog.name
        if changelog.kind is ChangelogKind.KEY_VALUE:
            self.key = simple_name(spec.key_serde or config.default_key_serde)
            self.value = simple_name(spec.value_serde or config.default_value_serde)


class _Look:
    """One look at Kafka: fixes what is read, and chooses who reads it."""

    def __init__(
        self, spark: SparkSession, config: Config, reader: Reader, piece_records: int
    ) -> None:
        if piece_records < 1:
            raise ConfigError(f"piece_records: {piece_records} is not a number of at least 1")
        self._spark = spark
        self._given = {"application.id": _LOOKING, **config}
        self.config = StreamsConfig.parse(self._given)
        if not self.config.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing: give it in config")
        self._piece = piece_records
        self._is_connector = self._chosen(reader)

    def _chosen(self, reader: str) -> bool:
        if reader not in {"auto", "connector", "python"}:
            raise ConfigError(f"reader: {reader!r} is not one of auto, connector, python")
        if reader == "python":
            return False
        is_there = connector.is_at_hand(self._spark)
        if reader == "connector" and not is_there:
            raise ConfigError(
                "reader='connector': the session has no Kafka connector; start it with "
                "headwater.spark.session(with_connector=True), or use reader='python'"
            )
        return reader == "connector" or (is_there and not connector.untranslatable(self._given))

    def ranges(self, topic: str, start: Place, end: Place) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset and the end of each partition."""
        timeout_s = self.config.request_timeout_ms / 1000
        client_id = f"{self.config.client_id or self.config.application_id}-look"
        admin = Access.of(self.config, client_id=client_id, timeout_s=timeout_s).admin
        admin.check_reachable(timeout_s)
        described = admin.describe_topics([topic])
        if topic not in described:
            raise MissingTopicError(
                f"there is no topic {topic} at {self.config.bootstrap_servers}; is the name right, "
                "and has the application run?"
            )
        partitions = [TopicPartition(topic, n) for n in range(described[topic].partitions)]
        first = admin.earliest_offsets(partitions)
        last = admin.end_offsets(partitions, committed_only=True)
        begin = _placed(admin, "start", start, first, last)
        stop = _placed(admin, "end", end, first, last)
        # Of a partition that is not named nothing is read.
        both = begin.keys() & stop.keys()
        return {p: (begin[p], max(begin[p], stop[p])) for p in partitions if p in both}

    def frame(self, ranges: Mapping[TopicPartition, tuple[int, int]], shape: Shape) -> DataFrame:
        """Return the records of ``ranges``."""
        spans = pieces(ranges, self._piece)
        if not spans:
            return self._spark.createDataFrame([], shape.ddl)
        if self._is_connector:
            servers = self.config.bootstrap_servers
            return _decoded(connector.read(self._spark, self._given, servers, spans), shape)
        numbers = self._spark.range(0, len(spans), 1, len(spans))
        rows: Any = partial(_rows, self._given, spans, shape)
        return numbers.mapInArrow(rows, shape.ddl)


def _rows(
    config: Config, spans: Sequence[Span], shape: Shape, batches: Iterable[Any]
) -> Iterator[Any]:
    """Read the pieces whose numbers Spark hands to this Python worker."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for found in read_piece(config, spans[number]):
                yield shaped(found, shape)


def _decoded(frame: DataFrame, shape: Shape) -> DataFrame:
    if shape.is_raw:
        return frame
    rows: Any = partial(_shaped_rows, shape)
    return frame.mapInArrow(rows, shape.ddl)


def _shaped_rows(shape: Shape, batches: Iterable[Any]) -> Iterator[Any]:
    arrow()
    for batch in batches:
        if batch.num_rows:
            yield shaped(batch, shape)


def _placed(
    admin: Admin,
    what: str,
    place: Place,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset of each partition that ``place`` stands for, within what there is.

    Raises:
        ConfigError: the place is none, or lies before what retention has left.
    """
    default = first if what == "start" else last
    if place is None:
        return dict(default)
    if isinstance(place, datetime):
        if place.tzinfo is None:
            raise ConfigError(f"{what}: {place} has no time zone; say datetime(..., tzinfo=UTC)")
        found = admin.offsets_at(first, int(place.timestamp() * 1000))
        return {p: last[p] if (at := found[p]) is None else min(at, last[p]) for p in first}
    numbers = {p.partition: p for p in first}
    unknown = sorted(set(place) - numbers.keys())
    if unknown:
        raise ConfigError(
            f"{what}: there is no partition {unknown[0]} of {next(iter(first)).topic}"
        )
    chosen = {numbers[number]: offset for number, offset in place.items()}
    for partition, offset in chosen.items():
        if offset < first[partition]:
            raise ConfigError(
                f"{what}: {partition} begins at offset {first[partition]}, so {offset} is not there"
            )
    return {p: min(offset, last[p]) for p, offset in chosen.items()}


def _topology(source: str | Topology | Callable[[StreamsBuilder], object]) -> Topology:
    if isinstance(source, str):
        return topology_of(source)
    return source if isinstance(source, Topology) else build_topology(source)


def _name(what: str, given: Decoder) -> str:
    if isinstance(given, str) and given != "bytes" and simple_name(given) != given:
        raise ConfigError(
            f"{what}: {given!r} is not one of string, integer, long, double, json, bytes"
        )
    return simple_name(given)


def _layout(given: KeyLayout | str) -> KeyLayout:
    try:
        return KeyLayout(given)
    except ValueError:
        raise ConfigError(f"layout: {given!r} is not one of plain, window, session") from None
