"""Bad input to a plain program: a named error, a message that helps, exit, nothing lost.

``tests/support/bad_input.py`` lists the tests of every kind of bad input.
"""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.support.embedded import EmbeddedProgram
from tests.support.mortal import mortal_broker
from tests.support.topologies import REPEAT_VARIABLE
from tests.support.waiting import wait_for
from tests.support.worker import Counting, child_of

from headwater import errors
from headwater.config import StreamsConfig
from headwater.ids import TaskId
from headwater.model import losses
from headwater.service.owner import OwnerRecord
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from headwater.local.broker import KafkaBroker

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

T0 = TaskId(0, 0)
TOPOLOGIES = "tests.support.topologies"
SKIP = {"default.deserialization.exception.handler": "log-and-continue"}
IMPATIENT: dict[str, Any] = {"request.timeout.ms": 8_000, "task.timeout.ms": 14_000}


@pytest.fixture
def counting(bootstrap_servers: str, unique_name: str) -> Counting:
    return Counting(bootstrap_servers, unique_name, changelog=False)


@pytest.fixture
def program(counting: Counting, tmp_path: Path) -> Iterator[EmbeddedProgram]:
    with EmbeddedProgram(counting, tmp_path) as running:
        yield running


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that may be killed."""
    with mortal_broker(tmp_path / "kafka") as running:
        yield running


def goes_on(program: EmbeddedProgram, counting: Counting) -> None:
    """Start the program again; check that everything good is counted."""
    counting.send(100)
    program.start().runs()
    all_is_counted(program, counting)


def all_is_counted(program: EmbeddedProgram, counting: Counting) -> None:
    """Wait until everything good is counted: exactly once, or at least once if that was asked."""
    is_exact = program.config["processing.guarantee"] == "exactly_once_v2"

    def is_so() -> bool:
        counted = counting.counted()
        return counted == counting.sent if is_exact else counted >= counting.sent

    wait_for(is_so, what=f"all counts, not {counting.counted()}", timeout_s=120)


# -- what is wrong before it starts --------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """One line of the table: what is written, and what is answered."""

    error: type[errors.HeadwaterError]
    words: tuple[str, ...]
    config: dict[str, Any] = field(default_factory=dict)
    topology: str = f"{TOPOLOGIES}:counts"
    prepare: Callable[[Counting], object] = lambda counting: None
    cure: Callable[[Counting], object] = lambda counting: None
    is_started: bool = True


def delete(topic: str, counting: Counting) -> None:
    admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)

    def is_gone() -> bool:
        return topic not in admin.list_topics(timeout=60).topics

    wait_for(is_gone, what=f"the end of {topic}")


MISTAKES = {
    "unknown option": Mistake(
        errors.ConfigError,
        ("commit.intervall.ms", "commit.interval.ms"),
        config={"commit.intervall.ms": 1},
        is_started=False,
    ),
    "wrong type of an option": Mistake(
        errors.ConfigError,
        ("commit.interval.ms", "'soon'"),
        config={"commit.interval.ms": "soon"},
        is_started=False,
    ),
    "no broker named": Mistake(
        errors.ConfigError,
        ("bootstrap.servers is missing", "config of KafkaStreams"),
        config={"bootstrap.servers": None},
        is_started=False,
    ),
    "unknown serde": Mistake(
        errors.ConfigError,
        ("default.value.serde", "did you mean 'string'"),
        config={"default.value.serde": "strnig"},
        is_started=False,
    ),
    "no such module": Mistake(
        errors.ImportPathError,
        ("no_such_module", "PYTHONPATH"),
        topology="no_such_module:build",
        is_started=False,
    ),
    "no such function": Mistake(
        errors.ImportPathError,
        ("has no 'cuonts'",),
        topology=f"{TOPOLOGIES}:cuonts",
        is_started=False,
    ),
    "topology that breaks a rule": Mistake(
        errors.TopologyError, ("lines",), topology=f"{TOPOLOGIES}:doubled", is_started=False
    ),
    "unreachable broker": Mistake(
        errors.KafkaUnavailableError,
        ("127.0.0.1:1", "check bootstrap.servers"),
        config={"bootstrap.servers": "127.0.0.1:1", **IMPATIENT},
    ),
    "unknown source topic": Mistake(
        errors.MissingTopicError,
        ("does not exist", "create it"),
        prepare=lambda counting: delete(counting.topic, counting),
        cure=lambda counting: counting.create(counting.topic, counting.partitions),
    ),
    "changelog of another width": Mistake(
        errors.PartitionMismatchError,
        ("-counts-changelog has 3 partitions", "needs 2", "kafka-streams-application-reset"),
        prepare=lambda counting: counting.create(counting.changelog, 3),
        cure=lambda counting: delete(counting.changelog, counting),
    ),
}


# What the constructor says: test_embedding.py has it of each kind, without a second program.
TOLD_BY_THE_CONSTRUCTOR = {
    "wrong type of an option",
    "no broker named",
    "unknown serde",
    "no such function",
    "topology that breaks a rule",
}


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=pytest.mark.soak) if what in TOLD_BY_THE_CONSTRUCTOR else what
        for what in MISTAKES
    ],
)
def test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written(
    program: EmbeddedProgram, counting: Counting, what: str
) -> None:
    mistake = MISTAKES[what]
    right = program.topology, dict(program.config)
    program.topology = mistake.topology
    program.config |= mistake.config
    mistake.prepare(counting)

    program.start().ends_with(mistake.error, *mistake.words, started=mistake.is_started)

    assert counting.counted() == {}
    program.topology, program.config = right
    mistake.cure(counting)
    goes_on(program, counting)


# -- records -------------------------------------------------------------------------------------


RECORDS = [
    pytest.param(
        b"\xff", b"x", 1, errors.DeserializationError,
        ["-0 offset 50", "the key cannot be decoded", "deserialization.exception.handler"],
        SKIP, id="undecodable key",
    ),
    pytest.param(
        b"key-0", b"\xff", 1, errors.DeserializationError,
        ["-0 offset 50", "the value cannot be decoded", "deserialization.exception.handler"],
        SKIP, id="undecodable value",
    ),
    pytest.param(
        b"key-0", b"x", -1, errors.InvalidTimestampError,
        ["-0 offset 50", "(-1)", "default.timestamp.extractor"],
        {"default.timestamp.extractor": "log-and-skip-on-invalid"}, id="negative timestamp",
    ),
]  # fmt: skip


# The other kinds end a worker in ``test_bad_input.py``.
@pytest.mark.parametrize(
    ("key", "value", "timestamp", "error", "words", "cure"),
    [
        RECORDS[1],
        *(pytest.param(*each.values, id=each.id, marks=pytest.mark.soak) for each in RECORDS[::2]),
    ],
)
def test_a_bad_record_ends_the_program_at_its_offset_and_the_cure_it_names_skips_just_that_one(
    program: EmbeddedProgram,
    counting: Counting,
    key: bytes,
    value: bytes,
    timestamp: int,
    error: type[errors.HeadwaterError],
    words: list[str],
    cure: dict[str, Any],
) -> None:
    counting.send(100)
    producer = Producer({"bootstrap.servers": counting.bootstrap_servers})
    producer.produce(counting.topic, value, key, partition=0, timestamp=timestamp)
    assert producer.flush(30) == 0
    counting.send(100)

    program.start().ends_with(error, *words)

    assert program.said.count(words[0]) == 1, program.said  # raised, and not told beside that
    assert counting.committed()[0] <= 50
    program.config |= cure
    goes_on(program, counting)


@pytest.mark.parametrize(
    "guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.soak)]
)
def test_a_record_larger_than_the_broker_takes_ends_the_program_and_is_read_again_later(
    counting: Counting, tmp_path: Path, guarantee: str
) -> None:
    output = f"{counting.topic}-copies"
    counting.create(output, 2, **{"max.message.bytes": "2000"})
    producer = Producer({"bootstrap.servers": counting.bootstrap_servers})
    for key, size in ((b"small", 10), (b"big", 1_000)):
        producer.produce(counting.topic, b"x" * size, key, partition=0)
    assert producer.flush(30) == 0
    with EmbeddedProgram(
        counting,
        tmp_path,
        topology=f"{TOPOLOGIES}:repeats",
        **{"processing.guarantee": guarantee},
    ) as program:
        program.start(**{REPEAT_VARIABLE: "3"})
        program.ends_with(errors.RecordTooLargeError, output, "max.message.bytes")

        assert counting.committed().get(0, 0) <= 1
        program.start(**{REPEAT_VARIABLE: "1"}).runs()
        wait_for(
            lambda: {key for key, _ in counting.read(output)} == {b"small", b"big"},
            what="both records",
        )


# -- state ---------------------------------------------------------------------------------------


# A limit of the file size ends a worker in ``test_bad_input.py``.
@pytest.mark.parametrize(
    "how", ["fail point", pytest.param("file size limit", marks=pytest.mark.soak)]
)
def test_a_full_disk_ends_the_program_and_costs_nothing_but_the_time_to_make_room(
    program: EmbeddedProgram, counting: Counting, how: str
) -> None:
    counting.send(1_000)
    if how == "fail point":
        program.start(HEADWATER_FAILPOINTS="rocks.write=disk_full@3")
    else:
        program.start().runs()
        thread = child_of(program.pid, "StreamThread-0")
        assert thread is not None
        resource.prlimit(thread.pid, resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
    counting.send(20_000, keys=10_000)

    program.ends_with(errors.DiskFullError, str(program.state_dir), "free space")

    goes_on(program, counting)


@pytest.mark.soak(
    stays="tests/kafka/test_bad_input.py::test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named"
)
def test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named(
    program: EmbeddedProgram, counting: Counting
) -> None:
    counting.send(100)
    directory = StateDirectory(program.state_dir, counting.application_id)
    store = directory.store(T0, "counts")
    store.acquire(holder="a test")

    program.start().ends_with(
        errors.StoreLockedError, f"in use by a test (process {os.getpid()})", "state_dir"
    )

    store.release()
    goes_on(program, counting)


def test_a_state_directory_that_cannot_be_used_ends_the_program(
    program: EmbeddedProgram, counting: Counting, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    right = program.config["state.dir"]
    program.config["state.dir"] = str(tmp_path / "file")

    program.start().ends_with(errors.StateError, str(tmp_path / "file"))

    program.config["state.dir"] = right
    goes_on(program, counting)


# -- Kafka ---------------------------------------------------------------------------------------


REFUSALS = [
    pytest.param({"sasl.password": "wrong"}, ["sasl.*"], id="wrong password"),
    pytest.param({"ssl.ca.location": ""}, ["ssl.*"], id="not trusted", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("changes", "words"), REFUSALS)
def test_a_broker_that_refuses_us_ends_the_program(
    secure: KafkaBroker, unique_name: str, tmp_path: Path, changes: dict[str, str], words: list[str]
) -> None:
    counting = Counting(secure.bootstrap_servers, unique_name, changelog=False)
    right: dict[str, Any] = secure.secure_client_config("app")
    given = {name: value for name, value in (right | changes).items() if value}
    with EmbeddedProgram(counting, tmp_path) as program:
        rest = dict(program.config)
        program.config |= given

        program.start().ends_with(errors.KafkaAuthError, *words)

        program.config = rest | right
        goes_on(program, counting)


OUTLIVED: dict[str, dict[str, Any]] = {
    "exactly once": {"processing.guarantee": "exactly_once_v2"},
    "at least once": {"processing.guarantee": "at_least_once"},
    # The sign of life is overdue long before the broker is given up.
    "taken for dead before": {
        "processing.guarantee": "at_least_once",
        "session.timeout.ms": 6_000,
    },
}


def programs(
    stack: ExitStack,
    broker: KafkaBroker,
    directory: Path,
    prefix: str,
    configs: Mapping[str, dict[str, Any]],
) -> list[tuple[EmbeddedProgram, Counting]]:
    """Programs that meet the same outage side by side, each with topics of its own; they run."""
    found = []
    for number, (what, config) in enumerate(configs.items()):
        counting = Counting(broker.bootstrap_servers, f"{prefix}-{number}", changelog=False)
        place = directory / what
        place.mkdir()
        program = stack.enter_context(EmbeddedProgram(counting, place, **config))
        found.append((program.start(), counting))
    for program, _ in found:
        program.runs()
    return found


def test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later(
    mortal: KafkaBroker, unique_name: str, tmp_path: Path
) -> None:
    configs = {what: {**IMPATIENT, **config} for what, config in OUTLIVED.items()}
    with ExitStack() as stack:
        running = programs(stack, mortal, tmp_path, unique_name, configs)
        for program, counting in running:
            counting.send(500)
            all_is_counted(program, counting)
        mortal.kill()

        for program, _ in running:
            program.ends_with(
                errors.KafkaUnavailableError, mortal.bootstrap_servers, "check bootstrap.servers"
            )

        mortal.restart()
        for program, counting in running:
            goes_on(program, counting)


SIGN_OF_LIFE = "telling other instances that this one is alive"


def complains(program: EmbeddedProgram) -> bool:
    """Whether it has said that its sign of life came to nobody, and that it goes on."""
    lines = program.said.splitlines()
    return any(SIGN_OF_LIFE in line and line.endswith("trying again") for line in lines)


def is_heard(record: OwnerRecord) -> bool:
    """Give a sign of life; return whether it came through."""
    record.beat()
    try:
        record.flush()
    except errors.KafkaUnavailableError:
        return False
    return True


def test_a_broker_that_comes_back_in_time_is_made_up_with(
    mortal: KafkaBroker, unique_name: str, tmp_path: Path
) -> None:
    # Signs of life are given up during the outage; what comes after it must get through.
    config = {"request.timeout.ms": 8_000, "delivery.timeout.ms": 4_000, "linger.ms": 5}
    configs = {
        guarantee: {**config, "processing.guarantee": guarantee}
        for guarantee in ("exactly_once_v2", "at_least_once")
    }
    application = {
        "application.id": f"{unique_name}-owner",
        "bootstrap.servers": mortal.bootstrap_servers,
        "delivery.timeout.ms": 2_000,  # long before flush gives it up
    }
    with ExitStack() as stack:
        running = programs(stack, mortal, tmp_path, unique_name, configs)
        record = OwnerRecord(StreamsConfig.parse(application), client_id="c", transactional_ids=())
        stack.callback(record.close)
        mortal.kill()
        record.beat()
        with pytest.raises(errors.KafkaUnavailableError, match=SIGN_OF_LIFE):
            record.flush()
        for program, _ in running:
            wait_for(partial(complains, program), what="a complaint")
            # Nobody is to take signs of life for data.
            assert "to be acknowledged" not in program.said
            assert "for a record to" not in program.said
        mortal.restart()
        wait_for(partial(is_heard, record), what="a sign of life", timeout_s=120)
        for program, counting in running:
            counting.send(500)
            all_is_counted(program, counting)


def test_a_source_topic_deleted_in_mid_run_ends_the_program_and_keeps_what_was_counted(
    program: EmbeddedProgram, counting: Counting
) -> None:
    counting.send(100)
    program.start().runs()
    wait_for(counting.all_counted, what="all counts")

    delete(counting.topic, counting)

    program.ends_with(errors.MissingTopicError, counting.topic, "create")
    assert counting.all_counted()


@pytest.mark.soak(
    stays="tests/kafka/test_embedding.py::test_a_foreign_member_of_the_group_keeps_an_application_from_starting"
)
def test_a_foreign_member_keeps_the_program_from_starting(
    program: EmbeddedProgram, counting: Counting
) -> None:
    counting.send(100)
    with counting.joined():
        program.start().ends_with(
            errors.GroupInUseError, "a-java-application", "stop that application"
        )

    goes_on(program, counting)


def test_a_foreign_member_that_comes_while_the_program_runs_ends_it(
    program: EmbeddedProgram, counting: Counting
) -> None:
    program.start().runs()
    counting.send(100)
    wait_for(counting.all_counted, what="all counts")
    with counting.joined():
        program.ends_with(errors.GroupInUseError, counting.application_id, "stop")

    goes_on(program, counting)


def test_expired_offsets_end_the_program_with_the_choices_and_the_state_is_kept(
    program: EmbeddedProgram, counting: Counting
) -> None:
    with program.start().runs():
        counting.send(100)
        wait_for(counting.all_counted, what="all counts")
    admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})
    group = counting.application_id
    wait_for(lambda: forgotten(admin, group), what="the end of the group")
    counting.send(100)

    program.start().ends_with(
        errors.OffsetsExpiredError,
        counting.changelog,
        "kafka-streams-application-reset",
        "kafka-consumer-groups --reset-offsets",
    )

    assert counting.committed() == {0: OFFSET_INVALID, 1: OFFSET_INVALID}
    offsets = [TopicPartition(counting.topic, number, 50) for number in (0, 1)]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    admin.alter_consumer_group_offsets(request)[group].result(30)
    goes_on(program, counting)


def test_a_changelog_that_is_gone_ends_the_program_with_the_choices_and_the_state_is_kept(
    program: EmbeddedProgram, counting: Counting
) -> None:
    with program.start().runs():
        counting.send(100)
        wait_for(counting.all_counted, what="all counts")
    admin = AdminClient({"bootstrap.servers": counting.bootstrap_servers})
    admin.delete_topics([counting.changelog])[counting.changelog].result(30)
    directory = StateDirectory(program.state_dir, counting.application_id)
    before = directory.stored()
    choices = losses.choices(counting.changelog)

    program.start().ends_with(errors.ChangelogLostError, "does not exist", choices)
    # Somebody follows no choice, but makes it anew by hand.
    counting.create(counting.changelog, 2, **{"cleanup.policy": "compact"})
    program.start().ends_with(errors.ChangelogLostError, "may be the last copy", choices)

    assert directory.stored() == before
    program.config[losses.OPTION] = counting.changelog
    counting.send(10)
    with program.start().runs():
        wait_for(lambda: set(counting.counted().values()) == {1}, what="counts from the beginning")
    assert "set aside as" in program.said
    for stored in before:
        assert (directory.store(stored.task, "counts").path / "db.set-aside-1").is_dir()


def forgotten(admin: AdminClient, group: str) -> bool:
    """Delete a group's offsets, as time does."""
    admin.delete_consumer_groups([group])[group].result(30)
    return True
