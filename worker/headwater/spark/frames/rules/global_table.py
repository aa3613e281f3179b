"""Joins with global tables look up what the table holds at the time, so tasks compute them."""

from headwater.model.operators.global_table import StreamGlobalTableJoin
from headwater.spark.frames.flow import refuse

refuse(
    StreamGlobalTableJoin,
    "a join finds what the global table holds when the record is processed",
)
