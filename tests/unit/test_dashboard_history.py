"""Samples in memory: what is kept of them, and what is gone is not shown any longer."""

from __future__ import annotations

import math

import pytest

from headwater.model import metrics
from headwater_operator.dashboards.evaluation import (
    LOOKBACK_MS,
    Line,
    evaluate,
    evaluate_at,
    legend_of,
)
from headwater_operator.dashboards.functions import changes, increase, quantile
from headwater_operator.dashboards.history import History, LabelSet, Sample, label_set
from headwater_operator.dashboards.panels import Function, Query, Quotient

LAG = Query(metric=metrics.RECORDS_LAG, by=("client_id",))
FIRST, SECOND = label_set({"client_id": "w-0"}), label_set({"client_id": "w-1", "namespace": ""})


def lag(labels: LabelSet, value: float) -> Sample:
    return Sample("stream_task_records_lag", labels, value)


def test_what_a_source_no_longer_tells_of_is_gone_at_once() -> None:
    history = History(keep_ms=60_000)
    history.add(1_000, [lag(FIRST, 5), lag(SECOND, 7)], source="both")
    history.add(2_000, [lag(FIRST, 6)], source="both")

    lines = evaluate(LAG, history.samples(), at_ms=(999, 1_000, 1_999, 2_000), window_ms=1_000)

    assert lines == (
        Line(labels=FIRST, legend="w-0", values=(None, 5, 5, 6)),
        Line(labels=SECOND, legend="w-1", values=(None, 7, 7, None)),
    )


def test_a_source_that_is_gone_takes_its_own_series_with_it() -> None:
    history = History(keep_ms=60_000)
    history.add(1_000, [lag(FIRST, 5)], source="w-0")
    history.add(1_000, [lag(SECOND, 7)], source="w-1")
    history.add(2_000, [], source="w-0")
    history.add(3_000, [], source="w-0")

    assert evaluate_at(LAG, history.samples(), at_ms=3_000, window_ms=1) == {SECOND: 7}


def test_a_sample_counts_for_five_minutes() -> None:
    history = History(keep_ms=10**9)
    history.add(1_000, [lag(FIRST, 5)])
    samples = history.samples()

    assert evaluate_at(LAG, samples, at_ms=1_000 + LOOKBACK_MS - 1, window_ms=1) == {FIRST: 5}
    assert evaluate_at(LAG, samples, at_ms=1_000 + LOOKBACK_MS, window_ms=1) == {}


def test_old_samples_are_forgotten_and_so_are_series_without_any() -> None:
    history = History(keep_ms=10_000)
    history.add(1_000, [lag(FIRST, 5)], source="w-0")
    for second in range(1, 20):
        history.add(second * 1_000, [lag(SECOND, second)], source="w-1")
    before = history.samples()["stream_task_records_lag"]
    history.trim(19_000)
    (kept,) = history.samples()["stream_task_records_lag"]

    assert len(before) == 1
    assert kept.labels == SECOND
    assert list(kept.times) == [second * 1_000 for second in range(10, 20)]
    history.trim(10**9)
    assert history.samples() == {}


def test_the_window_of_a_function_skips_moments_at_which_a_thing_was_gone() -> None:
    history = History(keep_ms=10**9)
    processed = Query(metric=metrics.THREAD_PROCESS, by=("client_id",), function=Function.INCREASE)
    for at, value in ((0, 10.0), (10_000, None), (20_000, 30.0)):
        told = [] if value is None else [Sample("stream_thread_process_total", FIRST, value)]
        history.add(at, told)

    found = evaluate_at(processed, history.samples(), at_ms=20_000, window_ms=20_001)

    assert found[FIRST] == pytest.approx(20, rel=1e-3)


def test_what_is_divided_by_nothing_is_no_number() -> None:
    history = History(keep_ms=10**9)
    history.add(
        0,
        [
            lag(FIRST, 0),
            lag(SECOND, 3),
            *(Sample("stream_task_active_buffer_count", it, 0) for it in (FIRST, SECOND)),
        ],
    )
    buffered = Query(metric=metrics.ACTIVE_BUFFER_COUNT, by=("client_id",))
    share = Quotient(numerator=LAG, denominator=buffered)

    found = evaluate_at(share, history.samples(), at_ms=0, window_ms=1)

    assert math.isnan(found[FIRST])
    assert found[SECOND] == math.inf


def test_a_legend_leaves_out_labels_that_a_series_lacks() -> None:
    query = Query(metric=metrics.READY, by=("namespace", "application_id"))

    assert legend_of(query, label_set({"application_id": "orders"})) == "orders"
    assert legend_of(query, label_set({"application_id": "a", "namespace": "n"})) == "n a"
    shares = Query(metric=metrics.READY, by=query.by, legend=f"idle {query.label} avg")
    assert legend_of(shares, label_set({"application_id": "a"})) == "idle a avg"


def test_growth_needs_two_samples_and_survives_a_restart_of_its_counter() -> None:
    assert increase([5], [1.0], 0, 10) is None
    assert increase([0, 10], [3.0, 7.0], 0, 10) == 4
    assert increase([0, 5, 10], [3.0, 7.0, 2.0], 0, 10) == 6
    assert increase([4, 6], [0.0, 2.0], 0, 10) == pytest.approx(3)


def test_a_gauge_that_is_no_number_twice_has_not_changed() -> None:
    assert changes([]) is None
    assert changes([1.0, 1.0, 2.0, 1.0]) == 2
    assert changes([math.nan, math.nan, 1.0]) == 1


def test_a_quantile_lies_within_its_bucket() -> None:
    buckets = {0.1: 5.0, 1.0: 10.0, math.inf: 20.0}

    assert quantile(0.25, buckets) == pytest.approx(0.1)
    assert quantile(0.5, buckets) == pytest.approx(1.0)
    assert quantile(0.9, buckets) == 1.0
    assert math.isnan(quantile(0.5, {1.0: 0.0, math.inf: 0.0}))
    assert math.isnan(quantile(0.5, {1.0: 5.0}))
    assert quantile(0.5, {-1.0: 5.0, math.inf: 5.0}) == -1.0
