"""A topology that has every kind of number: windows, suppression, a global table, punctuators."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater import Processor, PunctuationType, Serdes
from tests.golden import metric_tree
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import ProcessorContext, Record, StreamsBuilder

_OFTEN = timedelta(milliseconds=100)


class Punctuated(Processor[str, str, None, None]):
    """Is called now and then, and does nothing."""

    def init(self, context: ProcessorContext[None, None]) -> None:
        context.schedule(_OFTEN, PunctuationType.WALL_CLOCK_TIME, lambda _timestamp: None)

    def process(self, record: Record[str, str]) -> None:
        """Do nothing."""


def build(builder: StreamsBuilder) -> None:
    """Draw it, in the topics of one test."""
    prefix = os.environ[PREFIX_VARIABLE]
    source = f"{prefix}-in"
    metric_tree.draw(builder, source, f"{prefix}-out", f"{prefix}-places")
    lines = builder.stream(source, key_serde=Serdes.string, value_serde=Serdes.string)
    lines.process(Punctuated)
