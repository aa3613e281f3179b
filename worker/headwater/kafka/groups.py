"""Who is a live member of a group?

Every broker is asked for the groups it knows (the older request), not the group's coordinator
through the admin client: while a coordinator starts, librdkafka 2.16 crashes the process in that.
What this cannot tell about groups of newer protocols, a refused commit does.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headwater.kafka.errors import FOREIGN_MEMBER, error_of
from headwater.model.duties import GroupMember

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka.admin import AdminClient


def members(
    admin: AdminClient, settings: Mapping[str, Any], group: str, timeout_s: float
) -> list[GroupMember]:
    """Return the live members of a group; none without such a group.

    Members of groups other than classic ones (KIP-848, KIP-1071) are not described by this request:
    one stands for all of them.

    Args:
        admin: asked for the groups.
        settings: of any client of the application.
        group: its id.
        timeout_s: for each of the requests.

    Raises:
        KafkaException: as the client says; a coordinator that is starting among it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        groups: list[Any] = admin.list_groups(group, timeout=timeout_s)
    listed = [one for one in groups if one.id == group]
    found: list[GroupMember] = []
    for one in listed:
        if one.error is not None:
            raise KafkaException(one.error)
        found += [
            GroupMember(
                member_id=member.id,
                client_id=member.client_id or "",
                host=(member.client_host or "").lstrip("/"),
            )
            for member in one.members
        ]
    # Listed, yet described as dead: it exists and is not a classic group.
    is_of_other_kind = any(one.state == "Dead" for one in listed)
    if is_of_other_kind and _refuses_outsiders(admin, settings, group, timeout_s):
        found.append(GroupMember(member_id="", client_id="a member of a newer protocol"))
    return found


def _refuses_outsiders(
    admin: AdminClient, settings: Mapping[str, Any], group: str, timeout_s: float
) -> bool:
    """Whether a group has members, found out by committing an offset that nobody uses.

    A group with members takes offsets from nobody else. Of a changelog no offset is ever
    committed, of the broker's own topic neither.
    """
    topics = admin.list_topics(timeout=timeout_s).topics
    changelogs = sorted(
        topic for topic in topics if topic.startswith(f"{group}-") and topic.endswith("-changelog")
    )
    unused = ClientPartition(changelogs[0] if changelogs else "__consumer_offsets", 0, 0)
    outsider = Consumer({**settings, "group.id": group, "enable.auto.commit": False})
    try:
        answers = outsider.commit(offsets=[unused], asynchronous=False)
        errors = [answer.error for answer in answers or [] if answer.error is not None]
    except KafkaException as error:
        errors = [error_of(error)]
    finally:
        outsider.close()
    for found in errors:
        if found.code() in FOREIGN_MEMBER:
            return True
        if found.code() != KafkaError._NO_OFFSET:  # noqa: SLF001 - the client's name for its code
            raise KafkaException(found)
    return False
