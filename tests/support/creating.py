"""Creates topics so that whoever asks for them afterwards finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, NewTopic


def create_known(admin: AdminClient, *topics: NewTopic) -> None:
    """Create topics; a broker that has just accepted one may need a moment to know it."""
    for future in admin.create_topics(list(topics)).values():
        future.result(60)
    names = {topic.topic for topic in topics}
    wait_for(lambda: names <= admin.list_topics(timeout=60).topics.keys(), what=f"{names}")
