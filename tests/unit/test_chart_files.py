"""The chart's files: copies as generated, one list of values, rules that are the operator's own."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.golden.chart import CHART, chart_files

from headwater.model import podcontract
from headwater_operator.handlers.commands import register
from headwater_operator.manifests.permissions import caller_rules, operator_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("path", sorted(chart_files()), ids=lambda path: path.name)
def test_what_is_committed_is_what_make_crds_writes(path: Path) -> None:
    assert path.read_text() == chart_files()[path], "run: make crds"


def test_the_chart_holds_the_definitions_and_nothing_beside_them() -> None:
    copies = {path.name: path.read_text() for path in (CHART / "files" / "crds").iterdir()}

    assert copies == {path.name: path.read_text() for path in (ROOT / "crds").iterdir()}
    # Where the template writes what Helm needs to know.
    assert [text.count("\nmetadata:\n") for text in copies.values()] == [1] * 4


def test_every_template_begins_with_values_that_are_complete() -> None:
    templates = [each for each in (CHART / "templates").iterdir() if each.name[0] != "_"]
    begin = re.compile(r'(\{\{- /\*.*?\*/ -\}\}\n)?\{\{- include "headwater.complete" . -\}\}\n')

    assert [each.name for each in templates if not begin.match(each.read_text())] == []


def test_the_rules_of_a_whole_cluster_are_those_of_namespaces_and_nodes() -> None:
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())

    assert rules["namespace"] + rules["nodes"] == operator_rules()
    assert not any("secrets" in rule["resources"] for rule in operator_rules())
    assert rules["caller"] == caller_rules("headwater-operator-caller")


def objects(schema: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of the schema that lists fields, with where it stands."""
    if "properties" in schema:
        yield place, schema
        for name, field in schema["properties"].items():
            yield from objects(field, f"{place}.{name}")


def test_every_value_has_a_meaning_and_no_other_is_taken() -> None:
    silent = [
        f"{place}.{name}"
        for place, part in objects(SCHEMA)
        for name, field in part["properties"].items()
        if not field.get("description", "").endswith(".")
    ]

    assert [place for place in silent if ".requests" not in place] == []
    assert [place for place, part in objects(SCHEMA) if part["additionalProperties"]] == []


def test_every_value_stands_in_the_list_of_defaults() -> None:
    def leaves(part: dict[str, Any], value: Any, place: str = "") -> Iterator[str]:
        for name, field in part["properties"].items():
            if place == "" and name == "global":
                continue
            if not isinstance(value, dict) or name not in value:
                yield f"{place}{name}"
            elif "properties" in field:
                yield from leaves(field, value[name], f"{place}{name}.")

    assert list(leaves(SCHEMA, VALUES)) == []


def test_the_chart_has_the_number_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["version"] == chart["appVersion"] == project["version"]


def test_what_a_catalogue_is_told_is_what_the_chart_holds() -> None:
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    crds, images, changes = (
        yaml.safe_load(told["annotations"][f"artifacthub.io/{name}"])
        for name in ("crds", "images", "changes")
    )
    held = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").iterdir())]
    version = told["appVersion"]

    assert [(each["name"], each["kind"], each["version"]) for each in crds] == [
        (
            each["metadata"]["name"],
            each["spec"]["names"]["kind"],
            each["spec"]["versions"][0]["name"],
        )
        for each in held
    ]
    assert {each["name"]: each["image"] for each in images} == {
        "operator": f"{VALUES['image']['repository']}:{version}",
        "worker": f"headwater-worker:{version}",
    }
    assert {each["kind"] for each in changes} <= {"added", "changed", "fixed", "removed"}
    assert all(each["description"] for each in changes)


def test_every_variable_that_the_chart_sets_is_one_that_the_operator_reads() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    register(commands)
    known = set(re.findall(r"--[a-z-]+", commands.choices["operator"].format_help()))
    text = "".join(
        (CHART / "templates" / f"{name}.yaml").read_text() for name in ("deployment", "uninstall")
    )
    told = {
        "--" + name.lower().replace("_", "-") for name in re.findall(r"name: HEADWATER_(\w+)", text)
    }

    assert told - {"--watch-namespaces"} <= known


def test_the_admission_policy_knows_workers_by_the_name_of_their_account() -> None:
    text = (CHART / "templates" / "admissionpolicy.yaml").read_text()

    assert f"'^system:serviceaccount:[^:]+:{podcontract.SERVICE_ACCOUNT_PREFIX}'" in text
    assert f"resources: [{podcontract.WORKERS}, {podcontract.WORKERS}/status]" in text
