"""Rights of Kafka's own kind (ACLs): what ``docs/security.md`` says that an application needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable

GUARDED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The broker itself and the tests, at the plaintext listener.
    "super.users": "User:ANONYMOUS",
}
"""Settings of a broker that allows nobody anything without an ACL."""
PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
_KINDS: Final = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}
_ROW: Final = re.compile(r"(?m)^\| `(Topic|Group|TransactionalId)` \| (.+) \| (.+) \| .+ \|$")


@dataclass(frozen=True)
class Right:
    """One thing that somebody may do.

    Attributes:
        kind: of the resource, as Kafka calls it.
        name: of the resource.
        operation: as Kafka calls it.
        is_prefix: holds for all resources whose name begins with ``name``.
    """

    kind: str
    name: str
    operation: str
    is_prefix: bool = False

    def binding(self, user: str) -> AclBinding:
        """The ACL."""
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.operation).upper()
        pattern = ResourcePatternType.PREFIXED if self.is_prefix else ResourcePatternType.LITERAL
        return AclBinding(
            _KINDS[self.kind],
            self.name,
            pattern,
            f"User:{user}",
            "*",
            AclOperation[word],
            AclPermissionType.ALLOW,
        )


def listed(application_id: str, sources: Iterable[str], sinks: Iterable[str]) -> list[Right]:
    """The rights that the page lists, for one application."""
    whose = {
        "each source topic": [(name, False) for name in sources],
        "each output topic": [(name, False) for name in sinks],
        "prefix `<application id>-`": [(f"{application_id}-", True)],
        "`<application id>`": [(application_id, False)],
    }
    return [
        Right(kind, resource, operation, is_prefix)
        for kind, name, operations in _ROW.findall(PAGE.read_text())
        for resource, is_prefix in whose[name]
        for operation in re.findall(r"`(\w+)`", operations)
    ]


def allow(bootstrap_servers: str, user: str, rights: Iterable[Right]) -> None:
    """Make ACLs, and wait until the broker goes by them."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    bindings = [right.binding(user) for right in rights]
    for future in admin.create_acls(bindings).values():
        future.result(30)

    def is_known(each: AclBinding) -> bool:
        # Answered by the broker from what it decides by, not by the controller that wrote it.
        only = AclBindingFilter(
            each.restype,
            each.name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        return bool(admin.describe_acls(only).result(30))

    wait_for(lambda: all(map(is_known, bindings)), what="the ACLs", timeout_s=60)
