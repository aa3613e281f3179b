"""Dashboards: each panel asks numbers that are measured, by labels that they have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.golden.chart import CHART
from tests.golden.dashboards import GRAFANA_UNITS, dashboards

from headwater.model import metrics
from headwater.model.metrics import METRICS, MetricType, Scope, Unit
from headwater_operator.dashboards import APPLICATION, DASHBOARDS, FLEET, SPARK, STATE, WORKER
from headwater_operator.dashboards.choosing import APP, NAMESPACE, OF_WORKERS
from headwater_operator.dashboards.panels import (
    BUCKET,
    OF_SCRAPING,
    Aggregation,
    Annotation,
    Dashboard,
    Expression,
    Function,
    Kind,
    Panel,
    Query,
    Quotient,
    Row,
    named,
)
from headwater_operator.dashboards.promql import annotation_promql, label_values, promql
from headwater_operator.metrics import OPERATOR_METRICS, RECONCILES

PANELS = [(board, panel) for board in DASHBOARDS for panel in board]
IDS = [f"{board.uid}: {panel.title}" for board, panel in PANELS]
LAG = Query(metric=metrics.RECORDS_LAG, by=("task_id",))


def queries_of(expression: Expression) -> tuple[Query, ...]:
    if isinstance(expression, Quotient):
        return expression.numerator, expression.denominator
    return (expression,)


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=IDS)
def test_a_panel_asks_numbers_that_are_scraped_by_labels_that_they_have(
    board: Dashboard, panel: Panel
) -> None:
    chosen = {variable.label for variable in board.variables}
    for query in (each for it in panel.queries for each in queries_of(it)):
        labels = {*query.metric.labels, *OF_SCRAPING, BUCKET}
        assert query.metric.is_scraped
        assert query.metric in (*METRICS, *OPERATOR_METRICS)
        assert {*query.by, *chosen, *dict(query.filters)} <= labels, query.metric.name
        assert query.function.is_ranged == (query.metric.type is not MetricType.GAUGE)


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=IDS)
def test_a_panel_has_a_unit_and_says_what_to_look_for(board: Dashboard, panel: Panel) -> None:
    if panel.kind is not Kind.TABLE:
        assert panel.unit in GRAFANA_UNITS
    assert panel.description.endswith((".", "?")), board.uid
    assert (panel.kind is Kind.STATE_TIMELINE) == bool(panel.states)
    legends = [query.label for query in panel.queries]
    assert len(set(legends)) == len(legends)


def test_every_kind_of_number_has_a_panel() -> None:
    shown = {metric.scope for _, panel in PANELS for metric in panel.metrics}

    assert set(Scope) - shown == {Scope.USER}


def test_links_lead_to_dashboards() -> None:
    uids = [board.uid for board in DASHBOARDS]

    assert len(set(uids)) == len(uids)
    for board in DASHBOARDS:
        assert set(board.links) <= set(uids) - {board.uid}


def test_a_counter_is_shown_by_its_growth_and_a_gauge_as_it_is() -> None:
    chosen = '{namespace=~"$namespace", application_id=~"$application_id", client_id=~"$client_id"}'
    processed = Query(
        metric=metrics.TASK_PROCESS,
        by=("task_id", "client_id"),
        aggregation=Aggregation.MAX,
        function=Function.RATE,
    )

    assert promql(processed, OF_WORKERS) == (
        f"max by (task_id, client_id) (rate(stream_task_process_total{chosen}[$__rate_interval]))"
    )
    assert promql(LAG, OF_WORKERS) == f"sum by (task_id) (stream_task_records_lag{chosen})"


def test_what_is_chosen_is_quoted_and_all_is_any_value_or_none() -> None:
    query = replace(LAG, by=(), filters=(("task_id", '0_"1'),))

    assert promql(query, (NAMESPACE,), chosen={"namespace": ["b", "a.c"]}) == (
        'sum(stream_task_records_lag{task_id="0_\\"1", namespace=~"a\\\\.c|b"})'
    )
    assert promql(query, (NAMESPACE,), chosen={}) == (
        'sum(stream_task_records_lag{task_id="0_\\"1", namespace=~".*"})'
    )


def test_a_quotient_and_a_quantile_are_of_sums() -> None:
    share = Quotient(numerator=LAG, denominator=replace(LAG, aggregation=Aggregation.COUNT))
    slow = Query(metric=RECONCILES, by=("result",), function=Function.QUANTILE, quantile=0.9)

    assert promql(share) == (
        "sum by (task_id) (stream_task_records_lag) / count by (task_id) (stream_task_records_lag)"
    )
    assert promql(slow, window="1m") == (
        "histogram_quantile(0.9, "
        "sum by (le, result) (rate(headwater_operator_reconcile_duration_seconds_bucket[1m])))"
    )
    assert promql(replace(slow, function=Function.RATE), window="1m") == (
        "sum by (result) (rate(headwater_operator_reconcile_duration_seconds_count[1m]))"
    )


def test_values_of_labels_are_counted() -> None:
    tasks = replace(LAG, by=("namespace",), aggregation=Aggregation.COUNT, distinct=("task_id",))

    assert promql(tasks) == (
        "count by (namespace) (count by (namespace, task_id) (stream_task_records_lag))"
    )
    assert promql(replace(tasks, by=(), distinct=APP)) == (
        "count(count by (namespace, application_id) (stream_task_records_lag))"
    )


def test_a_unit_follows_from_metric_and_function() -> None:
    took = Query(metric=RECONCILES, by=(), function=Function.QUANTILE)

    assert LAG.unit is Unit.RECORDS
    assert replace(LAG, aggregation=Aggregation.COUNT).unit is Unit.NONE
    assert replace(LAG, function=Function.RATE).unit is Unit.PER_SECOND
    assert took.unit is Unit.SECONDS
    assert replace(took, function=Function.RATE).unit is Unit.PER_SECOND
    assert Quotient(numerator=LAG, denominator=LAG).unit is Unit.RATIO
    with pytest.raises(ValueError, match="would have the unit ms/s"):
        _ = Query(metric=metrics.STALL_TOTAL, by=(), function=Function.RATE).unit


def test_a_panel_of_several_units_is_refused() -> None:
    bytes_ = Query(metric=metrics.CACHE_SIZE_BYTES, by=())

    with pytest.raises(ValueError, match="the panel 'mixed' has several units: bytes, records"):
        _ = Panel(title="mixed", description="", queries=(LAG, bytes_)).unit


def test_two_panels_of_one_title_are_refused() -> None:
    panel = Panel(title="lag", description="", queries=(LAG,))

    with pytest.raises(ValueError, match="the dashboard x has several panels named 'lag'"):
        Dashboard(uid="x", title="", description="", rows=(Row(title="", panels=(panel, panel)),))


def test_a_panel_is_found_by_its_title() -> None:
    assert FLEET.panel_id("Workers") == 2
    assert WORKER.panels[WORKER.panel_id("Commits") - 1].title == "Commits"
    with pytest.raises(KeyError, match="the dashboard headwater-fleet has no panel 'Commits'"):
        FLEET.panel("Commits")


def test_what_is_committed_is_what_the_dashboards_say() -> None:
    texts = dashboards()
    folder = CHART / "files" / "dashboards"

    assert {path.name for path in folder.iterdir()} == texts.keys(), "run: make crds"
    for name, text in texts.items():
        assert (folder / name).read_text() == text, "run: make crds"


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_grafana_has_each_panel_once_at_a_place_of_its_own(board: Dashboard) -> None:
    made: dict[str, Any] = json.loads(dashboards()[f"{board.uid}.json"])
    rows = [panel for panel in made["panels"] if panel["type"] == "row"]
    panels = [panel for panel in made["panels"] if panel["type"] != "row"]
    panels += [panel for row in rows for panel in row["panels"]]
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["w"])
        for y in range(place["h"])
    ]

    assert [row["title"] for row in rows] == [row.title for row in board.rows]
    assert {panel["id"]: panel["title"] for panel in panels} == {
        board.panel_id(panel.title): panel.title for panel in board
    }
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        asked = [target["expr"] for target in panel["targets"]]
        assert asked == [promql(q, board.variables) for q in board.panel(panel["title"]).queries]
    assert [it["expr"] for it in made["annotations"].get("list", [])] == [
        annotation_promql(annotation, board.variables) for annotation in board.annotations
    ]


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_a_panel_without_data_says_what_that_may_mean(board: Dashboard) -> None:
    made: dict[str, Any] = json.loads(dashboards()[f"{board.uid}.json"])
    rows = [panel for panel in made["panels"] if panel["type"] == "row"]
    panels = [*made["panels"], *(panel for row in rows for panel in row["panels"])]

    for panel in panels:
        if panel["type"] != "row":
            told = panel["fieldConfig"]["defaults"]["noValue"]
            assert "Nothing matches what is chosen" in told


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_moves_and_roll_outs_are_marked_on_every_dashboard_by_labels_that_they_have(
    board: Dashboard,
) -> None:
    chosen = {variable.label for variable in board.variables}

    assert len(board.annotations) == 2
    for annotation in board.annotations:
        labels = {*annotation.query.metric.labels, *OF_SCRAPING}
        assert annotation.query.metric in METRICS
        assert annotation.of_all or chosen <= labels
        assert "$namespace" in annotation_promql(annotation, board.variables) or annotation.of_all


@pytest.mark.parametrize("board", [FLEET, APPLICATION, WORKER, STATE, SPARK], ids=lambda it: it.uid)
def test_lines_and_marks_are_of_one_application_and_name_it(board: Dashboard) -> None:
    asked = [(panel, query) for panel in board for query in panel.queries if query.by]

    assert len(asked) > 8
    for panel, query in asked:
        assert set(APP) <= set(query.by), panel.title
        # A table has its labels in columns.
        assert panel.kind is Kind.TABLE or named(APP) in query.label, panel.title
    for annotation in board.annotations:
        assert annotation.query.by == APP
    assert json.loads(dashboards()[f"{board.uid}.json"])["annotations"]["list"][0][
        "textFormat"
    ] == named(APP)


def test_changes_of_an_answer_are_marked_within_a_time() -> None:
    annotation = Annotation(title="", query=LAG, changes_within="5m", of_all=True)

    assert annotation_promql(annotation, OF_WORKERS) == (
        "changes((sum by (task_id) (stream_task_records_lag))[5m:]) > 0"
    )


def test_growth_is_marked_with_what_new_series_begin_with() -> None:
    opened = Query(metric=metrics.TASK_CREATED, by=APP, function=Function.INCREASE)
    chosen = '{namespace=~"$namespace"}'
    name = "stream_thread_task_created_total"

    assert annotation_promql(Annotation(title="", query=opened), (NAMESPACE,), window="1m") == (
        f"sum by (namespace, application_id) (increase({name}{chosen}[1m])) > 0 or "
        f"sum by (namespace, application_id) ({name}{chosen} unless {name}{chosen} offset 1m) > 0"
    )


def test_the_choice_of_a_variable_is_narrowed_by_those_before_it() -> None:
    namespace, application, client = OF_WORKERS

    assert label_values(client, (namespace, application), None) == (
        'stream_ready{namespace=~"$namespace", application_id=~"$application_id"}'
    )
    assert namespace.metric in METRICS
