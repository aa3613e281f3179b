"""Where the thread of a process is, as another thread of it sees it: task, node and record.

Asked for a thread that has been silent for long, it costs the thread itself nothing. It reads the
thread's stack: the first frame from the inside that holds a node's ``OfNode`` names the node, and
that of the task the record. A native call that holds Python's global lock keeps it from
answering.
"""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from headwater.native.messages import Located
from headwater.processor.failures import OfNode
from headwater.processor.global_task import GlobalTask
from headwater.processor.punctuation import Schedule
from headwater.processor.task import StreamTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_FRAMES_MAX: Final = 12
_STACK_MAX: Final = 4_000
_GENERATED: Final = "<task "
_PACKAGE: Final = "headwater"
_FAILED: Final = re.compile(r"\s*(\w+)\(error,")


def locate(thread: int) -> Located:
    """Return where a thread of this process is.

    Args:
        thread: its ``threading.get_ident()``.
    """
    frames = list(_frames(sys._current_frames().get(thread)))  # noqa: SLF001 - there is no other
    tasks: Iterator[StreamTask | GlobalTask] = filter(None, map(_task_of, frames))
    task = next(tasks, None)
    node = next(filter(None, map(_node_of, frames)), "")
    stack = _stack_of(frames)
    if task is None:
        return Located(node=node, stack=stack)
    current = task.current
    is_at_record = bool(current.source.topic)
    return Located(
        task=task.task_id,
        node=node,
        partition=current.source if is_at_record else None,
        offset=current.offset,
        stack=stack,
    )


def stack_of_thread(thread: int) -> str:
    """Return the user's frames of a thread of this process, as a traceback shows them.

    Args:
        thread: its ``threading.get_ident()``.
    """
    return _stack_of(list(_frames(sys._current_frames().get(thread))))  # noqa: SLF001


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _task_of(frame: FrameType) -> StreamTask | GlobalTask | None:
    if not _is_ours(frame):
        return None
    found = frame.f_locals.get("self")
    return found if isinstance(found, StreamTask | GlobalTask) else None


def _node_of(frame: FrameType) -> str:
    """Return the node whose function a frame calls; empty if it does not say."""
    if frame.f_code.co_filename.startswith(_GENERATED):
        return _node_of_line(frame)
    if not _is_ours(frame):
        return ""
    known = frame.f_locals
    schedule = known.get("schedule")
    if isinstance(schedule, Schedule):
        return schedule.node
    return _name_of(known.get("fail")) or _name_of(getattr(known.get("self"), "_fail", None))


def _node_of_line(frame: FrameType) -> str:
    """Read in generated code which node the ``try`` around the line under way belongs to."""
    lines = linecache.getlines(frame.f_code.co_filename)
    rest = iter(lines[frame.f_lineno :])
    for line in rest:
        text = line.strip()
        if text == "try:":
            return ""
        if text.startswith("except "):
            match = _FAILED.match(next(rest, ""))
            return _name_of(frame.f_globals.get(match[1])) if match else ""
    return ""


def _name_of(value: Any) -> str:
    """Return the node that a function for failures belongs to, or the one that it calls."""
    if isinstance(value, FunctionType):
        cells = (cell.cell_contents for cell in value.__closure__ or ())
        value = next((held for held in cells if isinstance(held, OfNode)), None)
    return value.node if isinstance(value, OfNode) else ""


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == _PACKAGE or frame.f_code.co_filename.startswith(_GENERATED)


def _stack_of(frames: list[FrameType]) -> str:
    """Return the user's frames as a traceback shows them; without any, the innermost of all."""
    users = []
    for frame in frames:
        if _is_ours(frame):
            break
        users.append(frame)
    shown = reversed(users[:_FRAMES_MAX] or list(islice(frames, 3)))
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in shown)
    return "".join(summary.format())[-_STACK_MAX:]
