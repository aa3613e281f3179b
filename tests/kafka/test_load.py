"""The load of the tests itself: what is said to be sent has been sent."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.local_cluster import CUT_OFF_S, Load, create_topics
from tests.support.waiting import take

pytestmark = pytest.mark.kafka


def test_a_producer_that_was_idle_for_long_is_not_taken_for_one_that_is_cut_off(
    bootstrap_servers: str, unique_name: str
) -> None:
    create_topics(bootstrap_servers, unique_name, partitions=1)
    load = Load(bootstrap_servers, unique_name)
    load.feed(["before"])
    load.flush()
    load.cut_off_s = 0.5
    take(1.0)

    load.feed(["after"])

    load.cut_off_s = CUT_OFF_S
    load.flush()
    assert load.sent == Counter(["before", "after"])
