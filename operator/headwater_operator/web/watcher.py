"""Looks at one application again and again, and keeps what was seen for all who look on.

    Source.open(app) ─► Sight ── look() ──► Snapshot ──► document ── change ──► Edition
                          └──── scrape() ─► samples ──► flows, points, history

One thread for each application that somebody is interested in, however many look on. It goes on
for a while after the last of them has left, so that a page that is opened again has its history.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.errors import HeadwaterError
from headwater_operator.dashboards.history import History as RawHistory
from headwater_operator.web import measured
from headwater_operator.web.document import change, document_of, event_of
from headwater_operator.web.drawing import read_description
from headwater_operator.web.history import History

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater_operator.dashboards.history import Sample
    from headwater_operator.overview.snapshot import Snapshot

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
SCRAPE_S: Final = 2.0
HOUR_S: Final = 3_600
WINDOW_MS: Final = 15_000
"""How far rates look back: a few scrapes."""
VITALS: Final = ("rate", "lag", "running", "live", "bytes")
"""The series of the numbers on top; those of panels are named by ``measured.point``."""
_VITALS_SENT: Final = 300
_EVENTS_KEPT: Final = 500


class Sight(Protocol):
    """What is seen of one application; used by one thread."""

    def look(self) -> Snapshot:
        """Look at it once; its events are those that an earlier look has not returned, or more."""
        ...

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Ask its workers for ``/metrics``; return what those that are there tell, by worker."""
        ...

    def close(self) -> None:
        """Look no more."""
        ...


@dataclass(frozen=True, slots=True)
class Edition:
    """What was seen at one moment, written once for all who look on.

    Attributes:
        number: grows by one.
        change: what turns the edition before into this one, as JSON.
        whole: makes it as a whole, as JSON.
    """

    number: int = 0
    change: str = ""
    whole: Callable[[], str] = field(default=str)


class Watcher:
    """Looks at one application in a thread of its own, from :meth:`start` on.

    Args:
        app: its key.
        open_sight: returns what looks.
        about: of the page as a whole; stands in every whole edition.
        look_s: between two looks.
        keep_s: how long it goes on after the last listener has left.
        now_s: wall-clock time.
    """

    def __init__(
        self,
        app: str,
        open_sight: Callable[[], Sight],
        about: Callable[[], Mapping[str, Any]],
        *,
        look_s: float = LOOK_S,
        keep_s: float = HOUR_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._look_s = look_s
        self._keep_s = keep_s
        self.app = app
        self._open_sight = open_sight
        self._about = about
        self._now_s = now_s
        self._guard = threading.Lock()
        self._document: dict[str, Any] = {}
        self._events: list[dict[str, Any]] = []
        self._seen_events: set[tuple[int, str, str]] = set()
        self._history = History(int(HOUR_S / SCRAPE_S))
        self._raw = RawHistory(2 * WINDOW_MS)
        self._sources: set[str] = set()
        self._heard: dict[str, int] = {}
        self._topology = ""
        self._at_ms = 0
        self._trouble = ""
        self._edition = Edition()
        self._listeners: dict[object, Callable[[], None]] = {}
        self._left_s = now_s()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"page {app}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """End."""
        self._stop.set()
        self._wake_all()
        if timeout_s and self._thread.is_alive():
            self._thread.join(timeout_s)

    @property
    def is_running(self) -> bool:
        """Whether it looks."""
        return self._thread.is_alive() and not self._stop.is_set()

    @property
    def is_watched(self) -> bool:
        """Whether somebody listens."""
        with self._guard:
            return bool(self._listeners)

    @property
    def left_s(self) -> float:
        """When the last listener left; when it was made if there was none."""
        with self._guard:
            return self._left_s

    @property
    def edition(self) -> Edition:
        """The newest."""
        return self._edition

    def listen(self, who: object, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, in the watcher's thread, with every new edition."""
        with self._guard:
            self._listeners[who] = wake

    def leave(self, who: object) -> None:
        """Undo :meth:`listen`."""
        with self._guard:
            self._listeners.pop(who, None)
            self._left_s = self._now_s()

    def history(self, dashboard: str, since_s: float = 0.0) -> str:
        """Return the panels of a dashboard and their series as JSON.

        Args:
            dashboard: its name in ``measured.DRAWN``.
            since_s: only what is newer, in seconds since the epoch; 0: the last hour.
        """
        prefix = f"{dashboard}/"
        with self._guard:
            times = self._history.times()
            first = bisect_right(times, since_s)
            series = {
                name: list(map(_short, self._history.values(name)[first:]))
                for name in self._history.names
                if name.startswith(prefix)
            }
        found: dict[str, Any] = {"t": times[first:], "v": series}
        return _json(found if since_s else {"panels": measured.described(dashboard), **found})

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            sight = self._open_sight()
        except HeadwaterError as error:
            self._trouble = str(error)  # a stream that begins now is sent it in the whole
            self._publish({"trouble": self._trouble})
            self._stop.set()
            return
        scraped_s = 0.0
        try:
            while not self._stop.is_set() and not self._is_forgotten():
                began_s = time.monotonic()
                is_due = began_s - scraped_s >= SCRAPE_S - self._look_s / 2
                scraped_s = began_s if is_due else scraped_s
                self._turn(sight, scrape=is_due)
                self._stop.wait(max(0.1, self._look_s - (time.monotonic() - began_s)))
        finally:
            self._stop.set()
            sight.close()

    def _is_forgotten(self) -> bool:
        with self._guard:
            return not self._listeners and self._now_s() - self._left_s > self._keep_s

    def _turn(self, sight: Sight, *, scrape: bool) -> None:
        try:
            news = self._look(sight, scrape=scrape)
        except HeadwaterError as error:
            # What was seen before stays on the page, with its time and this beside it.
            self._trouble = str(error)
            news = {"trouble": self._trouble}
        except Exception as error:
            log.exception("%s: the page could not look", self.app)
            self._trouble = f"{type(error).__name__}: {error}"
            news = {"trouble": self._trouble}
        self._publish(news)

    def _look(self, sight: Sight, *, scrape: bool) -> dict[str, Any]:
        snapshot = sight.look()
        news: dict[str, Any] = {"at": int(self._now_s() * 1000)}
        for row in snapshot.workers:
            if row.is_alive and not row.is_silent:
                self._heard[row.name] = news["at"]
        document = document_of(snapshot, self._heard)
        for kept in (*measured.SECTIONS, "topology"):
            document[kept] = self._document.get(kept, {})
        report = snapshot.topology
        if report is not None and report.hash != self._topology:
            self._topology = report.hash
            document["topology"] = read_description(report.description).to_dict()
        if scrape:
            self._scrape(sight, news["at"])
            document |= measured.flows(self._raw.samples(), news["at"], WINDOW_MS)
            news["point"] = self._kept(news["at"], document)
        if events := self._new_events(snapshot):
            news["events"] = events
        if self._trouble:
            self._trouble = news["trouble"] = ""
        with self._guard:
            if changed := change(self._document, document):
                news["change"] = changed
            self._document = document
            self._at_ms = news["at"]
        return news

    def _scrape(self, sight: Sight, now_ms: int) -> None:
        told = sight.scrape()
        for worker in self._sources - set(told):
            self._raw.add(now_ms, (), source=worker)
        for worker, samples in told.items():
            self._raw.add(now_ms, samples, source=worker)
        self._sources = set(told)
        self._raw.trim(now_ms)

    def _kept(self, now_ms: int, document: Mapping[str, Any]) -> dict[str, Any]:
        app = document["app"]
        stores = document["stores"].values()
        on_disk = sum(row.get("bytes", 0) for row in stores) if stores else app.get("bytes")
        values = {
            **{name: app.get(name) for name in ("rate", "lag", "running", "live")},
            "bytes": on_disk,
            **measured.point(self._raw.samples(), now_ms, WINDOW_MS),
        }
        at_s = round(now_ms / 1000, 1)
        with self._guard:
            self._history.add(at_s, values)
        # The points of panels are asked for by those who look at them.
        return {"t": at_s, "v": {name: _short(values[name]) for name in VITALS}}

    def _new_events(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        fresh = []
        for event in snapshot.events:
            key = (event.at_ms, event.worker, event.text)
            if key not in self._seen_events:
                self._seen_events.add(key)
                fresh.append(event_of(event))
        with self._guard:
            self._events = [*self._events, *fresh][-_EVENTS_KEPT:]
        if len(self._seen_events) > 4 * _EVENTS_KEPT:
            self._seen_events = {(e["at"], e.get("worker", ""), e["text"]) for e in self._events}
        return fresh

    def _publish(self, news: Mapping[str, Any]) -> None:
        number = self._edition.number + 1
        self._edition = Edition(number, _json(news), self._whole)
        self._wake_all()

    def _wake_all(self) -> None:
        with self._guard:
            listeners = list(self._listeners.values())
        for wake in listeners:
            wake()

    def _whole(self) -> str:
        about = self._about()  # may ask the API server: nobody waits for the guard meanwhile
        with self._guard:
            history = {
                name: list(map(_short, self._history.values(name)[-_VITALS_SENT:]))
                for name in VITALS
            }
            times = self._history.times()[-_VITALS_SENT:]
            return _json(
                {
                    **about,
                    "key": self.app,
                    "at": self._at_ms,
                    "trouble": self._trouble,
                    "document": self._document,
                    "events": self._events,
                    "history": {"t": times, "v": history},
                }
            )


def _short(value: float | None) -> float | None:
    """Return a number with six digits: more than a picture shows; JSON has no other than finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _json(value: object) -> str:
    # In ASCII: half of a surrogate pair has no bytes in UTF-8.
    return json.dumps(value, separators=(",", ":"))
