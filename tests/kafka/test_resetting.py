"""A reset on a real broker: the offsets that Kafka's own tool commits, and resets broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.java.tool import Answering
from tests.support.creating import create_known

from headwater import Materialized, Serdes, StreamsBuilder, failpoints
from headwater.config import StreamsConfig
from headwater.failpoints import FailpointError
from headwater.ids import TopicPartition
from headwater.local import jar_sets
from headwater.model.duties import DutyFailed, Reset, ResetDone
from headwater.model.partitions import external_topics, internal_topic_names
from headwater.model.resetting import asked_for
from headwater.service.duties import Duties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.model.topology import Topology

pytestmark = pytest.mark.kafka

T0_MS = 1_700_000_000_000
BY_APPLICATION = "AgAAAYvP4ngB"
"""What Kafka Streams commits beside an offset."""


class Application:
    """A count of two topics that has read a part of each, and is stopped."""

    def __init__(self, bootstrap: str, application_id: str, inputs: tuple[str, ...]) -> None:
        self.id = application_id
        self.inputs = inputs
        config = StreamsConfig.parse(
            {"application.id": application_id, "bootstrap.servers": bootstrap}
        )
        report = counting(inputs).report(application_id)
        self.duties = Duties(config, client_id=application_id, report=report)
        self.internal = internal_topic_names(report)
        assert external_topics(report) == inputs
        self.duties.admin.alter_offsets(
            application_id, {p: (offset, BY_APPLICATION) for p, offset in self.read.items()}
        )

    @property
    def read(self) -> dict[TopicPartition, int]:
        lines, words = self.inputs
        partitions = [TopicPartition(lines, 0), TopicPartition(lines, 1), TopicPartition(words, 0)]
        return dict(zip(partitions, (7, 2, 5), strict=True))

    def reset(self, to: str) -> object:
        return self.duties.carry_out(
            Reset(
                id="d",
                epoch=1,
                application_id=self.id,
                internal_topics=self.internal,
                input_topics=self.inputs,
                to=to,
                request="1",
            )
        )

    def committed(self) -> dict[TopicPartition, int]:
        found = self.duties.admin.committed(self.id, list(self.read))
        return {partition: one.offset for partition, one in found.items()}

    def existing(self) -> set[str]:
        return set(self.duties.admin.describe_topics(self.internal))


def counting(inputs: tuple[str, ...]) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(inputs, key_serde=Serdes.string(), value_serde=Serdes.string())
    stream.group_by_key().count(Materialized(store="counts"))
    return builder.build()


@pytest.fixture
def inputs(bootstrap_servers: str, unique_name: str) -> tuple[str, ...]:
    """Two topics: 10 records of which 3 are deleted and 4 older ones in the first; 6 more."""
    names = (f"{unique_name}-lines", f"{unique_name}-words")
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create_known(admin, NewTopic(names[0], 2, 1), NewTopic(names[1], 1, 1))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for topic, partition, count, at_ms in (
        (names[0], 0, 10, T0_MS),
        (names[0], 1, 4, T0_MS - 60_000),
        (names[1], 0, 6, T0_MS + 2_000),
    ):
        for number in range(count):
            producer.produce(
                topic, b"v", b"k", partition=partition, timestamp=at_ms + 1_000 * number
            )
    assert producer.flush(30) == 0
    gone = ClientPartition(names[0], 0, 3)
    admin.delete_records([gone])[gone].result(30)
    return names


@pytest.fixture(scope="module")
def resetter() -> Iterator[Answering]:
    """Java's tool."""
    tool = Answering("tools", "Resetter", jar_set=jar_sets.TOOLS)
    yield tool
    tool.close()


@pytest.mark.java
@pytest.mark.parametrize(
    "option",
    [
        ("--to-earliest",),
        ("--to-latest",),
        ("--to-datetime", "2023-11-14T22:13:25.000"),
        ("--by-duration", "P1D"),
        ("--to-offset", "4"),
        ("--to-offset", "1"),
        ("--shift-by", "-3"),
        ("--shift-by", "1"),
        ("--from-file", ""),
    ],
    ids=" ".join,
)
def test_the_offsets_are_those_of_javas_tool(  # each is a fixture
    bootstrap_servers: str,
    unique_name: str,
    inputs: tuple[str, ...],
    resetter: Answering,
    option: tuple[str, ...],
    tmp_path: Path,
) -> None:
    java = Application(bootstrap_servers, f"{unique_name}-java", inputs)
    ours = Application(bootstrap_servers, f"{unique_name}-ours", inputs)
    file = tmp_path / "plan.csv"
    file.write_text(f"{inputs[0]},0,6\n{inputs[0]},1,1000\n{inputs[1]},0,0\n")
    given = (option[0], str(file)) if option[0] == "--from-file" else option
    arguments = [
        *("--application-id", java.id, "--bootstrap-server", bootstrap_servers, "--force"),
        *("--input-topics", ",".join(inputs), *given),
    ]

    assert resetter.ask({"arguments": arguments}) == {"code": 0}
    done = ours.reset(str(asked_for(as_options(given), file_of(given, file))))

    assert isinstance(done, ResetDone), done
    assert ours.committed() == java.committed()
    assert ours.existing() == set(ours.internal)


def as_options(given: tuple[str, ...]) -> dict[str, object]:
    names = "to_earliest to_latest to_datetime by_duration to_offset shift_by input_topics"
    found: dict[str, object] = dict.fromkeys(names.split())
    return found | {given[0].removeprefix("--").replace("-", "_"): [*given, True][1]}


def file_of(given: tuple[str, ...], file: Path) -> str | None:
    return file.read_text() if given[0] == "--from-file" else None


def test_topics_that_are_not_named_keep_their_offsets(
    bootstrap_servers: str, unique_name: str, inputs: tuple[str, ...]
) -> None:
    app = Application(bootstrap_servers, unique_name, inputs)

    assert isinstance(app.reset(f"earliest topics:{inputs[0]}"), ResetDone)

    assert list(app.committed().values()) == [3, 0, 5]
    kept = app.duties.admin.committed(app.id, [TopicPartition(inputs[1], 0)])
    assert [one.metadata for one in kept.values()] == [BY_APPLICATION]


@pytest.mark.parametrize("point", ["group_deleted", "topics_created", "committed"])
def test_a_reset_that_was_broken_off_is_done_again_but_never_shifts_twice(
    bootstrap_servers: str, unique_name: str, inputs: tuple[str, ...], point: str
) -> None:
    app = Application(bootstrap_servers, f"{unique_name}-a", inputs)
    shifted = Application(bootstrap_servers, f"{unique_name}-s", inputs)
    for broken, to in ((app, "offset:4"), (shifted, "shift:-1")):
        failpoints.arm(f"reset.{point}=error")
        try:
            with pytest.raises(FailpointError):
                broken.reset(to)
        finally:
            failpoints.disarm()

    done, again = app.reset("offset:4"), shifted.reset("shift:-1")

    assert isinstance(done, ResetDone)
    assert list(app.committed().values()) == [4, 4, 4]
    assert app.existing() == set(app.internal)
    if point == "committed":
        # It was carried out, and nobody has heard of it.
        assert isinstance(again, ResetDone)
        assert list(shifted.committed().values()) == [6, 1, 4]
        assert shifted.existing() == set(shifted.internal)
        return
    assert isinstance(again, DutyFailed)
    assert again.error == "ResetError"
    assert "--to-offset" in again.message
    assert shifted.committed() == {}


def test_what_cannot_be_chosen_changes_nothing(
    bootstrap_servers: str, unique_name: str, inputs: tuple[str, ...]
) -> None:
    app = Application(bootstrap_servers, unique_name, inputs)

    refused = app.reset(f"offsets:{inputs[0]},0,5")

    assert isinstance(refused, DutyFailed)
    assert f"lacks {inputs[0]}-1" in refused.message
    assert app.committed() == app.read
