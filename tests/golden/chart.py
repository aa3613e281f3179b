"""What of the chart is made from the code: definitions, the operator's rules, the list of values.

``make crds`` writes it. ``python -m tests.golden.chart`` also renders the snapshots anew, for which
it needs Helm (``make kube``).
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import yaml

from headwater_operator.manifests.permissions import (
    caller_rules,
    departure_rules,
    election_rules,
    namespace_rules,
    node_rules,
    shard_rules,
)
from tests.golden.alerts import alerts_file
from tests.golden.crds import ROOT, Dumper, generated
from tests.golden.dashboards import dashboards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CHART = ROOT / "charts" / "headwater"
SNAPSHOTS = ROOT / "tests" / "golden" / "charts"
PROMETHEUS = "--api-versions=monitoring.coreos.com/v1"
"""For Helm: a cluster on which the Prometheus operator runs."""
_MAY_BE_NULL = {"user", "resources"}
"""Values that a user takes away with null: they are not put back, nor is what is in them."""
_LIST = "<!-- values -->\n"


def chart_files() -> dict[Path, str]:
    """Return every generated file of the chart with its text."""
    definitions = {
        CHART / "files" / "crds" / path.name: text
        for path, text in generated().items()
        if path.suffix == ".yaml"
    }
    rules = {
        "namespace": namespace_rules(),
        "election": election_rules(),
        "departure": departure_rules(),
        "nodes": node_rules(),
        "shard": shard_rules(),
        "caller": caller_rules("headwater-operator-caller"),
    }
    source = "headwater_operator/manifests/permissions.py"
    note = f"# Written by `make crds` from {source}. Do not edit.\n"
    head, _, tail = (CHART / "README.md").read_text().partition(_LIST)
    rest = tail.partition(_LIST)[2]
    return {
        **definitions,
        **{CHART / "files" / "dashboards" / name: text for name, text in dashboards().items()},
        CHART / "files" / "alerts.yaml": alerts_file(),
        CHART / "files" / "rules.yaml": note + yaml.dump(rules, Dumper=Dumper, sort_keys=False),
        CHART / "files" / "values.yaml": _stand_ins(),
        CHART / "README.md": f"{head}{_LIST}{_table()}{_LIST}{rest}",
    }


def _stand_ins() -> str:
    """Return the values that templates take for those that a release was made without."""

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: kept(value) if isinstance(value, dict) else value
            for name, value in values.items()
            if name not in _MAY_BE_NULL
        }

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    note = "# Written by `make crds` from values.yaml. Do not edit.\n"
    return note + yaml.dump(kept(values), Dumper=Dumper, sort_keys=False)


def _table() -> str:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = [
        f"| `{name}` | `{value}` | {meaning} |" for name, value, meaning in _rows(schema, values)
    ]
    return "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def _rows(
    schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    for name, field in schema["properties"].items():
        if name not in values:
            continue
        value, meaning = values[name], field["description"]
        if "properties" in field:
            yield from _rows(field, value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", json.dumps(value), meaning


# -- snapshots ------------------------------------------------------------------------------------


def render(helm: Path, name: str) -> str:
    """Return what Helm makes of the values of a snapshot, without the definitions."""
    done = subprocess.run(
        [
            str(helm),
            "template",
            "headwater",
            str(CHART),
            "--namespace=headwater-system",
            PROMETHEUS,
            f"--values={SNAPSHOTS / f'{name}.values.yaml'}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("---\n")
    kept = (part for part in parts if "kind: CustomResourceDefinition\n" not in part)
    return "---\n".join(_without_json(part) for part in kept)


def _without_json(part: str) -> str:
    """Return a part without the text of a dashboard, which is a file of its own."""
    head, found, _ = part.partition(".json: |\n")
    return f"{head}.json: ...\n" if found else part


def snapshot_names() -> list[str]:
    """Return the names of all snapshots."""
    return sorted(path.name.partition(".")[0] for path in SNAPSHOTS.glob("*.values.yaml"))


def main() -> None:
    from tests.kube.programs import find

    for name in snapshot_names():
        path = SNAPSHOTS / f"{name}.rendered.yaml"
        path.write_text(render(find("helm"), name))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
