"""The load of the tests itself: what is said to be sent has been sent."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.local_cluster import Load, create_topics
from tests.support.waiting import take

pytestmark = pytest.mark.kafka


def test_a_producer_that_was_idle_for_long_is_not_taken_for_one_that_is_cut_off(
    bootstrap_servers: str, unique_name: str
) -> None:
    create_topics(bootstrap_servers, unique_name, partitions=1)
    load = Load(bootstrap_servers, unique_name, cut_off_s=1.0)
    load.feed(["before"])
    load.flush()
    take(1.5)

    load.feed(["after"])

    load.flush()
    assert load.sent == Counter(["before", "after"])
