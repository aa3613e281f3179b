"""The actions about Spark's driver, on a cluster: its pod is made and deleted, nothing else.

It has one name, so there is one at a time: as long as a pod of it is there, if only because its
machine does not answer, no other can be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater_operator.act.events import News
from headwater_operator.kube.api import PODS
from headwater_operator.manifests.driver import driver_pod
from headwater_operator.manifests.names import DRIVER_COMPONENT, driver_name

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.act.gate import Gate
    from headwater_operator.act.objects import Objects
    from headwater_operator.actions import StartDriver, StopDriver
    from headwater_operator.manifests.settings import Installation
    from headwater_operator.views import AppView


class Drivers:
    """Carries out what was decided about one application's driver.

    Args:
        objects: writes.
        gate: passed before every write.
        view: what the decision was made from.
        installation: defaults of this installation.
    """

    def __init__(
        self, objects: Objects, gate: Gate, view: AppView, installation: Installation
    ) -> None:
        assert view.app is not None
        self._objects = objects
        self._gate = gate
        self._view = view
        self._app: StreamApp = view.app
        self._name = driver_name(view.app.name)
        self._installation = installation

    def start(self, action: StartDriver) -> News | None:
        """Make the pod of a driver; ``None`` if there is one that runs.

        Raises:
            OutdatedDecisionError: there is another pod of that name by now.
            HeldUpError: it cannot be made, for a reason that somebody has to see to.
        """
        pod = self._view.driver_pod
        if pod is not None and not pod.state.is_proof_of_end:
            return None
        self._objects.see_off(pod, "delete_ended_driver")
        self._gate.before("create_driver")
        made = driver_pod(
            self._app,
            self._view.owner,
            revision=self._view.revision,
            generation=action.generation,
            executors=action.executors,
            installation=self._installation,
        )
        self._objects.create(PODS, self._name, made, component=DRIVER_COMPONENT)
        ended = pod.ended if pod is not None else ""
        said = f"started again; it had ended: {ended}" if ended else f"started: {action.reason}"
        text = f"{said} (generation {action.generation})"
        return News(reason=action.reason, worker=self._name, text=text)

    def stop(self, action: StopDriver) -> News | None:
        """Have the driver end; ``None`` if it was told before.

        Raises:
            OutdatedDecisionError: it is another one by now.
        """
        return self._objects.stop(self._view.driver_pod, action, self._name, "delete_driver")
