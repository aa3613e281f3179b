"""Planted faults: each makes one thing wrong in what becomes of records as DataFrames.

A proof that DataFrames make what tasks make has to see every one of them.
"""

from __future__ import annotations

import math
import struct
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.spark.frames import columns, computing, rows
from headwater.spark.frames.counted import Counted
from headwater.spark.frames.kinds import Kind, result_of
from headwater.spark.frames.plan import Fold, HasKey, Path, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from headwater.spark.frames.plan import Step

Plant: TypeAlias = "tuple[ModuleType | type, str, Callable[[Any], Any]]"
"""Where a function stands, its name, and what makes a wrong one of the right one."""


def planted(name: str) -> AbstractContextManager[None]:
    """Make one thing wrong."""
    return _planted(FAULTS[name])


def planted_operation(
    name: str, wrong: Callable[[Any, Any, Any], Any]
) -> AbstractContextManager[None]:
    """Compute one operation of expressions otherwise.

    Args:
        name: of the operation.
        wrong: what it becomes, from pyspark's functions and its first and last operand.
    """
    return _planted(_operation(name, wrong))


@contextmanager
def _planted(plants: tuple[Plant, ...]) -> Iterator[None]:
    right = [(module, function, getattr(module, function)) for module, function, _ in plants]
    for (module, function, fault), (_, _, found) in zip(plants, right, strict=True):
        setattr(module, function, fault(found))
    try:
        yield
    finally:
        for module, function, found in right:
            setattr(module, function, found)


# -- what is read ----------------------------------------------------------------------------------


def _read(change: Callable[[Kind, list[list[Any]]], list[list[Any]]]) -> tuple[Plant, ...]:
    """Read other records than there are: lists of offsets, times, keys and values."""

    def fault(right: Any) -> Any:
        return lambda pa, work, found: right(pa, work, change(work.read.value, list(found)))

    return ((rows, "decoded", fault),)


def _in_time_only(_kind: Kind, found: list[list[Any]]) -> list[list[Any]]:
    times = found[1]
    kept = [at for at, time in enumerate(times) if time == max(times[: at + 1])]
    return [[column[at] for at in kept] for column in found]


def _empty_is_none(_kind: Kind, found: list[list[Any]]) -> list[list[Any]]:
    return [*found[:3], [value or None for value in found[3]]]


def _not_a_number_is_none(kind: Kind, found: list[list[Any]]) -> list[list[Any]]:
    assert kind is Kind.DOUBLE
    nothing = struct.pack(">d", math.nan)
    return [*found[:3], [None if value == nothing else value for value in found[3]]]


def _last_of_merged(right: Any) -> Any:
    """Rows that are merged have the time of the last of them."""

    def fault(self: Counted, table: Any) -> Any:
        found = right(self, table)
        by_key = table.group_by(["key", "there"], use_threads=False)
        times = by_key.aggregate([("ts", "last")])["ts_last"]
        return found.set_column(found.schema.get_field_index("ts"), "ts", times)

    return fault


def _without_sign(right: Any) -> Any:
    def fault(pa: Any, kind: Kind, data: Any) -> Any:
        found = right(pa, kind, data)
        if kind is not Kind.INTEGER:
            return found
        return pa.array([None if n is None else n % 2**32 for n in found.to_pylist()], pa.int64())

    return fault


# -- expressions -----------------------------------------------------------------------------------


def _unknown_is_true(right: Any) -> Any:
    def fault(expression: Any, key: Any, value: Any) -> Any:
        found = right(expression, key, value)
        if result_of(expression, key, value) is not Kind.BOOLEAN:
            return found
        s = columns.functions()
        return columns.Computed(s.coalesce(found.column, s.lit(True)), found.overflow)

    return fault


def _operation(name: str, wrong: Callable[[Any, Any, Any], Any]) -> tuple[Plant, ...]:
    def fault(right: Any) -> Any:
        def made(s: Any, expression: Any, kind: Any, given: list[Any]) -> Any:
            if expression.operation != name:
                return right(s, expression, kind, given)
            return wrong(s, given[0], given[-1])

        return made

    return ((columns, "_operation", fault),)


# -- paths -----------------------------------------------------------------------------------------


def _walked(change: Callable[[list[Step]], list[Step]]) -> tuple[Plant, ...]:
    """Take other steps."""

    def fault(right: Any) -> Any:
        return lambda path, raw: right(Path(path.read, tuple(change(list(path.steps)))), raw)

    return ((computing, "walked", fault),)


def _no_key_is_an_empty_one(right: Any) -> Any:
    def fault(path: Path, raw: Any) -> Any:
        s = columns.functions()
        kept = tuple(step for step in path.steps if not isinstance(step, HasKey))
        found = right(Path(path.read, kept), raw)
        return found.withColumn("key", s.when(s.col("src") < 0, s.coalesce("key", s.lit(""))))

    return fault


def _filtered_out_is_deleted(right: Any) -> Any:
    def fault(path: Path, raw: Any) -> Any:
        (where,) = (step for step in path.steps if isinstance(step, Where))
        kept = tuple(step for step in path.steps if step is not where)
        found = right(Path(path.read, kept), raw)
        is_true = columns.computed(where.predicate, path.read.key, path.read.value).column
        s = columns.functions()
        return found.withColumn("value", s.when(is_true, s.col("value")))

    return fault


def _only_what_is_alive(right: Any) -> Any:
    return lambda output, number, found: right(output, number, found.filter("src >= 0 or alive"))


# -- folds -----------------------------------------------------------------------------------------


def _folds(fold: Fold, wrong: Callable[[Any, Any], Any], name: str = "made") -> Plant:
    """Make something else of the records of a key, from pyspark's functions and who counts."""

    def fault(right: Any) -> Any:
        def made(s: Any, given: Fold, kept: Any) -> Any:
            found = right(s, given, kept)
            if given is not fold:
                return found
            wanted = wrong(s, kept).alias(name)
            return [wanted] if name == "made" else [*found, wanted]

        return made

    return columns, "_folds", fault


def _row(s: Any) -> Any:
    return s.struct(s.col("value").alias("value"), s.col("ts").alias("ts"))


def _by_time(s: Any, kept: Any) -> Any:
    return s.max_by(_row(s), s.when(kept, s.col("ts") * 1000 + s.col("off")))


def _first_of_ties(s: Any, kept: Any) -> Any:
    return s.min_by(_row(s), s.when(kept, s.col("off")))


def _without_tombstones(s: Any, kept: Any) -> Any:
    there = kept & s.col("value").isNotNull()
    return s.max_by(_row(s), s.when(there, s.col("off")))


def _with_time(name: str, *folds: Fold) -> Plant:
    """Take the time of a key from another column."""

    def fault(right: Any) -> Any:
        def made(s: Any, output: Any) -> Any:
            value, at, bad = right(s, output)
            is_it = output.fold in folds if folds else output.fold is not Fold.LAST
            return value, s.col(name) if is_it else at, bad

        return made

    return columns, "_made", fault


def _time_of(fold: Fold, wrong: Callable[[Any, Any], Any]) -> tuple[Plant, ...]:
    return _folds(fold, wrong, "other_ts"), _with_time("other_ts", fold)


def _last_time(right: Any) -> Any:
    def made(s: Any, fold: Fold, kept: Any) -> Any:
        last = s.max_by("ts", s.when(kept, s.col("off")))
        return [*right(s, fold, kept), last.alias("other_ts")]

    return made


def _each_value_once(right: Any) -> Any:
    def made(s: Any, fold: Fold, kept: Any) -> Any:
        if fold is not Fold.SUM:
            return right(s, fold, kept)
        value, zero = s.col("value"), s.lit(0).cast("bigint")
        return [
            s.sum_distinct(s.when(kept, s.greatest(value, zero))).alias("high"),
            s.sum_distinct(s.when(kept, s.least(value, zero))).alias("low"),
        ]

    return made


def _only_what_is_positive(right: Any) -> Any:
    def made(s: Any, output: Any) -> Any:
        value, at, bad = right(s, output)
        return s.col("high") if output.fold is Fold.SUM else value, at, bad

    return made


def _null_is_a_value(right: Any) -> Any:
    def fault(output: Any, number: int, found: Any) -> Any:
        s = columns.functions()
        if output.fold is Fold.LAST:
            return right(output, number, found)
        zero = s.when(s.col("src") < 0, s.lit(0).cast("bigint"))
        return right(output, number, found.withColumn("value", s.coalesce("value", zero)))

    return fault


def _a_row_is_a_record(_right: Any) -> Any:
    return lambda s, condition: s.count(s.when(condition, 1))


def _wide(right: Any) -> Any:
    return lambda s, kind, column: right(s, Kind.LONG if kind.is_whole else kind, column)


# -- outputs ---------------------------------------------------------------------------------------


def _paths(change: Callable[[Any], Any]) -> tuple[Plant, ...]:
    def fault(right: Any) -> Any:
        return lambda number, output, raw, sizes: right(
            number, replace(output, paths=change(output.paths)), raw, sizes
        )

    return ((computing, "_result", fault),)


FAULTS: dict[str, tuple[Plant, ...]] = {
    "a late record is left out": _read(_in_time_only),
    "an empty value is none": _read(_empty_is_none),
    "what is not a number is none": _read(_not_a_number_is_none),
    "numbers have no sign": ((rows, "bulk_decode", _without_sign),),
    "numbers are wide": ((columns, "_bytes", _wide),),
    "unknown is true": ((columns, "computed", _unknown_is_true),),
    "null stays null": _operation("or_else", lambda _s, left, _right: left),
    "lengths are of bytes": _operation(
        "length", lambda s, left, _right: s.octet_length(left).cast("bigint")
    ),
    "a filter is left out": _walked(
        lambda steps: [step for step in steps if not isinstance(step, Where)]
    ),
    "the last step comes first": _walked(lambda steps: [*steps[-1:], *steps[:-1]]),
    "no key is an empty one": ((computing, "walked", _no_key_is_an_empty_one),),
    "what is filtered out is deleted": ((computing, "walked", _filtered_out_is_deleted),),
    "what is filtered out has not come": ((computing, "folded", _only_what_is_alive),),
    "a table by time": (_folds(Fold.LAST, _by_time),),
    "the first of two": (_folds(Fold.LAST, _first_of_ties),),
    "a deleted key comes back": (_folds(Fold.LAST, _without_tombstones),),
    "the latest time of a table": (_with_time("t", Fold.LAST),),
    "the time of the last record": (
        (columns, "_folds", _last_time),
        _with_time("other_ts"),
    ),
    "the time of a dropped record": (_with_time("latest"),),
    "the time of the smallest": _time_of(
        Fold.SMALLEST, lambda s, kept: s.min_by("ts", s.when(kept, s.col("value")))
    ),
    "the time of the largest": _time_of(
        Fold.LARGEST, lambda s, kept: s.max_by("ts", s.when(kept, s.col("value")))
    ),
    "each value once": ((columns, "_folds", _each_value_once),),
    "only what is positive": ((columns, "_made", _only_what_is_positive),),
    "numbers in the order of texts": (
        _folds(
            Fold.SMALLEST,
            lambda s, kept: s.min(s.when(kept, s.col("value").cast("string"))).cast("bigint"),
        ),
    ),
    "the one farthest from zero": (
        _folds(Fold.LARGEST, lambda s, kept: s.max_by("value", s.when(kept, s.abs("value")))),
    ),
    "capitals do not matter": (
        _folds(Fold.SMALLEST, lambda s, kept: s.min_by("value", s.when(kept, s.lower("value")))),
    ),
    "an empty text is none": (
        _folds(
            Fold.SMALLEST,
            lambda s, kept: s.min(s.when(kept & (s.col("value") != ""), s.col("value"))),
        ),
    ),
    "the largest for the smallest": (
        _folds(Fold.SMALLEST, lambda s, kept: s.max(s.when(kept, s.col("value")))),
    ),
    "a null value is one": ((computing, "folded", _null_is_a_value),),
    "merged rows have the last time": ((Counted, "_merged", _last_of_merged),),
    "a row is a record": ((columns, "_records", _a_row_is_a_record),),
    "another partition": (
        (computing, "place", lambda right: lambda count, found: right(count + 1, found)),
    ),
    "the second topic is left out": _paths(lambda paths: paths[:1]),
    "a topic comes twice": _paths(lambda paths: (*paths, *paths[:1])),
}
"""By what is wrong."""
