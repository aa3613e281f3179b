"""The ConfigMap with the StreamApp as the workers of one revision read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.model import podcontract
from headwater_operator.manifests.names import Manifest, Owner, config_name, metadata

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp


def config_map(app: StreamApp, owner: Owner, revision: str) -> Manifest:
    """Return the ConfigMap of a revision.

    Args:
        app: with everything filled in that the installation and other objects supply.
        owner: the StreamApp.
        revision: of ``app``.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, config_name(app.name, revision), revision=revision),
        "data": {podcontract.STREAMAPP_KEY: json.dumps(app.to_dict(), indent=1, sort_keys=True)},
    }
