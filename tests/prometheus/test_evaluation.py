"""Panels evaluated over samples in memory show what a real Prometheus shows of the same samples."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Final

import pytest
from tests.support import prometheus

from headwater.model import metrics
from headwater.model.metrics import Metric, MetricType, Scope
from headwater_operator.dashboards import DASHBOARDS
from headwater_operator.dashboards.choosing import APP
from headwater_operator.dashboards.evaluation import evaluate, values_of
from headwater_operator.dashboards.history import History, Sample, Samples, label_set
from headwater_operator.dashboards.panels import Aggregation, Function, Query, Quotient
from headwater_operator.dashboards.promql import label_values, promql
from headwater_operator.metrics import RECONCILES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tests.support.prometheus import Prometheus

    from headwater_operator.dashboards.panels import Dashboard, Expression, Panel, Variable

pytestmark = pytest.mark.processes

SEED: Final = 17
START_MS: Final = 1_700_000_000_000
PAUSE_MS: Final = 15_000
COUNT: Final = 50
STEPS: Final = tuple(START_MS + 60_007 + 45_000 * step for step in range(16))
"""At no edge of a window lies a sample: versions of Prometheus differ in whether it counts."""
WINDOW_S: Final = 75
VALUES: Final = {
    "namespace": ("shop", "shop-test"),
    "application_id": ("orders.v2", "payments"),
    "client_id": ("w-0", "w-1"),
    "state": ("RUNNING", "RESTORING"),
    "version": ("1.0",),
    "le": ("0.1", "1.0", "5.0", "+Inf"),
}
OTHERS: Final[tuple[Expression, ...]] = (
    *(
        Query(
            metric=metrics.RECORDS_LAG,
            by=("application_id",),
            aggregation=aggregation,
            filters=(("client_id", "w-1"),),
        )
        for aggregation in Aggregation
    ),
    *(
        Query(metric=metrics.THREAD_PROCESS, by=("client_id",), function=function)
        for function in (Function.RATE, Function.INCREASE, Function.CHANGES)
    ),
    Query(metric=metrics.RECORDS_LAG, by=("task_id",), function=Function.DERIV),
    *(
        Query(metric=RECONCILES, by=("result",), function=Function.QUANTILE, quantile=quantile)
        for quantile in (0.0, 0.5, 0.99, 1.0)
    ),
    *(
        Query(metric=metrics.READY, by=by, aggregation=Aggregation.COUNT, distinct=distinct)
        for by, distinct in ((("namespace",), ("application_id",)), ((), APP))
    ),
    Quotient(
        numerator=Query(metric=metrics.RECORDS_LAG, by=("task_id",)),
        denominator=Query(metric=metrics.TASK_PROCESS, by=("task_id",)),
    ),
)
PANELS: Final = [(board, panel) for board in DASHBOARDS for panel in board]


def draw(chosen: random.Random) -> Iterator[tuple[int, Sample]]:
    """Yield samples of every metric that is shown: counters begin again, series begin and end."""
    queries = [query for _, panel in PANELS for query in panel.queries]
    read = {
        (part.sample_name, metric)
        for query in (*queries, *OTHERS)
        for part in ([query] if isinstance(query, Query) else [query.numerator, query.denominator])
        for metric in part.metrics
    }
    for name, metric in sorted(read, key=lambda it: it[0]):
        if name.endswith("_bucket"):
            yield from draw_buckets(chosen, name, metric)
        else:
            for labels in labels_of(metric):
                yield from draw_series(chosen, name, metric, labels)


def labels_of(metric: Metric) -> Iterator[Mapping[str, str]]:
    names = ["namespace", *metric.labels]
    if metric.scope is Scope.OPERATOR:
        names.append("pod")
    values = [VALUES.get(name, (f"{name}-a",)) for name in names]
    for number, found in enumerate(itertools.product(*values)):
        other = {name: f"{name}-{number % 2}" for name in names if name not in VALUES}
        yield dict(zip(names, found, strict=True)) | other


def draw_series(
    chosen: random.Random, name: str, metric: Metric, labels: Mapping[str, str]
) -> Iterator[tuple[int, Sample]]:
    at, value = START_MS + 10 * chosen.randrange(PAUSE_MS // 10), float(chosen.randrange(100))
    begun, ended = chosen.choice((0, 0, 20)), chosen.choice((COUNT, COUNT, 25))
    for number in range(COUNT):
        at += chosen.choice((PAUSE_MS, PAUSE_MS, PAUSE_MS + 730, 3 * PAUSE_MS))
        if metric.type is MetricType.GAUGE:
            value = chosen.choice((value, float(chosen.randrange(1000)), chosen.random()))
        elif chosen.random() < 0.05:
            value = float(chosen.randrange(5))
        else:
            value += chosen.randrange(50)
        if begun <= number < ended:
            yield at, Sample(name, label_set(labels), value)


def draw_buckets(chosen: random.Random, name: str, metric: Metric) -> Iterator[tuple[int, Sample]]:
    for labels in labels_of(metric):
        at, counts = START_MS, [0, 0, 0, 0]
        for _ in range(COUNT):
            at += PAUSE_MS
            counts = [count + chosen.randrange(4) for count in counts]
            for bound, value in zip(VALUES["le"], itertools.accumulate(counts), strict=True):
                yield at, Sample(name, label_set({**labels, "le": bound}), float(value))


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Prometheus, Samples]]:
    drawn = sorted(draw(random.Random(SEED)), key=lambda it: it[0])
    history = History(keep_ms=10**12)
    for number, (at, sample) in enumerate(drawn):
        history.add(at, [sample], source=f"{number}")
    directory = tmp_path_factory.mktemp("prometheus")
    prometheus.write_blocks(directory, drawn)
    with prometheus.running(directory, "global: {}\n") as server:
        yield server, history.samples()


def check(
    expression: Expression,
    told: tuple[Prometheus, Samples],
    variables: tuple[Variable, ...],
    chosen: Mapping[str, Collection[str]],
) -> int:
    server, samples = told
    text = promql(expression, variables, window=f"{WINDOW_S}s", chosen=chosen)
    start, end, step = STEPS[0] / 1000, STEPS[-1] / 1000, (STEPS[1] - STEPS[0]) / 1000

    theirs = {
        label_set(answer.labels): dict(answer.points)
        for answer in server.range(text, start, end, step)
    }
    ours = {
        line.labels: {
            at / 1000: value
            for at, value in zip(STEPS, line.values, strict=True)
            if value is not None
        }
        for line in evaluate(
            expression, samples, at_ms=STEPS, window_ms=WINDOW_S * 1000, chosen=chosen
        )
    }

    assert ours.keys() == theirs.keys(), text
    for labels, values in theirs.items():
        assert ours[labels].keys() == values.keys(), (text, labels)
        for at, value in values.items():
            ok = math.isclose(ours[labels][at], value, rel_tol=1e-9, abs_tol=1e-12)
            both = ours[labels][at], value
            assert ok or (math.isnan(both[0]) and math.isnan(both[1])), (text, labels, at, both)
    return len(theirs)


@pytest.mark.parametrize(
    ("board", "panel"), PANELS, ids=[f"{board.uid}: {panel.title}" for board, panel in PANELS]
)
def test_a_panel_has_prometheus_answers(
    board: Dashboard, panel: Panel, told: tuple[Prometheus, Samples]
) -> None:
    given = {"namespace": ["shop"], "application_id": ["orders.v2", "payments"]}
    labels = {variable.label for variable in board.variables}
    chosen = {label: values for label, values in given.items() if label in labels}
    for query in panel.queries:
        assert check(query, told, board.variables, chosen) > 0
        assert check(query, told, board.variables, {}) > 0


@pytest.mark.parametrize("query", OTHERS, ids=promql)
def test_each_function_and_aggregation_has_prometheus_answers(
    query: Expression, told: tuple[Prometheus, Samples]
) -> None:
    assert check(query, told, (), {}) > 0


def test_a_choice_that_fits_nothing_is_no_data_and_no_error(
    told: tuple[Prometheus, Samples],
) -> None:
    for board, panel in PANELS:
        for variable in board.variables:
            for gone in ('not "there"', "a.b|c\\d"):
                for query in panel.queries:
                    assert check(query, told, board.variables, {variable.label: [gone]}) == 0


def test_a_viewer_chooses_among_the_values_that_prometheus_offers(
    told: tuple[Prometheus, Samples],
) -> None:
    server, samples = told
    for board in DASHBOARDS:
        for index, variable in enumerate(board.variables):
            for chosen in ({}, {"namespace": ["shop"]}):
                narrowed = chosen if index else {}
                before = board.variables[:index]
                found = server.label_values(
                    variable.label, label_values(variable, before, narrowed)
                )
                series = samples[variable.metric.sample_name]
                assert values_of(variable.label, series, narrowed) == found != []
