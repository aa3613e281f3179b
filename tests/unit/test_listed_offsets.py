"""An offset that no broker gave is no offset."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from headwater.kafka.topics import offset_of


def _answer(offset: int) -> ListOffsetsResultInfo:
    return ListOffsetsResultInfo(offset, -1, -1)


@pytest.mark.parametrize("offset", [-1, 0, 7])
def test_an_offset_is_taken_as_it_was_given(offset: int) -> None:
    assert offset_of(_answer(offset)) == offset


def test_what_the_client_leaves_where_no_broker_answered_may_be_asked_for_again() -> None:
    with pytest.raises(KafkaException) as caught:
        offset_of(_answer(OFFSET_INVALID))

    assert caught.value.args[0].retriable()
