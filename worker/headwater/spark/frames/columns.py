"""Expressions, paths and folds as Spark's columns and DataFrames. Nothing here is run yet.

A row that tells of a partition (``src`` >= 0) comes through every step unharmed, and so does one in
which something was found (``bad`` > 0): a StreamTask would have met it there. Behind a shuffle
nothing is taken out, only marked (``alive``): what crossed it counts for the partition it went to.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from headwater.spark.frames.kinds import Kind, result_of
from headwater.spark.frames.plan import Fold, HasKey, Shuffle, Where, WithKey
from headwater.spark.frames.rows import Trouble

if TYPE_CHECKING:
    from headwater.functions import Expression
    from headwater.spark.frames.plan import Output, Path

_LIMITS: Final = {Kind.INTEGER: 2**31, Kind.LONG: 2**63}
_INT_MAX: Final = 2**31 - 1
RESULT: Final = (
    "out int, sub int, src int, part int, key binary, value binary, n bigint, crossed bigint, "
    "dropped bigint, t bigint, latest bigint, bad int, m bigint"
)
"""The columns of ``folded``: a row for each key, and those that tell of partitions."""


def functions() -> Any:
    """Return pyspark's functions, which are loaded late."""
    return importlib.import_module("pyspark.sql.functions")


@dataclass(frozen=True, slots=True)
class Computed:
    """A column, and one that is true where a number did not fit in 64 bits."""

    column: Any
    overflow: Any = None


def computed(expression: Expression, key: Kind, value: Kind) -> Computed:
    """Return an expression over the columns ``key`` and ``value``, of the kinds given."""
    f = functions()
    name = expression.operation
    if name in {"key", "value"}:
        return Computed(f.col(name))
    if name == "literal":
        constant = expression.constant
        column = f.lit(constant)
        return Computed(column.cast("bigint") if constant.__class__ is int else column)
    given = [computed(one, key, value) for one in expression.operands]
    columns = [one.column for one in given]
    kind = result_of(expression, key, value)
    column = _operation(f, expression, kind, columns)
    found = [one.overflow for one in given if one.overflow is not None]
    if name in {"+", "-", "*"} and kind is Kind.LONG:
        found.append(columns[0].isNotNull() & columns[1].isNotNull() & column.isNull())
    return Computed(column, reduce(or_, found) if found else None)


def _operation(f: Any, expression: Expression, kind: Kind, columns: list[Any]) -> Any:
    left, right = columns[0], columns[-1]
    name = expression.operation
    if name == "slice":
        start, stop = (min(one.constant, _INT_MAX - 1) for one in expression.operands[1:])
        return f.substring(left, start + 1, stop - start)
    simple = {
        "+": (lambda: f.concat(left, right) if kind is Kind.STRING else f.try_add(left, right)),
        "-": lambda: f.try_subtract(left, right),
        "*": lambda: f.try_multiply(left, right),
        "%": lambda: f.pmod(left, right),
        "not": lambda: ~left,
        "length": lambda: f.length(left).cast("bigint"),
        "is_null": left.isNull,
        "or_else": lambda: f.coalesce(left, right),
        "starts_with": lambda: f.startswith(left, right),
        "ends_with": lambda: f.endswith(left, right),
        "contains": lambda: f.contains(left, right),
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
        "and": lambda: left & right,
        "or": lambda: left | right,
    }
    return simple[name]()


# -- paths -----------------------------------------------------------------------------------------


def walked(path: Path, raw: Any) -> Any:
    """Return the rows of a read, at the end of a path."""
    f = functions()
    key, value = path.read.key, path.read.value
    frame = raw.withColumn("alive", f.lit(True))  # noqa: FBT003 - a constant
    is_shuffled = False
    tells, bad = f.col("src") >= 0, f.col("bad") > 0
    for step in path.steps:
        match step:
            case HasKey():
                frame = frame.filter(tells | bad | f.col("key").isNotNull())
            case Shuffle():
                part = f.when(tells, f.col("part")).otherwise(f.lit(-1))
                frame = frame.withColumn("part", part)
                is_shuffled = True
            case Where(predicate, negate):
                one = computed(predicate, key, value)
                kept = f.coalesce(one.column, f.lit(False))  # noqa: FBT003
                kept = ~kept if negate else kept
                frame = frame.select(
                    "src", "part", "ts", "off", "key", "value", "m",
                    _worse(f, one.overflow).alias("bad"), "alive", kept.alias("kept"),
                )  # fmt: skip
                if is_shuffled:
                    frame = frame.withColumn("alive", f.col("alive") & (bad | f.col("kept")))
                else:
                    frame = frame.filter(tells | bad | f.col("kept"))
                frame = frame.drop("kept")
            case _:
                one = computed(step.expression, key, value)
                is_key = isinstance(step, WithKey)
                kind = result_of(step.expression, key, value)
                replaced = f.when(~tells, one.column)
                frame = frame.select(
                    "src", "part", "ts", "off",
                    replaced.alias("key") if is_key else f.col("key"),
                    f.col("value") if is_key else replaced.alias("value"),
                    "m", _worse(f, one.overflow).alias("bad"), "alive",
                )  # fmt: skip
                key, value = (kind, value) if is_key else (key, kind)
    return frame


def _worse(f: Any, overflow: Any) -> Any:
    """The column ``bad``, with an overflow noted of what was alive."""
    if overflow is None:
        return f.col("bad")
    found = f.when(overflow & f.col("alive"), f.lit(int(Trouble.OVERFLOW))).otherwise(f.lit(0))
    return f.greatest(f.col("bad"), found)


# -- state -----------------------------------------------------------------------------------------


def folded(output: Output, number: int, rows: Any) -> Any:
    """Return one row for each key of a store (``RESULT``), and those that tell of partitions."""
    f = functions()
    data = f.col("src") < 0
    has_value = f.col("value").isNotNull() | f.lit(output.fold is Fold.LAST)
    sound = data & f.col("alive") & (f.col("bad") == 0)
    kept = sound & f.col("key").isNotNull() & has_value
    grouped = rows.groupBy("src", "part", "key").agg(
        _records(f, kept).alias("n"),
        _records(f, data).alias("crossed"),
        _records(f, sound & ~kept).alias("dropped"),
        f.max(f.when(kept, f.col("ts"))).alias("t"),
        f.max("ts").alias("latest"),
        f.max("bad").alias("bad"),
        f.max("m").alias("m"),
        *_folds(f, output.fold, kept),
    )
    value, at, bad = _made(f, output)
    return grouped.select(
        f.lit(number).alias("out"),
        f.lit(output.subtopology).alias("sub"),
        "src",
        "part",
        _bytes(f, output.key, f.col("key")).alias("key"),
        _bytes(f, output.value, value).alias("value"),
        "n",
        "crossed",
        "dropped",
        at.alias("t"),
        "latest",
        bad.alias("bad"),
        "m",
    )


def _records(f: Any, condition: Any) -> Any:
    """How many records there are for which a condition is true; ``m`` are those of a row."""
    return f.coalesce(f.sum(f.when(condition, f.col("m"))), f.lit(0).cast("bigint"))


def _folds(f: Any, fold: Fold, kept: Any) -> list[Any]:
    value = f.col("value")
    match fold:
        case Fold.COUNT:
            return []
        case Fold.SUM:
            zero = f.lit(0).cast("bigint")
            # No sum of some of them, in whatever order, is above the one or below the other.
            return [
                f.try_sum(f.when(kept, f.greatest(value, zero))).alias("high"),
                f.try_sum(f.when(kept, f.least(value, zero))).alias("low"),
            ]
        case Fold.SMALLEST:
            return [f.min(f.when(kept, value)).alias("made")]
        case Fold.LARGEST:
            return [f.max(f.when(kept, value)).alias("made")]
        case Fold.LAST:
            newest = f.struct(value.alias("value"), f.col("ts").alias("ts"))
            return [f.max_by(newest, f.when(kept, f.col("off"))).alias("made")]


def _made(f: Any, output: Output) -> tuple[Any, Any, Any]:
    """Value, timestamp and what was found, of a key."""
    at, bad = f.col("t"), f.col("bad")
    match output.fold:
        case Fold.COUNT:
            return f.col("n"), at, bad
        case Fold.LAST:
            return f.col("made.value"), f.col("made.ts"), bad
        case Fold.SUM:
            high, low = f.col("high"), f.col("low")
            limit = _LIMITS[output.value]
            beyond = (high > limit - 1) | (low < -limit)
            lost = (f.col("n") > 0) & (high.isNull() | low.isNull() | beyond)
            worse = f.when(lost, f.lit(int(Trouble.SUM))).otherwise(f.lit(0))
            return f.try_add(high, low), at, f.greatest(bad, worse)
        case _:
            return f.col("made"), at, bad


def _bytes(f: Any, kind: Kind, column: Any) -> Any:
    """What the serde of ``kind`` writes."""
    if not kind.is_whole:
        return column.cast("binary")
    digits = f.lpad(f.hex(column.cast("bigint")), 16, "0")
    return f.unhex(digits if kind is Kind.LONG else f.right(digits, f.lit(8)))
