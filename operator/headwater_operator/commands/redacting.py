"""Takes what nobody else may see out of resources, logs and metrics, before they leave a machine.

Three rules. Values of environment variables, of options with a name that says so, and of Secrets
are replaced. So are annotations that repeat a whole object, and the source text of a topology. What
was replaced once is replaced wherever else it turns up, such as in a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.model.secretnames import is_secret

REDACTED: Final = "REDACTED"
_SHORTEST: Final = 4
"""A shorter value turns up by chance: it would be replaced in every number."""
_HARMLESS: Final = frozenset({"true", "false", "none", "null", "info", "debug", "warn", "error"})
_DROPPED: Final = frozenset({"managedFields"})
_OURS: Final = "HEADWATER_"
_REPEATS: Final = "last-applied-configuration"
_SOURCES: Final = ("inline",)
_ARGUMENTS: Final = frozenset({"args", "command"})
_WORD: Final = (
    r"[\w.-]*(?:secret|passw(?:or)?d|token|credential|api[-_.]?key|access[-_.]?key"
    r"|jaas[-_.]?config)[\w.-]*"
)
_VALUE: Final = r"""(?:"[^"]*"|'[^']*'|[^\s,;"'}\]]+)"""
_ASSIGNED: Final = re.compile(rf"""(?i)(?P<name>["']?\b{_WORD}["']?[ \t]*[=:][ \t]*){_VALUE}""")
_BEARER: Final = re.compile(r"(?i)(\bauthorization\b\W{1,4}|\b)(bearer|basic)\s+[\w.~+/=-]{8,}")
_URL: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s:@]+:[^/\s@]+@", re.IGNORECASE)
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_JWT: Final = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")


class Redactor:
    """Redacts one report; it remembers what it has taken out."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def resource(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object of Kubernetes, or another document, without what is secret."""
        if manifest.get("kind") == "Secret":
            manifest = {**manifest, "data": {}, "stringData": {}}
        found = self._value(manifest)
        assert isinstance(found, dict)
        if manifest.get("kind") == "ConfigMap":
            found["data"] = {
                name: self._entry(str(text)) for name, text in (manifest.get("data") or {}).items()
            }
        return found

    def text(self, text: str, *, is_document: bool = False) -> str:
        """Return a text without what was taken out elsewhere, and without what looks secret.

        Args:
            text: a log, or anything else.
            is_document: it was redacted by its fields already, whose names say more than words do.
        """
        for known in sorted(self._known, key=len, reverse=True):
            text = text.replace(known, REDACTED)
        text = _PEM.sub(f"{REDACTED} PRIVATE KEY", text)
        text = _JWT.sub(REDACTED, text)
        text = _URL.sub(rf"\1{REDACTED}@", text)
        text = _BEARER.sub(rf"\1\2 {REDACTED}", text)
        if is_document:
            return text
        return _ASSIGNED.sub(lambda found: f"{found['name']}{REDACTED}", text)

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, name)
        if isinstance(value, list | tuple):
            if name == "env":
                return [self._variable(each) for each in value]
            if name in _ARGUMENTS:
                return [self._argument(str(each)) for each in value]
            return [self._value(each, name) for each in value]
        if isinstance(value, str):
            return self._take(value) if _is_hidden(name) else self.text(value)
        return value

    def _mapping(self, value: Mapping[str, Any], name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in value.items():
            if key in _DROPPED or _REPEATS in key:
                continue
            if name == "env" and isinstance(inner, str):
                found[key] = self._take(inner)
            elif key in _SOURCES and isinstance(inner, str):
                found[key] = _left_out(inner)
            else:
                found[key] = self._value(inner, key)
        return found

    def _variable(self, variable: Any) -> Any:
        """Return a variable of an environment with its name, or where its value comes from."""
        if not isinstance(variable, Mapping):
            return self._value(variable)
        # What the operator itself sets is no secret: it would be replaced in every line.
        is_ours = str(variable.get("name", "")).startswith(_OURS)
        return {
            key: self._hide(str(value), is_ours) if key == "value" else self._value(value)
            for key, value in variable.items()
        }

    def _hide(self, value: str, is_ours: bool) -> str:  # noqa: FBT001  # not public
        return REDACTED if is_ours else self._take(value)

    def _argument(self, text: str) -> str:
        name, equals, value = text.partition("=")
        return f"{name}={self._take(value)}" if equals and is_secret(name) else self.text(text)

    def _entry(self, text: str) -> Any:
        """Return an entry of a ConfigMap: a document redacted, of any other text its size."""
        try:
            document = json.loads(text)
        except ValueError:
            return _left_out(text)
        return self._value(document) if isinstance(document, Mapping) else _left_out(text)

    def _take(self, value: str) -> str:
        if len(value) >= _SHORTEST and value.lower() not in _HARMLESS and not value.isdigit():
            self._known.add(value)
        return REDACTED


def _is_hidden(name: str) -> bool:
    """Whether a field's own text is secret, by the name of the field; a reference's name is not."""
    return is_secret(_dotted(name)) and not name.endswith(("Name", "Ref", "Type", "Path"))


def _dotted(name: str) -> str:
    """Return ``privateKey`` as ``private.key``, as options are called."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", ".", name).lower()


def _left_out(text: str) -> str:
    return f"left out: {len(text.encode())} bytes"
