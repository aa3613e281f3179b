"""A state that may be the last copy is never deleted without a word.

One task's store on a real disk, and a model of its changelog. At random: records are processed; the
process is killed between changelog and store; the store or its format file is damaged; a day
passes. Somebody deletes the changelog and makes it anew, empty or with a few records, or deletes
records from it, or a broker loses its tail. Somebody resets, backfills, or accepts the loss.

After each opening every state that lay on the disk still lies there, unless its changelog gives it,
byte for byte, or somebody has said that it may go. The law compares contents: it knows no position
and no verdict.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from headwater.errors import ChangelogLostError
from headwater.ids import TaskId
from headwater.model.topology import StoreKind, StoreSpec
from headwater.ports import Position
from headwater.state import ChangelogFacts, RocksBackend, StateDirectory, StoreRestorer
from headwater.state.position import Discard, RebuildReason, fate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPEC = StoreSpec(name="counts", kind=StoreKind.KEY_VALUE)
DAY_MS = 86_400_000
STEPS = 14


class LawBrokenError(AssertionError):
    """A state is gone."""


@dataclass
class World:
    """What is on the disk and in Kafka."""

    rng: random.Random
    path: Path
    restorer: type[StoreRestorer] = StoreRestorer
    topic: int = 0
    log: list[tuple[bytes, bytes]] = field(default_factory=list)
    start: int = 0
    is_read: bool = False
    is_allowed: bool = False
    computed: set[int] = field(default_factory=set)
    given_up: list[dict[bytes, bytes]] = field(default_factory=list)
    """What a backfill has replaced: this may go."""
    now_ms: int = 1_700_000_000_000
    story: list[str] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self.directory = StateDirectory(self.path, "app").store(TaskId(0, 0), "counts")

    # -- what is there ---------------------------------------------------------------------------

    def replay(self, end: int | None = None) -> dict[bytes, bytes]:
        """What the changelog gives, up to an offset."""
        return dict(self.log[self.start : end])

    def on_disk(self) -> list[dict[bytes, bytes]]:
        """Every state that lies on the disk and can be read, in use or set aside."""
        found = []
        for number, database in enumerate(sorted(self.directory.path.glob("db*"))):
            copy = self.path / f"copy-{number}"
            shutil.copytree(database, copy)
            try:
                backend = RocksBackend(copy)
                found.append(dict(backend.range(None, None)))
                backend.close()
            except Exception:  # noqa: BLE001 - what cannot be read is no copy
                pass
            shutil.rmtree(copy)
        return [state for state in found if state]

    # -- what happens ----------------------------------------------------------------------------

    def consent(self, reason: RebuildReason) -> Discard:
        """What the product asks Kafka."""
        found = fate(
            reason,
            is_allowed=self.is_allowed,
            is_computed=self.topic in self.computed,
            is_read=self.is_read,
        )
        if found is None:
            raise ChangelogLostError(reason.value)
        return found

    def open(self) -> StoreRestorer | None:
        """Open the store as a task does, restore it, and check the law."""
        before = self.on_disk()
        facts = ChangelogFacts(
            topic_id=str(self.topic),
            log_start=self.start,
            log_end=len(self.log),
            delete_retention_ms=DAY_MS,
        )
        try:
            opened = self.restorer(
                SPEC,
                self.directory,
                facts,
                now_ms=self.now_ms,
                holder="task",
                consent=self.consent,
            )
        except ChangelogLostError:
            self.refused += 1
            self.check(before)
            return None
        rows = [
            (offset, 1, key, value, None)
            for offset, (key, value) in enumerate(self.log)
            if offset >= opened.offset
        ]
        opened.close()
        self.check(before)
        opened = self.restorer(
            SPEC, self.directory, facts, now_ms=self.now_ms, holder="task", consent=self.consent
        )
        opened.apply(rows, len(self.log), complete_at_ms=self.now_ms)
        return opened

    def check(self, before: list[dict[bytes, bytes]]) -> None:
        """The law."""
        after = self.on_disk()
        logged = [self.replay(end) for end in range(self.start, len(self.log) + 1)]
        for state in before:
            if state not in after and state not in logged and state not in self.given_up:
                raise LawBrokenError(f"{state} is gone: " + "; ".join(self.story))

    def process(self) -> None:
        """Run the task for a while; sometimes the process is killed before the store is written."""
        opened = self.open()
        if opened is None:
            return
        # A value never comes twice, so that a state is equal to no other by chance.
        entries = [
            (b"k%d" % self.rng.randrange(3), b"%d" % self.rng.getrandbits(60)) for _ in range(3)
        ]
        self.log += entries
        self.is_read = True
        if self.rng.random() < 0.8:
            position = Position(str(self.topic), len(self.log), self.now_ms)
            opened.take().write(list(dict(entries).items()), position)
        opened.close()

    def make_anew(self) -> None:
        """Somebody deletes the changelog, and it is there again, perhaps with a few records."""
        self.topic += 1
        self.start = 0
        self.log = [(b"young", b"%d" % self.rng.getrandbits(60))] * self.rng.randrange(3)

    def delete_records(self) -> None:
        self.start = self.rng.randint(self.start, len(self.log))

    def lose_the_tail(self) -> None:
        del self.log[self.rng.randint(self.start, len(self.log)) :]

    def reset(self) -> None:
        self.make_anew()
        self.log.clear()
        self.is_read = False

    def backfill(self) -> None:
        self.given_up += self.on_disk()
        self.make_anew()
        self.computed.add(self.topic)
        self.is_read = True

    def allow(self) -> None:
        self.is_allowed = not self.is_allowed

    def pass_a_day(self) -> None:
        self.now_ms += DAY_MS

    def damage_the_format(self) -> None:
        if self.directory.path.exists():
            (self.directory.path / "format").write_bytes(self.rng.choice([b"", b"{}", b"\xff"]))

    def condemn(self) -> None:
        if self.directory.path.exists():
            self.directory.mark_damaged()

    def act(self) -> None:
        """Do one of all that, the work of the task most often."""
        rare: list[Callable[[], None]] = [
            self.make_anew,
            self.delete_records,
            self.lose_the_tail,
            self.reset,
            self.backfill,
            self.allow,
            self.pass_a_day,
            self.damage_the_format,
            self.condemn,
        ]
        chosen = self.process if self.rng.random() < 0.6 else self.rng.choice(rare)
        self.story.append(chosen.__name__)
        chosen()


def live(seed: str, path: Path, restorer: type[StoreRestorer] = StoreRestorer) -> World:
    world = World(random.Random(seed), path, restorer)
    world.process()
    for _ in range(STEPS):
        world.act()
    return world


@pytest.mark.seeded(16, least=4)
def test_no_state_that_may_be_the_last_copy_is_deleted_without_a_word(
    tmp_path: Path, seed: str
) -> None:
    live(seed, tmp_path)


class NeverAsks(StoreRestorer):
    """Deletes what it cannot continue, as if Kafka had everything."""

    def _replace(self, *_: Any, **__: Any) -> None:
        self._discard(Discard.DELETE)


class NeverKeeps(StoreRestorer):
    """Deletes what is to be set aside."""

    def _discard(self, fate: Discard) -> None:
        super()._discard(Discard.DELETE)


class AsksTooLate(StoreRestorer):
    """Asks once the store is gone."""

    def _replace(self, *given: Any, **named: Any) -> None:
        self._discard(Discard.DELETE)
        super()._replace(*given, **named)


@pytest.mark.parametrize("fault", [NeverAsks, NeverKeeps, AsksTooLate])
def test_a_fault_planted_in_what_replaces_a_store_breaks_the_law(
    tmp_path: Path, fault: type[StoreRestorer]
) -> None:
    for number in range(60):
        try:
            live(f"planted-{number}", tmp_path / str(number), fault)
        except LawBrokenError:
            return
    pytest.fail(f"{fault.__name__} was not found")
