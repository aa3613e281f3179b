"""What lets a client that was just made find a coordinator at once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headwater.kafka.errors import ClientError

if TYPE_CHECKING:
    from confluent_kafka import Producer

log = logging.getLogger(__name__)

_TOPIC: Final = "__transaction_state"
"""Of the broker's own; whoever may not describe it is answered, too."""
_WAIT_S: Final = 1.0


def connect(producer: Producer) -> None:
    """Wait until a producer is connected, if a broker is there, before it takes an id.

    A client that is told to look for its coordinator before it is connected looks again after half
    a second: so did a third to a half of those that were just made. The first answer may come from
    an address that was given; the second one comes from a broker that the client knows by then.
    """
    for _ in range(2):
        try:
            producer.list_topics(_TOPIC, timeout=_WAIT_S)
        except ClientError as error:
            log.debug("connecting: %s", error)
            return
