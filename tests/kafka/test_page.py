"""The page in a real browser, beside a real local cluster: what happens is seen while it does."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
from tests.support.browser import chromium, opened
from tests.support.local_cluster import APP, Load, LocalCluster, create_topics, streamapp
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page as Tab

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KEYS = 40_000
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


def test_a_kill_a_restore_and_a_move_are_seen_while_they_happen(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    create_topics(bootstrap_servers, topic_prefix, partitions=4)
    load = Load(bootstrap_servers, topic_prefix)
    load.feed(f"key-{number}" for number in range(KEYS))
    load.flush()
    with LocalCluster(tmp_path, topic_prefix) as cluster, chromium() as browser:
        cluster.up(streamapp(bootstrap_servers, topic_prefix, replicas=2), "--web", "0")
        url = wait_for(lambda: _url(cluster), what="the page's address")
        with opened(browser, url) as tab:
            cluster.wait_running(replicas=2)
            _wait_text(tab, "#tasks .state .pill", "Running", times=4)
            _wait_text(tab, "#drawing", "keys")
            assert f"topic {topic_prefix}-in" in (tab.locator("#drawing").text_content() or "")
            tab.evaluate(_WATCH)

            victim = cluster.processes()[f"{APP}-w-1"].pid
            os.kill(victim, signal.SIGKILL)
            _wait_seen(tab, f"{APP}-w-1 has task .*, active, (?!running).*")
            _wait_seen(tab, f"{APP}-w-1 is pid (?!{victim}$).*")
            cluster.wait_running(replicas=2)
            _wait_text(tab, "#tasks .state .pill", "Running", times=4)

            cluster.command("scale", APP, "--replicas", "3")
            _wait_seen(tab, f"{APP}-w-2 has task .*, warm-up")
            _wait_seen(tab, f"{APP}-w-2 has task .*, active, running")
            _wait_text(tab, "#log", f"{APP}-w-2".removeprefix(f"{APP}-"))
            cluster.wait_running(replicas=3)
        cluster.interrupt()
        assert cluster.wait() == 0, cluster.output


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
