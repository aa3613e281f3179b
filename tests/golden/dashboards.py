"""Makes Grafana's dashboards from the table of metrics: ``make crds``.

A panel names metrics of the table; query, unit and legend follow from what is declared there. The
chart ships the JSON as ConfigMaps (``dashboards.create``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import prometheus, timeseries
from grafana_foundation_sdk.builders.common import (
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

from headwater.model.metrics import METRICS, MetricType, Unit

if TYPE_CHECKING:
    from headwater.model.metrics import Metric

NAMED: Final = {metric.sample_name: metric for metric in METRICS}
"""By the names of their samples."""
_UNITS: Final = {
    Unit.NONE: "short",
    Unit.RECORDS: "short",
    Unit.BYTES: "bytes",
    Unit.MS: "ms",
    Unit.NS: "ns",
    Unit.SECONDS: "s",
    Unit.RATIO: "percentunit",
    Unit.PER_SECOND: "cps",
    Unit.BYTES_PER_SECOND: "Bps",
}
"""Grafana's names of units."""
_PER_SECOND: Final = {Unit.RECORDS: "cps", Unit.NONE: "cps", Unit.BYTES: "Bps"}
"""Of the growth of a counter."""
_WIDTH, _HEIGHT = 12, 8
_SOURCE: Final = "${datasource}"


@dataclass(frozen=True, slots=True)
class Panel:
    """Some numbers over time.

    Attributes:
        title: what people read.
        metrics: names of samples, with one unit.
        by: the labels by which they are shown; other labels are combined.
        combine: how, by an operator of PromQL.
        stacked: whether they add up to a whole.
    """

    title: str
    metrics: tuple[str, ...]
    by: tuple[str, ...]
    combine: str = "sum"
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: rows of panels, by their titles."""

    uid: str
    title: str
    about: str
    rows: dict[str, tuple[Panel, ...]]
    variables: tuple[str, ...] = ("application_id", "client_id")
    """Labels by which a viewer chooses."""


_APP, _WORKER, _THREAD = ("application_id",), ("client_id",), ("client_id", "thread_id")
_TASK, _NODE = ("task_id",), ("task_id", "processor_node_id")
_STORE: Final = ("task_id", "state_id")
_RATIOS: Final = tuple(
    f"stream_thread_{part}_ratio" for part in ("poll", "process", "punctuate", "commit")
)

BOARDS: Final = (
    Board(
        "headwater-applications",
        "Headwater / Applications",
        "Every application: is it running, how much does it do, how far is it behind?",
        {
            "Running": (
                Panel("Workers that process all they were granted", ("stream_ready",), _APP),
                Panel("StreamThreads", ("stream_alive_stream_threads",), _APP),
                Panel("StreamThreads replaced", ("stream_failed_stream_threads_total",), _APP),
                Panel(
                    "Tasks being restored", ("stream_state_updater_active_restoring_tasks",), _APP
                ),
            ),
            "Work": (
                Panel("Records processed", ("stream_thread_process_total",), _APP),
                Panel("Input records not yet processed", ("stream_task_records_lag",), _APP),
                Panel("Records dropped", ("stream_task_dropped_records_total",), _APP),
                Panel(
                    "Age of records when they were processed, at most",
                    ("stream_processor_node_record_e2e_latency_max",),
                    _APP,
                    combine="max",
                ),
            ),
        },
    ),
    Board(
        "headwater-application",
        "Headwater / Tasks",
        "The tasks of an application: which is slow, which is behind, where records are dropped?",
        {
            "Tasks": (
                Panel("Records processed", ("stream_task_process_total",), _TASK),
                Panel("Input records not yet processed", ("stream_task_records_lag",), _TASK),
                Panel(
                    "Share of the thread's processing time",
                    ("stream_task_active_process_ratio",),
                    _TASK,
                    combine="max",
                ),
                Panel(
                    "Records fetched, not yet processed",
                    ("stream_task_active_buffer_count",),
                    _TASK,
                ),
                Panel("Records dropped", ("stream_task_dropped_records_total",), _TASK),
                Panel("Punctuators called", ("stream_task_punctuate_total",), _TASK),
            ),
            "Nodes and topics": (
                Panel(
                    "Age of records, on average",
                    ("stream_processor_node_record_e2e_latency_avg",),
                    _NODE,
                    combine="max",
                ),
                Panel(
                    "Records taken by source nodes", ("stream_processor_node_process_total",), _NODE
                ),
                Panel("Records consumed", ("stream_topic_records_consumed_total",), ("topic",)),
                Panel("Records produced", ("stream_topic_records_produced_total",), ("topic",)),
                Panel("Bytes consumed", ("stream_topic_bytes_consumed_total",), ("topic",)),
                Panel("Bytes produced", ("stream_topic_bytes_produced_total",), ("topic",)),
            ),
        },
    ),
    Board(
        "headwater-worker",
        "Headwater / Workers",
        "Workers and their StreamThreads: what do they spend their time on?",
        {
            "StreamThreads": (
                Panel("Records processed", ("stream_thread_process_total",), _THREAD),
                Panel("What a thread does", _RATIOS, _THREAD, combine="avg", stacked=True),
                Panel("Commits", ("stream_thread_commit_total",), _THREAD),
                Panel("Time of a commit", ("stream_thread_commit_latency_avg",), _THREAD, "max"),
                Panel("Time of a record", ("stream_thread_process_latency_avg",), _THREAD, "max"),
                Panel("Records of a poll", ("stream_thread_poll_records_avg",), _THREAD, "max"),
                Panel("Tasks opened", ("stream_thread_task_created_total",), _THREAD),
                Panel("Records sent", ("stream_thread_produced_records_total",), _THREAD),
            ),
            "Worker": (
                Panel("Ready", ("stream_ready",), _WORKER),
                Panel("Lease held", ("stream_lease_held",), _WORKER),
                Panel("Acknowledged epoch", ("stream_assignment_epoch",), _WORKER, "max"),
                Panel("Pushes by OTLP that failed", ("stream_otlp_failed_pushes_total",), _WORKER),
            ),
            "Kafka clients": (
                Panel(
                    "Time until a broker answered",
                    ("kafka_client_request_latency_avg",),
                    ("client_id", "kafka_client"),
                    "max",
                ),
                Panel(
                    "Bytes queued", ("kafka_client_queued_bytes",), ("client_id", "kafka_client")
                ),
            ),
        },
    ),
    Board(
        "headwater-state",
        "Headwater / State",
        "Stores, restores and copies: how large is the state, and how far is each copy?",
        {
            "Restores and copies": (
                Panel(
                    "Records still to restore", ("stream_task_restore_remaining_records",), _TASK
                ),
                Panel("Records restored", ("stream_task_restore_total",), _TASK),
                Panel(
                    "Records a copy is behind", ("stream_task_standby_records_lag",), _TASK, "max"
                ),
                Panel(
                    "Records applied to copies",
                    ("stream_state_updater_standby_update_records_total",),
                    _WORKER,
                ),
                Panel(
                    "Records of global stores still to read",
                    ("stream_global_restore_remaining_records",),
                    _WORKER,
                ),
                Panel("What record caches hold", ("stream_task_cache_size_bytes",), _TASK),
            ),
            "RocksDB": (
                Panel("Keys, estimated", ("stream_state_estimate_num_keys",), _STORE),
                Panel("Size of the files", ("stream_state_total_sst_files_size",), _STORE),
                Panel("Write buffers", ("stream_state_size_all_mem_tables",), _STORE),
                Panel("Block cache in use", ("stream_state_block_cache_usage",), _THREAD, "max"),
                Panel(
                    "Still to be compacted",
                    ("stream_state_estimate_pending_compaction_bytes",),
                    _STORE,
                ),
                Panel("Errors in the background", ("stream_state_background_errors",), _STORE),
            ),
            "At level DEBUG": (
                Panel(
                    "Time of a put, on average", ("stream_state_put_latency_avg",), _STORE, "max"
                ),
                Panel(
                    "Time of a get, on average", ("stream_state_get_latency_avg",), _STORE, "max"
                ),
                Panel(
                    "Look-ups that the record cache answered",
                    ("stream_record_cache_hit_ratio_avg",),
                    ("task_id", "record_cache_id"),
                    "avg",
                ),
                Panel("Bytes written", ("stream_state_bytes_written_total",), _STORE),
            ),
        },
    ),
    Board(
        "headwater-spark",
        "Headwater / Spark",
        "Applications that run on Spark: micro-batches, and what they did.",
        {
            "Micro-batches": (
                Panel("Records processed", ("headwater_spark_records_total",), ("job",)),
                Panel("Micro-batches", ("headwater_spark_batches_total",), ("job",)),
                Panel(
                    "Time of a micro-batch", ("headwater_spark_batch_duration_ms",), ("job",), "max"
                ),
                Panel("Running", ("headwater_spark_running",), ("job",)),
                Panel("Tasks opened", ("headwater_spark_tasks_opened_total",), ("job",)),
                Panel("Records dropped", ("headwater_spark_dropped_records_total",), ("job",)),
            ),
        },
        variables=(),
    ),
)


def dashboards() -> dict[str, str]:
    """Return the JSON of each dashboard, by the name of its file."""
    return {f"{board.uid}.json": _json(_board(board)) for board in BOARDS}


def query(panel: Panel, metric: Metric, variables: tuple[str, ...]) -> str:
    """Return the PromQL of one metric of a panel; a counter is shown by its growth per second."""
    chosen = ", ".join(f'{label}=~"${label}"' for label in ("namespace", *variables))
    series = f"{metric.sample_name}{{{chosen}}}"
    if metric.type is MetricType.COUNTER:
        series = f"rate({series}[$__rate_interval])"
    return f"{panel.combine} by ({', '.join(panel.by)}) ({series})"


def unit_of(panel: Panel) -> str:
    """Return Grafana's name of the unit of a panel.

    Raises:
        ValueError: its metrics have several.
    """
    units = {
        _PER_SECOND[it.unit] if it.type is MetricType.COUNTER else _UNITS[it.unit]
        for it in (NAMED[name] for name in panel.metrics)
    }
    if len(units) != 1:
        raise ValueError(f"panel {panel.title!r} has several units: {sorted(units)}")
    return units.pop()


def _board(board: Board) -> boards.Dashboard:
    made = (
        boards.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags(["headwater"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(
            boards.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for name in ("namespace", *board.variables):
        made.with_variable(_variable(board, name))
    for title, panels in board.rows.items():
        made.with_row(boards.Row(title))
        for panel in panels:
            made.with_panel(_panel(panel, board.variables))
    return made


def _variable(board: Board, label: str) -> boards.QueryVariable:
    """A choice among the values of a label; all of them, and none at all, at first."""
    before = ("namespace", *board.variables)[: ("namespace", *board.variables).index(label)]
    first = next(iter(board.rows.values()))[0].metrics[0]
    chosen = ", ".join(f'{name}=~"${name}"' for name in before)
    return (
        boards.QueryVariable(label)
        .label(label.removesuffix("_id").capitalize())
        .datasource(DataSourceRef(type_val="prometheus", uid=_SOURCE))
        .query(f"label_values({first}{{{chosen}}}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel, variables: tuple[str, ...]) -> timeseries.Panel:
    metrics = [NAMED[name] for name in panel.metrics]
    made = (
        timeseries.Panel()
        .title(panel.title)
        .description("\n\n".join(f"`{it.sample_name}`: {it.help}" for it in metrics))
        .datasource(DataSourceRef(type_val="prometheus", uid=_SOURCE))
        .unit(unit_of(panel))
        .min(0)
        .span(_WIDTH)
        .height(_HEIGHT)
        .fill_opacity(60 if panel.stacked else 10)
        .legend(
            VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if panel.stacked:
        made.stacking(StackingConfig().mode(StackingMode.NORMAL))
    legend = " ".join(f"{{{{{label}}}}}" for label in panel.by)
    for metric in metrics:
        name = f"{metric.kafka} {legend}" if len(metrics) > 1 else legend
        made.with_target(
            prometheus.Dataquery()
            .expr(query(panel, metric, variables))
            .legend_format(name)
            .ref_id(metric.sample_name)
        )
    return made


def _json(board: boards.Dashboard) -> str:
    return json.dumps(json.loads(JSONEncoder().encode(board.build())), indent=1) + "\n"


def panels() -> list[Panel]:
    """Return all panels of all dashboards."""
    return [panel for board in BOARDS for row in board.rows.values() for panel in row]
