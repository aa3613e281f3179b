"""Joins with global tables: a key that the user selects, a look-up, and the user's joiner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.model.operators.global_table import StreamGlobalTableJoin
from headwater.processor.compiling import compile_operator

if TYPE_CHECKING:
    from headwater.processor.code import Code, Emit, Names
    from headwater.processor.compiling import Site


@compile_operator.register(StreamGlobalTableJoin)
def compile_stream_global_table_join(operator: StreamGlobalTableJoin, site: Site) -> Emit:
    """Look up the selected key and join (Kafka's ``KStreamKTableJoinProcessor``).

    A record without a value is dropped. In a left join a selected key of ``None`` finds nothing,
    in an inner one it drops the record.
    """
    getter = site.environment.global_store(operator.store).get
    skip = site.environment.skipping(
        f"node {site.node.name}", "record due to null join key or value"
    )
    left = operator.left

    def emit(code: Code, names: Names) -> Names:
        key, value = names
        dropping, get = code.bind(skip, "drop"), code.bind(getter, "get")
        select = code.bind(operator.key_selector, "select")
        joiner = code.bind(operator.joiner, "joiner")
        selected, found, joined = code.fresh("selected"), code.fresh("found"), code.fresh("joined")
        given = f"{key}, {value}" if operator.with_key else value
        code.line(f"if {value} is None:\n    {dropping}()\n    {code.skip}")
        look = f"{selected} = {select}({key}, {value})\n"
        if left:
            look += f"{found} = None if {selected} is None else {get}({selected})"
            other = f"None if {found} is None else {found}[0]"
        else:
            look += (
                f"if {selected} is None:\n    {dropping}()\n    {code.skip}\n"
                f"{found} = {get}({selected})\nif {found} is None:\n    {code.skip}"
            )
            other = f"{found}[0]"
        code.guarded(f"{look}\n{joined} = {joiner}({given}, {other})", site.fail, names)
        return key, joined

    return emit
