"""Whether the watches still tell of what changes: compared with what a sweep finds.

A watch can die without a word, and kopf with it: a connection that nobody closes, a task that has
ended. The sweep makes up for it, but a minute late. So every event's object and version are noted,
and a sweep that finds a version of which nothing was heard becomes suspicious. If neither that
version nor anything else is heard of this very object until two sweeps later, the watch is deaf.
An object that changes all the time is heard of all the time, so it arouses no suspicion.

Versions are only ever compared for equality.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

Live = dict[str, dict[str, str]]
"""By plural of a kind, then by uid of an object: its version, as a sweep has found it."""


@dataclass(frozen=True, slots=True)
class _Heard:
    version: str
    at_ms: int
    namespace: str
    is_ours: bool


class Hearing:
    """What was heard of every object, and which watch is deaf.

    Args:
        now_ms: a clock that never goes back.
        sweep_ms: between two sweeps, give or take a tenth.
    """

    def __init__(self, now_ms: Callable[[], int], sweep_ms: int) -> None:
        self._now_ms = now_ms
        self._sweep_ms = sweep_ms
        self._guard = threading.Lock()
        self._began_ms: int | None = None
        self._swept_ms: int | None = None
        self._heard: dict[str, dict[str, _Heard]] = {}
        self._suspicions: dict[str, dict[str, int]] = {}
        self._deaf_ms: dict[str, int] = {}

    def begin(self) -> None:
        """Say that the watches begin: from now on there is something to be heard."""
        with self._guard:
            self._began_ms = self._now_ms()

    def hear(
        self, plural: str, uid: str, version: str, namespace: str = "", *, is_ours: bool = False
    ) -> None:
        """Note an event about an object.

        Args:
            plural: of its kind.
            uid: its own.
            version: of the object as the event tells of it.
            namespace: where it is.
            is_ours: we have written this version, so nobody was woken.
        """
        with self._guard:
            heard = self._heard.setdefault(plural, {})
            heard[uid] = _Heard(version, self._now_ms(), namespace, is_ours)

    def has_told(self, plural: str, uid: str, version: str) -> bool:
        """Whether somebody was woken because of this version of an object."""
        with self._guard:
            heard = self._heard.get(plural, {}).get(uid)
        return heard is not None and heard.version == version and not heard.is_ours

    def compare(
        self, live: Live, looked_ms: int, *, unread: frozenset[str | None] = frozenset()
    ) -> None:
        """Compare with what a sweep has found.

        Args:
            live: all objects of the watched kinds.
            looked_ms: when the sweep began to look.
            unread: namespaces that it could not look into; what was heard of them still holds.
        """
        with self._guard:
            if self._began_ms is None:
                return
            # The API server was away, or we stood still: the watches have to find back first.
            is_late = self._swept_ms is None or looked_ms - self._swept_ms > 2 * self._sweep_ms
            if is_late:
                self._suspicions.clear()
            self._swept_ms = looked_ms
            for plural, versions in live.items():
                self._compare_kind(plural, versions, looked_ms, unread)

    def deaf_ms(self) -> Mapping[str, int]:
        """Return by kind for how long its watch has been deaf; 0 for one that hears.

        As of the last sweep: while nothing can be listed, there is nothing that could be missed.
        """
        with self._guard:
            return dict(self._deaf_ms)

    def _compare_kind(
        self,
        plural: str,
        versions: Mapping[str, str],
        looked_ms: int,
        unread: frozenset[str | None],
    ) -> None:
        heard, before = self._heard.get(plural, {}), self._suspicions.get(plural, {})
        # What came after the look began may be of an object that is newer than the list.
        heard = {
            uid: each
            for uid, each in heard.items()
            if uid in versions or each.at_ms >= looked_ms or each.namespace in unread
        }
        suspicions: dict[str, int] = {}
        for uid, version in versions.items():
            last = heard.get(uid)
            since_ms = before.get(uid, looked_ms)
            if last is not None and last.at_ms >= since_ms:
                since_ms = looked_ms  # it was heard of since; that was not the end of it, perhaps
            is_news = last is None or (last.version != version and last.at_ms < looked_ms)
            if is_news:
                suspicions[uid] = since_ms
        self._heard[plural], self._suspicions[plural] = heard, suspicions
        self._judge(plural, suspicions, looked_ms)

    def _judge(self, plural: str, suspicions: Mapping[str, int], looked_ms: int) -> None:
        longest_ms = max((looked_ms - since_ms for since_ms in suspicions.values()), default=0)
        # The second sweep after the first suspicious one, however the pauses between them vary.
        deaf_ms = longest_ms if longest_ms > 1.5 * self._sweep_ms else 0
        was_deaf = self._deaf_ms.get(plural, 0) > 0
        self._deaf_ms[plural] = deaf_ms
        if deaf_ms and not was_deaf:
            log.error(
                "the watch of %s is deaf: of %d objects that have changed nothing was heard for "
                "%d s; sweeps find what it misses",
                plural,
                len(suspicions),
                deaf_ms // 1000,
            )
        elif was_deaf and not deaf_ms:
            log.warning("the watch of %s hears again", plural)
