"""What a suppression lets go depends on the order of records in a task, so tasks compute it."""

from __future__ import annotations

from headwater.model.operators.suppress import TableSuppress
from headwater.spark.frames.flow import refuse

refuse(TableSuppress, "a suppression lets updates go in the order of its task's stream time")
