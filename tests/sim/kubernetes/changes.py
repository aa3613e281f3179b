"""Users who change what a running application takes over, what must hold, what is planted."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from headwater.model.changes import revision_of
from headwater_operator.actions import Reason, StopWorker
from headwater_operator.kube.api import CLAIMS, STREAM_APPS, Manifest
from headwater_operator.manifests.storage import bytes_of
from headwater_operator.observe import snapshot
from tests.sim.kubernetes.growth import SIZES
from tests.sim.kubernetes.plan import Mistake
from tests.sim.kubernetes.port import Port
from tests.sim.kubernetes.world import APP, WINDOW, KubeWorld, Ticking
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headwater.model.streamapp import StreamAppSpec
    from headwater_operator.decide import Decision, Observed
    from headwater_operator.kube.api import Resource
    from tests.sim.kubernetes.operators import Operator

_AFTER_MS: Final = 15_000
_LEVEL: Final = "metrics.recording.level"


class Changing(Ticking):
    """Changes live fields, in an order of its own; volumes only grow."""

    def __init__(self, world: KubeWorld, until_ms: int) -> None:
        self.until_ms = until_ms
        self.own = Random(f"changes of {world.seed}")
        self.size = 0
        super().__init__(world, "changing")

    def run(self) -> Iterator[int]:
        yield _AFTER_MS
        while self.world.now_ms < self.until_ms:
            if not self.world.is_api_down:
                self.own.choice((self.grow, self.log, self.measure, self.copies, self.windows))()
            yield self.own.choice((500, 3_000, 9_000))
        while self.world.is_api_down:
            yield 500
        self.world.set("/spec/assignment/standbyReplicas", self.world.plan.standbys)

    def grow(self) -> None:
        """Ask for larger volumes."""
        self.size = min(self.size + 1, len(SIZES) - 1)
        self.world.set("/spec/state/size", SIZES[self.size])

    def log(self) -> None:
        """Choose another log level."""
        self.world.set("/spec/logging", {"level": self.own.choice(("DEBUG", "INFO", "shop=INFO"))})

    def measure(self) -> None:
        """Choose another metrics level; what else is configured stays."""
        app = self.world.find(STREAM_APPS, APP)
        config = dict((app or {}).get("spec", {}).get("config") or {})
        level = self.own.choice(("INFO", "DEBUG"))
        self.world.set("/spec/config", {**config, _LEVEL: level})

    def copies(self) -> None:
        """Choose another number of standbys."""
        self.world.set("/spec/assignment/standbyReplicas", self.own.choice((0, 1)))

    def windows(self) -> None:
        """Have tasks move for balance at any time, or in one minute."""
        self.world.set("/spec/assignment/moveWindows", self.own.choice(([], [WINDOW])))


def rolled(spec: StreamAppSpec) -> str:
    """Say, without the product's table, what of a specification is rolled out."""
    config = {name: value for name, value in spec.config.items() if name != _LEVEL}
    return f"{spec.image} {sorted(config.items())} {spec.restart_nonce}"


class ChangeLaws:
    """A live change replaces no process, and volumes grow where they are to."""

    def __init__(self, world: KubeWorld) -> None:
        self.world = world
        self.revisions: dict[str, str] = {}
        self.asked: dict[str, int] = {}
        world.observers.append(self.saw)
        world.judges.append(self.judge)

    def judge(self, observed: Observed, decision: Decision, _: int) -> None:
        """Specifications that differ in live fields alone are one revision."""
        key = rolled(observed.app.spec)
        known = self.revisions.setdefault(key, observed.revision)
        rolls = [
            action.worker
            for action in decision.actions
            if isinstance(action, StopWorker) and action.reason is Reason.NEW_REVISION
        ]
        if known != observed.revision and rolls:
            raise ViolationError(f"{rolls} are replaced because of a live change")

    def saw(self, plural: str, claim: Manifest) -> None:
        """No claim shrinks."""
        if plural != CLAIMS.plural:
            return
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        asked = bytes_of(claim["spec"]["resources"]["requests"]["storage"])
        before = self.asked.setdefault(uid, asked)
        if asked < before:
            raise ViolationError(f"{name} asks for less than before")
        self.asked[uid] = asked


# -- planted -------------------------------------------------------------------------------------


def _with_the_log_level(spec: StreamAppSpec) -> str:
    return f"{revision_of(spec)}-{len(spec.logging.level or '')}"


class LiveChangeRolls(Mistake):
    """Takes another log level for another revision."""

    patches = ((snapshot, "revision_of", _with_the_log_level),)


class GrowsAnother(Port):
    """Grows the claim of the first worker in the place of each."""

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, Any]],
    ) -> Manifest:
        if resource is CLAIMS and any(
            each["path"].endswith("/requests/storage") for each in operations
        ):
            first = min(each["metadata"]["name"] for each in self.world.all(CLAIMS))
            if first != name:
                untested = [each for each in operations if each["op"] != "test"]
                return super().patch(resource, namespace, first, untested)
        return super().patch(resource, namespace, name, operations)


class GrownOnTheWrongWorker(Mistake):
    """A larger volume goes to another worker than the one that lacks it."""

    def port(self, operator: Operator) -> Port:
        return GrowsAnother(operator)
