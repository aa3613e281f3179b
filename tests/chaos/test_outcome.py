"""A proof that cannot fail proves nothing: each planted fault of a storm must be found."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, TypeAlias

import pytest

from tests.chaos.outcome import STORES, Outcome, differences, question, told
from tests.oracle.run import run
from tests.support.storming import BLOCK_RECORDS, OUTPUTS, Records

NOW_MS = 1_700_000_000_000
WAITING = {"final-store", "pairs-left-shared-join-store"}
"""What waits there for a window to close is gone in the end."""
Record: TypeAlias = "dict[str, Any]"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Some blocks of the load, and its end."""
    load = Records("outcome", NOW_MS)
    sent = [load.following() for _ in range(3 * BLOCK_RECORDS)]
    sent += [record for number in range(3) for record in load.ending(number)]
    return [
        {
            "topic": f"app-{topic}",
            "key": key.encode().hex(),
            "value": None if value is None else value.encode().hex(),
            "timestamp": timestamp,
        }
        for topic, key, value, timestamp in sent
    ]


def left(records: list[Record]) -> Outcome:
    return told("app", run(question("app", records)))


@pytest.fixture(scope="module")
def good(records: list[Record]) -> Outcome:
    return left(records)


def test_whatever_order_partitions_have_the_outcome_is_the_same(
    records: list[Record], good: Outcome
) -> None:
    one = left(sorted(records, key=lambda it: (it["timestamp"] // 2_000, it["topic"])))

    assert differences(one, good) == []
    assert all(good.outputs[topic] for topic in OUTPUTS)
    assert {store for store in STORES if not good.stored(store)} == WAITING
    values = [value for _, value, _ in good.outputs["pairs"]]
    assert any(value is not None and value.endswith(b"+null") for value in values)


@pytest.mark.parametrize("topic", OUTPUTS)
def test_a_lost_output_is_found(good: Outcome, topic: str) -> None:
    found = deepcopy(good)
    # Of tables it is the last that counts.
    del found.outputs[topic][-1]

    (said,) = differences(found, good)

    assert said.startswith(f"output {topic}")


@pytest.mark.parametrize("topic", ["counts", "closed", "pairs"])
def test_a_doubled_output_is_found(good: Outcome, topic: str) -> None:
    found = deepcopy(good)
    found.outputs[topic].append(Random("doubled").choice(found.outputs[topic]))

    (said,) = differences(found, good)

    assert said.startswith(f"output {topic}")


@pytest.mark.parametrize("topic", ["clicks", "views"])
def test_a_record_that_was_processed_twice_is_found(
    records: list[Record], good: Outcome, topic: str
) -> None:
    at = next(n for n, it in enumerate(records) if it["topic"] == f"app-{topic}")

    assert differences(left([*records[: at + 1], *records[at:]]), good)


def test_a_change_of_a_table_that_was_summed_twice_is_found(good: Outcome) -> None:
    found = deepcopy(good)
    key, value, at = found.outputs["spent"][-1]
    assert value is not None
    found.outputs["spent"][-1] = key, value[:-1] + bytes([value[-1] + 1]), at

    assert differences(found, good)


@pytest.mark.parametrize("store", [store for store in STORES if store not in WAITING])
def test_a_row_that_a_store_has_lost_is_found(good: Outcome, store: str) -> None:
    found = deepcopy(good)
    del found.changelogs[store][_some(found, store)]

    (said,) = differences(found, good)

    assert said.startswith(f"store {store}")


def _some(found: Outcome, store: str) -> bytes:
    return next(key for key, (value, _) in found.changelogs[store].items() if value is not None)


@pytest.mark.parametrize("store", sorted(WAITING))
def test_a_row_that_still_waits_is_found(good: Outcome, store: str) -> None:
    found = deepcopy(good)
    key = next(iter(found.changelogs[store]))
    found.changelogs[store][key] = b"waits", 0

    (said,) = differences(found, good)

    assert said.startswith(f"store {store}")


def test_state_that_was_not_restored_is_found(records: list[Record], good: Outcome) -> None:
    """A second application that begins where the first was killed, but with empty stores."""
    middle = len(records) // 2
    found, second = left(records[:middle]), left(records[middle:])
    for topic, rows in second.outputs.items():
        found.outputs[topic] += rows
    for store, changes in second.changelogs.items():
        found.changelogs[store] |= changes

    said = differences(found, good)

    for what in ("output counts", "output closed", "output pairs", "output bought", "output spent"):
        assert any(line.startswith(what) for line in said), what
