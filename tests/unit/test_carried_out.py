"""What is in the StreamApp's schema is carried out: nothing is only read in, or never reported."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest
import yaml
from tests.golden.crds import ROOT
from tests.support.documents import FULL
from tests.unit.decide.cluster import Cluster, make_app

from headwater.model.appstatus import AppStatus
from headwater.model.fields import fields_of
from headwater.model.lifecycle import ClientState, Engine
from headwater.model.streamapp import StreamAppSpec, parse
from headwater.model.streamapp_pod import PodTemplate
from headwater_operator.decide import ProcessState
from headwater_operator.manifests.access import service_account
from headwater_operator.manifests.names import Owner
from headwater_operator.manifests.pod import worker_pod
from headwater_operator.manifests.settings import Installation

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_BY_NAME = {
    "StreamAppSpec.restart_nonce",  # a part of the revision, as every field of class Roll
}


class Uses(ast.NodeVisitor):
    """Attributes that some code reads and keywords that it passes, except in a schema's rules."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.passed: set[str] = set()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not (isinstance(node.target, ast.Name) and node.target.id == "RULES"):
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.attr)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self.passed.add(node.arg)
        self.generic_visit(node)


@pytest.fixture(scope="module")
def uses() -> Uses:
    found = Uses()
    for package in ("worker/headwater", "operator/headwater_operator"):
        for path in (ROOT / package).rglob("*.py"):
            found.visit(ast.parse(path.read_text()))
    return found


def test_every_field_of_the_specification_is_read(uses: Uses) -> None:
    fields = _fields(StreamAppSpec, but=PodTemplate)

    unread = {name for name, attribute in fields.items() if attribute not in uses.read}

    assert len(fields) > 40
    assert unread - NOT_BY_NAME == set()


@pytest.mark.parametrize("engine", Engine)
def test_what_runs_is_the_engine_that_is_asked_for(engine: Engine) -> None:
    cluster = Cluster(app=make_app(engine=str(engine)))

    cluster.rounds(20)

    processes = [view.process for view in cluster.views.values()]
    assert cluster.status.state is ClientState.RUNNING
    assert cluster.engine is engine
    assert cluster.driver.is_running is (engine is Engine.SPARK)
    assert (ProcessState.RUNNING in processes) is (engine is Engine.NATIVE)


def test_every_field_of_the_status_is_written(uses: Uses) -> None:
    fields = _fields(AppStatus)

    assert {name for name, attribute in fields.items() if attribute not in uses.passed} == set()


def test_every_field_of_the_pod_template_reaches_the_pod() -> None:
    document = yaml.safe_load(FULL)
    template = document["spec"]["podTemplate"]
    owner = Owner(name="counter", namespace="shop", uid="u-1")

    pod = worker_pod(
        parse(document), owner, "counter-w-0", revision="r", installation=Installation()
    )

    keys = template.keys()
    account = service_account(owner, chosen=parse(document).spec.pod_template.service_account)
    assert set(_leaves(template["serviceAccount"])) <= set(_leaves(account))
    template = {**template, "serviceAccount": {}}
    assert set(_leaves(template)) <= set(_leaves(pod))
    assert keys == {info.name for info in fields_of(PodTemplate)}


def _fields(kind: type, *, but: type | None = None) -> dict[str, str]:
    """Return the attributes of a resource class and of everything in it, by class and name."""
    return {
        f"{each.__name__}.{field.name}": field.name
        for each in _classes(kind, but)
        for field in dataclasses.fields(each)
    }


def _classes(kind: type, but: type | None) -> Iterator[type]:
    yield kind
    hints = get_type_hints(kind)
    found = [hints[field.name] for field in dataclasses.fields(kind)]
    while found:
        hint = found.pop()
        found += get_args(hint)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint is not but:
            yield from _classes(hint, but)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value that is no collection, with the name of its field."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    else:
        yield name, value
