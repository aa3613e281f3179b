"""The ConfigMap with the StreamApp as the workers of one revision read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.model import drivercontract, podcontract
from headwater.model.lifecycle import Engine
from headwater_operator.manifests.driver import executor_template
from headwater_operator.manifests.names import Manifest, Owner, config_name, metadata

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.manifests.settings import Installation


def config_map(app: StreamApp, owner: Owner, revision: str, installation: Installation) -> Manifest:
    """Return the ConfigMap of a revision; on Spark with the template of its executors.

    Args:
        app: with everything filled in that the installation and other objects supply.
        owner: the StreamApp.
        revision: of ``app``.
        installation: defaults of this installation.
    """
    data = {podcontract.STREAMAPP_KEY: json.dumps(app.to_dict(), indent=1, sort_keys=True)}
    if app.spec.engine is Engine.SPARK:
        template = executor_template(app, installation)
        data[drivercontract.EXECUTOR_KEY] = json.dumps(template, indent=1, sort_keys=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, config_name(app.name, revision), revision=revision),
        "data": data,
    }
