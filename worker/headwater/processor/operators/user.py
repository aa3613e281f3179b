"""Processors that users write, as nodes; what they are given is in ``context``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
from headwater.model.processor_api import FixedKeyRecord, Record
from headwater.processor.code import call
from headwater.processor.compiling import compile_operator
from headwater.processor.context import TaskContext, noting_headers

if TYPE_CHECKING:
    from headwater.model.suppliers import Supplier
    from headwater.ports import Headers
    from headwater.processor.code import Emit
    from headwater.processor.compiling import Site
    from headwater.processor.environment import Current
    from headwater.processor.failures import Fail


@compile_operator.register(UserProcessor)
def compile_user_processor(operator: UserProcessor, site: Site) -> Emit:
    """Hand each record to the task's own processor, which forwards what it likes."""
    return compile_supplier(operator.supplier, site)


@compile_operator.register(UserFixedKeyProcessor)
def compile_user_fixed_key_processor(operator: UserFixedKeyProcessor, site: Site) -> Emit:
    """As a processor of any kind; its records have no ``with_key``."""
    return compile_fixed_key_supplier(operator.supplier, site)


def compile_supplier(supplier: Supplier, site: Site) -> Emit:
    """Hand each record to a processor of ``supplier``."""
    return _compile(_UserNode, supplier, site)


def compile_fixed_key_supplier(supplier: Supplier, site: Site) -> Emit:
    """Hand each record to a processor of ``supplier`` that keeps keys."""
    return _compile(_FixedKeyNode, supplier, site)


def _compile(kind: type[_UserNode], supplier: Supplier, site: Site) -> Emit:
    node, environment = site.node, site.environment
    context = TaskContext(node.name, node.stores, site.children, environment)
    user = kind(supplier, context, environment.current, site.fail)
    site.keep(user)
    return call(noting_headers(user.process, node, environment), "process")


class _UserNode:
    """A user's processor in one task."""

    def __init__(
        self, supplier: Supplier, context: TaskContext, current: Current, fail: Fail
    ) -> None:
        self._supplier = supplier
        self._context = context
        self._current = current
        self._fail = fail
        self._processor = supplier()

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Hand one record to the processor (the node's closure)."""
        self._current.timestamp = timestamp
        try:
            self._processor.process(Record(key, value, timestamp, headers))
        except Exception as error:
            self._fail(error, key, value, timestamp, headers)

    def init(self) -> None:
        """Call the processor's ``init``; its parents have been initialised before."""
        self._processor.init(self._context)

    def close(self) -> None:
        """Call the processor's ``close``."""
        self._processor.close()

    def renew(self) -> None:
        """Start over with a new processor, as after an aborted transaction."""
        self._processor = self._supplier()


class _FixedKeyNode(_UserNode):
    """A user's processor that keeps keys, in one task."""

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """Hand one record to the processor (the node's closure)."""
        self._current.timestamp = timestamp
        try:
            self._processor.process(FixedKeyRecord(key, value, timestamp, headers))
        except Exception as error:
            self._fail(error, key, value, timestamp, headers)
