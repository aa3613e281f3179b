"""A join by foreign key answers as tables change, through two topics, so tasks compute it."""

from __future__ import annotations

from headwater.model.operators.foreign import (
    ForeignKeyJoin,
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headwater.spark.frames.flow import refuse

_WHY = "a join by foreign key finds what the other table holds at each update"

for _operator in (
    ForeignKeyJoin,
    SubscriptionSend,
    SubscriptionReceive,
    SubscriptionJoin,
    ForeignTableJoin,
    ResponseJoin,
):
    refuse(_operator, _WHY)
