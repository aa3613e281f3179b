"""The operator's calls to the API server: they take time, are lost, refused, or never answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater_operator.kube.api import EVENTS, LEASES, STREAM_ACTIONS, Manifest, Resource
from headwater_operator.kube.errors import ApiUnavailableError, ConflictError
from tests.support.kube_through import Through
from tests.support.numbers import answer_about

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headwater_operator.observe.driver import DriverAnswer
    from headwater_operator.observe.numbers import WorkerAnswer
    from tests.sim.kubernetes.operators import Operator
    from tests.sim.kubernetes.worker import PodWorker

_TIMEOUT_MS = 5_000
_ANSWER_MS = 500


class Port(Through):
    """The API server as one operator process reaches it."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator.world.api)
        self.operator = operator
        self.world = operator.world

    def call(
        self,
        verb: str,
        resource: Resource,
        name: str,
        written: Manifest | None,
        act: Callable[[], Any],
    ) -> Any:
        """Make one call, and let time pass around it."""
        world, part = self.world, self.world.running
        assert part is not None
        if resource is STREAM_ACTIONS and not world.plan.acts:
            return act()  # there are none: what else happens stays as it was
        is_telling = resource.plural in (EVENTS.plural, LEASES.plural)
        is_quiet = is_telling or written is None
        if not is_quiet:
            part.at("about to write")
        if not is_quiet or world.rng.random() < 0.3:
            part.pause(world.rng.choice((1, 2, 5)))
        if world.is_api_down or self.operator.is_cut_off:
            part.pause(_TIMEOUT_MS)
            raise ApiUnavailableError(f"no answer to {verb} {resource.plural}")
        chance = world.rng.random()
        if chance < 0.003:
            raise ApiUnavailableError(f"too much to do for {verb} {resource.plural}")
        if chance < 0.01 and not is_quiet and verb.startswith(("patch", "apply")):
            raise ConflictError(f"{verb} {resource.plural} {name}: others write too much")
        if written is not None:
            self.operator.laws.before_write(self.operator, verb, resource, name, written)
        result = act()
        self.operator.laws.after_call(self.operator, verb, resource, result)
        if is_quiet:
            return result
        world.note(f"{part.name}: {verb} {resource.plural} {name}")
        part.at("written")
        part.pause(world.rng.choice((1, 1, 30)))
        if chance > 0.99:
            raise ApiUnavailableError(f"the answer to {verb} {resource.plural} was lost")
        return result


class Questions:
    """Workers as one operator process can ask them: soon, late by a moment, or in vain."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.world = operator.world

    def ask(self, endpoints: Mapping[str, str]) -> Mapping[str, WorkerAnswer]:
        """Ask workers."""
        part, rng = self.world.running, self.world.rng
        assert part is not None
        part.pause(rng.choice((1, 5, 20)))
        found: dict[str, WorkerAnswer] = {}
        for name in endpoints:
            worker = self._reached(name)
            if worker is not None and rng.random() < 0.9:
                lags = {copy.id: copy.lag for copy in worker.table.copies.values()}
                found[name] = answer_about(lags, worker.incarnation)
        part.pause(rng.choice((1, 5, 20)) if len(found) == len(endpoints) else _ANSWER_MS)
        return found

    def ask_driver(self, endpoint: str) -> DriverAnswer:
        """No application runs on Spark here."""
        raise AssertionError(endpoint)

    def _reached(self, name: str) -> PodWorker | None:
        """Return the process of a worker, if it can be reached now."""
        for machine in self.world.machines.values():
            for worker in machine.workers:
                is_here = worker.worker == name and worker.thaws_ms is None
                if is_here and not machine.is_cut_off and not self.operator.is_cut_off:
                    return worker
        return None
