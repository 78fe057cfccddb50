"""Grafana's JSON from the panels, by Grafana's own builders, so that a field that does not exist is an error here."""

import json
from collections.abc import Iterator

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as look
from grafana_foundation_sdk.models import dashboard as model

from .panels import RESTARTS, ROWS, Panel, Row

TITLE = "LLM fleet - capacity and reuse"
UID = "frank-fleet-llm"
DATASOURCE_UID = "frank-fleet-prometheus"
"""The uid of the data source that the role provisions. For another one the role replaces this word in the file."""
COLUMNS = 24
SMALL, LARGE = 4, 8
"""Width of a figure and of a graph, in grid columns."""
_SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

AnyPanel = stat.Panel | timeseries.Panel | statetimeline.Panel


def text() -> str:
    """Return the file."""
    built = json.loads(json.dumps(_dashboard().build(), cls=JSONEncoder))
    # The builders know no text of an annotation.
    built["annotations"]["list"][0] |= {"titleFormat": "{{job}} {{replica}} started", "step": "60s"}
    # A number would be the database key of another Grafana; the builder leaves null out.
    return json.dumps({"id": None, **built}, indent=2, ensure_ascii=False) + "\n"


def _dashboard() -> dashboard.Dashboard:
    board = (
        dashboard.Dashboard(TITLE)
        .uid(UID)
        .description("Two questions: is there room, and are conversations served from a warm cache?")
        .tags(["llm", "vllm", "frank-fleet"])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .annotation(
            dashboard.AnnotationQuery().name("Restarts").datasource(_SOURCE).enable(True).icon_color("blue")
            .expr(RESTARTS)
        )
    )  # fmt: skip
    for variable in _variables():
        board.with_variable(variable)
    top, number = 0, 1
    for row in ROWS:
        heading = dashboard.Row(row.heading).id(number).grid_pos(model.GridPos(h=1, w=COLUMNS, x=0, y=top))
        board.with_row(heading)
        for offset, panel in enumerate(row.panels):
            board.with_panel(_panel(panel).id(number + 1 + offset).grid_pos(_place(row, offset, top + 1)))
        number += 1 + len(row.panels)
        top += 1 + row.height * -(-len(row.panels) * _width(row) // COLUMNS)
    return board


def _width(row: Row) -> int:
    return SMALL if row.panels[0].kind == "stat" else LARGE


def _place(row: Row, offset: int, top: int) -> model.GridPos:
    width = _width(row)
    line, column = divmod(offset * width, COLUMNS)
    return model.GridPos(h=row.height, w=width, x=column, y=top + line * row.height)


def _variables() -> Iterator[dashboard.DatasourceVariable | dashboard.QueryVariable]:
    yield (
        dashboard.DatasourceVariable("datasource")
        .label("Prometheus")
        .type("prometheus")
        .current(model.VariableOption(selected=True, text=DATASOURCE_UID, value=DATASOURCE_UID))
    )
    # By `up`, which a target that is down has too.
    # All fleets are those that have the label; all replicas are also the proxy, which has none.
    yield _query_variable("fleet", "Fleet", 'label_values(up{fleet!=""}, fleet)', ".+")
    yield _query_variable("replica", "Replica", 'label_values(up{fleet=~"$fleet", replica!=""}, replica)', ".*")


def _query_variable(name: str, label: str, query: str, all_value: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .query({"query": query, "refId": name})
        .datasource(_SOURCE)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(all_value)
        .current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _panel(panel: Panel) -> AnyPanel:
    made: AnyPanel
    if panel.kind == "stat":
        made = stat.Panel().color_mode(look.BigValueColorMode.VALUE).graph_mode(look.BigValueGraphMode.NONE)
        made.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    elif panel.kind == "state-timeline":
        made = statetimeline.Panel().show_value(look.VisibilityMode.NEVER).row_height(0.8)
    else:
        made = _graph(panel)
    thresholds = dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE)
    thresholds.steps([model.Threshold(value=value, color=colour) for value, colour in panel.steps])
    made.title(panel.title).description(panel.description).datasource(_SOURCE)
    made.unit(panel.unit).thresholds(thresholds).no_value(panel.at_rest)
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        asked = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter).datasource(_SOURCE)
        # A figure is of this moment: the last of a range would show what a replica said before it went.
        made.with_target(asked.instant() if panel.kind == "stat" else asked.range())
    if panel.words:
        options = {
            value: model.ValueMappingResult(text=word, color=colour, index=index)
            for index, (value, (word, colour)) in enumerate(panel.words.items())
        }
        made.mappings([model.ValueMap(options=options)])
    return made


def _graph(panel: Panel) -> timeseries.Panel:
    graph = timeseries.Panel().line_width(2).fill_opacity(30 if panel.stacked else 10).min(0)
    graph.show_points(look.VisibilityMode.NEVER)
    if panel.highest is not None:
        graph.max(panel.highest)
    if panel.stacked:
        graph.stacking(common.StackingConfig().mode(look.StackingMode.NORMAL).group("A"))
    limited = len(panel.steps) > 1
    style = look.GraphTresholdsStyleMode.DASHED if limited else look.GraphTresholdsStyleMode.OFF
    graph.thresholds_style(common.GraphThresholdsStyleConfig().mode(style))
    legend = common.VizLegendOptions().display_mode(look.LegendDisplayMode.LIST).show_legend(True)
    return graph.legend(legend.placement(look.LegendPlacement.BOTTOM))
