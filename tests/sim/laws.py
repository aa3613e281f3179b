"""What must hold at every step, and what must hold in the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headwater.ids import TaskId
from headwater.model.lifecycle import ClientState
from headwater.service.decide.report import has_paused
from tests.sim.chaos import Chaos, Feeder
from tests.sim.global_thread import PLACES, feed_places, is_whole
from tests.sim.loop import Loop
from tests.sim.readers import Reader, Truth, everybody_is_answered
from tests.sim.thread import Thread, Updater
from tests.sim.warm import no_warm_copy_is_given_up
from tests.sim.world import (
    GROUP,
    LINES,
    OUT,
    PARTITIONS,
    WORDS,
    ViolationError,
    World,
    inputs_of,
    replay,
)

if TYPE_CHECKING:
    from headwater.ids import TopicPartition

SETTLE_MS = 240_000
"""So long after the last fault everything must run and be processed; a Lease lasts 30 s."""


def simulate(
    seed: str,
    *,
    exactly_once: bool,
    loop_type: type[Loop] = Loop,
    chaos_type: type[Chaos] = Chaos,
    chaos_ms: int = 120_000,
    freezes: bool = True,
    standbys: int = 0,
    global_table: bool = False,
    queries: bool = False,
) -> World:
    """Run one seed from beginning to end.

    Raises:
        ViolationError: with the seed and the story.
    """
    world = World(
        seed,
        exactly_once=exactly_once,
        standbys=standbys,
        global_table=global_table,
        queries=queries,
    )
    if global_table:
        world.broker.create_topic(PLACES.topic, 1)
        for _ in range(world.rng.randint(0, 60)):
            feed_places(world)
    world.judges.append(no_warm_copy_is_given_up)
    if exactly_once:
        world.watchers.append(lambda: no_two_can_commit(world))
        world.watchers.append(lambda: what_has_paused_is_committed(world))
    Feeder(world, chaos_ms)
    chaos_type(world, chaos_ms, loop_type, freezes=freezes)
    if queries:
        truth = Truth(world)
        for number in range(4):
            Reader(world, f"reader-{number}", truth, has_bound=number % 2 == 0)
    try:
        world.run_until(chaos_ms + 15_000)
        settles(world)
        if exactly_once:
            counted_exactly_once(world)
            words_are_in_order(world)
            stores_equal_their_changelogs(world)
            copies_equal_what_they_have_read(world)
        else:
            nothing_is_lost(world, with_counts=not freezes)
        if global_table:
            tables_are_followed(world)
        if queries:
            everybody_is_answered(world)
    except (ViolationError, AssertionError) as error:
        story = "\n".join(world.story)
        raise ViolationError(f"seed {seed!r}: {error}\n{story}\nseed {seed!r}: {error}") from error
    return world


def tables_are_followed(world: World) -> None:
    """Every worker with tasks comes to keep the whole global table.

    A worker that was frozen for most of the time has thousands of rows to read, some at a time.
    """
    deadline = world.now_ms + SETTLE_MS
    while behind := _behind_their_topic(world):
        if world.now_ms >= deadline:
            raise ViolationError(f"{behind[0]}: its global table is not the whole topic")
        world.run_until(world.now_ms + 5_000)


def _behind_their_topic(world: World) -> list[str]:
    return [
        process.worker.name
        for process in world.processes
        if isinstance(process, Thread)
        and process.tasks
        and not is_whole(world, process.worker.disk.places)
    ]


def no_two_can_commit(world: World) -> None:
    """At no moment can two processes commit records of the same task."""
    holders: dict[TaskId, str] = {}
    for process in world.processes:
        if not isinstance(process, Thread) or not process.tasks or process.producer.is_fenced:
            continue
        for task in process.tasks:
            if task in holders:
                raise ViolationError(f"{holders[task]} and {process.name} can both commit {task}")
            holders[task] = process.name


def what_has_paused_is_committed(world: World) -> None:
    """Of a worker that says it has paused no StreamThread has a transaction open."""
    for process in world.processes:
        if not isinstance(process, Thread) or not process.worker.alive:
            continue
        if process.producer.is_open and not process.producer.is_fenced:
            table = process.worker.table
            if process.tasks and has_paused(table) and process.tasks.keys() & table.tasks.keys():
                raise ViolationError(f"{process.name} has paused with a transaction open")


def settles(world: World) -> None:
    """All tasks run, every standby has caught up, and everything there is has been processed."""
    end_ms = world.now_ms + SETTLE_MS
    while not is_settled(world):
        if world.now_ms > end_ms:
            raise ViolationError(f"not settled: {world.status}")
        world.run_until(world.now_ms + 500)


def is_settled(world: World) -> bool:
    """Whether the control loop says that all is well, and no input is left."""
    tasks = world.status.tasks
    if world.status.state is not ClientState.RUNNING or tasks.total != 2 * PARTITIONS:
        return False
    if tasks.caught_up != tasks.standby or tasks.warmup or not threads_fit(world):
        return False
    return all(
        world.broker.offsets.get((GROUP, partition), 0) >= last_record(world, partition)
        for subtopology in (0, 1)
        for partition in (inputs_of(TaskId(subtopology, number)) for number in range(PARTITIONS))
    )


def threads_fit(world: World) -> bool:
    """Whether every worker uses as many StreamThreads as the user asked for, and no others."""
    wanted = world.app.spec.threads_per_worker
    found: dict[str, list[Thread]] = {}
    for process in world.processes:
        if isinstance(process, Thread):
            found.setdefault(process.worker.name, []).append(process)
    return all(
        {thread.slot for thread in threads} <= set(range(wanted))
        and sum(bool(thread.tasks) for thread in threads)
        == min(wanted, sum(len(thread.tasks) for thread in threads))
        for threads in found.values()
    )


def last_record(world: World, partition: TopicPartition) -> int:
    """The offset after the last committed record of a partition."""
    records, _ = world.broker.read_committed(partition, 0)
    return records[-1].offset + 1 if records else 0


def outputs(world: World) -> list[tuple[str, int, int]]:
    """Every visible output as (word, number of the input, count)."""
    found = []
    for _, record in world.broker.every_committed(OUT):
        number, count = record.value  # type: ignore[misc]  # as Thread.process_record wrote it
        found.append((str(record.key), int(number), int(count)))
    return found


def counted_exactly_once(world: World) -> None:
    """Every input is counted once, and the counts of every word go up one by one."""
    seen = Counter(number for _, number, _ in outputs(world))
    lost = sorted(set(range(world.inputs)) - set(seen))
    doubled = sorted(number for number, times in seen.items() if times > 1)
    if lost or doubled:
        raise ViolationError(f"lost {lost}, counted more than once {doubled}")
    last: Counter[str] = Counter()
    for word, number, count in outputs(world):
        if count != last[word] + 1:
            raise ViolationError(f"input {number}: {word} goes from {last[word]} to {count}")
        last[word] = count


def words_are_in_order(world: World) -> None:
    """What comes of one partition stays in order for each word."""
    of = {record.value[0]: tp for tp, record in world.broker.every_committed(LINES)}  # type: ignore[index]
    last: dict[tuple[str, TopicPartition], int] = {}
    for _, record in world.broker.every_committed(WORDS):
        word, number = str(record.key), int(str(record.value))
        before = last.get((word, of[number]), -1)
        if number < before:
            raise ViolationError(f"input {number} of {word} comes after {before}")
        last[word, of[number]] = number


def stores_equal_their_changelogs(world: World) -> None:
    """What the running tasks have on disk is what their changelogs say."""
    for process in world.processes:
        if not isinstance(process, Thread) or process.producer.is_fenced:
            continue
        for task, running in process.tasks.items():
            if running.store is None or running.has_uncommitted:
                continue
            if running.store.data != replay(world.broker, task.partition):
                raise ViolationError(f"{process.name}: the store of {task} is not its changelog")


def copies_equal_what_they_have_read(world: World) -> None:
    """A copy holds what its changelog says up to its position."""
    for process in world.processes:
        if not isinstance(process, Updater):
            continue
        for task, store in process.following.items():
            if store.data != replay(world.broker, task.partition, store.position):
                raise ViolationError(f"{process.name}: the copy of {task} is not its changelog")


def nothing_is_lost(world: World, *, with_counts: bool) -> None:
    """Every input is counted at least once."""
    lost = sorted(set(range(world.inputs)) - {number for _, number, _ in outputs(world)})
    if lost:
        raise ViolationError(f"lost {lost}")
    if not with_counts:
        return
    finals: Counter[str] = Counter()
    for partition in range(PARTITIONS):
        finals.update(replay(world.broker, partition))
    if sum(finals.values()) < world.inputs:
        raise ViolationError(
            f"{world.inputs} inputs, but the counts add up to {sum(finals.values())}"
        )
