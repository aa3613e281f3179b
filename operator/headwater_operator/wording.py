"""Words that depend on a number."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with what is counted: ``1 task``, ``4 tasks``, ``1,203 tasks``.

    Args:
        count: how many.
        one: what stands behind 1: a noun, or a whole phrase such as ``task leaves``.
        many: what stands behind any other number; left out: ``one`` with an s.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def every(count: int, one: str, many: str) -> str:
    """Return that something holds for all there are: ``the only task runs``, ``all 4 tasks run``.

    Args:
        count: how many there are.
        one: what stands behind ``the only``.
        many: what stands behind any other number.
    """
    return f"the only {one}" if count == 1 else f"all {count:,} {many}"
