"""What ``spec.upgrade.rollOn`` names, mounted in the pod of a worker, which compares it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.model import podcontract
from headwater.model.rollon import RollOnKind

if TYPE_CHECKING:
    from headwater.model.rollon import RollOn
    from headwater.model.streamapp import StreamApp
    from headwater_operator.manifests.names import Manifest

_VOLUME: Final = "headwater-roll-on-"


def with_roll_on(app: StreamApp, revision: str, pod: Manifest) -> Manifest:
    """Return a worker's pod with a volume for each object; one that is missing stops no pod.

    Args:
        app: the application.
        revision: of ``app``, as which the worker tells of a change.
        pod: its manifest, which is changed.
    """
    named = app.spec.upgrade.roll_on
    if not named:
        return pod
    spec = pod["spec"]
    ours = next(each for each in spec["containers"] if each["name"] == podcontract.CONTAINER)
    ours["env"].append({"name": podcontract.ENV_REVISION, "value": revision})
    for number, each in enumerate(named):
        name, path = f"{_VOLUME}{number}", f"{podcontract.ROLL_ON_DIR}/{number}"
        spec["volumes"].append({"name": name, **_source(each)})
        ours["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
        ours["env"].append({"name": f"{podcontract.ENV_ROLL_ON}{number}", "value": path})
    return pod


def _source(each: RollOn) -> Manifest:
    if each.kind is RollOnKind.SECRET:
        return {"secret": {"secretName": each.name, "optional": True}}
    return {"configMap": {"name": each.name, "optional": True}}
