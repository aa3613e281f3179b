"""What the metadata of a resource's field may say, and how to ask a class about its fields.

The typed dataclasses are the only schema there is. ``model.codec`` reads and writes by it, the
custom resource definitions and the reference pages are generated from it, and a rolling change is
planned with it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

LENGTH_MAX: Final = 1_024
"""Characters in a text whose field gives no bound of its own."""
ITEMS_MAX: Final = 100
"""Entries in a list or mapping whose field gives no bound of its own."""

Metadata: TypeAlias = Mapping[str, object]


class Change(StrEnum):
    """What a change of a field's value does to an application that runs."""

    LIVE = "Live"
    """Taken over while the workers run."""
    ROLL = "Roll"
    """Workers are replaced one at a time; each keeps its volume."""
    RECREATE = "Recreate"
    """Holds for workers that are made from then on; a worker keeps the volume it has."""
    IMMUTABLE = "Immutable"
    """Refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition on a resource, or a part of one, that the type of a single field cannot say.

    A class lists its rules in the class variable ``RULES``. The API server evaluates ``cel``,
    strict reading on one machine calls ``holds``; a test runs the same documents through both.

    Attributes:
        cel: the condition in the Common Expression Language; ``self`` is the part.
        message: what to do instead.
        field: JSON name of the field to blame; empty for the part itself.
        holds: the same condition on the typed value; ``None`` for a rule about a change
            (``oldSelf``), or one that refuses a field.
        reason: one of Kubernetes' reasons for a validation error.
        refuses: type in JSON of ``field``, which no class has: it is in the definition alone, so
            that whoever writes it learns what to write instead.
    """

    cel: str
    message: str
    field: str = ""
    holds: Callable[[Any], bool] | None = None
    reason: str = "FieldValueInvalid"
    refuses: str = ""

    @classmethod
    def refusing(cls, field: str, kind: str, message: str) -> Rule:
        """Return the rule that a field that people know from pods is not written here.

        Args:
            field: its JSON name.
            kind: its type in JSON.
            message: why, and what to do instead.
        """
        return cls(
            cel=f"!has(self.{field})",
            message=message,
            field=field,
            reason="FieldValueForbidden",
            refuses=kind,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldInfo:
    """One field of a resource class.

    Attributes:
        name: in JSON.
        attribute: in Python.
        meaning: from the class docstring's ``Attributes:``.
        default: ``dataclasses.MISSING`` for a required field.
        metadata: see :func:`meta`.
    """

    name: str
    attribute: str
    meaning: str
    default: object
    metadata: Metadata

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING


def meta(
    *,
    json: str | None = None,
    duration: bool = False,
    date_time: bool = False,
    pattern: str | None = None,
    meaning: str | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    max_length: int | None = None,
    max_items: int | None = None,
    each: Metadata | None = None,
    keys: tuple[str, ...] = (),
    unique: bool = False,
    always: bool = False,
    clip: bool = False,
    change: Change | None = None,
    live_keys: tuple[str, ...] = (),
    cluster_only: bool = False,
    default_in_schema: bool = False,
) -> dict[str, object]:
    """Return metadata for :func:`dataclasses.field`.

    Args:
        json: the name in JSON, where it is not the attribute's in camel case.
        duration: the field holds milliseconds and is written ``"30s"``.
        date_time: the field holds a time as RFC 3339 writes it.
        pattern: what a text matches as a whole; only what Python and RE2 read alike.
        meaning: the pattern in words.
        minimum: of a number.
        maximum: of a number.
        max_length: of a text, in characters; :data:`LENGTH_MAX` if not given.
        max_items: of a list or mapping; :data:`ITEMS_MAX` if not given.
        each: metadata of every entry of a list, or of every value of a mapping.
        keys: the JSON names that tell the entries of a list apart.
        unique: no entry of a list is there twice.
        always: written even when it holds its default.
        clip: a text that is too long is cut when it is written, because its writer cannot help it.
        change: what changing it does; what it is part of decides when left out.
        live_keys: of a mapping, the entries that are taken over while the workers run, whatever
            its class is.
        cluster_only: one machine has nothing like it: ``headwater up`` passes it over.
        default_in_schema: the API server fills in the default, too.
    """
    given: dict[str, object] = {
        "json": json,
        "duration": duration,
        "date_time": date_time,
        "pattern": pattern,
        "meaning": meaning,
        "minimum": minimum,
        "maximum": maximum,
        "max_length": max_length,
        "max_items": max_items,
        "each": each,
        "keys": keys,
        "unique": unique,
        "always": always,
        "clip": clip,
        "change": change,
        "live_keys": live_keys,
        "cluster_only": cluster_only,
        "default_in_schema": default_in_schema,
    }
    return {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != ()
    }


def camel_case(name: str) -> str:
    """Return ``threads_per_worker`` as ``threadsPerWorker``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def json_name(field: dataclasses.Field[object]) -> str:
    """Return the name a field has in JSON: its metadata's ``json``, else its own in camel case."""
    named = field.metadata.get("json")
    return str(named) if named is not None else camel_case(field.name)


def default_of(field: dataclasses.Field[object]) -> object:
    """Return a field's default, or ``dataclasses.MISSING``."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def each_of(metadata: Metadata) -> Metadata:
    """Return the metadata of a collection's entries."""
    each = metadata.get("each", {})
    assert isinstance(each, Mapping)
    return each


def limit(metadata: Metadata, name: str, default: int) -> int:
    """Return a bound that the metadata may set."""
    bound = metadata.get(name, default)
    assert isinstance(bound, int)
    return bound


def live_keys(field: dataclasses.Field[object]) -> tuple[str, ...]:
    """Return the entries of a mapping that are taken over while the workers run."""
    keys = field.metadata.get("live_keys", ())
    assert isinstance(keys, tuple)
    return keys


def is_terse(kind: type) -> bool:
    """Whether a class is described in the reference alone, not wherever it stands in a definition.

    Such a class says so in its class variable ``TERSE``. It is Kubernetes' own, and so many of them
    stand so deep in a definition that their descriptions would be most of it.
    """
    return bool(getattr(kind, "TERSE", False))


def rules_of(kind: type) -> tuple[Rule, ...]:
    """Return the rules of a resource class."""
    rules: tuple[Rule, ...] = getattr(kind, "RULES", ())
    return rules


def fields_of(kind: type) -> Iterator[FieldInfo]:
    """Yield the fields of a resource class in the order of their declaration."""
    meanings = _meanings(inspect.getdoc(kind) or "")
    for field in dataclasses.fields(kind):
        yield FieldInfo(
            name=json_name(field),
            attribute=field.name,
            meaning=meanings.get(field.name, ""),
            default=default_of(field),
            metadata=field.metadata,
        )


def summary_of(kind: type) -> str:
    """Return the first paragraph of a class docstring as plain text."""
    return _plain((inspect.getdoc(kind) or "").split("\n\n", maxsplit=1)[0])


_ENTRY = re.compile(r"^    (\w+): (.*)$")


def _meanings(docstring: str) -> dict[str, str]:
    """Read the ``Attributes:`` section of a docstring."""
    _, _, section = docstring.partition("\nAttributes:\n")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        entry = _ENTRY.match(line)
        if entry is not None:
            lines = [entry.group(2)]
            found[entry.group(1)] = lines
        else:
            lines.append(line.strip())
    return {name: _plain(" ".join(text)) for name, text in found.items()}


def _plain(text: str) -> str:
    """Take the mark-up out of a docstring's text and make a sentence of it."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "").replace("\n", " ").strip()
    return text[:1].upper() + text[1:]
