"""Fencing: whoever used a transactional id before can commit nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.kafka.producer import StreamsProducer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.kafka.errors import Connection


def fence(settings: Mapping[str, Any], connection: Connection, *, timeout_s: float) -> None:
    """Take a transactional id and do nothing with it: whoever used it can commit nothing more.

    Raises:
        KafkaUnavailableError: no coordinator answered in time; the id is not fenced.
    """
    StreamsProducer(settings, connection).init_transactions(timeout_s)
