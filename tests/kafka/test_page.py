"""The page in a real browser, beside a real local cluster: what happens is seen while it does."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.browser import LAGS, chromium, opened
from tests.support.counting import INPUTS_VARIABLE, PAUSE_VARIABLE
from tests.support.holding import Held
from tests.support.local_cluster import APP, Load, LocalCluster, create_topics, streamapp
from tests.support.thread_rig import Topics
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page as Tab

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

KEYS = 120_000
"""A changelog of 30,000 rows a task: a restore writes them in four parts at least."""
# Notes every look that a tile of a worker has had, and every process of a worker.
_WATCH = """() => {
  window.seen = [];
  const note = () => {
    for (const card of document.querySelectorAll("article.worker")) {
      const worker = card.dataset.worker;
      const [pid] = /pid \\d+/.exec(card.textContent) || [""];
      const looks = [`${worker} is ${pid}`];
      for (const tile of card.querySelectorAll(".tile")) {
        looks.push(`${worker} has ${tile.getAttribute("aria-label")}`);
      }
      for (const look of looks) if (!window.seen.includes(look)) window.seen.push(look);
    }
  };
  new MutationObserver(note).observe(document.getElementById("worker-cards"), {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
  note();
}"""
# What is said of restores, by the tiles of workers and by the table of tasks.
_RESTORES = """() => ({
  tiles: [...document.querySelectorAll("article.worker .tile.filling")].map((tile) => ({
    said: tile.getAttribute("aria-label"),
    done: parseFloat(tile.style.getPropertyValue("--done")),
  })),
  rows: [...document.querySelectorAll("#tasks .row")]
    .filter((row) => !row.hidden && row.querySelector(".meter")?.hidden === false)
    .map((row) => ({
      task: row.querySelector(".cell.task").textContent,
      state: row.querySelector(".pill").textContent,
      done: parseFloat(row.querySelector(".meter").style.getPropertyValue("--done")),
      left: row.querySelector(".cell.lag").textContent,
    })),
})"""


def test_a_kill_a_restore_and_a_move_are_seen_while_they_happen(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=4)
    load = Load(bootstrap_servers, topic_prefix)
    load.feed(f"key-{number}" for number in range(KEYS))
    load.flush()
    held = Held("restore.applied", tmp_path / "frozen")
    with LocalCluster(tmp_path, topic_prefix) as cluster, chromium() as browser:
        document = streamapp(bootstrap_servers, topic_prefix, replicas=2)
        cluster.up(document, "--web", "0", HEADWATER_FAILPOINTS=held.failpoint)
        url = wait_for(lambda: _url(cluster), what="the page's address")
        with opened(browser, url) as tab:
            cluster.wait_running(replicas=2)
            _wait_text(tab, "#tasks .state .pill", "Running", times=4)
            _wait_text(tab, "#drawing", "keys")
            wait_for(lambda: _lag(cluster) == 0, what="all to be processed", every_s=1)
            assert f"topic {topic_prefix}-in" in (tab.locator("#drawing").text_content() or "")
            tab.evaluate(_WATCH)

            victim = lose_a_disk(cluster, held)
            _wait_seen(tab, f"{APP}-w-1 is pid (?!{victim}$).*")
            check_restore(tab, held)
            cluster.wait_running(replicas=2)

            cluster.command("scale", APP, "--replicas", "3")
            _wait_seen(tab, f"{APP}-w-2 has task .*, warm-up")
            _wait_seen(tab, f"{APP}-w-2 has task .*, active, running")
            _wait_text(tab, "#log", f"{APP}-w-2".removeprefix(f"{APP}-"))
            cluster.wait_running(replicas=3)
        cluster.interrupt()
        assert cluster.wait() == 0, cluster.output


def lose_a_disk(cluster: LocalCluster, held: Held) -> int:
    """Kill a worker that has lost its stores, and hold the restore; return the process killed."""
    name = f"{APP}-w-1"
    victim = cluster.processes()[name].pid
    shutil.rmtree(cluster.cluster.app(APP).state(name))
    held.arm()
    os.kill(victim, signal.SIGKILL)
    return victim


def check_restore(tab: Tab, held: Held) -> None:
    """Check that a restore is shown half-way, that its numbers move, and that they go in the end.

    A turn of the StateUpdater writes a part of each of two stores at most, and then tells how far
    it is. So with every second step something that was written is told.
    """
    held.wait()
    _wait_text(tab, "#drawing", "2/4 running")
    _wait_text(tab, "#tasks .state .pill", "Restoring", times=2)
    _wait_text(tab, "#vitals", "2 of 4")
    for _ in range(2):
        held.step()
    before = wait_for(lambda: _half_way(tab), what="a restore half-way", timeout_s=180)
    for _ in range(2):
        held.step()
    wait_for(lambda: _left(_restores(tab)) < _left(before), what="less to restore", timeout_s=180)

    held.end()

    _wait_text(tab, "#tasks .state .pill", "Running", times=4)
    _wait_text(tab, "#drawing", "4/4 running")
    wait_for(lambda: _restores(tab) == {"tiles": [], "rows": []}, what="no restore on the page")


def _restores(tab: Tab) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = tab.evaluate(_RESTORES)
    return found


def _half_way(tab: Tab) -> dict[str, list[dict[str, Any]]] | None:
    """Return what is said of restores if a row shows one that is half-way, and a tile does, too."""
    found = _restores(tab)
    tiles = {tile["said"]: tile["done"] for tile in found["tiles"]}
    for row in found["rows"]:
        tile = tiles.get(f"task {row['task']}, active, restoring", 0)
        is_half_way = 0 < row["done"] < 100 and abs(tile - row["done"]) <= 5
        if is_half_way and row["state"] == "Restoring" and _number(row["left"]) > 0:
            return found
    return None


def _left(restores: dict[str, list[dict[str, Any]]]) -> float:
    """Return how many records are still to restore, by the table of tasks."""
    return sum(_number(row["left"]) for row in restores["rows"])


def _number(left: str) -> float:
    """Return the number of a cell such as ``1.2k to restore``."""
    found = re.fullmatch(r"([\d.]+)(k?) to restore", left)
    assert found is not None, left
    return float(found[1]) * (1_000 if found[2] else 1)


def _lag(cluster: LocalCluster) -> int:
    """Return how many records are not committed yet, by what Kafka says."""
    [found] = json.loads(cluster.command("lag", APP, "-o", "json"))
    return int(found["lag"])


def test_the_lag_of_each_topic_stands_on_its_arrow_until_all_is_processed(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A lag is known once a partition was read from, so processing is slow, not paused."""
    create_topics(bootstrap_servers, topic_prefix, partitions=4)
    topics = Topics(bootstrap_servers)
    topics.create(f"{topic_prefix}-returns", 4)
    for end, count in (("in", 20_000), ("returns", 3_000)):
        topics.send(f"{topic_prefix}-{end}", ((f"key-{n}", "v") for n in range(count)))
    document = streamapp(bootstrap_servers, topic_prefix)
    slowly = {PAUSE_VARIABLE: "4", INPUTS_VARIABLE: "in returns"}
    with LocalCluster(tmp_path, topic_prefix) as cluster, chromium() as browser:
        cluster.up(document, "--web", "0", **slowly)
        url = wait_for(lambda: _url(cluster), what="the page's address")
        with opened(browser, url) as tab:
            seen = wait_for(lambda: _both(tab), what="lags", timeout_s=180)
            assert 0 < seen[0] <= 20_000
            assert 0 < seen[1] <= 3_000

            _wait_text(tab, "#vitals", "all is processed")
            wait_for(lambda: tab.evaluate(LAGS) == [], what="no lag", timeout_s=180)
            _wait_text(tab, "#drawing", "keys")
        cluster.interrupt()
        assert cluster.wait() == 0, cluster.output


def _both(tab: Tab) -> list[float]:
    """The lags on the arrows of both topics, as numbers; nothing as long as there are not two."""
    said = [re.fullmatch(r"lag ([\d.]+)(k?)", each) for each in tab.evaluate(LAGS)]
    found = [float(each[1]) * (1_000 if each[2] else 1) for each in said if each]
    return found if len(found) == 2 else []


def _url(cluster: LocalCluster) -> str:
    found = re.search(r"page: (http://\S+)", cluster.output)
    return found[1] if found else ""


def _wait_text(tab: Tab, selector: str, what: str, *, times: int = 1) -> None:
    def is_there() -> bool:
        told = tab.locator(selector).all_inner_texts()
        return sum(text.count(what) for text in told) >= times

    wait_for(is_there, what=f"{what!r} in {selector}", timeout_s=180)


def _wait_seen(tab: Tab, pattern: str) -> None:
    def was_seen() -> bool:
        return any(re.fullmatch(pattern, look) for look in tab.evaluate("() => window.seen"))

    try:
        wait_for(was_seen, what=pattern, timeout_s=180)
    except AssertionError as error:
        raise AssertionError(f"{error}; seen: {tab.evaluate('() => window.seen')}") from error
