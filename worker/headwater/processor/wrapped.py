"""Operators of the DSL inside the processors that a wrapper makes around them (KIP-1112)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater.model.processor_api import FixedKeyRecord, Record
from headwater.model.wrapping import keeps_keys, making
from headwater.processor.code import Code, call
from headwater.processor.compiling import compile_operator
from headwater.processor.operators.user import compile_fixed_key_supplier, compile_supplier
from headwater.processor.routing import Children

if TYPE_CHECKING:
    from headwater.model.suppliers import Supplier
    from headwater.ports import Headers
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site


def compile_wrapped(wrapped: Supplier, site: Site) -> Emit:
    """Hand each record to a processor of ``wrapped``, inside which the node's operator works."""
    body = _Body(site)

    def supplier() -> Any:
        token = making.set(body)
        try:
            return wrapped()
        finally:
            making.reset(token)

    compiled = compile_fixed_key_supplier if body.keeps_keys else compile_supplier
    return compiled(supplier, site)


class _Body:
    """The operator's own function in one task; its results go to the wrapper's context."""

    def __init__(self, site: Site) -> None:
        node = site.node
        self.context: Any = None
        self.keeps_keys = keeps_keys(node.operator)
        self._record = FixedKeyRecord if self.keeps_keys else Record
        inner = replace(site, compile_children=partial(self._children, site))
        code = Code(skip="return")
        flowing = compile_operator(node.operator, inner)(code, ("key", "value"))
        if flowing is not None:
            call(self._forward, "forward")(code, flowing)
        title = f"task {site.environment.task_id} {node.name} wrapped"
        self.run = code.build("def run(key, value, timestamp, headers):", title)

    def _children(self, site: Site) -> Children:
        names = site.children.names
        children = Children(site.node.name, {name: self._forward_to(name) for name in names})
        children.forward = self._forward
        return children

    def _forward(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.context.forward(self._record(key, value, timestamp, headers))

    def _forward_to(self, child: str) -> Any:
        def forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            self.context.forward(self._record(key, value, timestamp, headers), child)

        return forward
