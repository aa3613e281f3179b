"""Who is looked at, for how long, and what is told of it whatever happens."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.made_up import Applications, snapshot
from tests.support.waiting import wait_for

from headwater.errors import EnvironmentProblemError
from headwater.model import metrics
from headwater_operator.dashboards.history import Sample
from headwater_operator.web.routes import Page, TooManyOpenError
from headwater_operator.web.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.made_up import Seen


def nothing() -> None:
    """Listen to nothing."""


def about() -> dict[str, Any]:
    return {"apps": ["orders"]}


@pytest.fixture
def source() -> Applications:
    return Applications(*map(snapshot, ("a", "b", "c")))


@pytest.fixture
def page(source: Applications) -> Iterator[Page]:
    page = Page(source, most=2)
    yield page
    page.close()


def test_the_application_that_was_left_first_makes_room(page: Page) -> None:
    first, second = page.watch("a"), page.watch("b")
    first.listen("somebody", nothing)

    third = page.watch("c")

    assert first.is_running
    assert not second.is_running
    assert third.is_running


def test_no_application_is_opened_beside_so_many_that_are_looked_at(page: Page) -> None:
    for app in "ab":
        page.watch(app).listen("somebody", nothing)

    with pytest.raises(TooManyOpenError, match="2 applications are open already; close one"):
        page.watch("c")
    assert page.watch("a").is_running


def test_an_application_is_looked_at_for_as_long_as_it_is_to_be_kept() -> None:
    watcher = Watcher("a", lambda: Applications(snapshot("a")).open("a"), about, keep_s=-1)

    watcher.start()

    wait_for(lambda: not watcher.is_running, what="it is forgotten")


def test_whoever_comes_and_goes_does_not_wait_for_a_slow_list_of_applications() -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        asked.set()
        assert may_answer.wait(60)
        return about()

    seen = Applications(snapshot("a")).open("a")
    watcher = Watcher("a", lambda: seen, slow)
    watcher.start()
    wait_for(lambda: watcher.edition.number > 0, what="an edition")
    writing = threading.Thread(target=watcher.edition.whole)
    writing.start()
    assert asked.wait(60)
    coming = threading.Thread(target=watcher.listen, args=("somebody", nothing))
    coming.start()

    coming.join(60)
    is_in = not coming.is_alive()
    may_answer.set()
    writing.join()
    coming.join()
    watcher.close()

    assert is_in


def test_whoever_looks_after_it_could_not_be_opened_is_told_why() -> None:
    def fail() -> Seen:
        raise EnvironmentProblemError("it is locked")

    watcher = Watcher("a", fail, about)
    watcher.start()
    wait_for(lambda: not watcher.is_running, what="its end")

    assert json.loads(watcher.edition.whole())["trouble"] == "it is locked"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_not_known(number: float) -> None:
    shown = snapshot("a")
    rows = tuple(replace(row, records_per_s=number) for row in shown.tasks)
    seen = Applications(replace(shown, tasks=rows)).open("a")
    seen.samples = {"w": [Sample(metrics.RECORDS_LAG.sample_name, (("task_id", "0_0"),), number)]}
    watcher = Watcher("a", lambda: seen, about)
    watcher.start()
    wait_for(lambda: watcher.edition.number > 0, what="an edition")
    texts = [watcher.edition.whole(), watcher.edition.change, watcher.history("application")]
    watcher.close()

    for text in texts:
        assert json.loads(text, parse_constant=pytest.fail)
    whole = json.loads(texts[0])
    assert whole["trouble"] == ""
    assert "rate" not in whole["document"]["tasks"]["0_0"]


def test_half_of_a_surrogate_pair_is_sent_as_its_number() -> None:
    seen = Applications(replace(snapshot("a"), reason="bad \udcff")).open("a")
    watcher = Watcher("a", lambda: seen, about)
    watcher.start()
    wait_for(lambda: watcher.edition.number > 0, what="an edition")
    text = watcher.edition.whole()
    watcher.close()

    assert json.loads(text.encode())["document"]["app"]["reason"] == "bad \udcff"


def test_since_when_a_worker_is_silent_is_kept() -> None:
    seen, now_s = Applications(snapshot("a")).open("a"), [100.0]
    watcher = Watcher("a", lambda: seen, about, look_s=0.01, now_s=lambda: now_s[0])
    first, second = seen.shown.workers

    def heard() -> dict[str, Any]:
        whole = json.loads(watcher.edition.whole() or "{}")
        workers = whole.get("document", {}).get("workers", {})
        return {name: row["heard"] for name, row in workers.items() if "heard" in row}

    watcher.start()
    wait_for(lambda: watcher.edition.number > 1, what="a look")
    now_s[0] = 200.0
    seen.change(workers=(replace(first, is_silent=True), second))
    wait_for(lambda: first.name in heard(), what="it is silent")
    assert heard() in ({first.name: 100_000}, {first.name: 200_000})
    now_s[0] = 300.0
    told = heard()
    number = watcher.edition.number
    wait_for(lambda: watcher.edition.number > number + 1, what="another look")
    assert heard() == told
    seen.change(workers=(first, second))
    wait_for(lambda: not heard(), what="it answers again")
    watcher.close()
