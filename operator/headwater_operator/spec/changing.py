"""The table of ``docs/live-changes.md``: what a change of each field of a StreamApp asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_origin, get_type_hints

from headwater.model.fields import Change, fields_of
from headwater.model.streamapp import StreamAppSpec
from headwater_operator.spec.reference import change_of_info, classes_in

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN: Final = "<!-- begin fields: written by `make crds` -->"
END: Final = "<!-- end fields -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field of ``spec``, or an object whose fields all have one class.

    Attributes:
        path: such as ``spec.state.size``.
        change: its class; ``None``: it has none, which a test refuses.
    """

    path: str
    change: Change | None


def field_changes() -> tuple[FieldChange, ...]:
    """Return every field of ``StreamApp.spec`` with its class."""
    return tuple(_changes("spec", StreamAppSpec, None))


def live_changes_page(page: str) -> str:
    """Return a page with the table as it is now between its two marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = [f"| `{each.path}` | {each.change} |" for each in field_changes()]
    return "\n".join(
        [f"{head}{BEGIN}", "| Field | Change |", "| --- | --- |", *rows, f"{END}{tail}"]
    )


def _changes(path: str, kind: type, inherited: Change | None) -> Iterator[FieldChange]:
    hints = get_type_hints(kind)
    for info in fields_of(kind):
        change = change_of_info(info, inherited)
        name = f"{path}.{info.name}"
        live = info.metadata.get("live_keys", ())
        assert isinstance(live, tuple)
        for key in live:
            yield FieldChange(path=f"{name}[{key}]", change=Change.LIVE)
        members = classes_in(hints[info.attribute])
        is_list = get_origin(hints[info.attribute]) is tuple
        parts = [part for each in members for part in _changes(name, each, change)]
        if is_list or (len({part.change for part in parts}) < 2 and change is not Change.LIVE):
            parts = []
        yield from parts or [FieldChange(path=name, change=change)]
