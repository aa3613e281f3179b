"""What lies on disk, as the control loop is told."""

from __future__ import annotations

from headwater.ids import TaskId
from headwater.model.cluster import StoredTask, changelogs_digest
from headwater.ports import Position
from headwater.service.stored import stored_tasks
from headwater.state.directory import StoredStore

T0, T1 = TaskId(0, 0), TaskId(0, 1)
HOUR_MS = 3_600_000


def test_a_task_is_as_old_as_its_oldest_store_and_named_by_all_its_changelogs() -> None:
    stores = [
        StoredStore(T0, "counts", Position("id-1", 12_345, 7 * HOUR_MS + 5)),
        StoredStore(T0, "names", Position("id-2", 23_456, 6 * HOUR_MS + 5)),
    ]

    found = stored_tasks("shop", stores)

    topics = {"shop-counts-changelog": "id-1", "shop-names-changelog": "id-2"}
    assert found == {
        T0: StoredTask(
            task=T0, offset_bucket=30_000, changelogs=changelogs_digest(topics), saved_hour=6
        )
    }


def test_a_store_that_never_committed_counts_for_nothing() -> None:
    stores = [
        StoredStore(T0, "counts", None),
        StoredStore(T1, "counts", Position("id-1", 5, HOUR_MS)),
        StoredStore(T1, "names", None),
    ]

    found = stored_tasks("shop", stores)

    assert found.keys() == {T1}
    assert found[T1].changelogs == changelogs_digest({"shop-counts-changelog": "id-1"})


def test_a_position_of_an_unknown_format_counts_for_nothing() -> None:
    assert stored_tasks("shop", [StoredStore(T0, "counts", Position("", -1, -1, 9))]) == {}


def test_a_store_in_two_formats_counts_as_the_one_that_is_further() -> None:
    stores = [
        StoredStore(T0, "counts", Position("id-1", 30_000, 9 * HOUR_MS)),
        StoredStore(T0, "counts~headers", Position("id-1", 50_000, 11 * HOUR_MS)),
        StoredStore(T1, "counts~headers", Position("id-1", 70_000, 12 * HOUR_MS)),
        StoredStore(T1, "counts", Position("id-1", 10_000, 8 * HOUR_MS)),
    ]

    found = stored_tasks("shop", stores)

    assert {task: (it.offset_bucket, it.saved_hour) for task, it in found.items()} == {
        T0: (50_000, 11),
        T1: (70_000, 12),
    }
    digest = changelogs_digest({"shop-counts-changelog": "id-1"})
    assert {it.changelogs for it in found.values()} == {digest}
