"""How commands print: tables with colours on a terminal, plain elsewhere; JSON and YAML."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.overview.texts import MARKS, Tone, tone_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP: Final = "   "


class Form(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_document(self) -> bool:
        """Whether it is for programs."""
        return self in (Form.JSON, Form.YAML)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, or one line.

    Attributes:
        text: as it is printed.
        tone: gives the colour on a terminal; ``None``: that of the terminal.
    """

    text: str
    tone: Tone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        name: its header.
        is_number: set to the right.
        is_wide: shown with ``-o wide`` only.
        is_folded: holds sentences or lists, which a narrow terminal folds.
    """

    name: str
    is_number: bool = False
    is_folded: bool = False
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells below a header; a table without rows is not printed."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def shown(self, form: Form) -> Table:
        """Return the table without empty columns, and those of ``-o wide`` if it is not that."""
        shown = [
            number
            for number, column in enumerate(self.columns)
            if (form is Form.WIDE or not column.is_wide)
            and any(row[number].text for row in self.rows)
        ]
        return Table(
            columns=tuple(self.columns[number] for number in shown),
            rows=tuple(tuple(row[number] for number in shown) for row in self.rows),
        )


Block = Table | Cell
"""A table, or a line."""


def state(text: str) -> Cell:
    """Return a state with its mark."""
    tone = tone_of(text)
    return Cell(f"{MARKS[tone]} {text}", tone)


def print_document(value: Any, form: Form) -> None:
    """Print JSON values for programs."""
    if form is Form.JSON:
        json.dump(value, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        import yaml  # noqa: PLC0415 - it takes time to load

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True)


def print_blocks(blocks: Sequence[Block], form: Form = Form.TABLE) -> None:
    """Print lines and tables for people, with an empty line around each table."""
    shown: list[Block] = []
    for block in blocks:
        if isinstance(block, Table):
            if block.rows:
                shown.append(block.shown(form))
        else:
            shown.append(block)
    if not _print_in_colour(shown):
        sys.stdout.write(as_text(shown))


def warn(text: str) -> None:
    """Say something beside the answer, to people."""
    sys.stdout.flush()
    sys.stderr.write(f"warning: {text}\n")


def as_text(blocks: Sequence[Block]) -> str:
    """Return lines and tables as plain text."""
    lines: list[str] = []
    for number, block in enumerate(blocks):
        if isinstance(block, Cell):
            if number and isinstance(blocks[number - 1], Table):
                lines.append("")
            lines.append(block.text)
            continue
        if number:
            lines.append("")
        lines += _lines(block)
    return "".join(f"{line}\n" for line in lines)


def _lines(table: Table) -> list[str]:
    header = [column.name for column in table.columns]
    rows = [header, *([cell.text for cell in row] for row in table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for text, width, column in zip(row, widths, table.columns, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _print_in_colour(blocks: Sequence[Block]) -> bool:
    """Print with colours; return whether that is wanted and possible."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        from headwater_operator.commands import colours  # noqa: PLC0415 - rich is an extra's
    except ModuleNotFoundError:
        return False
    colours.print_blocks(blocks)
    return True
