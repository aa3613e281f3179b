"""Tables as lines of text, for terminals and logs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows of cells as lines of text.

    Args:
        lines: the rows, with the heading first.
        right: numbers of the columns that hold numbers.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "   ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
