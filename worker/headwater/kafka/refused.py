"""Outputs that were refused after they had been sent, until they are made again.

A broker's refusal comes long after the record that led to the output was processed, and nobody
keeps for each output in flight where it came from. So a StreamThread goes back to its last commit
and processes again; the same bytes to the same topic are then recognised on their way out, while
the record that leads to them is under way. A broker refuses whole batches, so what was refused is
only *suspected*: it is sent in ever smaller groups, nothing else of its topic among them, until all
of a group is delivered, or one is refused alone and so *guilty* (docs/adr/0023).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.errors import ProductionError
    from headwater.ports import Headers, OnRefused

_Content: TypeAlias = "tuple[str, bytes | None, bytes | None]"


class Output(NamedTuple):
    """A record on its way to a topic. A client that had taken it keeps no time (-1) nor headers."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int | None


@dataclass(slots=True)
class _Suspect:
    error: KafkaError
    failure: ProductionError
    output: Output
    together: int
    """How many suspects may be sent in one group with it."""
    was_alone: bool
    """Nothing else was refused in its round."""
    is_met: bool = False
    """It was made again."""


class _Group(NamedTuple):
    size: int
    together: int
    """How many it may have: what the most suspected of them allows."""


class RefusedOutputs:
    """What one producer knows of refused outputs, and whom to ask about them.

    Args:
        settle: waits until it is known of everything sent whether it was delivered; raises
            ``OutputRefusedError`` if something was refused.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        self._asked: dict[str, OnRefused] = {}
        self._suspects: dict[_Content, _Suspect] = {}
        self._guilty: dict[_Content, _Suspect] = {}
        self._round: dict[_Content, tuple[KafkaError, ProductionError, Output]] = {}
        self._groups: dict[str, _Group] = {}
        """Per topic, the suspects that were sent last, of which nothing is known yet."""

    def ask(self, topic: str, on_refused: OnRefused) -> None:
        """Name who decides about outputs to ``topic``."""
        self._asked[topic] = on_refused

    def asks(self, topic: str) -> bool:
        """Whether anybody decides about outputs to ``topic``."""
        return topic in self._asked

    def note(self, error: KafkaError, failure: ProductionError, output: Output) -> bool:
        """Remember a refused output; return whether anybody can be asked about it."""
        if output.topic not in self._asked:
            return False
        self._round[output[:3]] = error, failure, output
        return True

    def next_round(self) -> None:
        """Everything since the last commit is about to be made again: draw the conclusions."""
        count = len(self._round)
        per_topic = Counter(content[0] for content in self._round)
        for content, (error, failure, output) in self._round.items():
            before = self._suspects.pop(content, None)
            # Who is refused alone is the only one of its topic. Else a batch was refused that none
            # suspected, because reports had come too late, and an equal record was in it.
            is_only = per_topic[content[0]] == 1
            if before is not None and before.together == 1 and before.is_met and is_only:
                before.is_met = False
                self._guilty[content] = before
                continue
            together, was_alone = count, count == 1
            if before is not None:
                together, was_alone = before.together, was_alone or before.was_alone
            self._suspects[content] = _Suspect(
                error, failure, output, max(1, together // 2), was_alone
            )
        for suspect in self._suspects.values():
            suspect.is_met = False
        self._round.clear()
        self._groups.clear()

    def guarding(self, target: Callable[..., None]) -> Callable[..., None]:
        """Return ``target``, or what raises the client's error for guilty outputs.

        Both take the arguments of the client's ``produce``, by position.
        """
        if not self._suspects and not self._guilty:
            return target

        def produce(topic: str, value: bytes | None, key: bytes | None, *rest: Any) -> None:
            content = topic, key, value
            if content in self._guilty:
                self._guilty[content].is_met = True
                raise KafkaException(self._guilty[content].error)
            suspect = self._suspects.get(content)
            group = self._groups.get(topic)
            if suspect is None:
                if group is not None:
                    self._end_group(topic)
                target(topic, value, key, *rest)
                return
            if group is None or group.size >= min(group.together, suspect.together):
                self._end_group(topic)
                group = _Group(0, suspect.together)
            target(topic, value, key, *rest)
            suspect.is_met = True
            together = min(group.together, suspect.together)
            self._groups[topic] = _Group(group.size + 1, together)

        return produce

    def _end_group(self, topic: str) -> None:
        """Whatever is sent next shares no batch with what was sent to the topic so far."""
        self._settle()
        self._groups.pop(topic, None)

    def clear(self) -> list[tuple[OnRefused, ProductionError, Output]]:
        """Forget everything; return whom to ask about what was refused alone and not made again."""
        remembered = [*self._suspects.values(), *self._guilty.values()]
        found = [
            (self._asked[suspect.output.topic], suspect.failure, suspect.output)
            for suspect in remembered
            if suspect.was_alone and not suspect.is_met
        ]
        self._suspects.clear()
        self._guilty.clear()
        self._groups.clear()
        return found
