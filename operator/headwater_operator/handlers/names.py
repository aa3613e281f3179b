"""Which StreamApps would be one application to Kafka, and which of them may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater_operator.status import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater_operator.handlers.leases import Key
    from headwater_operator.views import AppView


@dataclass(frozen=True, slots=True, kw_only=True)
class AppName:
    """What a StreamApp is called on which Kafka.

    Attributes:
        application_id: the consumer group, and so the application.
        servers: the brokers it reads from, sorted.
        created: when the StreamApp was created.
        uid: decides between two of the same moment.
    """

    application_id: str
    servers: tuple[str, ...]
    created: str
    uid: str


def name_of(view: AppView) -> AppName | None:
    """Return what an application is called; ``None`` while its specification cannot be used."""
    if view.app is None:
        return None
    servers = view.app.spec.kafka.bootstrap_servers or ""
    return AppName(
        application_id=view.app.application_id,
        servers=tuple(sorted(server.strip() for server in servers.split(","))),
        created=view.created,
        uid=view.owner.uid,
    )


def clash(key: Key, names: Mapping[Key, AppName]) -> Problem | None:
    """Tell why a StreamApp must not run; ``None`` if it may.

    Of two with one application id, on brokers of which one is the same, the older one runs. Kafka
    itself would not notice: workers are no members of a group.
    """
    own = names.get(key)
    if own is None:
        return None
    for (namespace, name), other in sorted(names.items()):
        is_other = (namespace, name) != key and other.application_id == own.application_id
        if not is_other or not set(own.servers) & set(other.servers):
            continue
        if (other.created, other.uid) < (own.created, own.uid):
            return Problem(
                reason="ApplicationIdInUse",
                message=f"the StreamApp {namespace}/{name} has the application id "
                f"{own.application_id!r} on the same Kafka, and is older: this one does not run. "
                "Delete one of the two, or create this one again with another spec.applicationId",
            )
    return None
