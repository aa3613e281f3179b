"""The data pipeline on Spark: the same StreamTask, planned and placed by Spark.

A backfill rebuilds all state of an application from the beginning of its topics
(``docs/adr/0039-what-a-backfill-is.md``). What a task does in Spark's Python workers (``work``)
runs in any process.

To look into topics and stores (``docs/dataframes.md``): ``session``, ``read_topic``,
``read_store``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.spark.tables.look import read_store, read_topic, session

__all__ = ["read_store", "read_topic", "session"]


def __getattr__(name: str) -> Any:
    # Whoever runs tasks does not need them.
    if name in __all__:
        from headwater.spark.tables import look  # noqa: PLC0415

        return getattr(look, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
