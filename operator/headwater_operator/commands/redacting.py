"""Takes what nobody else may see out of resources, logs and metrics, before they leave a machine.

Four rules. Values of environment variables, of options and fields with a name that says so, and of
Secrets are replaced. So are annotations that repeat a whole object, and the source text of a
topology. In any text, what stands behind such a name is replaced, and what a URL has of a user. A
value of a resource or document that was replaced by its name is replaced wherever else it turns up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.model.secretnames import is_secret

REDACTED: Final = "REDACTED"
_SHORTEST: Final = 4
"""A shorter value turns up by chance: it would be replaced in every line."""
_FEWEST_DIGITS: Final = 6
"""Likewise of digits alone: it would be replaced in every number."""
_HARMLESS: Final = frozenset({"true", "false", "none", "null", "info", "debug", "warn", "error"})
_DROPPED: Final = frozenset({"managedFields"})
_OURS: Final = "HEADWATER_"
_REPEATS: Final = "last-applied-configuration"
_SOURCES: Final = ("inline",)
_ARGUMENTS: Final = frozenset({"args", "command"})
_WORD: Final = (
    r"[\w.-]{0,100}(?:secret|passw(?:or)?d|passphrase|pwd|token|credential|api[-_.]?key"
    r"|access[-_.]?key|jaas[-_.]?config)[\w.-]{0,100}"
)
_NAME: Final = re.compile(_WORD, re.IGNORECASE)
_QUOTED: Final = (
    # A string of JSON or Python; one inside another string; one that does not end.
    r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|''|[^'\\])*'"""
    r"""|(?P<open>\\+["'])(?:(?!(?<!\\)(?P=open)).)*(?<!\\)(?P=open)|\\*["'][^\n]*)"""
)
_VALUE: Final = rf"""(?:(?:[bru]{{0,2}}|[\[(]\s*){_QUOTED}|[^\s,;"'}}\]]+)"""
_ASSIGNED: Final = re.compile(
    rf"""(?P<name>(?<![\w-])--{_WORD}(?:\\*["'])?(?:,[ \t]*|[ \t]+(?![=:]))"""
    rf"""|\b{_WORD}(?:\\*["'])?[ \t]*[=:][ \t]*)(?P<value>{_VALUE})""",
    re.IGNORECASE | re.DOTALL,
)
"""``password=x``, ``"password": "x"``, ``--password x``."""
_BEARER: Final = re.compile(r"(?i)(\bauthorization\b\W{1,4}|\b)(bearer|basic)\s+[\w.~+/=-]{8,}")
_URL: Final = re.compile(
    r"""(\b[a-z][a-z0-9+.-]{0,50}://)(?:[^/\s:@"]*:([^/\s"]+)|([^/\s:@"]{8,}))@""", re.IGNORECASE
)
"""User and password, a password alone, or a token; a user with a short name is none."""
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
        found = self.document(manifest)
        assert isinstance(found, dict)
        if manifest.get("kind") == "ConfigMap":
            found["data"] = {
                name: self._entry(str(text)) for name, text in (manifest.get("data") or {}).items()
            }
        return found

    def document(self, value: Any) -> Any:
        """Return JSON values without what is secret by the names of their fields, or looks so."""
        return self._value(value)

    def again(self, value: Any) -> Any:
        """Return JSON values that were redacted, without what became known since."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.again(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.again(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a log, or any other text, without what is known or looks secret."""
        for known in sorted(self._known, key=len, reverse=True):
            text = text.replace(known, REDACTED)
        text = _PEM.sub(f"{REDACTED} PRIVATE KEY", text)
        text = _JWT.sub(REDACTED, text)
        text = _URL.sub(rf"\1{REDACTED}@", text)
        text = _BEARER.sub(rf"\1\2 {REDACTED}", text)
        return _ASSIGNED.sub(lambda found: f"{found['name']}{REDACTED}", text)

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, name)
        if isinstance(value, list | tuple):
            if name == "env":
                return [self._variable(each) for each in value]
            if name in _ARGUMENTS:
                return self._arguments([str(each) for each in value])
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

    def _arguments(self, texts: list[str]) -> list[str]:
        """Return the arguments of a program; a value may stand behind the name of its option."""
        found = []
        for before, text in zip(["", *texts], texts, strict=False):
            name, equals, value = text.partition("=")
            if before.startswith("-") and "=" not in before and _says_secret(before):
                found.append(self._take(text))
            elif equals and _says_secret(name) and not re.search(r"\s", name):
                found.append(f"{name}={self._take(value)}")
            else:
                self._remember_parts(text)
                found.append(self.text(text))
        return found

    def _entry(self, text: str) -> Any:
        """Return an entry of a ConfigMap: a document redacted, of any other text its size."""
        try:
            document = json.loads(text)
        except ValueError:
            return _left_out(text)
        return self._value(document) if isinstance(document, Mapping) else _left_out(text)

    def _take(self, value: str) -> str:
        self._remember(value)
        self._remember_parts(value)
        return REDACTED

    def _remember_parts(self, text: str) -> None:
        """Remember the secrets within a text, such as the password within a line of JAAS."""
        for found in _ASSIGNED.finditer(text):
            self._remember(_unquoted(found["value"]))
        for found in _URL.finditer(text):
            self._remember(found[2] or found[3])

    def _remember(self, value: str) -> None:
        """Remember a value, and how it is written within a string of JSON."""
        value = value.strip()
        shortest = _FEWEST_DIGITS if value.isdigit() else _SHORTEST
        if len(value) < shortest or value.lower() in _HARMLESS or value == REDACTED:
            return
        self._known |= {
            value,
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
        }


def _is_hidden(name: str) -> bool:
    """Whether a field's own text is secret, by the name of the field; a reference's name is not."""
    return _says_secret(_dotted(name)) and not name.endswith(("Name", "Ref", "Type", "Path"))


def _says_secret(name: str) -> bool:
    return is_secret(name) or _NAME.search(name) is not None


def _unquoted(value: str) -> str:
    """Return what an assigned value is without its quotes."""
    return re.sub(r"""^[bru]{0,2}\\*["']|\\*["']$""", "", value, flags=re.IGNORECASE)


def _dotted(name: str) -> str:
    """Return ``privateKey`` as ``private.key``, as options are called."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", ".", name).lower()


def _left_out(text: str) -> str:
    return f"left out: {len(text.encode())} bytes"
