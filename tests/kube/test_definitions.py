"""The definitions on a real API server: what it takes and what it refuses, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from headwater.model.appstatus import AppStatus
from headwater.model.cluster import StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.spec import custom_resource_definitions
from tests.golden.crds import ROOT
from tests.kube.definitions import APPS, WORKERS, RefusedError, Resources, worker_body
from tests.support.documents import BAD_NAMES, BROKEN_RULES, GOOD, MINIMAL, MISTAKES, Case
from tests.support.rules import JUST_KEPT, PlacedRule, place_of, rules_in
from tests.support.values import apps, values_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


pytestmark = pytest.mark.usefixtures("crds")

# Every example is a few requests to a server that shares the machine.
FEW = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
EXAMPLE = ROOT / "examples" / "word_count" / "streamapp.yaml"
RULES = {
    definition["spec"]["names"]["plural"]: list(
        rules_in(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    )
    for definition in custom_resource_definitions().values()
}


@pytest.fixture(scope="session")
def checked(kube_api: ApiClient) -> Resources:
    """For dry runs alone, which leave nothing behind."""
    return Resources(kube_api, "default", APPS)


# -- the table that headwater up is tested with, too ----------------------------------------------


@pytest.mark.parametrize("case", [*GOOD, *JUST_KEPT], ids=str)
def test_a_good_document_is_accepted(case: Case, checked: Resources) -> None:
    checked.try_create(case.document)


@pytest.mark.parametrize("case", MISTAKES, ids=str)
def test_a_mistake_is_refused(case: Case, checked: Resources) -> None:
    with pytest.raises(RefusedError):
        checked.try_create(case.document)


@pytest.mark.parametrize("case", [*BROKEN_RULES, *BAD_NAMES], ids=str)
def test_a_broken_rule_is_told_with_the_message_of_headwater_up(
    case: Case, checked: Resources
) -> None:
    broken = _broken_by(case, checked)

    assert [rule for rule in broken if rule.message.startswith(case.rule)]


def test_every_rule_is_broken_by_a_document_that_breaks_nothing_else(checked: Resources) -> None:
    alone = set()
    for case in (*BROKEN_RULES, *BAD_NAMES):
        broken = _broken_by(case, checked)
        alone |= set(broken if len(broken) == 1 else ())

    never = [rule for rule in RULES[APPS] if not rule.is_about_a_change and rule not in alone]
    assert never == []


def _broken_by(case: Case, checked: Resources) -> list[PlacedRule]:
    """Return the rules that the API server finds broken, by where it says they stand."""
    with pytest.raises(RefusedError) as caught:
        checked.try_create(case.document)
    return [
        rule
        for field, message in caught.value.causes
        for rule in RULES[APPS]
        if place_of(field) == rule.blames and message.endswith(rule.message)
    ]


# -- rules about a change -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a resource's specification.

    Attributes:
        what: the change in words.
        before: fields of the specification.
        after: what is merged into it.
        rule: the beginning of the message of the rule that it is about.
        is_refused: whether the change breaks the rule.
    """

    what: str
    before: dict[str, Any]
    after: dict[str, Any]
    rule: str
    is_refused: bool = True

    def __str__(self) -> str:
        return self.what


_FIXED_ID = "applicationId cannot be changed: "
_ITS_APP = "a worker stays with its StreamApp"
_EPOCH = "the epoch never goes down: "
_GROWS = "slots are never taken out: "

CHANGES = {
    APPS: [
        Change("another id", {"applicationId": "a"}, {"applicationId": "b"}, _FIXED_ID),
        Change("an id where there was none", {}, {"applicationId": "b"}, _FIXED_ID),
        Change("an id taken out", {"applicationId": "a"}, {"applicationId": None}, _FIXED_ID),
        Change("the name as id", {}, {"applicationId": "counter"}, _FIXED_ID, is_refused=False),
        Change(
            "another number", {"applicationId": "a"}, {"replicas": 3}, _FIXED_ID, is_refused=False
        ),
    ],
    WORKERS: [
        Change("another app", {}, {"app": "b"}, _ITS_APP),
        Change("the same app", {}, {"app": "a"}, _ITS_APP, is_refused=False),
        Change("a lower epoch", {"epoch": 7}, {"epoch": 6}, _EPOCH),
        Change("no epoch", {"epoch": 7}, {"epoch": None}, _EPOCH),
        Change("the same epoch", {"epoch": 7}, {"drain": True}, _EPOCH, is_refused=False),
        Change("a higher epoch", {"epoch": 7}, {"epoch": 8}, _EPOCH, is_refused=False),
        Change("the first epoch", {}, {"epoch": 1}, _EPOCH, is_refused=False),
        Change("a slot less", {"slots": [0, 1]}, {"slots": [0, 2]}, _GROWS),
        Change("no slots", {"slots": [0]}, {"slots": None}, _GROWS),
        Change("a slot more", {"slots": [0]}, {"slots": [0, 1]}, _GROWS, is_refused=False),
        Change("the first slots", {}, {"slots": [0, 1]}, _GROWS, is_refused=False),
    ],
}


@pytest.mark.parametrize("change", CHANGES[APPS], ids=str)
def test_the_application_id_of_a_streamapp_stays(change: Change, stream_apps: Resources) -> None:
    _check(change, stream_apps, yaml.safe_load(MINIMAL))


@pytest.mark.parametrize("change", CHANGES[WORKERS], ids=str)
def test_what_a_stream_worker_has_promised_stays(change: Change, stream_workers: Resources) -> None:
    _check(change, stream_workers, worker_body(StreamWorker(name="w", spec=WorkerSpec(app="a"))))


def _check(change: Change, resources: Resources, body: dict[str, Any]) -> None:
    name = body["metadata"]["name"]
    resources.create({**body, "spec": {**body["spec"], **change.before}})
    if not change.is_refused:
        assert resources.patch(name, {"spec": change.after})
        return
    with pytest.raises(RefusedError) as caught:
        resources.patch(name, {"spec": change.after})
    [(field, message)] = caught.value.causes
    [rule] = [rule for rule in RULES[resources.plural] if rule.message.startswith(change.rule)]
    assert field == rule.blames
    assert message.endswith(rule.message)


@pytest.mark.parametrize("plural", [APPS, WORKERS])
def test_every_rule_about_a_change_refuses_some_and_takes_others(plural: str) -> None:
    about_changes = [rule for rule in RULES[plural] if rule.is_about_a_change]
    verdicts = {
        rule.message: {
            change.is_refused for change in CHANGES[plural] if rule.message.startswith(change.rule)
        }
        for rule in about_changes
    }

    assert verdicts
    assert [message for message, seen in verdicts.items() if seen != {True, False}] == []


# -- what the codec writes ------------------------------------------------------------------------


def test_whatever_the_codec_writes_is_kept_as_it_is(
    stream_apps: Resources, stream_workers: Resources
) -> None:
    @FEW
    @given(app=apps(), status=values_of(AppStatus))
    def streamapps_are_kept(app: StreamApp, status: AppStatus) -> None:
        app = replace(app, name=f"a{uuid4().hex}")
        spec = replace(app.spec, scale_down=replace(app.spec.scale_down, workers_to_remove=()))
        app = replace(app, spec=spec)
        stream_apps.create(app.to_dict())
        stream_apps.write_status(app.name, status.to_dict())
        kept = stream_apps.read(app.name)
        stream_apps.delete(app.name)
        assert parse(kept) == app
        assert AppStatus.from_dict(kept["status"]) == status

    @FEW
    @given(spec=values_of(WorkerSpec), status=values_of(WorkerStatus))
    def stream_workers_are_kept(spec: WorkerSpec, status: WorkerStatus) -> None:
        worker = StreamWorker(name=f"w{uuid4().hex}", spec=spec, status=status)
        body = worker.to_dict()
        stream_workers.create(worker_body(worker))
        stream_workers.write_status(worker.name, body["status"])  # type: ignore[arg-type]
        kept = stream_workers.read(worker.name)
        stream_workers.delete(worker.name)
        assert StreamWorker.from_dict(kept) == worker

    streamapps_are_kept()
    stream_workers_are_kept()
