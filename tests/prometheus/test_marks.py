"""Marks and sums of dashboards tell applications of one id apart, each in its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from tests.support.prometheus import promtool

from headwater_operator.dashboards import APPLICATION, FLEET, SPARK, STATE, WORKER
from headwater_operator.dashboards.choosing import MOVES, ROLL_OUTS
from headwater_operator.dashboards.promql import annotation_promql, promql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from headwater_operator.dashboards.panels import Dashboard

pytestmark = pytest.mark.processes

SHOP: Final = 'application_id="orders", namespace="shop"'
TRIAL: Final = 'application_id="orders", namespace="trial"'
"""Another application, with a Kafka of its own."""

Samples = dict[str, float]


def check(
    folder: Path, series: Mapping[str, str], asked: Iterable[tuple[str, int, Samples]]
) -> None:
    """Let promtool say whether queries have these answers, each at a minute."""
    told: dict[str, Any] = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": it, "values": values} for it, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": f"{minute}m",
                        "exp_samples": [
                            {"labels": f"{{{labels}}}", "value": value}
                            for labels, value in samples.items()
                        ],
                    }
                    for expr, minute, samples in asked
                ],
            }
        ],
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(told, width=10_000))

    assert "SUCCESS" in promtool("test", "rules", str(folder / "tests.yaml"))


def first(board: Dashboard, title: str) -> str:
    """The first query of a panel, of all applications."""
    return promql(board.panel(title).queries[0], window="5m")


def test_a_roll_out_is_marked_while_one_application_has_several_revisions(tmp_path: Path) -> None:
    series = {
        f'stream_revision{{{SHOP}, client_id="w-0", revision="a"}}': "1x20 stale",
        f'stream_revision{{{SHOP}, client_id="w-0", revision="b"}}': "_x22 1x38",
        f'stream_revision{{{SHOP}, client_id="w-1", revision="a"}}': "1x30 stale",
        f'stream_revision{{{SHOP}, client_id="w-1", revision="b"}}': "_x32 1x28",
        f'stream_revision{{{TRIAL}, client_id="w-0", revision="c"}}': "1x60",
    }
    marked = annotation_promql(ROLL_OUTS, ())

    check(tmp_path, series, [(marked, 10, {}), (marked, 25, {SHOP: 2}), (marked, 40, {})])


def test_a_move_is_marked_with_the_application_whose_tasks_it_are(tmp_path: Path) -> None:
    series = {
        f'stream_thread_task_created_total{{{SHOP}, thread_id="t"}}': "4x20 9x40",
        f'stream_thread_task_created_total{{{TRIAL}, thread_id="t"}}': "4x60",
    }
    marked = f"count by (application_id, namespace) ({annotation_promql(MOVES, (), window='5m')})"

    check(tmp_path, series, [(marked, 10, {}), (marked, 22, {SHOP: 1}), (marked, 40, {})])


def test_tasks_of_a_worker_that_has_come_are_marked_although_its_first_sample_has_them(
    tmp_path: Path,
) -> None:
    opened = "stream_thread_task_created_total"
    series = {
        f'{opened}{{{SHOP}, client_id="w-0", thread_id="t0"}}': "4x60",
        f'{opened}{{{SHOP}, client_id="w-1", thread_id="t1"}}': "_x20 3x40",
        f'{opened}{{{TRIAL}, client_id="w-0", thread_id="t0"}}': "_x10 0x50",
    }
    marked = f"count by (application_id, namespace) ({annotation_promql(MOVES, (), window='5m')})"

    check(
        tmp_path,
        series,
        [(marked, 15, {}), (marked, 20, {SHOP: 1}), (marked, 24, {SHOP: 1}), (marked, 40, {})],
    )


def test_tasks_of_a_worker_that_has_come_again_are_marked(tmp_path: Path) -> None:
    opened = "stream_thread_task_created_total"
    at, anew = 'instance="10.0.0.1:8080"', 'instance="10.0.0.2:8080"'
    series = {
        f'{opened}{{{SHOP}, {at}, thread_id="t0"}}': "4x20 stale",
        f'{opened}{{{SHOP}, {anew}, thread_id="t0"}}': "_x22 4x38",
        f'{opened}{{{TRIAL}, {at}, thread_id="t0"}}': "9x20 stale _x1 2x38",
    }
    marked = f"count by (application_id, namespace) ({annotation_promql(MOVES, (), window='5m')})"

    check(
        tmp_path,
        series,
        [(marked, 15, {}), (marked, 24, {SHOP: 1, TRIAL: 1}), (marked, 40, {})],
    )


def test_a_take_over_is_marked_although_another_driver_tells_it(tmp_path: Path) -> None:
    [take_over, _] = SPARK.annotations
    series = {
        f'headwater_spark_generation{{{SHOP}, pod="a"}}': "3x20 stale",
        f'headwater_spark_generation{{{SHOP}, pod="b"}}': "_x22 4x38",
        f'headwater_spark_generation{{{TRIAL}, pod="c"}}': "7x60",
    }
    changes = annotation_promql(take_over, ()).removesuffix(" > 0")

    check(
        tmp_path,
        series,
        [
            (changes, minute, {SHOP: value, TRIAL: 0})
            for minute, value in ((19, 0), (23, 1), (25, 1), (40, 0))
        ],
    )


def test_numbers_of_two_applications_of_one_id_are_not_added_up(tmp_path: Path) -> None:
    task, thread = 'task_id="0_0"', 'thread_id="embedded-StreamThread-1"'
    store, ready = f'{task}, state_id="counts"', 'client_id="embedded"'
    size = "stream_state_total_sst_files_size"
    series = {
        f"stream_ready{{{SHOP}, {ready}}}": "1x9",
        f"stream_ready{{{TRIAL}, {ready}}}": "1x9",
        f"stream_task_records_lag{{{SHOP}, {task}}}": "5x9",
        f"stream_task_records_lag{{{TRIAL}, {task}}}": "7x9",
        f"stream_thread_process_total{{{SHOP}, {thread}}}": "0+60x9",
        f"stream_thread_process_total{{{TRIAL}, {thread}}}": "0+120x9",
        f"{size}{{{SHOP}, {store}}}": "100x9",
        f"{size}{{{TRIAL}, {store}}}": "200x9",
    }
    asked = [
        (first(FLEET, "Running applications"), {"": 2}),
        (first(WORKER, "Ready"), {f"{SHOP}, {ready}": 1, f"{TRIAL}, {ready}": 1}),
        (
            first(APPLICATION, "Input records not yet processed"),
            {f"{SHOP}, {task}": 5, f"{TRIAL}, {task}": 7},
        ),
        (first(WORKER, "Records processed"), {f"{SHOP}, {thread}": 1, f"{TRIAL}, {thread}": 2}),
        (first(STATE, "Size of the files"), {f"{SHOP}, {store}": 100, f"{TRIAL}, {store}": 200}),
    ]

    check(tmp_path, series, [(expr, 8, samples) for expr, samples in asked])
