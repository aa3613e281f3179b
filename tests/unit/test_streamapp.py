"""The StreamApp as a user writes it: defaults, and messages that name the field."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, get_args, get_type_hints

import pytest
import yaml
from tests.support.documents import (
    AUTOSCALED,
    BAD_NAMES,
    BROKEN_RULES,
    FULL,
    GOOD,
    LEFT_OUT,
    MINIMAL,
    MISTAKES,
    Case,
)
from tests.support.rules import JUST_KEPT
from tests.support.structural import problems

from headwater.errors import SpecError
from headwater.model.fields import rules_of
from headwater.model.streamapp import (
    Engine,
    ProcessingGuarantee,
    Retention,
    StreamApp,
    StreamAppSpec,
    TopicSpec,
    parse,
)
from headwater_operator.spec import custom_resource_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFINITION = custom_resource_definitions()["streamapps.headwater.dev"]
SCHEMA = _DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_a_minimal_streamapp_takes_kafka_streams_defaults():
    app = parse(yaml.safe_load(MINIMAL))

    assert app.application_id == "counter"
    assert app.spec.engine is Engine.NATIVE
    assert app.spec.replicas == 1
    assert app.spec.threads_per_worker == 1
    assert app.spec.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
    assert app.spec.kafka.bootstrap_servers is None
    assert app.spec.assignment.move_delay_ms == 30_000
    assert app.spec.topology.function_name == "build"
    assert not app.is_exactly_once


def test_every_field_is_read():
    app = parse(yaml.safe_load(FULL))

    assert app.application_id == "counting"
    assert app.is_exactly_once
    assert app.spec.threads_per_worker == 3
    assert app.spec.assignment.move_delay_ms == 500
    assert app.spec.kafka.topics == (
        TopicSpec(name="TextLinesTopic", partitions=4, config={"retention.ms": -1}),
    )
    assert app.spec.config == {
        "commit.interval.ms": 100,
        "statestore.cache.max.bytes": "0",
        "some.flag": "true",
    }
    assert app.spec.state.retention.when_scaled is Retention.DELETE
    default = parse(yaml.safe_load(MINIMAL)).spec
    same = [
        field.name
        for field in dataclasses.fields(StreamAppSpec)
        if getattr(default, field.name) == getattr(app.spec, field.name)
    ]
    # A suspended application has another test, as has one whose image is in a catalogue; Spark
    # cannot pause, and is not autoscaled.
    assert same == ["topology", "image_catalog_ref", "autoscaling", "suspend", "paused"]


@pytest.mark.parametrize("text", [MINIMAL, FULL, AUTOSCALED], ids=["minimal", "full", "autoscaled"])
def test_a_streamapp_survives_a_round_trip(text: str):
    app = parse(yaml.safe_load(text))

    assert parse(yaml.safe_load(yaml.safe_dump(app.to_dict()))) == app


@pytest.mark.parametrize("case", [*GOOD, *JUST_KEPT], ids=str)
def test_a_good_document_is_accepted(case: Case):
    app = parse(case.document)

    assert parse(app.to_dict()) == app


@pytest.mark.parametrize("case", [*MISTAKES, *BAD_NAMES], ids=str)
def test_a_mistake_is_named_with_its_path(case: Case):
    with pytest.raises(SpecError) as caught:
        parse(case.document)

    assert case.says
    assert case.says in str(caught.value)


@pytest.mark.parametrize("case", BROKEN_RULES, ids=str)
def test_a_broken_rule_is_told_with_its_message(case: Case):
    with pytest.raises(SpecError) as caught:
        parse(case.document)

    assert case.rule in str(caught.value)
    assert str(caught.value).startswith("spec.")


@pytest.mark.parametrize("case", [*GOOD, *JUST_KEPT, *BROKEN_RULES, *MISTAKES], ids=str)
def test_the_schema_refuses_what_is_refused_here_but_for_rules(case: Case):
    assert bool(problems(case.document, SCHEMA)) == bool(case.says)


def test_every_rule_that_can_be_broken_here_is_broken_in_the_table():
    def messages(kind: type) -> Iterator[str]:
        for rule in rules_of(kind):
            if rule.holds is not None:
                yield rule.message
        for hint in get_type_hints(kind).values():
            for inner in (hint, *get_args(hint)):
                if dataclasses.is_dataclass(inner):
                    assert isinstance(inner, type)
                    yield from messages(inner)

    told = [case.rule for case in BROKEN_RULES]
    every = set(messages(StreamApp))

    assert len(every) > 15
    assert {message for message in every if not any(message.startswith(r) for r in told)} == set()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata/name", "Word_Count", "metadata.name: expected at most 53 lower-case letters"),
        ("metadata/name", LEFT_OUT, "metadata.name: required field is missing"),
        ("apiVersion", "v1", "apiVersion: expected 'headwater.dev/v1alpha1', got 'v1'"),
        ("kind", "StreamWorker", "kind: expected 'StreamApp', got 'StreamWorker'"),
        ("kind", LEFT_OUT, "kind: required field is missing"),
    ],
    ids=["an unfit name", "no name", "another version", "another kind", "no kind"],
)
def test_a_document_of_another_kind_or_without_a_name_is_refused(
    path: str, value: object, message: str
):
    with pytest.raises(SpecError) as caught:
        parse(Case(path, value).document)

    assert message in str(caught.value)


def test_a_field_name_that_yaml_reads_as_a_number_is_refused():
    with pytest.raises(SpecError, match=r"spec: expected a field name, got 1; put it in quotes"):
        parse(Case("spec", {1: 2}).document)


@pytest.mark.parametrize("document", [None, [], "text"], ids=["nothing", "list", "text"])
def test_a_document_that_is_no_mapping_is_refused(document: object):
    with pytest.raises(SpecError, match="expected a StreamApp"):
        parse(document)


def test_scaling_checks_the_schema():
    app = parse(yaml.safe_load(FULL))

    assert app.with_replicas(5).spec.replicas == 5
    with pytest.raises(SpecError, match=r"spec\.replicas"):
        app.with_replicas(-1)


def test_a_suspended_streamapp_wants_no_workers_and_keeps_its_replicas():
    app = parse(Case("spec/suspend", True).document)

    assert app.wanted_workers == 0
    assert app.spec.replicas == 2
    assert parse(yaml.safe_load(FULL)).wanted_workers == 2


def test_the_name_is_the_application_id_unless_given():
    app = parse(yaml.safe_load(MINIMAL))

    assert StreamApp(name="other", spec=app.spec).application_id == "counter"
