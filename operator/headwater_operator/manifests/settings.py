"""What was said when the operator was installed: it holds for a StreamApp that says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater_operator.manifests.names import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Defaults of one installation of the operator.

    Attributes:
        worker_image: for StreamApps without ``spec.image``; empty: they must have one.
        spark_image: the same for those that Spark runs.
        bootstrap_servers: for StreamApps without ``spec.kafka.bootstrapServers``; empty: they must
            name them.
        user_id: user and group of the workers' processes and volumes; ``None`` leaves the choice
            to the image or to the platform, which some platforms insist on.
        callers: peers of a NetworkPolicy that may call workers and drivers at their HTTP port,
            besides the pods of the same application; ``None``: no NetworkPolicy is made.
        account: whose tokens the operator shows to workers, such as
            ``system:serviceaccount:ns:headwater-operator-caller``. Empty: they let no operator in.
    """

    worker_image: str = ""
    spark_image: str = ""
    bootstrap_servers: str = ""
    user_id: int | None = 10_001
    callers: Sequence[Manifest] | None = None
    account: str = ""
