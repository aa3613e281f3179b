"""Takes an application over for an engine: the record, the fences, a look, and the record again.

    taken: the next generation ──► fence all ids of the engine that leaves ──► nobody is there
        ──► fenced: the other engine may run

What has begun before the record is fenced; what begins after it reads the record first. In another
order a task of the engine that leaves could initialise its id after the fence, find itself still
meant, and write. Who is killed before the last step has given nobody anything: the next one fences
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater import failpoints
from headwater.errors import GroupInUseError
from headwater.kafka.engine import EngineWriter
from headwater.model.engine import spark_transactional_id
from headwater.model.lifecycle import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headwater.kafka.access import Access
    from headwater.model.engine import EngineRecord


class TakeOver:
    """One take-over. One that was broken off is begun again, from its first step.

    Args:
        access: to the broker; asked about the group.
        fence: initialises transactional ids.
        look: raises if somebody runs the application; a look at the group's members if not given.
    """

    def __init__(
        self,
        access: Access,
        fence: Callable[[Collection[str]], None],
        *,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._access = access
        self._fence = fence
        self._look = look or self._check_nobody_is_there

    def carry_out(
        self,
        engine: Engine,
        *,
        worker_ids: Collection[str],
        tasks: Collection[str],
        replaces: int | None,
    ) -> EngineRecord:
        """Take over. See ``Duties.take_engine``."""
        failpoints.hit("takeover.begins")
        writer = EngineWriter(self._access)
        try:
            record = writer.take_over(engine, tasks, workers=worker_ids, replaces=replaces)
            failpoints.hit("takeover.written")
            self._fence(self._leaving(record))
            failpoints.hit("takeover.fenced")
            self._look()
            # Another one that has begun meanwhile has shut this writer out.
            return writer.confirm()
        finally:
            writer.close()

    def _leaving(self, record: EngineRecord) -> list[str]:
        """Return every transactional id of who may have run the application before."""
        application_id = self._access.config.application_id
        tasks = [spark_transactional_id(application_id, task) for task in record.tasks]
        # Workers are told apart from one another by their control loop, or the owner topic.
        return tasks if record.engine is Engine.NATIVE else [*record.workers, *tasks]

    def _check_nobody_is_there(self) -> None:
        group = self._access.config.application_id
        members = self._access.admin.group_members(group)
        if members:
            raise GroupInUseError(
                f"the consumer group {group} has members: {', '.join(map(str, members))}; stop "
                "that application (Java stays a member for up to 45 s after its end)"
            )
