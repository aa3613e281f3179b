"""What only the whole drawing decides: passes over the drawn calls, from calls to calls.

A pass is a pure function. A new decision is a module here and a place in ``PASSES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.dsl.rewrite.null_keys import keep_null_keys
from headwater.dsl.rewrite.old_values import send_old_values
from headwater.dsl.rewrite.order import parents_first
from headwater.dsl.rewrite.sources import merge_sources

if TYPE_CHECKING:
    from headwater.dsl.calls import Calls

PASSES: Final = (merge_sources, keep_null_keys, send_old_values, parents_first)
"""In the order in which they are made. All but the last see the calls in the order of drawing."""


def rewrite(calls: Calls) -> Calls:
    """Return the calls as they are written into a topology.

    Raises:
        TopologyError: calls that contradict each other.
    """
    for each in PASSES:
        calls = each(calls)
    return calls
