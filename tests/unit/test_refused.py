"""Which of the outputs that a broker has refused are guilty."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.kafka.errors import production_error
from headwater.kafka.refused import Output, RefusedOutputs

SMALL = Output("out", b"k", b"small", -1, None, 0)
LARGE = Output("out", b"k", b"large", -1, None, 0)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


def refuse(refused: RefusedOutputs, *outputs: Output) -> None:
    """The broker refuses outputs; all is about to be made again."""
    for output in outputs:
        assert refused.note(TOO_LARGE, production_error(TOO_LARGE, output.topic, 0), output)
    refused.next_round()


def is_taken(refused: RefusedOutputs, output: Output) -> bool:
    def take(*_: Any) -> None:
        """It is queued."""

    try:
        refused.guarding(take)(output.topic, output.value, output.key)
    except KafkaException:
        return False
    return True


@pytest.fixture
def refused() -> RefusedOutputs:
    made = RefusedOutputs(lambda: None)
    made.ask("out", lambda *_: None)
    return made


def test_who_is_refused_alone_is_guilty(refused: RefusedOutputs) -> None:
    refuse(refused, SMALL, LARGE)
    assert is_taken(refused, SMALL)
    assert is_taken(refused, LARGE)

    refuse(refused, LARGE)

    assert is_taken(refused, SMALL)
    assert not is_taken(refused, LARGE)


def test_who_is_refused_with_others_is_not_guilty_of_it(refused: RefusedOutputs) -> None:
    # What was said of the large one came too late, so nobody suspects it.
    refuse(refused, SMALL)
    assert is_taken(refused, SMALL)

    # It was sent with another one that equals the small one.
    refuse(refused, LARGE, SMALL)

    assert is_taken(refused, SMALL)
    assert is_taken(refused, LARGE)
    refuse(refused, LARGE)
    assert is_taken(refused, SMALL)
    assert not is_taken(refused, LARGE)
