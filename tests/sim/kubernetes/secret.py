"""A Secret that workers were started from: users change and delete it, kubelets bring it late."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from headwater.model.changes import changes_of, numbered
from headwater_operator.kube.api import STREAM_APPS, Manifest
from headwater_operator.observe import snapshot
from headwater_operator.observe.rollon import with_changes
from tests.sim.kubernetes.plan import Mistake
from tests.sim.world import ViolationError

if TYPE_CHECKING:
    from headwater_operator.views import AppView
    from tests.sim.kubernetes.world import KubeWorld

NAME: Final = "Secret db"
ROLL_ON: Final = [{"kind": "Secret", "name": "db"}]


class Secret:
    """What it holds, and how often it was given something.

    Attributes:
        content: empty while there is none.
        changes: how often it was written, by which processes are to be replaced.
    """

    def __init__(self, world: KubeWorld) -> None:
        self._world = world
        self._rng = Random(f"secret of {world.seed}")
        self.content = b"0"
        self.changes = 0
        world.observers.append(self.saw)

    def change(self) -> None:
        """Write something new."""
        self.changes += 1
        self.content = b"%d" % self.changes
        self._world.note(f"user: writes {self.content!r} into the Secret")

    def delete(self) -> bytes:
        """Delete it; return what it held."""
        self._world.note("user: deletes the Secret")
        held, self.content = self.content, b""
        return held

    def restore(self, content: bytes) -> None:
        """Create it again as it was, unless it is there; processes may have begun without it."""
        if not self.content:
            self._world.note("user: creates the Secret again")
            self.changes += 1
            self.content = content or b"0"

    def delay_ms(self) -> int:
        """How long a kubelet takes until it brings a pod's files up to date once more."""
        return self._rng.choice((500, 2_000, 20_000))

    def saw(self, plural: str, manifest: Manifest) -> None:
        """No change is rolled out twice."""
        if plural != STREAM_APPS.plural:
            return
        revision = ((manifest.get("status") or {}).get("revision") or {}).get("update", "")
        if changes_of(revision) > self.changes:
            raise ViolationError(
                f"{changes_of(revision)} changes are rolled out, and there were {self.changes}"
            )

    def unsettled(self) -> str:
        """Say who runs with what the Secret held before; empty if nobody does."""
        for machine in self._world.machines.values():
            for worker in machine.workers:
                if worker.began != self.content:
                    return f"{worker.name} runs with {worker.began!r}, not {self.content!r}"
        return ""


class NeverRollsOut(Mistake):
    """Takes no notice of what workers tell."""

    patches = ((snapshot, "with_changes", lambda view: view),)


def _by_any_report(view: AppView) -> AppView:
    found = with_changes(view)
    told = [each.worker.status.roll_on for each in view.workers]
    is_new = found.revision != view.status.revision.update
    if is_new or not any(each and each.changed for each in told):
        return found
    return replace(found, revision=numbered(found.revision, changes_of(found.revision) + 1))


class RollsOutAgain(Mistake):
    """Takes what a process of an earlier revision tells for news."""

    patches = ((snapshot, "with_changes", _by_any_report),)
