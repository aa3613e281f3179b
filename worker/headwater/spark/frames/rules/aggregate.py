"""Counts and reduces whose result does not depend on the order of records."""

from __future__ import annotations

import operator as python
from typing import TYPE_CHECKING, Any

from headwater.dsl.aggregate import count_adder, count_initializer
from headwater.functions import Reducer
from headwater.model.operators.aggregate import StreamAggregate, TableAggregate, TableRepartitionMap
from headwater.spark.frames.flow import computed, refuse
from headwater.spark.frames.kinds import Kind, Refused
from headwater.spark.frames.plan import Fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.spark.frames.flow import Flow, Place

refuse(TableRepartitionMap, "a table grouped anew takes back what it has added")
refuse(TableAggregate, "a table grouped anew takes back what it has added")


@computed.register(StreamAggregate)
def _aggregate(operator: StreamAggregate, at: Place) -> tuple[Flow, str]:
    flow = at.flow
    if flow.table:
        raise Refused("how many updates of a table there are depends on commits and caches")
    if len({path.shuffle for path in flow.paths}) > 1:
        raise Refused("merges what has come by a shuffle with what has not")
    fold = _fold(operator, flow)
    made = Kind.LONG if fold is Fold.COUNT else flow.value
    updates = at.keep(fold, operator.store, made)
    return updates, f"{fold.value} does not depend on the order; its time is the latest"


def _fold(operator: StreamAggregate, flow: Flow) -> Fold:
    if operator.initializer is count_initializer and operator.aggregator is count_adder:
        return Fold.COUNT
    if operator.reducer is None:
        raise Refused("aggregate calls a Python function, which may depend on the order")
    fold = _known(operator.reducer)
    if fold is None:
        raise Refused(
            "reduce calls a Python function, which may depend on the order; functions.add, "
            "smallest and largest are known"
        )
    if fold is Fold.SUM and not flow.value.is_whole:
        raise Refused("sums depend on the order unless they are of whole numbers")
    if fold is not Fold.SUM and not (flow.value.is_whole or flow.value is Kind.STRING):
        raise Refused(f"of {flow.value.value} values it is not known which one is the smallest")
    return fold


def _known(reducer: Callable[[Any, Any], Any]) -> Fold | None:
    if isinstance(reducer, Reducer):
        return {"add": Fold.SUM, "smallest": Fold.SMALLEST, "largest": Fold.LARGEST}[reducer.name]
    folds = ((python.add, Fold.SUM), (min, Fold.SMALLEST), (max, Fold.LARGEST))
    return next((fold for function, fold in folds if reducer is function), None)
