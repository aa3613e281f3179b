"""The demonstration's text: the English topics of Python's own help, again and again."""

from __future__ import annotations

from collections import Counter
from pydoc_data.topics import topics
from typing import TYPE_CHECKING

from examples.word_count.app import words

if TYPE_CHECKING:
    from collections.abc import Sequence


def lines_of_text(size_bytes: int) -> list[str]:
    """Repeat the text until it has ``size_bytes`` bytes, line ends included."""
    once = [line for topic in sorted(topics) for line in topics[topic].splitlines() if line.strip()]
    lines: list[str] = []
    size = 0
    while size < size_bytes:
        for line in once:
            lines.append(line)
            size += len(line.encode()) + 1
            if size >= size_bytes:
                break
    return lines


def count_words(lines: Sequence[str]) -> Counter[str]:
    """Count every word, as a few lines of Python do it."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(words(line))
    return counts
