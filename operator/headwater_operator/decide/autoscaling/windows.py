"""What was right during a time: the stabilisation windows of a HorizontalPodAutoscaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SLICES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Numbers of workers that were right, with when: only as many as a decision needs.

    Attributes:
        since_ms: when it was begun; ``None`` before the first number.
        entries: when and which, oldest first; of a slice of the window, one.
    """

    since_ms: int | None = None
    entries: tuple[tuple[int, int], ...] = ()

    def with_number(
        self, now_ms: int, number: int, length_ms: int, worst: Callable[..., int]
    ) -> Window:
        """Return this with one more number.

        Args:
            now_ms: when it is right.
            number: of workers.
            length_ms: of the window; what is older is forgotten.
            worst: ``min`` or ``max``: which of several numbers counts.
        """
        kept = [entry for entry in self.entries if entry[0] >= now_ms - length_ms]
        slice_ms = max(1, length_ms // _SLICES)
        if kept and kept[-1][0] // slice_ms == now_ms // slice_ms:
            number = worst(number, kept.pop()[1])
        since_ms = now_ms if self.since_ms is None else self.since_ms
        return Window(since_ms=since_ms, entries=(*kept, (now_ms, number)))

    def number(self, now_ms: int, length_ms: int, worst: Callable[..., int]) -> int | None:
        """Return the worst number of the window; ``None`` before it is full."""
        if self.since_ms is None or now_ms - self.since_ms < length_ms:
            return None
        inside = [number for at_ms, number in self.entries if at_ms >= now_ms - length_ms]
        return worst(inside) if inside else None
