"""Processors that users write are Python code: none is computed as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
from headwater.spark.frames.flow import computed
from headwater.spark.frames.kinds import Refused

if TYPE_CHECKING:
    from headwater.spark.frames.flow import Flow, Place


@computed.register(UserProcessor)
@computed.register(UserFixedKeyProcessor)
def _processor(_operator: UserProcessor | UserFixedKeyProcessor, at: Place) -> tuple[Flow, str]:
    if at.node.stores:
        raise Refused("Python code uses its store")
    raise Refused("a processor is Python code, with state and time of its own")
