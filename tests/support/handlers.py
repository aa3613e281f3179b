"""Exception handlers that tests name in configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.processor.handlers import CONTINUE, FAIL, Response, Result, dead_letters

if TYPE_CHECKING:
    from headwater.processor.handlers import ErrorHandlerContext, FailedOutput


class _DropUndeliverable:
    """Lets go of what cannot be delivered; fails on what cannot be encoded."""

    def on_delivery(self, *_: Any, **__: Any) -> Response:
        return CONTINUE

    def on_serialization(self, *_: Any) -> Response:
        return FAIL


drop_undeliverable = _DropUndeliverable()


class Letters:
    """Answers always the same about what cannot be delivered, with a dead letter.

    The letter names the node and the output's timestamp as its headers.
    """

    def __init__(self, topic: str, result: Result = Result.CONTINUE) -> None:
        self._topic = topic
        self._result = result

    def on_delivery(
        self,
        context: ErrorHandlerContext,
        record: FailedOutput,
        exception: Exception,
        *,
        retriable: bool,
    ) -> Response:
        assert not retriable
        letters = dead_letters(self._topic, context, exception)
        for letter in letters:
            letter.headers.append(("node", (context.node or "").encode()))
            letter.headers.append(("task", str(context.task_id).encode()))
            letter.headers.append(("output", (record.key or b"") + b"@%d" % record.timestamp))
        return Response(self._result, letters)

    def on_serialization(self, *_: Any) -> Response:
        return FAIL
