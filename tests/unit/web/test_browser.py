"""The page in a real browser, over applications that are made up."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser import LAGS, chromium, opened, shows
from tests.support.made_up import DESCRIPTION, Applications, snapshot
from tests.support.mute import Wire
from tests.support.page_events import events
from tests.support.waiting import wait_for

from headwater.ids import TaskId
from headwater.model import metrics
from headwater.model.appstatus import AutoscalingStatus
from headwater.model.streamapp_autoscaling import AutoscalingMode
from headwater.model.topics import TopologyReport
from headwater_operator.dashboards.history import Sample, label_set
from headwater_operator.overview.snapshot import DriverRow
from headwater_operator.web.document import change, merged
from headwater_operator.web.routes import Page
from headwater_operator.web.serving import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

    from headwater_operator.overview.snapshot import Snapshot

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOKEN = "0123456789abcdef"
TILE = ".tile:not(.mini)"
NEAR_TOPICS = """() => {
  const number = (each, name) => Number(each.getAttribute(name));
  const topics = [...document.querySelectorAll(".topic .ground")];
  const isNear = (label) => topics.some((topic) => {
    const left = number(topic, "x") - number(label, "x");
    const top = number(topic, "y") - number(label, "y");
    const isBeside = left < 24 && left + number(topic, "width") > -24;
    return isBeside && top < 0 && top + number(topic, "height") > 0;
  });
  const labels = [...document.querySelectorAll(".topology .label")];
  return labels.map((label) => Number(isNear(label)));
}"""
"""For each label of an arrow: whether half of it lies on a topic."""
INTERNAL = "counts-repartition"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def source() -> Applications:
    return Applications(snapshot("orders", tasks=12, workers=3), snapshot("payments"))


def text(tab: Tab, selector: str) -> str:
    return tab.locator(selector).inner_text()


def test_numbers_topology_tasks_and_decisions_are_shown_and_chosen_by_keys(
    browser: Browser, source: Applications
) -> None:
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        tab.wait_for_selector(TILE)
        shows(tab, "#drawing", "aggregate")
        drawn = text(tab, "#drawing")

        assert tab.locator(TILE).count() == 12
        assert "Sub-topology 1" in drawn
        assert "counts-repartition" in drawn
        assert "6/6 running" in drawn
        assert tab.evaluate(NEAR_TOPICS) == [0] * 6
        assert "RUNNING: all tasks run" in text(tab, "#log")
        assert tab.locator("#actions").is_hidden()
        tab.focus("#grid")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        shows(tab, "#detail", "Task 0_1")
        assert "its state is here" in text(tab, "#detail")
        assert tab.locator(f"{TILE}[data-chosen]").inner_text() == "0_1"
        tab.keyboard.press("Escape")
        assert tab.locator("#detail").is_hidden()
        tab.focus("[aria-label='Sub-topology 1: show its tasks']")
        tab.keyboard.press("Enter")
        shows(tab, "#tasks-note", "6 of 12")
        tab.fill("#tasks-search", "w-2")
        shows(tab, "#tasks-note", "2 of 12")
        tab.select_option("#apps", "payments")
        shows(tab, "#tasks-note", "4")
        assert tab.title() == "payments · Headwater"


def test_what_waits_of_a_topic_stands_on_its_arrow(browser: Browser, source: Applications) -> None:
    of_orders = source.seen["orders"]
    of_orders.samples = {"w": [waiting("0", "in", 12_345), waiting("5", "orders-" + INTERNAL, 900)]}
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        wait_for(lambda: tab.evaluate(LAGS) == ["lag 12k", "lag 900"], what="lags")
        assert tab.evaluate(NEAR_TOPICS) == [0] * 6

        of_orders.samples = {"w": [waiting("0", "in", 2), waiting("5", "orders-" + INTERNAL, 0)]}

        wait_for(lambda: tab.evaluate(LAGS) == ["lag 2"], what="a lag less")


def test_what_waits_of_each_topic_of_a_source_node_stands_on_an_arrow_of_its_own(
    browser: Browser, source: Applications
) -> None:
    told = DESCRIPTION.replace("[in]", "[in, other-in]")
    of_orders = source.seen["orders"]
    of_orders.change(topology=TopologyReport(hash="2", description=told))
    of_orders.samples = {"w": [waiting("0", "in", 7), waiting("0", "other-in", 50_000)]}
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        wait_for(lambda: tab.evaluate(LAGS) == ["lag 7", "lag 50k"], what="lags")


def test_what_waits_of_topics_by_a_pattern_is_added_up(
    browser: Browser, source: Applications
) -> None:
    told = DESCRIPTION.replace("[in]", "in-.*")
    of_orders = source.seen["orders"]
    of_orders.change(topology=TopologyReport(hash="2", description=told))
    of_orders.samples = {"w": [waiting("0", "in-a", 7), waiting("0", "in-b", 50)]}
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        wait_for(lambda: tab.evaluate(LAGS) == ["lag 57"], what="lags")


def waiting(source: str, topic: str, lag: int) -> Sample:
    """What a worker tells of a topic that a source node reads."""
    labels = {"processor_node_id": f"KSTREAM-SOURCE-{source:>010}", "topic": topic}
    return Sample(metrics.TOPIC_RECORDS_LAG.sample_name, label_set(labels), lag)


def test_a_server_that_is_gone_is_told_with_the_age_of_the_values_and_found_again(
    browser: Browser, source: Applications
) -> None:
    with Server(Page(source), "127.0.0.1", 0) as server:
        port = server.port
        with opened(browser, server.url) as tab:
            shows(tab, "#freshness", "live")

            server.close()
            shows(tab, "#freshness", "as of")
            assert "The values are old" in text(tab, "#notice")
            source.seen["orders"].change(reason="found again")
            with Server(Page(source), "127.0.0.1", port):
                shows(tab, "#reason", "found again")
                shows(tab, "#freshness", "live")
                assert tab.locator("#notice").is_hidden()


def test_another_connection_is_made_once_nothing_comes_by_one_that_does_not_end(
    browser: Browser, source: Applications
) -> None:
    with (
        Server(Page(source), "127.0.0.1", 0) as server,
        Wire(server.port) as wire,
        opened(browser, f"http://127.0.0.1:{wire.port}/") as tab,
    ):
        tab.clock.install()
        tab.reload()
        shows(tab, "#freshness", "live")

        wire.cut()
        source.seen["orders"].change(reason="by another connection")

        def is_shown() -> bool:
            if text(tab, "#reason") == "by another connection":
                return True
            # The browser may ask by a connection that it has kept: that is given up, too.
            tab.clock.fast_forward(16_000)
            return False

        wait_for(is_shown, what="what came by another connection", every_s=1)
        shows(tab, "#freshness", "live")
        assert tab.locator("#notice").is_hidden()


def test_a_worker_that_does_not_answer_is_told_with_what_is_known_until_it_is_known_to_have_ended(
    browser: Browser, source: Applications
) -> None:
    shown = source.seen["orders"].shown
    first, *others = shown.workers
    card = f"[data-worker='{first.name}']"
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        shows(tab, card, "running")
        shows(tab, "#workers-note", "3 running")

        source.seen["orders"].change(workers=(replace(first, is_silent=True), *others))

        shows(tab, card, "no answer")
        assert "running at " in text(tab, card)
        shows(tab, "#workers-note", "2 running")
        ended = replace(first, state="ended", is_alive=False, problem="it was killed: signal 9")
        source.seen["orders"].change(workers=(ended, *others))
        shows(tab, card, "it was killed: signal 9")
        assert "no answer" not in text(tab, card)


def test_of_an_application_on_spark_the_driver_is_shown(
    browser: Browser, source: Applications
) -> None:
    driver = DriverRow(
        state="RUNNING",
        pid=4711,
        generation=2,
        last_batch=1_207,
        batch_rows=512,
        batch_ms=410,
        input_rows_per_s=980.0,
        tasks=4,
    )
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        shows(tab, "#workers-note", "3 running")

        source.seen["orders"].change(
            engine="Spark", driver=driver, workers=(), tasks=(), guarantee="as the document says"
        )

        shows(tab, "#worker-cards", "micro-batch 1207: 512 records in 410 ms")
        assert "980/s · 4 tasks" in text(tab, "[data-worker='driver']")
        numbers = text(tab, "#vitals")
        assert "4 of 4" in numbers
        assert "not told by Spark's driver" in numbers
        assert "as the document says" in numbers
        source.seen["orders"].change(driver=replace(driver, state="FAILED", problem="no memory"))
        shows(tab, "[data-worker='driver']", "no memory")
        shows(tab, "#vitals", "0 of 4")


def test_autoscaling_is_shown_with_its_reason(browser: Browser, source: Applications) -> None:
    told = AutoscalingStatus(
        mode=AutoscalingMode.ADVISE,
        desired=5,
        min_replicas=1,
        max_replicas=6,
        reason="5 workers are needed for what comes in and what waits",
    )
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        shows(tab, "#reason", "all tasks run")
        assert tab.locator("#scaling").is_hidden()

        source.seen["orders"].change(autoscaling=told)

        shows(tab, "#scaling", "Autoscaling (Advise, 1 to 6): 5 workers advised: 5 workers are")


def test_actions_ask_for_the_token_until_it_is_right(
    browser: Browser, source: Applications
) -> None:
    page = Page(source, token=TOKEN)
    with Server(page, "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        tab.click("#actions >> text=Scale")
        tab.fill(".dialog input", "")
        tab.click(".dialog .main")
        assert text(tab, ".dialog h2") == "Scale"  # an empty field is no number
        tab.fill(".dialog input", "5")
        tab.click(".dialog .main")
        shows(tab, ".dialog h2", "Token")
        tab.fill(".dialog input", "wrong")
        tab.keyboard.press("Enter")
        shows(tab, ".dialog p", "the token is wrong")
        assert source.done == []
        tab.fill(".dialog input", TOKEN)
        tab.keyboard.press("Enter")
        shows(tab, ".dialog p", "orders: scale")

        assert source.done == [("orders", "scale", {"replicas": 5})]


def test_a_records_way_is_marked_in_the_topology(browser: Browser, source: Applications) -> None:
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        tab.wait_for_selector(TILE)
        tab.fill(".journey-form [aria-label=Value]", "hello")
        tab.keyboard.press("Enter")
        shows(tab, ".journey-answer", "It reached 2 nodes")

        reached = tab.locator(".node[data-reached] title").all_text_contents()
        assert reached == ["KSTREAM-KEY-SELECT-0000000001"]
        assert tab.locator(".topic[data-reached]").count() == 2
        tab.click(".journey-form >> text=Clear")
        assert tab.locator("[data-way]").count() == 0


_BEFORE: dict[str, Any] = {"a": {"x": 1, "y": [1, 2], "z": {"n": 1}}, "b": {}, "c": 3}
_AFTERS: tuple[dict[str, Any], ...] = (
    {"a": {"x": 2, "y": [2], "z": {"n": 1}}, "b": {"new": {"deep": 1}}, "c": 3},
    {"a": {"z": {"m": 0}}},
    {"b": 1, "c": {"x": 1}, "a": {"x": False, "y": [], "z": "text"}},
    {},
)


def test_the_browser_brings_a_document_up_to_date_as_the_server_would(
    browser: Browser, source: Applications
) -> None:
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        for after in _AFTERS:
            changes = change(_BEFORE, after)

            found = tab.evaluate(
                "async ([before, changes]) =>"
                " (await import('/static/js/merge.js')).merge(before, changes)",
                [_BEFORE, changes],
            )

            assert found == merged(_BEFORE, changes) == after


def test_a_key_of_a_document_changes_no_other_object(
    browser: Browser, source: Applications
) -> None:
    with Server(Page(source), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        found = tab.evaluate(
            "async (news) => { (await import('/static/js/merge.js')).merge({}, JSON.parse(news));"
            " return {}.bad ?? null }",
            '{"__proto__": {"bad": 1}}',
        )

        assert found is None


def test_why_an_application_cannot_be_opened_is_told(
    browser: Browser, source: Applications
) -> None:
    with (
        Server(Page(source, most=1), "127.0.0.1", 0) as server,
        closing(events(server.url, "orders")) as stream,
    ):
        next(stream)
        with opened(browser, f"{server.url}?app=payments") as tab:
            shows(tab, "#notice", "applications are open already; close one of them")

            assert tab.locator("main").is_hidden()


def test_without_an_application_the_page_says_what_it_cannot_list_and_shows_no_empty_parts(
    browser: Browser,
) -> None:
    nothing = Applications()
    nothing.missing = "the StreamApps of namespace shop cannot be listed"
    with Server(Page(nothing), "127.0.0.1", 0) as server, opened(browser, server.url) as tab:
        shows(tab, "#notice", "namespace shop cannot be listed")

        assert tab.locator("main").is_hidden()


# Of each text: its contrast with the nearest ground that is painted.
_CONTRASTS = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const rgba = parts(getComputedStyle(each).backgroundColor);
      if (rgba.length === 3 || rgba[3] > 0.99) return rgba.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].filter((child) => child.nodeType === 3);
    if (!own.some((child) => child.textContent.trim())) continue;
    if ( !node.checkVisibility() || node.closest("svg, .hidden, .skip")) continue;
    const a = light(parts(getComputedStyle(node).color).slice(0, 3)), b = light(ground(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const said = `${node.tagName}.${node.className} ${node.textContent.slice(0, 20)}`;
    if (ratio < 4.5) found.push(`${said} ${ratio.toFixed(2)}`);
  }
  return [found, document.documentElement.scrollWidth - innerWidth];
}"""


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_has_contrast_and_a_phone_needs_no_scrolling_to_the_side(
    browser: Browser, source: Applications, scheme: str
) -> None:
    restless(source.seen["orders"].shown, source)
    with (
        Server(Page(source, token=TOKEN), "127.0.0.1", 0) as server,
        opened(
            browser, server.url, color_scheme=scheme, viewport={"width": 390, "height": 844}
        ) as tab,
    ):
        tab.wait_for_selector(TILE)
        tab.click(f"{TILE} >> nth=0")

        faint, beyond = tab.evaluate(_CONTRASTS)

        assert faint == []
        assert beyond <= 0


def restless(shown: Snapshot, source: Applications) -> None:
    """Let tasks be in every kind of state."""

    states = ("RUNNING", "RESTORING", "REVOKING", "UNASSIGNED", "SUSPENDED")
    rows = [
        replace(row, state=states[place % 5], worker="" if place % 5 == 3 else row.worker)
        for place, row in enumerate(shown.tasks)
    ]
    assert rows[0].task == TaskId(0, 0)
    workers = [
        replace(row, state=state, problem="it ended with signal 9" if state == "ended" else "")
        for row, state in zip(shown.workers, ("running", "ended", "starting"), strict=True)
    ]
    source.seen["orders"].change(
        tasks=tuple(rows), workers=tuple(workers), failure="KafkaError: the broker is gone"
    )
