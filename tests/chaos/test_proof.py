"""A proof that cannot fail proves nothing: each planted mistake must be found in what it reads."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from headwater.ids import TaskId
from headwater.model.topology import StoreKind, StoreSpec
from headwater.ports import Position
from headwater.state import StateDirectory, open_backend
from tests.chaos.proof import counted_at_least, counted_once_each, stores_equal_their_changelogs
from tests.support.thread_rig import Topics

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.kafka

SENT = {"a": 3, "b": 1}
GOOD = [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
NOW = 1_700_000_000_000


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


def long(number: int) -> str:
    """A small number as the eight bytes of a long, which happen to be text."""
    return struct.pack(">q", number).decode()


def raises(*, found: bool) -> AbstractContextManager[object]:
    return pytest.raises(AssertionError) if found else nullcontext()


@pytest.mark.parametrize(
    ("outputs", "is_found_once", "is_found_at_least"),
    [
        pytest.param(GOOD, False, False, id="all well"),
        pytest.param([*GOOD, ("a", 3)], True, False, id="an output twice"),
        pytest.param([*GOOD[:3], ("a", 2), ("a", 3)], True, False, id="an update twice"),
        pytest.param([*GOOD, ("a", 4)], True, False, id="a record counted twice"),
        pytest.param(GOOD[:3], True, True, id="a record lost"),
        pytest.param([("a", 1), ("a", 2), ("a", 3)], True, True, id="a key lost"),
        pytest.param([*GOOD[:2], ("a", 1), ("a", 2)], True, True, id="a count begun anew"),
        pytest.param([*GOOD, ("c", 1)], True, False, id="a key that nobody sent"),
    ],
)
def test_what_is_wrong_with_the_counts_is_found(
    topics: Topics,
    topic_prefix: str,
    outputs: list[tuple[str, int]],
    is_found_once: bool,
    is_found_at_least: bool,
) -> None:
    topic = topics.create(f"{topic_prefix}-out")
    topics.send(topic, [(key, long(count)) for key, count in outputs])

    with raises(found=is_found_once):
        counted_once_each(topics.bootstrap_servers, topic, SENT)
    with raises(found=is_found_at_least):
        counted_at_least(topics.bootstrap_servers, topic, SENT)


def row(count: int) -> bytes:
    return struct.pack(">qq", NOW, count)


@pytest.mark.parametrize(
    ("held", "position", "is_found"),
    [
        pytest.param({b"a": row(3), b"b": row(1)}, 4, False, id="all well"),
        pytest.param({b"a": row(2), b"b": row(1)}, 4, True, id="position ahead of the data"),
        pytest.param({b"a": row(3)}, 4, True, id="a key lost"),
        pytest.param({b"a": row(3), b"b": row(1), b"c": row(1)}, 4, True, id="a key too many"),
        pytest.param({b"a": row(3), b"b": row(1)}, 3, True, id="data ahead of the position"),
        pytest.param({b"a": row(2), b"b": row(1)}, 3, True, id="no owner has read the tail"),
        pytest.param({}, 0, True, id="nothing restored"),
    ],
)
def test_what_is_wrong_with_a_store_is_found(
    topics: Topics,
    topic_prefix: str,
    tmp_path: Path,
    held: dict[bytes, bytes],
    position: int,
    is_found: bool,
) -> None:
    changelog = topics.create(f"{topic_prefix}-counts-changelog")
    topics.send(changelog, [(key, long(count)) for key, count in GOOD], timestamp_ms=NOW)
    spec = StoreSpec(name="counts", kind=StoreKind.TIMESTAMPED_KEY_VALUE)
    directory = StateDirectory(tmp_path, topic_prefix).store(TaskId(0, 0), "counts")
    backend = open_backend(spec, directory, holder="test")
    backend.write(held.items(), Position("id", position, NOW))
    backend.close()

    with raises(found=is_found):
        stores_equal_their_changelogs(topics.bootstrap_servers, topic_prefix, "counts", [tmp_path])
