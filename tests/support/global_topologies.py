"""Applications with a global table, drawn as the Java oracle draws them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tests.oracle.translate import Drawing
from tests.support.topologies import TOPIC_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

SERDES: Final = {"key": "string", "value": "string"}


def request(prefix: str) -> dict[str, Any]:
    """People live at places: each record of ``-in`` is joined with the table by its value."""
    return {
        "app_id": prefix,
        "config": {},
        **SERDES,
        "steps": [
            {
                "id": "g",
                "op": "global_table",
                "topic": f"{prefix}-places",
                "materialized": {"store": "places"},
            },
            {"id": "s", "op": "stream", "topics": [f"{prefix}-in"]},
            {
                "id": "j",
                "op": "left_join",
                "on": "s",
                "with": "g",
                "selector": "value_as_key",
                "fn": "both",
            },
            {"id": "out", "op": "to", "on": "j", "topic": f"{prefix}-out"},
        ],
    }


def people_and_places(builder: StreamsBuilder) -> None:
    """Draw the request; topics are named after the environment's prefix."""
    Drawing(request(os.environ[TOPIC_VARIABLE]), builder=builder).draw()
