"""Windows are not computed as DataFrames: what is late, and which sessions merge, has an order."""

from headwater.model.operators.window import (
    SessionWindowAggregate,
    SlidingWindowAggregate,
    TimeWindowAggregate,
)
from headwater.spark.frames.flow import refuse

refuse(TimeWindowAggregate, "which records are late depends on the order of all of them")
refuse(SlidingWindowAggregate, "which records are late depends on the order of all of them")
refuse(SessionWindowAggregate, "which records are late depends on the order of all of them")
