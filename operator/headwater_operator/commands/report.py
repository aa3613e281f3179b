"""What is in the zip of ``report``: all that a bug report needs, and nothing secret."""

from __future__ import annotations

import json
import platform
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import yaml

from headwater.errors import HeadwaterError
from headwater.version import VERSION
from headwater_operator.commands import showing
from headwater_operator.commands.output import Form, Table, as_text
from headwater_operator.commands.redacting import Redactor
from headwater_operator.overview.document import document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from headwater_operator.commands.output import Block
    from headwater_operator.overview.snapshot import Snapshot

_MOST_CHARACTERS: Final = 5_000_000
"""Of one log: a zip that cannot be sent helps nobody."""
_ALWAYS: Final = ("versions.json", "missing.txt")


class Report:
    """What will be in the zip. All of it is redacted, at the end, with all that is known then."""

    def __init__(self) -> None:
        self._redactor = Redactor()
        self._texts: dict[str, str] = {}
        self._documents: dict[str, Any] = {}
        self.missing: list[str] = []
        """What could not be had, and why."""
        self.versions: dict[str, str] = {
            "command": VERSION,
            "python": platform.python_version(),
            "platform": platform.platform(),
        }

    @property
    def names(self) -> list[str]:
        """Names of the files so far."""
        return sorted({*self._texts, *self._documents, *_ALWAYS})

    def overview(self, found: Snapshot) -> None:
        """Add what ``status``, ``tasks`` and ``lag`` show."""
        pages: dict[str, Callable[[Snapshot], list[Block]]] = {
            "status.txt": showing.status,
            "tasks.txt": showing.tasks,
            "lag.txt": showing.lag,
        }
        for name, show in pages.items():
            shown = [
                block.shown(Form.WIDE) if isinstance(block, Table) else block
                for block in show(found)
                if not isinstance(block, Table) or block.rows
            ]
            self.text(name, as_text(shown))
        self.document("overview.json", document(found))
        if found.topology is not None:
            self.text("topology.txt", found.topology.description)
        self.versions["operator"] = found.version or "unknown"

    def resources(self, name: str, manifests: Iterable[dict[str, Any]]) -> None:
        """Add objects of one kind to ``resources/``."""
        shown = [self._redactor.resource(each) for each in manifests]
        if shown:
            self._documents[f"resources/{name}.yaml"] = shown

    def document(self, name: str, value: Any) -> None:
        """Add JSON values, without what is secret by the names of their fields."""
        self._documents[name] = self._redactor.document(value)

    def text(self, name: str, text: str) -> None:
        """Add a log, or any other text; of one that is too long its end."""
        self._texts[name] = text

    def attempt(self, what: str, add: Callable[[], None]) -> None:
        """Add something; note why it is missing if that fails.

        Args:
            what: a few words for people.
            add: adds it.
        """
        try:
            add()
        except (HeadwaterError, OSError, ValueError, RecursionError) as error:
            self.missing.append(f"{what}: not in the report: {error}")

    def write(self, file: Path) -> None:
        """Write the zip, which only its owner may read.

        Raises:
            OSError: it cannot be written.
        """
        texts: dict[str, str] = {}

        def add(name: str) -> None:
            texts[name] = self._written(name)

        for name in sorted({*self._texts, *self._documents}):
            self.attempt(name, partial(add, name))
        texts["versions.json"] = json.dumps(self._redactor.again(self.versions), indent=2)
        missing = [self._redactor.text(each) for each in self.missing]
        texts["missing.txt"] = "".join(f"{each}\n" for each in missing or ["nothing"])
        file.touch(mode=0o600)
        file.chmod(0o600)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in sorted(texts.items()):
                archive.writestr(name, text)

    def _written(self, name: str) -> str:
        """Return what stands in a file: redacted first, as a field or line that was cut is not."""
        if name in self._texts:
            return self._redactor.text(self._texts[name])[-_MOST_CHARACTERS:]
        found = self._redactor.again(self._documents[name])
        if name.endswith(".yaml"):
            return str(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True))
        return json.dumps(found, indent=2)
