"""The table of a cogroup passes on what its aggregations have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.operators.cogroup import CogroupMerge
from headwater.processor.compiling import compile_operator

if TYPE_CHECKING:
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site


@compile_operator.register(CogroupMerge)
def compile_cogroup_merge(operator: CogroupMerge, site: Site) -> Emit:
    """Forward each change as it is (``KTablePassThrough``)."""
    del operator, site

    def emit(_code: Code, names: Names) -> Names:
        return names

    return emit
