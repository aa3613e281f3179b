"""The half of a query process that answers by HTTP, over stores on disk that are written here."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from headwater.config import StreamsConfig
from headwater.httpserver import Request
from headwater.ids import TaskId, TopicPartition
from headwater.model.stores import StoreKind, StoreSpec
from headwater.native.queries.answering import Answerer, Held, TaskQuestions
from headwater.native.queries.http import HttpCaller, HttpQueries
from headwater.native.queries.secondaries import Secondaries
from headwater.native.queries.values import (
    AskTask,
    Place,
    Placements,
    Standing,
    TaskAnswered,
)
from headwater.ports import Position
from headwater.serde import Serdes
from headwater.state import BlockCache, open_store
from headwater.state.directory import StateDirectory
from headwater.state.restore import open_backend
from headwater.wire import positions
from headwater.wire.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PARTITIONS = 4
HERE = (0, 1)
KEYS = [f"key-{number}" for number in range(40)]
SPEC = StoreSpec(name="counts", key_serde=Serdes.string, value_serde=Serdes.long)
MEMORY = StoreSpec(
    name="memory",
    kind=StoreKind.KEY_VALUE,
    persistent=False,
    key_serde=Serdes.string,
    value_serde=Serdes.bytes,
)


def by_murmur2(key: str) -> int:
    """The partition in which Kafka's partitioner places a key."""
    return partition_for_key(key.encode(), PARTITIONS)


class Asked:
    """Some of four partitions; the value of a key is its number and ``more``."""

    def __init__(
        self,
        path: Path,
        here: Sequence[int] = HERE,
        *,
        place: Callable[[str], int] = by_murmur2,
        more: int = 0,
        changelog_offset: int = 1,
        read: int = 40,
    ) -> None:
        directory = StateDirectory(path, "app")
        self._stores = []
        for partition in here:
            task = TaskId(0, partition)
            store = open_store(
                SPEC,
                task=task,
                changelog_topic="changelog",
                backend=open_backend(SPEC, directory.store(task, SPEC.name), holder="test"),
                cache=None,
                changelog_send=None,
                key_serde=Serdes.string,
                value_serde=Serdes.long,
            )
            for number, key in enumerate(KEYS):
                if place(key) == partition:
                    store.put(key, number + more, 1_000 + number)
            position = positions.encode_read([(TopicPartition("in", partition), read)])
            store.flush_changelog()
            store.commit(Position("topic", changelog_offset, 1, read=position))
            self._stores.append(store)
        self.memory: list[TaskAnswered] = []
        self.questions = TaskQuestions(self._put)
        stores = {"counts": Held(0, SPEC), "memory": Held(0, MEMORY)}
        self.answerer = Answerer(stores, Secondaries(directory, BlockCache()), self.questions)
        self.place({TaskId(0, partition): Place(Standing.RUNNING, 0) for partition in here})
        self.http = HttpQueries(self.answerer, StreamsConfig.parse({"application.id": "app"}))

    def to_thread(self, asked: AskTask) -> None:
        """What the StreamThreads do: they say what ``memory`` holds. A test may replace it."""
        self.questions.take(replace(self.memory.pop(0), id=asked.id))

    def _put(self, asked: AskTask) -> None:
        self.to_thread(asked)

    def place(self, tasks: dict[TaskId, Place], **more: Any) -> None:
        """Say which tasks are here."""
        self.answerer.placements = Placements(
            tasks=tasks, **{"partitions": {0: PARTITIONS}, **more}
        )

    def get(self, url: str) -> tuple[int, Any]:
        """Status and body of an answer, decoded if it is JSON."""
        parts = urlsplit(url)
        answer = self.http.answer(Request(parts.path, dict(parse_qsl(parts.query))))
        if answer.content_type != "application/json":
            return answer.status.value, answer.body
        return answer.status.value, json.loads(answer.body)

    def caller(self, path: str) -> socket.socket:
        """A caller who has asked for a path, and was handed over."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            caller = socket.create_connection(listener.getsockname())
            self.http.take(HttpCaller(listener.accept()[0], "GET", Request(path)))
        caller.settimeout(60)
        return caller

    def close(self) -> None:
        """Close the stores."""
        for store in self._stores:
            store.close()
