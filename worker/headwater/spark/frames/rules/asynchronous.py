"""Functions that wait are Python code: tasks make their calls."""

from headwater.model.operators.asynchronous import (
    ForEachAsync,
    MapBatch,
    MapValuesAsync,
    ProcessValuesAsync,
)
from headwater.spark.frames.flow import refuse

for _operator in (MapValuesAsync, ProcessValuesAsync, ForEachAsync):
    refuse(_operator, "its calls overlap, which is the work of a task")
refuse(MapBatch, "a function over batches is Python code")
