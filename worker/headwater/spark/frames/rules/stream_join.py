"""A join of streams keeps the records of both, and joins as they come, so tasks compute it."""

from __future__ import annotations

from headwater.model.operators.stream_join import JoinWindow, StreamJoinSide, StreamSelfJoin
from headwater.spark.frames.flow import refuse

_WHY = "a join of two streams depends on the order in which their records come"

refuse(JoinWindow, _WHY)
refuse(StreamJoinSide, _WHY)
refuse(StreamSelfJoin, _WHY)
