"""Record caches that overflow all the time leave the same tables as none at all."""

from __future__ import annotations

from random import Random
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Materialized, StreamsBuilder
from headwater.testing import TopologyTestDriver

if TYPE_CHECKING:
    from headwater import KTable, Topology


def _joined() -> Topology:
    """A change of one table looks the other up while it is flushed, and so pushes entries out."""
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    left.outer_join(right, lambda a, b: f"{a}+{b}", materialized=Materialized.as_("kept"))
    return builder.build()


def _counted() -> Topology:
    """Counts by value of a join, whose old values must be right."""
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    joined = left.join(right, lambda a, b: f"{a}+{b}", materialized=Materialized.as_("joined"))
    joined.group_by(lambda key, value: (value, key)).count(materialized=Materialized.as_("kept"))
    return builder.build()


def _kept(topology: Topology, cache_bytes: int, seed: str) -> dict[str, Any]:
    random = Random(seed)
    config = {
        "default.key.serde": "string",
        "default.value.serde": "string",
        "statestore.cache.max.bytes": cache_bytes,
    }
    with TopologyTestDriver(topology, config) as driver:
        driver._committer.is_held = True
        for number in range(300):
            topic, key = random.choice(("left", "right")), random.choice(ascii_lowercase)
            driver.pipe_raw(topic, key.encode(), b"x" * random.randint(1, 8), number)
        driver._committer.is_held = False
        driver._commit()
        driver._complete()
        # A count that comes and goes within a record cache leaves no 0.
        rows = driver._found("kept", 0).store.range(None, None)
        return {key: value for key, value, _ in rows if value}


@pytest.mark.parametrize("draw", [_joined, _counted])
@pytest.mark.parametrize("cache_bytes", [300, 800, 1200])
@pytest.mark.seeded(20)
def test_the_tables_of_joins_are_those_of_no_cache(draw: Any, cache_bytes: int, seed: str) -> None:
    topology = draw()

    expected = _kept(topology, 0, seed)

    assert _kept(topology, cache_bytes, seed) == expected
