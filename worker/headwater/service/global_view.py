"""What a worker shows of its GlobalStreamThread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.service.children import Children
    from headwater.service.decide.values import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalThreadView:
    """The GlobalStreamThread."""

    pid: int | None
    is_filled: bool
    """Its stores have been filled: tasks may start."""
    records: int
    """What the process has read."""
    remaining: int
    """Records still to read before the stores are filled."""
    restarts: int
    problem: str = ""

    def shown(self) -> dict[str, object]:
        """Return it as ``/tasks`` has it."""
        return {
            "pid": self.pid,
            "filled": self.is_filled,
            "records": self.records,
            "remaining": self.remaining,
            "restarts": self.restarts,
            "problem": self.problem,
        }


def view_of(table: Table, children: Children) -> GlobalThreadView | None:
    """Return what there is to see; ``None`` without global stores."""
    thread = table.global_thread
    if thread is None:
        return None
    return GlobalThreadView(
        pid=children.global_thread.pid,
        is_filled=thread.filled,
        records=thread.records,
        remaining=thread.remaining,
        restarts=max(0, thread.process - 1),
        problem=thread.problem,
    )


def remaining(table: Table) -> int | None:
    """Return what is left to read; ``None`` once tasks may start, or without global stores."""
    thread = table.global_thread
    return None if thread is None or thread.filled else thread.remaining
