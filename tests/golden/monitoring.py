"""Fetches the kinds of the Prometheus operator: ``python -m tests.golden.monitoring``.

The chart makes resources of these kinds, and the tests hold them against their schemas. The
definitions come from the release below, by Go; it checks the archive by the public database of
checksums. Texts for people are left out of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent / "monitoring"
MODULE: Final = "github.com/prometheus-operator/prometheus-operator"
VERSION: Final = "v0.92.1"
KINDS: Final = {
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
    "ServiceMonitor": "servicemonitors",
}
NOTICES: Final = ("LICENSE", "NOTICE")


def definitions() -> list[Path]:
    """Return the files with the definitions, one for each kind."""
    return sorted(FOLDER.glob("*.yaml"))


def main() -> int:
    """Write the definitions and their licence anew."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        print(f"{MODULE} {VERSION} cannot be had:\n{done.stdout}{done.stderr}", file=sys.stderr)
        return 1
    release = Path(json.loads(done.stdout)["Dir"])
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for plural in KINDS.values():
        name = f"monitoring.coreos.com_{plural}.yaml"
        found = yaml.safe_load((release / "example/prometheus-operator-crd" / name).read_text())
        written = yaml.safe_dump(_without_texts(found), sort_keys=False)
        (FOLDER / f"{plural}.yaml").write_text(f"# {MODULE} {VERSION}, without texts.\n{written}")
    for name in NOTICES:
        (FOLDER / name).write_text((release / name).read_text())
    return 0


def _without_texts(found: Any) -> Any:
    if isinstance(found, list):
        return [_without_texts(each) for each in found]
    if not isinstance(found, dict):
        return found
    # A field may have the name, too: then it is no text.
    kept = {key: it for key, it in found.items() if key != "description" or isinstance(it, dict)}
    return {key: _without_texts(each) for key, each in kept.items()}


if __name__ == "__main__":
    sys.exit(main())
