"""Lines and tables on a terminal, drawn with rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headwater_operator.commands.output import Cell
from headwater_operator.overview.texts import Tone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater_operator.commands.output import Block, Table

STYLES: Final = {Tone.GOOD: "green", Tone.BUSY: "yellow", Tone.BAD: "red", Tone.QUIET: "grey50"}
_HEADER: Final = "bold cyan"


def print_blocks(blocks: Sequence[Block], console: Console | None = None) -> None:
    """Print lines and tables with an empty line around each table."""
    console = console or Console(highlight=False)
    for number, block in enumerate(blocks):
        if isinstance(block, Cell):
            if number and not isinstance(blocks[number - 1], Cell):
                console.print()
            console.print(_text(block))
            continue
        if number:
            console.print()
        console.print(_drawn(block))


def _drawn(table: Table) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style=_HEADER)
    for column in table.columns:
        drawn.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=not column.is_folded,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*map(_text, row))
    return drawn


def _text(cell: Cell) -> Text:
    return Text(cell.text, style="" if cell.tone is None else STYLES[cell.tone])
