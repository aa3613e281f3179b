"""The query process of a worker: started by the first query, it reads what others write.

    callers ──► main process ── socket and what it has said ──► query process ──► answer
                (accepts, reads the head)                        (RocksDB secondaries)

A query costs the StreamThreads nothing, and the main process the hand-over of a socket. A store in
memory is read by its StreamThread, which is asked through main.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import socket
import sys
import threading
import time
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.model.positions import Position
from headwater.native import logs
from headwater.native.blocks import shared_blocks
from headwater.native.garbage import tune_garbage_collection
from headwater.native.loading import child_topology
from headwater.native.messages import Configure, Stop, Stopped
from headwater.native.queries.answering import Answerer, Held, TaskQuestions
from headwater.native.queries.http import HttpCaller, HttpQueries
from headwater.native.queries.secondaries import Secondaries
from headwater.native.queries.values import (
    HTTP,
    PAGE_ROWS,
    More,
    PartitionAnswer,
    Placements,
    StoreRequest,
    TaskAnswered,
)
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.model.topology import Topology
    from headwater.native.process import Link
    from headwater.native.queries.values import QuerySettings
    from headwater.state import BlockCache
    from headwater.state.asks import Found

log = logging.getLogger(__name__)

HEAD_MAX: Final = 64 * 1024
_SWITCH_S: Final = 0.0005
"""A thread that makes a long answer lets the others answer short ones meanwhile."""
_TICK_S: Final = 5.0


def run(settings: QuerySettings, link: Link) -> None:
    """Answer queries until told to stop; the target of a ``ChildProcess``.

    Raises:
        HeadwaterError: the topology or its options cannot be used.
    """
    sys.setswitchinterval(_SWITCH_S)
    answer(settings, link, shared_blocks(settings.child.application.parsed()))


def answer(settings: QuerySettings, link: Link, blocks: BlockCache) -> None:
    """Answer queries from stores that share a block cache, until told to stop.

    Raises:
        HeadwaterError: the topology or its options cannot be used.
    """
    config = settings.child.application.parsed()
    topology = child_topology(settings.child)
    directory = StateDirectory(Path(settings.child.state_dir), settings.child.application_id)
    secondaries = Secondaries(directory, blocks)
    questions = TaskQuestions(link.send)
    answerer = Answerer(held_stores(topology), secondaries, questions)
    http = HttpQueries(answerer, config)
    tune_garbage_collection()
    channel = socket.socket(fileno=settings.channel)
    welcome = threading.Thread(target=_welcome, args=(channel, answerer, http), daemon=True)
    while True:
        command = link.wait(_TICK_S)
        match command:
            case Placements():
                answerer.placements = command
                secondaries.keep(frozenset(command.tasks))
                if not welcome.is_alive():
                    welcome.start()  # nobody is answered before it is known what is here
            case TaskAnswered():
                questions.take(command)
            case Configure():
                logs.give_levels(command.levels)
                blocks.configure(command.rocksdb)
            case Stop():
                link.send(Stopped())
                return
            case _:
                secondaries.close_idle()


def held_stores(topology: Topology) -> dict[str, Held]:
    """Return the stores that can be asked for, by name."""
    found = {spec.name: Held(g.id, spec) for g in topology.subtopologies for spec in g.stores}
    for group in topology.global_subtopologies:
        found |= {spec.name: Held(group.id, spec, is_global=True) for spec in group.stores}
    return found


def _welcome(channel: socket.socket, answerer: Answerer, http: HttpQueries) -> None:
    """Take in callers, until the main process is gone."""
    while True:
        try:
            said, descriptors, _, _ = socket.recv_fds(channel, HEAD_MAX, 1)
        except OSError:
            log.exception("cannot take in callers")
            return
        if not said:
            return
        if not descriptors:
            continue  # this process has no descriptor left: the caller sees its connection end
        if said[:1] == HTTP:
            method, request = pickle.loads(said[1:])  # noqa: S301 - from our own main process
            http.take(HttpCaller(socket.socket(fileno=descriptors[0]), method, request))
        else:
            caller: Connection[Any, Any] = Connection(descriptors[0])
            threading.Thread(target=serve, args=(caller, answerer), daemon=True).start()


def serve(caller: Connection[Any, Any], answerer: Answerer) -> None:
    """Answer one caller's requests, one after the other, until it leaves.

    Args:
        caller: its connection; it is closed at the end.
        answerer: reads stores.
    """
    rest: dict[int, Iterator[Found]] = {}
    with caller, contextlib.suppress(EOFError, OSError):
        while True:
            said = pickle.loads(caller.recv_bytes())  # noqa: S301 - from our own main process
            answer: Any
            try:
                answer = _answered(said, rest, answerer)
            except Exception as error:  # whatever it is, the caller is told
                log.exception("cannot answer %r", said)
                answer = error
            caller.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _answered(
    said: StoreRequest | More, rest: dict[int, Iterator[Found]], answerer: Answerer
) -> list[PartitionAnswer] | PartitionAnswer:
    if isinstance(said, More):
        began = time.perf_counter()
        rows = list(islice(rest.get(said.partition, iter(())), PAGE_ROWS))
        more = len(rows) == PAGE_ROWS
        if not more:
            rest.pop(said.partition, None)
        return PartitionAnswer(
            partition=said.partition,
            position=Position(),
            rows=rows,
            more=more,
            seconds=time.perf_counter() - began,
        )
    answers = answerer.ask(said)
    rest.clear()
    rest.update({a.first.partition: a.rest for a in answers if a.rest is not None})
    return [answered.first for answered in answers]
