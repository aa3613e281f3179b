"""Joins look up what a table holds when a record is processed, so tasks compute them."""

from __future__ import annotations

from headwater.model.operators.join import StreamTableJoin, TableJoin, TableJoinSide
from headwater.spark.frames.flow import refuse

refuse(StreamTableJoin, "a join finds what the table holds when the record is processed")
refuse(TableJoinSide, "a join of tables finds what the other one holds at each update")
refuse(TableJoin, "the result of a join of tables is an update for each update of either")
