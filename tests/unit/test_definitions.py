"""The custom resource definitions: committed as generated, small, and read by no other rules."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import yaml
from tests.golden.crds import ROOT, generated
from tests.golden.language import missing_rows
from tests.support.rules import JUST_KEPT, place_of, rules_in

from headwater.model.cluster import WorkerSpec
from headwater.model.fields import Rule, meta
from headwater_operator.spec import custom_resource_definitions
from headwater_operator.spec.schema import object_schema, type_schema

REFERENCE = ROOT / "docs" / "reference" / "streamapp.md"
DEFINITIONS = custom_resource_definitions()


def version_of(name: str) -> dict[str, Any]:
    version: dict[str, Any] = DEFINITIONS[name]["spec"]["versions"][0]
    return version


def test_every_public_method_of_the_language_stands_in_a_row() -> None:
    assert missing_rows() == frozenset(), "add a row to tests/golden/language_rows.py"


@pytest.mark.parametrize("path", sorted(generated()), ids=lambda path: path.name)
def test_what_is_committed_is_what_make_crds_writes(path: Any) -> None:
    assert path.read_text() == generated()[path], "run: make crds"


def test_a_definition_stays_small_enough_for_any_client() -> None:
    """What is applied is kept as JSON in an annotation, too, if a client does not ask the server.

    All annotations of an object are 256 KiB at most.
    """
    sizes = {
        path.name: len(json.dumps(yaml.safe_load(text), separators=(",", ":")))
        for path, text in generated().items()
        if path.suffix == ".yaml"
    }

    assert sizes.keys() == {
        "streamapps.headwater.dev.yaml",
        "streamworkers.headwater.dev.yaml",
        "streamactions.headwater.dev.yaml",
        "streamimagecatalogs.headwater.dev.yaml",
    }
    assert max(sizes.values()) < 128 * 1024


def test_a_generated_definition_is_plain_yaml_without_anchors() -> None:
    texts = [text for path, text in generated().items() if path.suffix == ".yaml"]

    assert [yaml.safe_load(text) for text in texts] == list(DEFINITIONS.values())
    assert not any(re.search(r"(^|\s)[&*]id\d", text) for text in texts)


def test_short_names_subresources_and_few_columns() -> None:
    app, worker = version_of("streamapps.headwater.dev"), version_of("streamworkers.headwater.dev")

    assert DEFINITIONS["streamapps.headwater.dev"]["spec"]["names"]["shortNames"] == ["sapp"]
    assert DEFINITIONS["streamworkers.headwater.dev"]["spec"]["names"]["shortNames"] == ["sw"]
    assert app["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert worker["subresources"] == {"status": {}}
    assert DEFINITIONS["streamactions.headwater.dev"]["spec"]["names"]["shortNames"] == ["sact"]
    for version in (app, worker, version_of("streamactions.headwater.dev")):
        usual = [
            column for column in version["additionalPrinterColumns"] if "priority" not in column
        ]
        assert len(usual) <= 8


def test_the_default_of_a_list_is_told_as_it_would_be_written() -> None:
    spec = version_of("streamapps.headwater.dev")["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assignment = spec["properties"]["assignment"]["properties"]

    said = "Default: topology.kubernetes.io/zone, kubernetes.io/hostname."
    assert assignment["topologyKeys"]["description"].endswith(said)
    [row] = [
        row for row in REFERENCE.read_text().splitlines() if row.startswith("| `topologyKeys`")
    ]
    assert "| topology.kubernetes.io/zone, kubernetes.io/hostname |" in row


def test_only_replicas_and_that_nobody_has_looked_are_filled_in_by_the_api_server() -> None:
    def defaults(schema: dict[str, Any], path: str) -> list[str]:
        found = [path] if "default" in schema else []
        for name, inner in schema.get("properties", {}).items():
            found += defaults(inner, f"{path}.{name}")
        return found + (defaults(schema["items"], f"{path}[]") if "items" in schema else [])

    schema = version_of("streamapps.headwater.dev")["schema"]["openAPIV3Schema"]
    assert defaults(schema, "") == [".spec.replicas", ".status"]


def test_a_pattern_means_the_same_in_python_and_in_the_api_server() -> None:
    """Go's engine has no look-around and no possessive forms, and other ideas of white space."""
    text = "".join(generated().values())
    patterns = re.findall(r"pattern: (.+(?:\n +[^\s:]+$)*)", text, re.MULTILINE)

    assert len(patterns) > 20
    assert [
        pattern for pattern in patterns if re.search(r"\(\?[^:]|\\[sSbBAZ]|[*+?}]\+", pattern)
    ] == []


def test_every_rule_has_a_document_that_just_keeps_it() -> None:
    """That each is broken by one, too, is seen on a real API server, which tells where."""
    schema = version_of("streamapps.headwater.dev")["schema"]["openAPIV3Schema"]
    rules = [rule for rule in rules_in(schema) if not rule.is_about_a_change]

    def is_at(place: str, path: str) -> bool:
        return path.startswith(place) or place.startswith(path)

    without = [
        rule
        for rule in rules
        if not any(
            rule.message.startswith(case.rule) and is_at(rule.place, place_of(case.path))
            for case in JUST_KEPT
        )
    ]
    assert len(rules) > 20
    assert without == []
    assert all(case.rule for case in JUST_KEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """Round.

    Attributes:
        size: across.
    """

    KIND: ClassVar[str] = "Circle"
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(cel="self.size > 0", message="no circle without size", field="size"),
    )
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Letters.

    Attributes:
        size: how large.
    """

    KIND: ClassVar[str] = "Text"
    size: str


def test_a_rule_stands_beside_what_it_is_about() -> None:
    schema = object_schema(Circle)

    assert schema["description"] == "Round."
    assert schema["properties"]["size"]["description"] == "Across."
    assert schema["x-kubernetes-validations"] == [
        {
            "rule": "self.size > 0",
            "message": "no circle without size",
            "reason": "FieldValueInvalid",
            "fieldPath": ".size",
        }
    ]


def test_alternatives_with_fields_of_one_name_and_two_types_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Text\.size has another type"):
        type_schema(Circle | Text, meta())


def test_alternatives_become_one_object_told_apart_by_its_kind() -> None:
    duties = object_schema(WorkerSpec)["properties"]["duties"]["items"]

    assert duties["required"] == ["kind", "epoch", "id"]
    assert "Fence" in duties["properties"]["kind"]["enum"]
