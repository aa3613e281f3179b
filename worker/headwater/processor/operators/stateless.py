"""The stateless operators of KStream. Most are written into their chain's function, see ``code``.

Every node guards the user's function alone: what a node below raises passes through untouched.
Exceptions cost nothing on the way in (CPython 3.11), so the guard is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from headwater.model.operators.stateless import (
    Branch,
    DropNullKey,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.operators.pairs import as_pair, as_pairs

if TYPE_CHECKING:
    from headwater.ports import Forward, Headers
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site
    from headwater.processor.failures import Fail


@compile_operator.register(Filter)
def compile_filter(operator: Filter, site: Site) -> Emit:
    """Keep what the predicate keeps."""

    def emit(code: Code, names: Names) -> Names:
        predicate = code.bind(operator.predicate, "predicate")
        negation = "" if operator.negate else "not "
        test = f"if {negation}{predicate}({names[0]}, {names[1]}):\n    {code.skip}"
        code.guarded(test, site.fail, names)
        return names

    return emit


@compile_operator.register(Map)
def compile_map(operator: Map, site: Site) -> Emit:
    """Replace key and value."""

    def emit(code: Code, names: Names) -> Names:
        mapper = code.bind(operator.mapper, "mapper")
        pair, checked = code.fresh("pair"), code.bind(as_pair, "as_pair")
        key, value = code.fresh("key"), code.fresh("value")
        mapped = f"{pair} = {mapper}({names[0]}, {names[1]})"
        check = f"if type({pair}) is not tuple:\n    {pair} = {checked}({pair})"
        code.guarded(f"{mapped}\n{check}\n{key}, {value} = {pair}", site.fail, names)
        return key, value

    return emit


@compile_operator.register(MapValues)
def compile_map_values(operator: MapValues, site: Site) -> Emit:
    """Replace the value."""

    def emit(code: Code, names: Names) -> Names:
        mapper = code.bind(operator.mapper, "mapper")
        value = code.fresh("value")
        code.guarded(f"{value} = {mapper}({_arguments(operator, names)})", site.fail, names)
        return names[0], value

    return emit


@compile_operator.register(FlatMap)
def compile_flat_map(operator: FlatMap, site: Site) -> Emit:
    """Give each pair; the rest of the chain stands in a loop."""

    def emit(code: Code, names: Names) -> Names:
        mapper, pairs = code.bind(operator.mapper, "mapper"), code.fresh("pairs")
        key, value = code.fresh("key"), code.fresh("value")
        # A generator runs user code while it is read: it is read to its end inside the guard.
        checked, listed = code.bind(as_pair, "as_pair"), code.bind(as_pairs, "as_pairs")
        mapped = f"{pairs} = {mapper}({names[0]}, {names[1]})"
        check = f"if type({pairs}) is not list:\n    {pairs} = {listed}({pairs})"
        each = f"for p in {pairs} for k, v in [p if type(p) is tuple else {checked}(p)]"
        code.guarded(f"{mapped}\n{check}\n{pairs} = [(k, v) {each}]", site.fail, names)
        code.loop(f"for {key}, {value} in {pairs}:")
        return key, value

    return emit


@compile_operator.register(FlatMapValues)
def compile_flat_map_values(operator: FlatMapValues, site: Site) -> Emit:
    """Give each value under the record's key; the rest of the chain stands in a loop."""

    def emit(code: Code, names: Names) -> Names:
        mapper, values = code.bind(operator.mapper, "mapper"), code.fresh("values")
        value = code.fresh("value")
        mapped = f"{values} = {mapper}({_arguments(operator, names)})"
        # As in compile_flat_map; a list cannot run anything.
        listed = f"if type({values}) is not list:\n    {values} = list({values})"
        code.guarded(f"{mapped}\n{listed}", site.fail, names)
        code.loop(f"for {value} in {values}:")
        return names[0], value

    return emit


def _arguments(operator: MapValues | FlatMapValues, names: Names) -> str:
    return f"{names[0]}, {names[1]}" if operator.with_key else names[1]


@compile_operator.register(SelectKey)
def compile_select_key(operator: SelectKey, site: Site) -> Emit:
    """Replace the key."""

    def emit(code: Code, names: Names) -> Names:
        mapper, key = code.bind(operator.mapper, "mapper"), code.fresh("key")
        code.guarded(f"{key} = {mapper}({names[0]}, {names[1]})", site.fail, names)
        return key, names[1]

    return emit


@compile_operator.register(Peek)
def compile_peek(operator: Peek, site: Site) -> Emit:
    """Call the action; ``for_each`` ends the chain."""

    def emit(code: Code, names: Names) -> Names | None:
        action = code.bind(operator.action, "action")
        code.guarded(f"{action}({names[0]}, {names[1]})", site.fail, names)
        return None if operator.terminal else names

    return emit


@compile_operator.register(PassThrough)
def compile_pass_through(operator: PassThrough, site: Site) -> Emit:
    """Write nothing."""
    del operator, site
    return lambda code, names: names  # noqa: ARG005 - an Emit


@compile_operator.register(DropNullKey)
def compile_drop_null_key(operator: DropNullKey, site: Site) -> Emit:
    """Skip null keys; Kafka Streams does not count these as dropped."""
    del operator, site

    def emit(code: Code, names: Names) -> Names:
        code.line(f"if {names[0]} is None:\n    {code.skip}")
        return names

    return emit


@compile_operator.register(Branch)
def compile_branch(operator: Branch, site: Site) -> Emit:
    """Forward to the child of the first predicate that holds, else to the default."""
    children, fail = site.children, site.fail
    branches = [(predicate, children.named(name)) for predicate, name in operator.predicates]
    default = None if operator.default is None else children.named(operator.default)

    def branch(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            for predicate, child in branches:
                if predicate(key, value):
                    chosen: Forward | None = child
                    break
            else:
                chosen = default
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if chosen is not None:
            chosen(key, value, timestamp, headers)

    return call(branch, "branch")


@compile_operator.register(Print)
def compile_print(operator: Print, site: Site) -> Emit:
    """Print each record; nothing is below."""
    printer = _Printer(operator, site.fail)
    site.keep(printer)
    return call(printer.print, "print")


class _Printer:
    """KStream.print: lines on standard output, or at the end of a file that the task closes."""

    def __init__(self, operator: Print, fail: Fail) -> None:
        self._operator = operator
        self._fail = fail
        self._file: TextIO | None = None

    def print(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Print one record (the node's closure)."""
        label, mapper, path = self._operator.label, self._operator.mapper, self._operator.path
        try:
            text = f"{key}, {value}" if mapper is None else mapper(key, value)
        except Exception as error:
            self._fail(error, key, value, timestamp, headers)
            return
        if path is not None and self._file is None:
            # Line-buffered: a line is there when the next record is processed. This is the one
            # file that this layer touches, so pathlib stays out.
            self._file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115, PTH123
        print(f"[{label}]: {text}", file=self._file)

    def init(self) -> None:
        """Nothing: the first record opens the file."""

    def renew(self) -> None:
        """Nothing: what is printed stays."""

    def close(self) -> None:
        """Close the file; another record would open it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
