"""Makes Grafana's JSON from the dashboards of ``headwater_operator.dashboards``: ``make crds``.

It is written with Grafana's own builders. The chart ships it as ConfigMaps
(``metrics.dashboards.create``).
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders import (
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    GridPos,
    ValueMap,
    ValueMappingResult,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from headwater.model.metrics import Unit
from headwater_operator.dashboards import DASHBOARDS
from headwater_operator.dashboards.choosing import APP
from headwater_operator.dashboards.panels import Kind, named
from headwater_operator.dashboards.promql import ALL, annotation_promql, label_values, promql
from tests.golden.alerts import ALERTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater_operator.dashboards.panels import (
        Annotation,
        Dashboard,
        Expression,
        Panel,
        Row,
        Variable,
    )

GRAFANA_UNITS: Final = {
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
_COLUMNS, _HEIGHT, _LOW = 24, 8, 4
_FIRST_ROW: Final = 1000
"""Rows are numbered from here on; panels from 1."""
_SOURCE: Final = "${datasource}"
_NOTHING: Final = "Nothing matches what is chosen above, or no such number was told in this time"
"""What a panel without data says."""
_COLOR: Final = "rgba(0, 150, 200, 0.8)"
_COLORS: Final = {
    "RUNNING": "green",
    "RESTORING": "orange",
    "REBALANCING": "orange",
    "PARTITIONS_ASSIGNED": "orange",
    "ERROR": "red",
    "DEAD": "red",
    "PENDING_ERROR": "red",
}
"""Of states; others are grey."""


def dashboards() -> dict[str, str]:
    """Return the JSON of each dashboard, by the name of its file."""
    return {f"{board.uid}.json": _json(_board(board)) for board in DASHBOARDS}


def _board(board: Dashboard) -> boards.Dashboard:
    made = (
        boards.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["headwater"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(
            boards.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for index, variable in enumerate(board.variables):
        made.with_variable(_variable(variable, board.variables[:index]))
    for annotation in board.annotations:
        made.annotation(_annotation(annotation, board))
    titles = {other.uid: other.title for other in DASHBOARDS}
    for uid in board.links:
        made.link(
            boards.DashboardLink(titles[uid].removeprefix("Headwater / "))
            .type(DashboardLinkType.LINK)
            .url(f"/d/{uid}")
            .include_vars(True)
            .keep_time(True)
        )
    _place(made, board)
    return made


def _place(made: boards.Dashboard, board: Dashboard) -> None:
    """Put rows and panels on the grid, from left to right and from top to bottom."""
    bottom = 0
    for number, row in zip(count(_FIRST_ROW), board.rows, strict=False):
        header = boards.Row(row.title)
        header.id(number).grid_pos(GridPos(h=1, w=_COLUMNS, x=0, y=bottom))
        placed = list(_placed(row, bottom + 1))
        bottom = max(place.y + place.h for _, place in placed)
        if not row.collapsed:
            made.with_row(header)
        for panel, place in placed:
            built = _panel(panel, board).grid_pos(place)
            if row.collapsed:
                header.with_panel(built)
            else:
                made.with_panel(built)
        if row.collapsed:
            made.with_row(header)


def _placed(row: Row, top: int) -> Iterator[tuple[Panel, GridPos]]:
    x, y, tallest = 0, top, 0
    for panel in row.panels:
        if x + panel.width > _COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        height = _LOW if panel.kind is Kind.STAT else _HEIGHT
        yield panel, GridPos(h=height, w=panel.width, x=x, y=y)
        x, tallest = x + panel.width, max(tallest, height)


def _variable(variable: Variable, before: tuple[Variable, ...]) -> boards.QueryVariable:
    """A choice among the values of a label, of which all are chosen at first."""
    selector = label_values(variable, before, None)
    return (
        boards.QueryVariable(variable.label)
        .label(variable.title)
        .datasource(_source())
        .query(f"label_values({selector}, {variable.label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(ALL)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _annotation(annotation: Annotation, board: Dashboard) -> boards.AnnotationQuery:
    return (
        boards.AnnotationQuery()
        .name(annotation.title)
        .datasource(_source())
        .enable(True)
        .icon_color(_COLOR)
        .expr(annotation_promql(annotation, board.variables))
    )


def _panel(panel: Panel, board: Dashboard) -> Any:
    """Return the builder of a panel; those of all kinds share these methods, and no class."""
    made: Any = _OF_KIND[panel.kind](panel)
    made.id(board.panel_id(panel.title))
    made.title(panel.title).description(_described(panel, board)).datasource(_source())
    made.no_value(_NOTHING)
    if panel.kind is not Kind.TABLE:
        made.unit(GRAFANA_UNITS[panel.unit])
    for number, query in enumerate(panel.queries):
        made.with_target(_target(query, number, panel, board))
    return made


def _target(query: Expression, number: int, panel: Panel, board: Dashboard) -> Any:
    made = (
        prometheus.Dataquery()
        .expr(promql(query, board.variables))
        .legend_format(query.label or "__auto")
        .ref_id(_ref(number))
    )
    if panel.kind is Kind.TABLE:
        made.instant().format(PromQueryFormat.TABLE)
    elif panel.kind is Kind.HEAT_MAP:
        made.format(PromQueryFormat.HEATMAP)
    return made


def _time_series(panel: Panel) -> Any:
    made = (
        timeseries.Panel()
        .min(0)
        .fill_opacity(60 if panel.stacked else 10)
        .legend(_legend())
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if panel.stacked:
        made.stacking(StackingConfig().mode(StackingMode.NORMAL))
    return made


def _stat(_: Panel) -> Any:
    return (
        stat.Panel()
        .color_mode(BigValueColorMode.NONE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _table(panel: Panel) -> Any:
    """A row for each combination of labels; a column for each label, and for each query."""
    names = {f"Value #{_ref(number)}": query.label for number, query in enumerate(panel.queries)}
    hidden = ["Time"]
    if len(panel.queries) == 1:
        names = {"Value": panel.queries[0].legend}
        # Without a name, the labels say all: the number is always 1.
        hidden += [] if panel.queries[0].legend else ["Value"]
    made = table.Panel()
    made.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    made.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={"excludeByName": dict.fromkeys(hidden, True), "renameByName": names},
        )
    )
    for query in panel.queries:
        unit = DynamicConfigValue(id_val="unit", value=GRAFANA_UNITS[query.unit])
        made.override_by_name(query.label, [unit])
    return made


def _state_timeline(panel: Panel) -> Any:
    options = {
        str(number): ValueMappingResult(text=state, color=_COLORS.get(state, "text"), index=number)
        for number, state in enumerate(panel.states)
    }
    return statetimeline.Panel().mappings([ValueMap(options=options)]).legend(_legend())


def _heat_map(_: Panel) -> Any:
    return heatmap.Panel()


_OF_KIND: Final = {
    Kind.TIME_SERIES: _time_series,
    Kind.STAT: _stat,
    Kind.TABLE: _table,
    Kind.STATE_TIMELINE: _state_timeline,
    Kind.HEAT_MAP: _heat_map,
}


def _legend() -> VizLegendOptions:
    return (
        VizLegendOptions()
        .show_legend(True)
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
    )


def _described(panel: Panel, board: Dashboard) -> str:
    told = [f"`{metric.sample_name}`: {metric.help}" for metric in panel.metrics]
    alerts = [it.name for it in ALERTS if (it.dashboard, it.panel) == (board, panel.title)]
    if alerts:
        told.append(f"Alerts: {', '.join(alerts)}; each has a section in the runbook.")
    return "\n\n".join([panel.description, *told])


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _source() -> DataSourceRef:
    return DataSourceRef(type_val="prometheus", uid=_SOURCE)


def _json(board: boards.Dashboard) -> str:
    made = json.loads(JSONEncoder().encode(board.build()))
    # What the builders do not know: what people read at a mark.
    for annotation in made["annotations"].get("list", []):
        annotation |= {"titleFormat": annotation["name"], "textFormat": named(APP)}
    return json.dumps(made, indent=1) + "\n"
