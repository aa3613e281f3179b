"""Header names that are not UTF-8: the client raises for the record, Java puts U+FFFD.

Everything else that the client decodes (topics, offset metadata, what a broker says) has been text
in the broker. Header names are bytes that a producer made up, and no broker looks at them.
"""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from headwater.ports import Headers

log = logging.getLogger(__name__)

_UNREADABLE = "\ufffd"


def say_mended(topic: str | None, partition: int | None, offset: int | None) -> bool:
    """Name the first record whose header was mended; return that this is done."""
    log.warning(
        "%s-%s offset %s: the name of a header is not UTF-8; it comes with U+FFFD for what cannot "
        "be read, as in Java, and so do further ones, without being named here",
        topic,
        partition,
        offset,
    )
    return True


def mend_headers(messages: Sequence[Message], raised: SystemError) -> Message:
    """Give messages headers that can be read; their order and values are kept.

    The client keeps the first name of each record that it could not decode, so that one becomes
    what Java makes of it (``RecordHeader.key``). It keeps no further ones of the same record:
    they become a lone U+FFFD.

    Args:
        messages: all whose headers were asked for.
        raised: by the first of them that has such a name.

    Returns:
        The first message that was mended.

    Raises:
        SystemError: ``raised``, which has another cause.
    """
    first = None
    for message in messages:
        # The client has forgotten the bytes of the one that raised, and raises only once.
        error = raised
        try:
            found = message.headers()
        except SystemError as again:
            error = again
            found = message.headers()
        # Without its name a pair refers to one thing only. To look into it would end the process.
        if found and any(len(gc.get_referents(pair)) < 2 for pair in found):
            message.set_headers(_mended(found, error))  # type: ignore[arg-type]
            first = first or message
    if first is None:
        raise raised
    return first


def _mended(pairs: Sequence[Any], raised: SystemError) -> Headers:
    name = _first_name(raised)
    mended: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        parts = gc.get_referents(pair)
        if len(parts) == 1:
            mended.append((name, parts[0]))
            name = _UNREADABLE
        else:
            mended.append(pair)
    return mended


def _first_name(raised: SystemError) -> str:
    cause: BaseException | None = raised
    while cause is not None and not isinstance(cause, UnicodeDecodeError):
        cause = cause.__cause__
    return _UNREADABLE if cause is None else cause.object.decode(errors="replace")
