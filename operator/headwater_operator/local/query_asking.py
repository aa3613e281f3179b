"""Whom ``headwater query`` asks, and which of their answers count.

A key is asked for where Kafka's partitioner places it: any worker says where that is, and the
StreamWorkers say who runs it. If it is not there, all partitions are asked, because other rules may
have placed it: a partitioner of the user, or whoever writes the source topic. A range is asked for
partition by partition. Of one partition the answer of its active task counts, else that of the copy
that has read the most of the changelog.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from headwater.errors import QueryError, QueryFailedError
from headwater.model.cluster import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.model.cluster import StreamWorker

_NOT_ANSWERED: Final = (
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.PRECONDITION_FAILED,
)
"""Somebody else may answer: the partition is elsewhere, or a copy has not reached the bound."""
_RUNNING: Final = "running"
_TRIES: Final = 20
_AGAIN_S: Final = 0.25
"""So often, and so much later, workers are asked again that know of no partitions yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    Attributes:
        store: its name.
        key: of one key; ``None`` for a range.
        what: ``keys``, ``windows``, ``sessions`` or ``versions``.
        options: as of HTTP.
        limit: rows at most.
    """

    store: str
    key: str | None
    what: str = "keys"
    options: Mapping[str, str]
    limit: int = 100

    @property
    def partition(self) -> int | None:
        """The only partition that is asked, if one is named."""
        return int(self.options["partition"]) if "partition" in self.options else None

    def path(self, **more: str) -> str:
        """Return the path with its query, and more options."""
        options = dict(self.options)
        key = "" if self.key is None else f"/{quote(self.key, safe='')}"
        if self.key is None:
            options["limit"] = str(self.limit)
        options |= more
        query = f"?{urlencode(options)}" if options else ""
        return f"/state/{quote(self.store, safe='')}/{self.what}{key}{query}"


class Workers(Protocol):
    """The workers of an application, and the way to them."""

    def all(self) -> Sequence[StreamWorker]:
        """Return them as they are now."""
        ...

    def get(self, worker: StreamWorker, path: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a worker.

        Raises:
            OSError: it cannot be reached, or answers something else than JSON.
        """
        ...


def order_of(workers: Iterable[StreamWorker], task: str | None) -> list[StreamWorker]:
    """Return workers in the order in which they are asked.

    Args:
        workers: all.
        task: whoever runs it comes first, then who has a copy.
    """

    def rank(worker: StreamWorker) -> int:
        roles = {t.role for t in worker.status.tasks if str(t.task) == task}
        return 0 if Role.ACTIVE in roles else 1 if roles else 2

    return sorted(workers, key=rank)


# ---- one key -------------------------------------------------------------------------------------


def ask_for_key(workers: Workers, question: Question) -> dict[str, Any]:
    """Return the answer of whoever has a key; ``KEY_NOT_FOUND`` if all partitions were asked.

    Raises:
        QueryError: the question cannot be asked so.
        QueryFailedError: a partition that may have the key was not asked.
    """
    looked = _look(workers, question)
    for _ in range(_TRIES):
        if not looked.is_early:
            break
        time.sleep(_AGAIN_S)
        looked = _look(workers, question)
    return looked.result()


def _look(workers: Workers, question: Question) -> _Looked:
    looked = _Looked(question)
    waiting = list(workers.all())
    while waiting and not looked.is_sure:
        worker = waiting.pop(0)
        try:
            status, answer = workers.get(worker, question.path())
        except OSError as error:
            looked.problems.append(f"{worker.name} does not answer: {error}")
            continue
        looked.take(worker.name, status, answer)
        waiting = order_of(waiting, answer.get("task"))
    return looked


class _Said(NamedTuple):
    """What counts of a partition so far: whose answer it is, and the answer if it has the key."""

    is_active: bool
    changelog_offset: int
    found: dict[str, Any] | None


@dataclass(slots=True)
class _Looked:
    """Where a key was looked for.

    Attributes:
        question: that is asked.
        problems: who does not answer, and why.
        said: by partition.
        absent: the answer that the key is not where Kafka's partitioner places it.
    knows_nothing: a worker has been asked that does not know yet how many partitions there are.
    """

    question: Question
    problems: list[str] = field(default_factory=list)
    said: dict[int, _Said] = field(default_factory=dict)
    absent: dict[str, Any] | None = None
    knows_nothing: bool = False

    def take(self, worker: str, status: int, answer: dict[str, Any]) -> None:
        """Take an answer in.

        Raises:
            QueryError: the question cannot be asked so.
            QueryFailedError: the worker has failed.
        """
        is_absent = answer.get("error") == "KEY_NOT_FOUND"
        if status == HTTPStatus.NOT_FOUND and not is_absent:
            raise QueryError(answer["message"])
        if status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
            text = f"{worker}: {answer.get('message', status)}"
            if status not in _NOT_ANSWERED:
                raise _error(status, answer, text)
            self.problems.append(text)
            self.knows_nothing |= "partition" in answer and answer["partition"] is None
        if is_absent and self.absent is None:
            self.absent = answer
        place = answer.get("rows", [answer])[0].get("partition") if status == HTTPStatus.OK else -1
        for number, read in answer.get("read", {}).items():
            found = answer if int(number) == place else None
            said = _Said(read["standing"] == _RUNNING, read["changelogOffset"], found)
            before = self.said.get(int(number))
            if before is None or said[:2] > before[:2]:
                self.said[int(number)] = said

    @property
    def wanted(self) -> range | list[int] | None:
        """The partitions that may have the key; ``None`` as long as that is not known."""
        if self.question.partition is not None:
            return [self.question.partition]
        count = None if self.absent is None else self.absent.get("of")
        return None if count is None else range(count)

    @property
    def is_sure(self) -> bool:
        """Whether no further answer would change anything."""
        if any(said.found and said.is_active for said in self.said.values()):
            return True
        wanted = self.wanted
        return wanted is not None and all(p in self.said and self.said[p].is_active for p in wanted)

    @property
    def is_early(self) -> bool:
        """Whether workers that have just begun to answer will soon know more."""
        return self.knows_nothing and self.absent is None and not self.is_sure

    def result(self) -> dict[str, Any]:
        """Return the answer.

        Raises:
            QueryFailedError: there is none.
        """
        found = [said for said in self.said.values() if said.found is not None]
        if found:
            best = max(found, key=lambda said: said[:2])
            assert best.found is not None
            return best.found
        why = "; ".join(self.problems)
        if self.absent is None:
            raise QueryFailedError(why or "no worker runs; see `headwater get`")
        wanted = self.wanted or ()
        missing = [number for number in wanted if number not in self.said]
        if missing:
            place = self.absent["partition"]
            raise QueryFailedError(
                f"store {self.question.store} has no {self.question.key!r:.80} in partition "
                f"{place}, where Kafka's partitioner places it, but {_named(missing)} could not be "
                f"asked{': ' + why if why else ''}; try again, or ask partition {place} alone with "
                f"--partition {place}"
            )
        if len(wanted) <= 1:
            return self.absent
        text = f"store {self.question.store} has no {self.question.key!r:.80}: all {len(wanted)} "
        return self.absent | {"message": f"{text}partitions were asked"}


# ---- ranges --------------------------------------------------------------------------------------


class _Holder(NamedTuple):
    """A worker that has a partition."""

    worker: StreamWorker
    is_active: bool


@dataclass(slots=True)
class _Map:
    """Who has which partition of a store.

    Attributes:
        holders: by partition.
        count: how many partitions there are, as far as that is known.
        problems: which workers do not answer, and why.
    """

    holders: dict[int, list[_Holder]] = field(default_factory=dict)
    count: int = 0
    problems: list[str] = field(default_factory=list)


class _Rows(NamedTuple):
    """What one worker has of one partition."""

    rows: list[dict[str, Any]]
    position: dict[str, dict[str, int]]
    changelog_offset: int


def ask_for_range(workers: Workers, question: Question) -> dict[str, Any]:
    """Return the rows of all partitions in their order, up to the limit.

    Raises:
        QueryError: the question cannot be asked so.
        QueryFailedError: somebody does not answer, or a partition is nowhere; it names them.
    """
    found: dict[int, _Rows] = {}
    where = _known_map_of(workers, question)
    missing = _ask_partitions(workers, question, where, found)
    if missing:  # a task may have moved meanwhile
        where = _known_map_of(workers, question)
        missing = _ask_partitions(workers, question, where, found)
    if missing:
        why = "; ".join(dict.fromkeys([*missing.values(), *where.problems]))
        raise QueryFailedError(
            f"{_named(missing)} of store {question.store} could not be asked: {why}; nothing is "
            "shown, because it would not be all: try again, or ask one with --partition"
        )
    rows: list[dict[str, Any]] = []
    position: dict[str, dict[str, int]] = {}
    for _, one in sorted(found.items()):
        rows += one.rows
        for topic, offsets in one.position.items():
            position[topic] = position.get(topic, {}) | offsets
    return {"store": question.store, "rows": rows[: question.limit], "position": position}


def _known_map_of(workers: Workers, question: Question) -> _Map:
    """Return who has what, as soon as somebody knows how many partitions there are."""
    where = _map_of(workers, question)
    for _ in range(_TRIES):
        if where.count:
            break
        time.sleep(_AGAIN_S)
        where = _map_of(workers, question)
    if question.partition is not None and 0 < where.count <= question.partition:
        raise QueryError(
            f"store {question.store} has partitions 0 to {where.count - 1}, and not "
            f"{question.partition}"
        )
    return where


def _map_of(workers: Workers, question: Question) -> _Map:
    where, known = _Map(), set[str]()
    is_stale = question.options.get("requireActive") != "true"
    for worker in workers.all():
        try:
            status, answer = workers.get(worker, "/state")
        except OSError as error:
            where.problems.append(f"{worker.name} does not answer: {error}")
            continue
        if status != HTTPStatus.OK:
            raise _error(status, answer, f"{worker.name}: {answer.get('message', status)}")
        stores = {one["store"]: one for one in answer["stores"]}
        known |= stores.keys()
        if (store := stores.get(question.store)) is None:
            continue
        where.count = max(where.count, store["of"] or 0)
        is_global = store["subtopology"] is None
        for number, standing in ({"0": _RUNNING} if is_global else store["partitions"]).items():
            holder = _Holder(worker, standing == _RUNNING)
            if holder.is_active or is_stale:
                where.holders.setdefault(int(number), []).append(holder)
    if known and question.store not in known:
        raise QueryError(
            f"the topology has no store {question.store!r}; there are {', '.join(sorted(known))}"
        )
    if not known:
        text = "; ".join(where.problems)
        raise QueryFailedError(text or "no worker runs; see `headwater get`")
    return where


def _ask_partitions(
    workers: Workers, question: Question, where: _Map, found: dict[int, _Rows]
) -> dict[int, str]:
    """Ask the partitions that have not answered yet; return why some do not.

    Partitions behind the limit are not asked, unless one before them does not answer.
    """
    wanted: Iterable[int] = {*range(where.count), *where.holders}
    if question.partition is not None:
        wanted = [question.partition]
    missing: dict[int, str] = {}
    left = question.limit
    for partition in sorted(wanted):
        if found and left <= 0:
            break
        if partition not in found:
            answer = _best_of(workers, question, partition, where.holders.get(partition, []))
            if isinstance(answer, str):
                missing[partition] = answer
                continue
            found[partition] = answer
        left -= len(found[partition].rows)
    return missing


def _best_of(
    workers: Workers, question: Question, partition: int, holders: Sequence[_Holder]
) -> _Rows | str:
    """Return what counts of a partition, or why nobody answers."""
    why, copies = "", list[_Rows]()
    for holder in sorted(holders, key=lambda one: not one.is_active):
        answer = _of_partition(workers, question, partition, holder.worker)
        if isinstance(answer, str):
            why = why or answer
        elif holder.is_active:
            return answer
        else:
            copies.append(answer)
    if copies:
        return max(copies, key=lambda one: one.changelog_offset)
    return why or f"no worker runs partition {partition}: its task is being moved or restored"


def _of_partition(
    workers: Workers, question: Question, partition: int, worker: StreamWorker
) -> _Rows | str:
    """Return what a worker has of a partition, page by page, or why it does not answer.

    Raises:
        QueryError: the question cannot be asked so.
    """
    found = _Rows([], {}, -1)
    more = {"partition": str(partition)}
    while True:
        try:
            status, answer = workers.get(worker, question.path(**more))
        except OSError as error:
            return f"{worker.name} does not answer: {error}"
        if status != HTTPStatus.OK:
            text = f"{worker.name}: {answer.get('message', status)}"
            failure = _error(status, answer, text)
            if isinstance(failure, QueryFailedError):
                return text
            raise failure
        found.rows.extend(answer["rows"])
        offset = answer["read"][str(partition)]["changelogOffset"]
        found = found._replace(
            position=found.position | answer["position"],
            changelog_offset=max(found.changelog_offset, offset),
        )
        more["cursor"] = answer.get("cursor", "")
        if not more["cursor"] or len(found.rows) >= question.limit:
            return found


def _named(partitions: Iterable[int]) -> str:
    numbers = [str(number) for number in partitions]
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _error(status: int, answer: Mapping[str, Any], message: str) -> Exception:
    """Return the error for an answer that is none."""
    passing = (*_NOT_ANSWERED, HTTPStatus.INTERNAL_SERVER_ERROR)
    if status in passing or "error" not in answer:
        return QueryFailedError(message)
    return QueryError(str(answer.get("message", message)))
