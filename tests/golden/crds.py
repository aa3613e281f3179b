"""Writes ``crds/*.yaml``, ``docs/reference/*.md`` and the chart's copies: ``make crds``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from headwater_operator.spec import custom_resource_definitions, live_changes_page, reference_pages
from tests.golden.language import language_page
from tests.golden.metrics import metrics_page

ROOT = Path(__file__).parents[2]
NOTE = "# Written by `make crds` from worker/headwater/model. Do not edit.\n"


class Dumper(yaml.SafeDumper):
    """Writes a value in full wherever it stands: Helm and people read no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def generated() -> dict[Path, str]:
    """Return every generated file with its text."""
    files = {
        ROOT / "crds" / f"{name}.yaml": NOTE
        + yaml.dump(definition, Dumper=Dumper, sort_keys=False, width=100)
        for name, definition in custom_resource_definitions().items()
    }
    pages = {ROOT / "docs" / "reference" / name: page for name, page in reference_pages().items()}
    pages[ROOT / "docs" / "reference" / "metrics.md"] = metrics_page()
    pages[ROOT / "docs" / "reference" / "language.md"] = language_page()
    live = ROOT / "docs" / "live-changes.md"
    pages[live] = live_changes_page(live.read_text())
    return {**files, **pages}


def main() -> None:
    from tests.golden.chart import chart_files

    for path, text in {**generated(), **chart_files()}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
