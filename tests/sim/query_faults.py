"""Planted faults of queries, for the readers to catch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.native.queries.http import HttpAnswers
from tests.sim.loop import Loop
from tests.sim.queries import ModelOpening, ModelSecondary, QueryProcess
from tests.sim.thread import Thread
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.httpserver import Answer, Request


class NoBound(HttpAnswers):
    """Answers with what there is, whatever the bound."""

    def answer(self, request: Request) -> Answer:
        query = {name: text for name, text in request.query.items() if name != "bound"}
        return super().answer(replace(request, query=query))


class BoundlessProcess(QueryProcess):
    answers_type = NoBound


class BoundlessWorker(Worker):
    query_type = BoundlessProcess


class BoundForgotten(Loop):
    """Its workers answer with contents from before the bound."""

    worker_type = BoundlessWorker


class TornSecondary(ModelSecondary):
    """Shows new counts beside the position of before."""

    def catch_up(self) -> bool:
        before = self._store.read
        is_new = super().catch_up()
        self._store.read = before
        return is_new


class TornOpening(ModelOpening):
    secondary_type = TornSecondary


class TornProcess(QueryProcess):
    opening_type = TornOpening


class TornWorker(Worker):
    query_type = TornProcess


class CommitTorn(Loop):
    """Its workers read counts of one commit with the position of another."""

    worker_type = TornWorker


class FollowsAnyWriter(ModelSecondary):
    """Follows from one writer to the next, and shows the part of the first one's log that it knows.

    So RocksDB does, if it is not opened anew.
    """

    def catch_up(self) -> bool:
        if self._primary.writer == self._writer:
            return super().catch_up()
        self._writer = self._primary.writer
        known = self._store.data
        is_new = super().catch_up()
        self._store.data |= known
        return is_new


class FollowingOpening(ModelOpening):
    secondary_type = FollowsAnyWriter


class FollowingProcess(QueryProcess):
    opening_type = FollowingOpening


class FollowingWorker(Worker):
    query_type = FollowingProcess


class WritersMixed(Loop):
    """Its workers mix what two writers have written."""

    worker_type = FollowingWorker


class HearsOnce(QueryProcess):
    """Believes for ever what it has heard first."""

    def tell(self) -> None:
        if self.told is None:
            super().tell()


class OldPlacesWorker(Worker):
    query_type = HearsOnce


class OldPlacesKept(Loop):
    """Its query processes do not hear of tasks that have moved."""

    worker_type = OldPlacesWorker


class StoresFirst(Thread):
    """Writes its stores before the transaction is committed."""

    def commit(self) -> Iterator[int]:
        for running in self.tasks.values():
            if running.store is not None and running.changed:
                self.flush_changelog(running)
                changed = dict(running.changed)
                self.store(running)
                running.changed = changed
        yield 5
        yield from super().commit()


class HastyStorer(Worker):
    thread_type = StoresFirst


class UncommittedShown(Loop):
    """Its stores show what is not committed yet."""

    worker_type = HastyStorer
