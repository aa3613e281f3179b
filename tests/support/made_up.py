"""A page of made-up applications: for tests of what is between a snapshot and a browser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import UserError
from headwater.ids import TaskId
from headwater.model.topics import TopologyReport
from headwater_operator.overview.events import Event, EventKind
from headwater_operator.overview.snapshot import Snapshot, TaskRow, WorkerRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.dashboards.history import Sample

DESCRIPTION = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-KEY-SELECT-0000000001
    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000004 (topic: counts-repartition)
      <-- KSTREAM-KEY-SELECT-0000000001

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000005 (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000002
    Processor: KSTREAM-AGGREGATE-0000000002 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000006
      <-- KSTREAM-SOURCE-0000000005
    Processor: KTABLE-TOSTREAM-0000000006 (stores: [])
      --> KSTREAM-SINK-0000000007
      <-- KSTREAM-AGGREGATE-0000000002
    Sink: KSTREAM-SINK-0000000007 (topic: out)
      <-- KTABLE-TOSTREAM-0000000006

"""


def snapshot(app: str = "orders", *, tasks: int = 4, workers: int = 2) -> Snapshot:
    """An application that runs: every task on a worker, all caught up."""
    names = [f"{app}-w-{number}" for number in range(workers)]
    rows = tuple(
        TaskRow(
            task=TaskId(number % 2, number // 2),
            state="RUNNING",
            worker=names[number % workers],
            slot=0,
            lag=0,
            records_per_s=100.0,
            why="its state is here",
            state_bytes=1_000,
        )
        for number in range(tasks)
    )
    return Snapshot(
        app=app,
        state="RUNNING",
        reason="all tasks run",
        guarantee="exactly_once_v2",
        epoch="1.2",
        replicas=workers,
        generation=1,
        workers=tuple(
            WorkerRow(name=name, state="running", pid=1, is_alive=True, tasks=tasks // workers)
            for name in names
        ),
        tasks=tuple(sorted(rows, key=lambda row: row.task)),
        topology=TopologyReport(hash="1", description=DESCRIPTION),
        events=(Event(at_ms=1_000, kind=EventKind.STATE, text="RUNNING: all tasks run"),),
    )


class Seen:
    """What is seen of an application: whatever a test puts there."""

    def __init__(self, shown: Snapshot) -> None:
        self.shown = shown
        self.samples: dict[str, Sequence[Sample]] = {}
        self.trouble: Exception | None = None

    def look(self) -> Snapshot:
        """Return it, or fail as the test wants."""
        if self.trouble is not None:
            raise self.trouble
        return self.shown

    def scrape(self) -> Mapping[str, Sequence[Sample]]:
        """Return what workers tell."""
        return self.samples

    def close(self) -> None:
        """Nothing is open."""

    def change(self, **fields: object) -> None:
        """Show the same with other fields."""
        self.shown = replace(self.shown, **fields)  # type: ignore[arg-type]


class Applications:
    """A source of made-up applications; it remembers what was done."""

    def __init__(self, *shown: Snapshot) -> None:
        self.seen = {each.app: Seen(each) for each in shown}
        self.done: list[tuple[str, str, Mapping[str, object]]] = []
        self.acts = True
        self.missing = ""

    def apps(self) -> Sequence[str]:
        """Return their names."""
        return list(self.seen)

    def open(self, app: str) -> Seen:
        """Return what looks at one."""
        return self.seen[app]

    @property
    def may_act(self) -> bool:
        """Whether actions are carried out: they are."""
        return self.acts

    @property
    def refused(self) -> str:
        """What could not be listed: whatever a test puts there."""
        return self.missing

    @property
    def has_journeys(self) -> bool:
        """Their topologies can be run: the answer is always the same."""
        return True

    def journey(self, app: str, record: Mapping[str, object]) -> dict[str, object]:
        """Return where a record went."""
        if record.get("topic") != "in":
            return {"error": f"the topology does not read topic {record.get('topic')!r}"}
        written = {"topic": "out", "key": "k", "value": "1", "timestamp": 1, "store": ""}
        nodes = ["KSTREAM-SOURCE-0000000000", "KSTREAM-KEY-SELECT-0000000001"]
        return {"nodes": nodes, "stores": ["counts"], "written": [written], "warnings": []}

    def close(self) -> None:
        """Nothing was started."""

    def act(self, app: str, action: str, body: Mapping[str, object]) -> str:
        """Remember an action; there is no ``explode``."""
        if action == "explode":
            raise UserError("there is no action 'explode'")
        self.done.append((app, action, body))
        return f"{app}: {action}"
