"""Every kind of bad input has its tests; what a person wrote wrong ends a command with one line."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from headwater.cli.main import main
from headwater.errors import ConfigError, ImportPathError, SpecError, TopologyError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
HERE = "tests/unit/test_bad_input.py"
BROKER = "tests/kafka/test_bad_broker.py"
WORKER = "tests/kafka/test_bad_input.py"
RECORDS = "tests/unit/processor/test_bad_input.py"
EMBEDDED = "tests/kafka/test_embedding.py"
PROGRAM = "tests/kafka/test_embedding_bad_input.py"
LOCAL = "tests/kafka/test_local_cluster.py"
DEFINITIONS = "tests/kube/test_definitions.py"
USERS = "tests/kube/test_journeys.py"
ROUNDS = "tests/unit/kube_operator/test_rounds.py"
RIGHTS = "tests/kafka/test_kafka_rights.py"
AWAY = "tests/kube/test_broker_away.py"
SECRETS = "tests/kube/test_kafka_secrets.py"
BACKFILL = "tests/spark/test_backfill.py"
CONTINUOUS = "tests/spark/test_continuous.py"
RULES = "tests/unit/test_topology_rules.py"
REGISTRY = "tests/kafka/test_registry_worker.py"
NO_JAVA = "tests/unit/spark/test_without_java.py"
FROM_SECRETS = "test_credentials_go_from_secrets_to_kafka_and_what_is_wrong_with_them_is_named"

COVERAGE = {
    "undecodable key or value": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_continue_drops_counts_warns_and_goes_on",
        f"{WORKER}::test_a_bad_record_ends_the_worker_at_its_offset_and_the_cure_it_names_skips_just_that_one",
        f"{EMBEDDED}::test_what_ends_an_application_is_raised_to_who_waits_for_it",
        f"{PROGRAM}::test_a_bad_record_ends_the_program_at_its_offset_and_the_cure_it_names_skips_just_that_one",
    ],
    "negative or missing timestamp": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_extractors_give_the_timestamp",
        f"{WORKER}::test_a_bad_record_ends_the_worker_at_its_offset_and_the_cure_it_names_skips_just_that_one",
        f"{PROGRAM}::test_a_bad_record_ends_the_program_at_its_offset_and_the_cure_it_names_skips_just_that_one",
    ],
    "unknown source topic": [
        "tests/unit/test_partitions.py::test_topics_that_do_not_fit_are_named",
        f"{BROKER}::test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "source topic deleted in mid-run": [
        f"{WORKER}::test_a_source_topic_deleted_in_mid_run_ends_the_worker_and_keeps_what_was_counted",
        f"{PROGRAM}::test_a_source_topic_deleted_in_mid_run_ends_the_program_and_keeps_what_was_counted",
    ],
    # No operation of the DSL asks for co-partitioning yet, so descriptions made by hand do.
    "partition counts of co-partitioned topics": [
        "tests/unit/test_partitions.py::test_external_topics_that_are_joined_must_have_equal_counts",
        "tests/unit/test_partitions.py::test_an_enforced_count_must_equal_that_of_the_topic_it_is_joined_with",
        "tests/unit/test_partitions.py::test_two_enforced_counts_in_a_join_must_be_equal",
    ],
    "partition count of an existing changelog": [
        f"{BROKER}::test_topics_that_do_not_fit_end_headwater_up_before_anything_is_written",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "wrong YAML field or type": [
        f"{HERE}::test_a_mistake_in_the_file_is_named_in_one_line_by_every_command",
        "tests/unit/test_streamapp.py::test_a_mistake_is_named_with_its_path",
        "tests/kafka/test_local_cluster.py::test_a_users_mistake_ends_up_with_a_message_and_no_traceback",
    ],
    "unknown serde": [
        f"{HERE}::test_a_mistake_that_only_a_worker_sees_is_named_in_one_line",
        "tests/unit/test_config.py::test_a_serde_that_cannot_be_had_is_named",
        f"{EMBEDDED}::test_a_users_mistake_is_told_by_the_constructor",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "import path that fails": [
        f"{HERE}::test_a_mistake_that_only_a_worker_sees_is_named_in_one_line",
        "tests/unit/test_loading.py::test_a_path_that_leads_nowhere_says_why_and_what_next",
        "tests/kafka/test_local_cluster.py::test_a_users_mistake_ends_up_with_a_message_and_no_traceback",
        f"{EMBEDDED}::test_a_users_mistake_is_told_by_the_constructor",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "unreachable broker at start": [
        f"{BROKER}::test_a_broker_that_never_answers_ends_headwater_up",
        "tests/unit/service/test_giving_up.py::test_a_broker_that_never_answers_is_given_up_after_the_time_out_from_the_first_start",
        f"{EMBEDDED}::test_what_cannot_run_does_not_start",
        f"{PROGRAM}::test_what_is_wrong_from_the_beginning_ends_the_program_before_anything_is_written",
    ],
    "unreachable broker in mid-run": [
        f"{BROKER}::test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later",
        "tests/kafka/test_stream_thread.py::test_a_restart_of_the_broker_in_mid_run_loses_nothing",
        "tests/unit/service/test_giving_up.py::test_a_broker_lost_in_mid_run_is_given_up_when_the_thread_has_waited_for_it",
        f"{PROGRAM}::test_a_broker_killed_in_mid_run_is_given_up_after_the_time_out_and_the_rest_is_made_up_later",
        f"{PROGRAM}::test_a_broker_that_comes_back_in_time_is_made_up_with",
    ],
    "authentication failure": [
        f"{BROKER}::test_a_worker_that_the_broker_refuses_ends_at_once",
        f"{BROKER}::test_headwater_up_ends_when_the_broker_refuses",
        f"{PROGRAM}::test_a_broker_that_refuses_us_ends_the_program",
    ],
    "full disk": [
        f"{WORKER}::test_a_full_disk_ends_the_worker_and_costs_nothing_but_the_time_to_make_room",
        "tests/contract/test_store_faults.py::test_a_write_refused_by_a_full_disk_changes_nothing",
        "tests/contract/test_store_faults.py::test_a_full_disk_is_named_and_nothing_is_lost_or_half_written",
        f"{PROGRAM}::test_a_full_disk_ends_the_program_and_costs_nothing_but_the_time_to_make_room",
    ],
    "store directory used by another process": [
        f"{WORKER}::test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named",
        f"{PROGRAM}::test_a_store_that_another_process_has_open_is_waited_for_a_while_and_its_holder_named",
    ],
    "message larger than the broker takes": [
        f"{WORKER}::test_a_record_larger_than_the_broker_takes_ends_the_worker_and_is_read_again_later",
        f"{PROGRAM}::test_a_record_larger_than_the_broker_takes_ends_the_program_and_is_read_again_later",
    ],
    "foreign member in the group": [
        f"{BROKER}::test_a_java_application_started_beside_ours_stops_ours",
        f"{BROKER}::test_ours_started_a_second_after_the_end_of_javas_says_whom_it_waits_for_and_then_runs",
        f"{EMBEDDED}::test_a_foreign_member_of_the_group_keeps_an_application_from_starting",
        f"{PROGRAM}::test_a_foreign_member_keeps_the_program_from_starting",
        f"{PROGRAM}::test_a_foreign_member_that_comes_while_the_program_runs_ends_it",
    ],
    "a changelog that is gone": [
        f"{PROGRAM}::test_a_changelog_that_is_gone_ends_the_program_with_the_choices_and_the_state_is_kept",
        f"{LOCAL}::test_a_changelog_that_is_gone_stops_the_application_and_the_stores_are_kept",
        "tests/kafka/test_updater.py::test_the_last_copy_of_a_state_is_left_as_it_is_until_somebody_gives_it_up",
    ],
    "expired group offsets": [
        f"{WORKER}::test_expired_offsets_stop_the_application_with_the_choices_and_the_state_is_kept",
        f"{PROGRAM}::test_expired_offsets_end_the_program_with_the_choices_and_the_state_is_kept",
    ],
    # On a cluster.
    "each CEL rule": [
        f"{DEFINITIONS}::test_a_broken_rule_is_told_with_the_message_of_headwater_up",
        f"{DEFINITIONS}::test_every_rule_is_broken_by_a_document_that_breaks_nothing_else",
        f"{DEFINITIONS}::test_every_rule_about_a_change_refuses_some_and_takes_others",
        "tests/unit/test_definitions.py::test_every_rule_has_a_document_that_just_keeps_it",
    ],
    "missing Secret": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
        f"{SECRETS}::{FROM_SECRETS}",
    ],
    "image that cannot be pulled": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
        f"{USERS}::test_a_new_image_is_rolled_out_and_one_that_does_not_exist_halts",
        f"{ROUNDS}::test_an_image_that_cannot_be_pulled_is_named_and_waited_for",
        "tests/e2e/test_journey.py::test_a_bad_tag_halts_the_roll_out_and_costs_nothing",
    ],
    "storage class that does not exist": [
        f"{USERS}::test_what_keeps_workers_from_starting_is_named_with_the_next_step",
    ],
    "topic without rights": [
        f"{RIGHTS}::test_what_is_not_allowed_is_named_with_the_acl_to_add_and_then_it_goes_on",
        f"{SECRETS}::{FROM_SECRETS}",
    ],
    "two StreamApps with one application id": [
        f"{USERS}::test_of_two_streamapps_with_one_application_id_the_older_runs",
        f"{ROUNDS}::test_of_two_streamapps_with_one_application_id_only_the_older_runs",
        f"{ROUNDS}::test_one_application_id_on_two_kafkas_is_two_applications",
    ],
    "deletion while the broker is unreachable": [
        f"{AWAY}::test_streamapps_deleted_while_their_broker_is_away_leave_nothing_and_lose_nothing",
    ],
    "hand-edited StreamWorker": [
        f"{USERS}::test_a_streamworker_edited_by_hand_is_fenced_and_written_anew",
        f"{ROUNDS}::test_a_streamworker_changed_by_hand_is_fenced_and_written_anew",
        f"{ROUNDS}::test_an_epoch_raised_by_hand_is_outdone",
    ],
    "replicas above the number of tasks": [
        f"{USERS}::test_no_workers_and_more_workers_than_tasks_are_both_a_state_of_rest",
        f"{ROUNDS}::test_more_workers_than_tasks_are_reported_not_refused",
    ],
    "replicas 0": [
        f"{USERS}::test_no_workers_and_more_workers_than_tasks_are_both_a_state_of_rest",
        f"{ROUNDS}::test_no_replicas_at_all_is_a_state_of_rest",
    ],
    "namespace deleted in the middle of a scale-up": [
        f"{USERS}::test_a_namespace_deleted_in_the_middle_of_a_scale_up_goes_away",
        f"{ROUNDS}::test_a_namespace_deleted_in_the_middle_of_a_scale_up_leaves_nothing",
    ],
    # Of the language.
    "null key or value": [
        "tests/unit/processor/test_operators.py::test_a_null_key_or_value_of_an_aggregation_is_counted_as_dropped",
        "tests/unit/processor/test_operators.py::test_repartitioning_drops_null_keys_without_counting_them",
    ],
    "late record": [
        "tests/unit/processor/test_windowed.py::test_a_window_is_open_until_stream_time_reaches_its_end_and_grace",
    ],
    "function that raises or returns the wrong type": [
        f"{RECORDS}::test_fail_stops_at_the_record_and_says_where_and_what_next",
        f"{RECORDS}::test_what_only_looks_like_pairs_is_not_taken_apart",
        f"{RECORDS}::test_a_serde_that_a_repartition_lacks_is_named_with_its_node",
    ],
    "rule of a topology, negative grace, retention below the window, join of two builders": [
        f"{RULES}::test_who_breaks_a_rule_is_told_where_and_what_to_change",
    ],
    "registry down, without the schema, or refusing it": [
        f"{REGISTRY}::test_a_registry_that_gives_no_schema_ends_the_application_with_the_next_step",
        "tests/kafka/test_schema_registry.py::test_a_registry_that_does_not_answer_is_named_without_its_password",
    ],
    # On Spark.
    "retention has passed where a backfill begins": [
        f"{BACKFILL}::test_what_retention_has_deleted_is_not_passed_over",
        f"{BACKFILL}::test_records_deleted_while_the_backfill_runs_end_it",
    ],
    "partitions added while Spark runs": [
        f"{BACKFILL}::test_a_partition_added_while_the_backfill_runs_ends_it",
        f"{CONTINUOUS}::test_a_topic_that_gets_partitions_ends_the_driver_with_a_sentence",
    ],
    "group that still has members": [
        f"{BACKFILL}::test_a_group_with_members_is_refused",
        f"{CONTINUOUS}::test_what_must_not_be_is_refused",
    ],
    "internal topics of another generation": [
        f"{BACKFILL}::test_topics_that_are_not_the_backfills_own_are_refused",
        f"{BACKFILL}::test_an_unfinished_backfill_is_gone_on_with_only_if_nothing_has_changed",
    ],
    "topology that the chosen target cannot compute": [
        "tests/spark/test_dataframes_on_kafka.py::test_what_dataframes_cannot_do_is_named",
        "tests/unit/spark/test_translate.py::test_what_is_not_provably_equal_is_left_to_tasks",
    ],
    "Java that is too old, or none": [
        f"{NO_JAVA}::test_a_java_that_is_too_old_is_named",
        f"{NO_JAVA}::test_a_machine_without_java_is_told_how_to_get_one",
    ],
    "jars that cannot be had": [
        f"{NO_JAVA}::test_without_the_connectors_jars_there_is_another_reader",
    ],
    "checkpoint of another application": [
        f"{CONTINUOUS}::test_what_must_not_be_is_refused",
    ],
    "executor, Python worker or driver killed": [
        "tests/spark/test_on_spark.py::test_a_python_worker_killed_in_a_transaction_and_then_the_driver",
        f"{BACKFILL}::test_a_backfill_that_is_killed_at_every_step_is_exact",
        f"{CONTINUOUS}::test_outputs_are_exact_whoever_is_killed",
    ],
}


@pytest.mark.parametrize("row", COVERAGE)
def test_every_kind_of_bad_input_has_tests(row: str) -> None:
    for test in COVERAGE[row]:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


GOOD: dict[str, Any] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "orders"},
    "spec": {
        "topology": {"module": "examples.word_count.app:build"},
        "kafka": {"bootstrapServers": "127.0.0.1:1"},
    },
}


def changed(path: str, value: object) -> str:
    """The good document, as YAML, with one field changed; ``None`` takes it away."""
    document = yaml.safe_load(yaml.safe_dump(GOOD))
    *parents, last = path.split(".")
    place = document
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    if value is None:
        del place[last]
    return yaml.safe_dump(document)


FILES = [
    pytest.param(changed("spec.replcas", 2), ["spec.replcas", "replicas"], id="unknown field"),
    pytest.param(changed("spec.replicas", "two"), ["spec.replicas", "'two'"], id="wrong type"),
    pytest.param(changed("spec.replicas", True), ["spec.replicas"], id="truth for a number"),
    pytest.param(
        changed("spec.processingGuarantee", "exactly_twice"),
        ["spec.processingGuarantee", "exactly_once_v2"],
        id="unknown choice",
    ),
    pytest.param(changed("spec.topology", None), ["spec.topology"], id="missing field"),
    pytest.param(changed("kind", "StreamUp"), ["kind"], id="another kind"),
    pytest.param("spec: [", ["streamapp.yaml"], id="no YAML"),
    pytest.param("- 1\n- 2\n", [], id="no mapping"),
    pytest.param(b"\xff\xfe\x00", ["streamapp.yaml"], id="no text"),
    pytest.param(None, ["streamapp.yaml"], id="no file"),
]


@pytest.mark.parametrize("command", ["up", "worker"])
@pytest.mark.parametrize(("text", "words"), FILES)
def test_a_mistake_in_the_file_is_named_in_one_line_by_every_command(
    command: str,
    text: str | bytes | None,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    arguments = {
        "up": ["up", "--plain", "-f", str(file), "--home", str(tmp_path / "home")],
        "worker": worker(tmp_path, "--streamapp", str(file)),
    }

    code = main(arguments[command])

    assert code == SpecError.exit_code
    assert_one_line(capsys, words)
    assert not (tmp_path / "home").exists()


def worker(tmp_path: Path, *arguments: str) -> list[str]:
    return [
        *("worker", "--app", "orders", "--name", "orders-w-0"),
        *("--cluster-dir", str(tmp_path / "cluster"), "--state-dir", str(tmp_path / "state")),
        *arguments,
    ]


def assert_one_line(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert [word for word in words if word not in said] == [], said


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[str]:
    """A directory with an application that cannot be built, to be put on the import path."""
    directory = tmp_path / "applications"
    directory.mkdir()
    (directory / "bad_applications.py").write_text(
        "number = 3\n"
        "def raises(builder): raise ValueError('no luck')\n"
        "def misspells(builder): builder.stream('a').to('a', value_serde='strnig')\n"
        "def twice(builder): builder.table('a', store='s'); builder.table('b', store='s')\n"
    )
    (directory / "needs_more.py").write_text("import no_such_package\n")
    return str(directory)


MISTAKES = [
    pytest.param(
        "spec.topology.module", "no_such_module:build", ImportPathError,
        ["no_such_module", "PYTHONPATH"], id="no module",
    ),
    pytest.param(
        "spec.topology.module", "needs_more:build", ImportPathError,
        ["no_such_package", "install"], id="module that fails",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:missing", ImportPathError,
        ["has no 'missing'"], id="no function",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:number", ImportPathError,
        ["not a function"], id="no function but a number",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:raises", ImportPathError,
        ["ValueError: no luck"], id="function that raises",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:twice", TopologyError,
        ["already called 's'"], id="topology that breaks a rule",
    ),
    pytest.param(
        "spec.topology.module", "bad_applications:misspells", TopologyError,
        ["value_serde is 'strnig'", "Serdes.string"], id="unknown serde in the topology",
    ),
    pytest.param(
        "spec.config", {"default.value.serde": "strnig"}, ConfigError,
        ["default.value.serde", "'strnig'", "did you mean 'string'"], id="unknown default serde",
    ),
    pytest.param(
        "spec.config", {"commit.interval.ms": "soon"}, ConfigError,
        ["commit.interval.ms", "'soon'"], id="wrong type of an option",
    ),
    pytest.param(
        "spec.config", {"max.poll.interval.ms": "soon"}, ConfigError,
        ["max.poll.interval.ms", "'soon'"], id="wrong type of a client's setting",
    ),
    pytest.param(
        "spec.config", {"buffer.memory": "64MB"}, ConfigError,
        ["buffer.memory", "'64MB'"], id="a unit where a number belongs",
    ),
    pytest.param(
        "spec.kafka.bootstrapServers", "nowhere", UserError,
        ["nowhere", "host:port"], id="address without port",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "error", "words"), MISTAKES)
def test_a_mistake_that_only_a_worker_sees_is_named_in_one_line(
    path: str,
    value: object,
    error: type[UserError],
    words: list[str],
    tmp_path: Path,
    applications: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(changed(path, value))

    code = main(worker(tmp_path, "--streamapp", str(file), "--import-path", applications))

    assert code == error.exit_code
    assert_one_line(capsys, words)


FLAGS = [
    pytest.param("spec", ["--topology", "a:b"], SpecError, ["spec: expected"], id="spec is none"),
    pytest.param(
        "spec.kafka", ["--bootstrap", "a:1"], SpecError, ["spec.kafka: exp"], id="kafka is none"
    ),
    pytest.param("", ["--http-port", "99999"], ConfigError, ["99999", "--http-port"], id="port"),
    pytest.param("", ["--config", "a"], ConfigError, ["--config a", "NAME=VALUE"], id="no value"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "flags", "error", "words"), FLAGS)
def test_a_flag_beside_a_wrong_file_or_with_a_wrong_value_is_named_in_one_line(
    path: str,
    flags: list[str],
    error: type[UserError],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(changed(path, 3) if path else yaml.safe_dump(GOOD))

    code = main(worker(tmp_path, "--streamapp", str(file), *flags))

    assert code == error.exit_code
    assert_one_line(capsys, words)


def test_a_level_of_the_log_that_does_not_exist_is_named_wherever_it_was_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_LOG_LEVEL", "LOUD")

    assert main(worker(tmp_path)) == ConfigError.exit_code
    assert_one_line(capsys, ["'LOUD'", "WARNING"])
