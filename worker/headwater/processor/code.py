"""Writes the source of a function that does what a chain of nodes does, without a call per node.

A call costs a third of what a whole stateless node does, so nodes in a row become lines in a row:

    for record in records:                        what the loop writes (``loops``)
        ...
        try:                                      what a filter writes
            if not predicate(key, value):
                continue
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            continue
        try:                                      what map_values writes
            value_1 = mapper(value)
        ...

Each function is small and shown in tracebacks. Nothing from outside gets into the text.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater.measuring.task import Arrival, Output
    from headwater.processor.failures import Fail

Names: TypeAlias = "tuple[str, str]"
"""The variables that hold key and value at some place of a chain."""
Emit: TypeAlias = "Callable[[Code, Names], Names | None]"
"""Writes one node. Returns what its children get, or ``None`` if it is the end."""

INDENT = "    "
_RESERVED = ("run", "forward", "key", "value", "timestamp", "headers", "record", "records", "error")
"""Names that every function may use for itself."""
_SOURCES = 256
"""So many sources are remembered."""
NESTED_MAX = 8
"""Loops within loops beyond this are called, not inlined; Python allows 20."""


class Code:
    """The body of one function under construction.

    Attributes:
        skip: the statement that ends the work on the record in hand.
        depth: how many loops deep the next line is.
    """

    def __init__(self, *, skip: str, indent: int = 1) -> None:
        self.skip = skip
        self._is_batch = indent > 1
        self._before: list[str] = []
        self._after: list[str] = []
        self.depth = 0
        self._indent = indent
        self._lines: list[str] = []
        self._bound: dict[str, Any] = {}
        self._used: dict[str, int] = dict.fromkeys(_RESERVED, 1)

    def line(self, text: str) -> None:
        """Write a line (or several) at the current indentation."""
        self._lines += [INDENT * self._indent + part for part in text.splitlines()]

    def bind(self, value: object, name: str) -> str:
        """Make ``value`` known to the function; return the name it got."""
        bound = self.fresh(name)
        self._bound[bound] = value
        return bound

    def fresh(self, name: str) -> str:
        """Return a variable name that is not in use, like ``name``."""
        number = self._used.get(name, 0)
        self._used[name] = number + 1
        return f"{name}_{number}" if number else name

    def reached(self, arrival: Arrival) -> None:
        """Write that the record has come to a node.

        In a loop over a batch this is a variable, read behind the loop.
        """
        bound = self.bind(arrival, "arrival")
        if arrival.is_exact:
            self.line(f"{bound}(timestamp)")
        elif self._is_batch:
            last = self.fresh("arrived")
            self.line(f"{last} = timestamp")
            self._leave(arrival, {"timestamp": (last, "-1")})
        else:
            self.line(f"{bound}.timestamp = timestamp")

    def sent(self, output: Output, key: str, value: str) -> None:
        """Write that the record was sent; its bytes are in the variables ``key``, ``value``."""
        bound = self.bind(output, "output")
        if output.is_exact:
            self.line(f"{bound}({key}, {value}, headers)")
        elif self._is_batch:
            self._leave(output, {"key": (key, "None"), "value": (value, "None")})
        else:
            self.line(f"{bound}.key = {key}")
            self.line(f"{bound}.value = {value}")

    def _leave(self, to: object, variables: Mapping[str, tuple[str, str]]) -> None:
        """Leave the last value of variables in attributes, once the batch is done."""
        bound = self.bind(to, "left")
        for attribute, (variable, first) in variables.items():
            self._before.append(f"{INDENT}{variable} = {first}")
            self._after.append(f"{INDENT}{bound}.{attribute} = {variable}")

    def guarded(self, text: str, fail: Fail, names: Names) -> None:
        """Write lines that call user code; if they raise, ``fail`` decides about the record."""
        key, value = names
        self.line("try:")
        self._indent += 1
        self.line(text)
        self._indent -= 1
        failed = self.bind(fail, "fail")
        self.line("except Exception as error:")
        self.line(f"{INDENT}{failed}(error, {key}, {value}, timestamp, headers)")
        self.line(f"{INDENT}{self.skip}")

    def loop(self, head: str) -> None:
        """Write a ``for`` line; all that follows is its body."""
        self.line(head)
        self.skip = "continue"
        self.depth += 1
        self._indent += 1

    def build(self, head: str, title: str) -> Callable[..., Any]:
        """Compile the function.

        Args:
            head: its ``def`` line, and lines before the body, if any.
            title: what tracebacks show as the file's name.
        """
        name = head.partition("(")[0].removeprefix("def ")
        self.line("pass")  # the innermost block may be empty
        definition, *beginning = head.splitlines()
        lines = [definition, *self._before, *beginning, *self._lines, *self._after, ""]
        source = "\n".join(lines)
        filename = f"<{title}>"
        # So that tracebacks show the lines.
        linecache.cache[filename] = (len(source), None, _lines(source), filename)
        exec(_titled(_compiled(source), filename), self._bound)  # noqa: S102
        function: Callable[..., Any] = self._bound[name]
        return function


@lru_cache(maxsize=_SOURCES)
def _compiled(source: str) -> CodeType:
    """Compile a source; the tasks of a sub-topology have the same, each with a title of its own."""
    return compile(source, "<task>", "exec")


def _titled(code: CodeType, filename: str) -> CodeType:
    """Return the code as if it had been compiled under another file's name."""
    consts = code.co_consts
    if any(isinstance(one, CodeType) for one in consts):
        consts = tuple(
            _titled(one, filename) if isinstance(one, CodeType) else one for one in consts
        )
    return code.replace(co_filename=filename, co_consts=consts)


@lru_cache(maxsize=_SOURCES)
def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def call(function: Callable[..., Any], name: str) -> Emit:
    """Return an emitter that ends the chain by calling ``function`` with the record."""

    def emit(code: Code, names: Names) -> None:
        key, value = names
        bound = code.bind(function, name)
        code.line(f"{bound}({key}, {value}, timestamp, headers)")

    return emit
