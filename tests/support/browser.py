"""The system's Chromium, driven by Playwright, and what a page has complained about."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.debian import CHROMIUM, find
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


LAGS = """() => [...document.querySelectorAll(".late.label")]
  .filter((label) => label.checkVisibility({ visibilityProperty: true }))
  .map((label) => label.textContent)"""
"""The lags that stand on the arrows of a topology."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser; without its sandbox for root, who cannot have one."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find(CHROMIUM), args=arguments) as browser,
    ):
        yield browser


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Open a page in a window of its own; fail at the end if it has raised anything.

    Args:
        browser: the browser.
        url: what is opened.
        options: of the window, such as ``color_scheme`` and ``viewport``.
    """
    problems: list[str] = []
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url)
    yield page
    context.close()
    assert problems == []


def shows(tab: Page, selector: str, what: str) -> None:
    """Wait until an element says something."""
    wait_for(
        lambda: what in tab.locator(selector).inner_text(),
        what=f"{what!r} in {selector}",
        timeout_s=120,
    )
