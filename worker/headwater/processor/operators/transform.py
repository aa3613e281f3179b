"""Transformers: what a user's object makes of the values of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from headwater.model.operators.transform import TableTransformValues
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.context import TaskContext, noting_headers
from headwater.processor.getters import derived_getter
from headwater.processor.operators.table import compile_stepwise
from headwater.processor.routing import Children

if TYPE_CHECKING:
    from headwater.model.nodes import ProcessorNode
    from headwater.model.processor_api import FixedKeyRecord, Record
    from headwater.model.processors import (
        ValueTransformerWithKey,
        ValueTransformerWithKeySupplier,
    )
    from headwater.ports import Headers
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site
    from headwater.processor.getters import Getter, Tables


@compile_operator.register(TableTransformValues)
def compile_table_transform_values(operator: TableTransformValues, site: Site) -> Emit:
    """Transform new and old values, ``None`` too (``KTableTransformValues``)."""
    node, environment = site.node, site.environment
    current = environment.current
    context = _TransformerContext(node.name, node.stores, site.children, environment)
    transformer = _Transformer(operator.supplier, context)
    site.keep(transformer)
    stepwise = compile_stepwise(transformer.transform, operator, site, skip_nothing=False)

    def transform_values(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        current.timestamp = timestamp
        stepwise(key, change, timestamp, headers)

    return call(noting_headers(transform_values, node, environment), "transform_values")


@derived_getter.register(TableTransformValues)
def table_transform_values_getter(
    operator: TableTransformValues, tables: Tables, node: ProcessorNode
) -> Getter:
    """Transform what the table above holds, by a transformer of its own, as Java does.

    What it looks at is no record: its context tells neither topic nor offset.
    """
    environment = tables.environment
    current = environment.current
    nobody = Children(node.name, {})
    transformer = _Transformer(
        operator.supplier, _TransformerContext(node.name, node.stores, nobody, environment)
    )
    tables.keep(transformer)
    above = tables.getter(node.parents[0])

    def get(key: Any) -> tuple[Any, int] | None:
        value, timestamp = above(key) or (None, -1)
        before = current.record, current.source, current.timestamp
        current.leave()
        current.timestamp = timestamp
        try:
            made = transformer.transform(key, value)
        finally:
            current.record, current.source, current.timestamp = before
        return None if made is None else (made, timestamp)

    return get


class _TransformerContext(TaskContext):
    """The context of a transformer (Kafka's ``ForwardingDisabledProcessorContext``)."""

    __slots__ = ()

    def forward(
        self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None
    ) -> NoReturn:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        del record, child
        raise RuntimeError("a transformer cannot forward: return the new value")


class _Transformer:
    """A user's transformer in one task."""

    def __init__(
        self, supplier: ValueTransformerWithKeySupplier[Any, Any, Any], context: TaskContext
    ) -> None:
        self._supplier = supplier
        self._context = context
        self._transformer: ValueTransformerWithKey[Any, Any, Any] = supplier()

    def transform(self, key: Any, value: Any) -> Any:
        """Return what the transformer makes of a value."""
        return self._transformer.transform(key, value)

    def init(self) -> None:
        """Call the transformer's ``init``; its parents have been initialised before."""
        self._transformer.init(self._context)

    def close(self) -> None:
        """Call the transformer's ``close``."""
        self._transformer.close()

    def renew(self) -> None:
        """Start over with a new transformer, as after an aborted transaction."""
        self._transformer = self._supplier()
