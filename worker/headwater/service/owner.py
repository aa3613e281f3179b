"""The owner record: one embedded instance per application id, agreed upon in a compacted topic.

``<application id>-headwater-owner`` has one partition. An instance claims, reads up to its own
claim, and owns the application if the claim was granted (``decide.ownership``). From then on its
heartbeat is what a Lease is to a worker under a control loop, and "read the own StreamWorker again"
means to read this topic to its end.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import HeadwaterError, InstanceRunningError, KafkaUnavailableError
from headwater.ids import TopicPartition
from headwater.kafka.consumer import PartitionConsumer
from headwater.kafka.errors import Connection, TransactionAbortedError
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.settings import consumer_settings, producer_settings
from headwater.kafka.small_topic import SmallTopic
from headwater.model.topics import InternalTopic
from headwater.service.carrier import CarrierUnavailableError, MemoryCarrier
from headwater.service.clock import boot_ms
from headwater.service.decide.ownership import (
    OWNER_TIMEOUT_MS,
    Owner,
    Said,
    is_granted,
    owner_after,
)
from headwater.service.duties import Duties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.config import StreamsConfig
    from headwater.model.cluster import Lease, WorkerSpec
    from headwater.ports import RawRecord

_TIMEOUT_S: Final = 5.0
"""How long an owner waits for an answer; who wants to become it has ``request.timeout.ms``."""
_HANDOVER_S: Final = 60.0
_HANDOVER_POLL_S: Final = 0.5
_FLUSHES_MAX: Final = 3
"""After so many in a row without an answer a new producer is tried."""
_SIGN_OF_LIFE: Final = "telling other instances that this one is alive"
_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    "segment.bytes": "1048576",
}


def owner_topic(application_id: str) -> str:
    """Return the name of the topic."""
    return f"{application_id}-headwater-owner"


@dataclass(frozen=True, slots=True)
class Address:
    """A process, named so that its end can be proven by another process beside it."""

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Address | None:
        """Return the address of a living process; ``None`` without one, or without /proc."""
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            namespace = str(Path("/proc/self/ns/pid").readlink())
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        except OSError:
            return None
        state, started = fields.split()[0], fields.split()[19]
        return None if state in "ZX" else cls(boot, namespace, pid, started)

    def __str__(self) -> str:
        return f"{self.boot}/{self.namespace}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Read what ``str()`` gave."""
        parts = text.split("/")
        if len(parts) != 4 or not parts[2].isdigit():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])

    def is_proven_dead(self) -> bool:
        """Whether we can see the place where this process would be, and it is not there."""
        ours = Address.of(os.getpid())
        if ours is None or (ours.boot, ours.namespace) != (self.boot, self.namespace):
            return False
        return Address.of(self.pid) != self


class OwnerRecord:
    """One instance's view of the owner topic, and its voice there. Threads may share it.

    Args:
        config: the application's.
        client_id: shown in the broker's logs.
        transactional_ids: what has to be fenced should this instance vanish.
    """

    def __init__(
        self,
        config: StreamsConfig,
        *,
        client_id: str,
        transactional_ids: Sequence[str],
    ) -> None:
        self.instance = str(uuid.uuid4())
        self.owner: Owner | None = None
        """The owner as of the last read."""
        self._application_id = config.application_id
        self._topic = owner_topic(config.application_id)
        self._transactional_ids = tuple(transactional_ids)
        self._patience_s = config.request_timeout_ms / 1000
        # Its answers are waited for by the worker's main loop: not for long.
        self._duties = Duties(config, client_id=f"{client_id}-owner", timeout_s=_TIMEOUT_S)
        self._claim = -1
        self._last: dict[str, Said] = {}
        self._lock = threading.Lock()
        Duties(config, client_id=f"{client_id}-owner").create_topics(
            [InternalTopic(name=self._topic, partitions=1, configs=_TOPIC_CONFIG)]
        )
        connection = self._connection = Connection(config.bootstrap_servers)
        consumer = PartitionConsumer(
            consumer_settings(
                config, connection, client_id=f"{client_id}-owner-consumer", role="global"
            ),
            connection,
        )
        settings = producer_settings(
            config, connection, client_id=f"{client_id}-owner-producer", transactional_id=None
        )
        self._new_producer = partial(StreamsProducer, settings, connection)
        self._producer = self._new_producer()
        self._send = self._producer.sender(self._topic)
        self._failed_flushes = 0
        topic = TopicPartition(self._topic, 0)
        self._records = SmallTopic(topic, self._duties.admin, consumer)

    def claim(self, *, takeover: bool) -> Owner | None:
        """Become the owner; return the one before if it did not leave by itself.

        Raises:
            InstanceRunningError: another instance lives.
            KafkaUnavailableError: nobody answered.
        """
        before = self.read()
        address = None if before is None else Address.parse(before.address)
        proven_dead = before.instance if before and address and address.is_proven_dead() else ""
        self._say("claim", takes_over=takeover, proven_dead=proven_dead)
        mine, before = self._read_own_claim()
        if not is_granted(mine, before):
            self.leave()
            assert before is not None
            raise InstanceRunningError(
                f"another instance of {self._application_id} runs ({where(before)}); stop "
                "it first, or start with takeover=True to replace it"
            )
        self._claim = mine.offset
        self.beat()
        self.flush()
        self._patience_s = _TIMEOUT_S
        return before if before is not None and before.instance != self.instance else None

    def beat(self) -> None:
        """Give a sign of life; does not wait for the broker."""
        self._say("own", claim=self._claim)

    def cover(self, transactional_ids: Sequence[str]) -> None:
        """Say what else has to be fenced should this instance vanish; wait until it is known.

        Raises:
            KafkaUnavailableError: it is not yet.
            ProductionError: the broker refuses it.
        """
        before, self._transactional_ids = self._transactional_ids, tuple(transactional_ids)
        try:
            self.beat()
            self.flush()
        except BaseException:
            self._transactional_ids = before
            raise

    def flush(self) -> None:
        """Wait until everything said is on the broker.

        Raises:
            KafkaUnavailableError: it is not yet; after ``delivery.timeout.ms`` say it again.
            ProductionError: the broker refuses it.
        """
        try:
            self._producer.flush(self._patience_s, doing=_SIGN_OF_LIFE)
        except HeadwaterError as error:
            self._failed_flushes += 1
            # A producer that has given a record up goes on to say so after the outage, too.
            if not isinstance(error, KafkaUnavailableError) or self._failed_flushes > _FLUSHES_MAX:
                self._replace_producer()
            if isinstance(error, TransactionAbortedError):
                # Given up by the producer before us: the same outage, and no record of the user's.
                raise self._connection.problem(_SIGN_OF_LIFE) from error
            raise
        self._failed_flushes = 0

    def _replace_producer(self) -> None:
        self._producer.discard()
        self._producer = self._new_producer()
        self._send = self._producer.sender(self._topic)
        self._failed_flushes = 0

    def leave(self) -> None:
        """Say that this instance is gone, so that the next need not wait."""
        self._send(self.instance.encode(), None, _now_ms(), None, 0)
        self.flush()

    def read(self) -> Owner | None:
        """Read the topic to its present end; return the owner.

        Raises:
            KafkaUnavailableError: nobody answered.
        """
        with self._lock:
            self._take(self._read_records())
            return self.owner

    def is_mine(self) -> bool:
        """Whether this instance is the owner, as of now, uncached.

        Raises:
            KafkaUnavailableError: nobody answered.
        """
        owner = self.read()
        return owner is not None and owner.instance == self.instance

    def has_ended(self, owner: Owner) -> bool:
        """Whether an earlier owner has left, is proven dead or has been silent for too long.

        Raises:
            KafkaUnavailableError: nobody answered.
        """
        self.read()
        last = self._last.get(owner.instance)
        address = Address.parse(owner.address)
        if last is None or last.kind == "left" or (address and address.is_proven_dead()):
            return True
        newest = max(said.at_ms for said in self._last.values())
        return newest - last.at_ms > OWNER_TIMEOUT_MS

    def close(self) -> None:
        """Release the clients; says nothing."""
        self._records.close()
        self._producer.discard()

    def _read_own_claim(self) -> tuple[Said, Owner | None]:
        """Read on; return our claim and the owner before it."""
        with self._lock:
            records = self._read_records()
        for number, said in enumerate(records):
            if said.instance == self.instance and said.kind == "claim":
                self._take(records[:number])
                before = self.owner
                self._take(records[number:])
                return said, before
        raise KafkaUnavailableError(
            f"the claim in {self._topic} was acknowledged but cannot be read; see the broker's log"
        )

    def _take(self, records: Sequence[Said]) -> None:
        self.owner = owner_after(records, self.owner)
        self._last.update({said.instance: said for said in records})

    def _read_records(self) -> list[Said]:
        return [_said(record) for record in self._records.read_on(self._patience_s)]

    def _say(self, kind: str, **fields: object) -> None:
        value = {
            "kind": kind,
            "address": str(Address.of(os.getpid()) or ""),
            "transactionalIds": self._transactional_ids,
            **fields,
        }
        key = self.instance.encode()
        self._send(key, json.dumps(value).encode(), _now_ms(), None, 0)
        if kind == "claim":
            self.flush()


class OwnedCarrier(MemoryCarrier):
    """The carrier of an embedded worker: its spec holds as long as this instance is the owner.

    Args:
        owner: the view of the owner topic.
    """

    def __init__(self, owner: OwnerRecord) -> None:
        super().__init__()
        self._owner = owner
        self._kept_ms = 0
        self._granting = threading.Lock()
        self.is_lost = False
        """Another instance is the owner now; final."""

    def read(self) -> WorkerSpec | None:
        """Return the spec if the owner topic, read to its end, says that we own the application."""
        self._look()
        return super().read()

    def grant(self, **changes: object) -> None:
        """Change fields of the spec under the next epoch, unless another instance owns it all."""
        with self._granting:
            if not self.is_lost:
                self.set_spec(**changes)

    def grant_again(self, acknowledged: int) -> None:
        """Grant the same under the next epoch, unless the worker has yet to see the last one.

        It does not ``read``: that is the worker's, which would miss a spec that was read for it.

        Args:
            acknowledged: the newest epoch that the worker has reported.

        Raises:
            CarrierUnavailableError: the broker did not answer.
        """
        self._look()
        with self._granting:
            if not self.is_lost and self.spec is not None and self.spec.epoch == acknowledged:
                self.set_spec()

    def keep(self) -> None:
        """Give a sign of life and make sure that we are the owner still.

        Raises:
            CarrierUnavailableError: the broker did not answer.
        """
        at_ms = boot_ms()
        try:
            self._owner.beat()
            self._owner.flush()
        except HeadwaterError as error:
            raise CarrierUnavailableError(str(error)) from error
        self._look()
        if not self.is_lost:
            self._kept_ms = at_ms

    def require(self, application_id: str) -> None:
        """Make sure that nobody was seen to take over.

        Raises:
            InstanceRunningError: somebody was.
        """
        if self.is_lost:
            raise InstanceRunningError(
                f"another instance of {application_id} has taken over; this one has stopped"
            )

    def renew(self, lease: Lease) -> int:  # noqa: ARG002 - the signature of Carrier
        """Return when the last confirmed sign of life was given."""
        return self._kept_ms

    def _look(self) -> None:
        try:
            mine = self.is_lost or self._owner.is_mine()
        except HeadwaterError as error:
            raise CarrierUnavailableError(str(error)) from error
        if not mine:
            with self._granting:
                self.is_lost = True
                self.set_spec(active=())


def _said(record: RawRecord) -> Said:
    offset, at_ms, key, value, _ = record
    instance = (key or b"").decode(errors="replace")
    if value is None:
        return Said(offset=offset, at_ms=at_ms, instance=instance, kind="left")
    try:
        fields = json.loads(value)
        return Said(
            offset=offset,
            at_ms=at_ms,
            instance=instance,
            kind=str(fields["kind"]),
            claim=int(fields.get("claim", -1)),
            takes_over=bool(fields.get("takes_over", False)),
            proven_dead=str(fields.get("proven_dead", "")),
            address=str(fields.get("address", "")),
            transactional_ids=tuple(map(str, fields.get("transactionalIds", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Said(offset=offset, at_ms=at_ms, instance=instance, kind="unknown")


def own(owner: OwnerRecord, duties: Duties, config: StreamsConfig, *, takeover: bool) -> None:
    """Become the owner, and make sure that the one before can write nothing more.

    Args:
        owner: our voice in the owner topic.
        duties: fences the owner before.
        config: the application's.
        takeover: replace an owner that lives.

    Raises:
        InstanceRunningError: another instance lives, or does not stop.
        KafkaUnavailableError: nobody answered.
    """
    before = owner.claim(takeover=takeover)
    if before is None:
        return
    if config.exactly_once:
        duties.fence(before.transactional_ids)
        return
    deadline = time.monotonic() + _HANDOVER_S
    while not owner.has_ended(before):
        if time.monotonic() > deadline:
            raise InstanceRunningError(
                f"the instance that runs ({where(before)}) does not stop; kill it, then start "
                "this one again"
            )
        owner.beat()
        time.sleep(_HANDOVER_POLL_S)


def where(owner: Owner) -> str:
    """Say where an owner runs, for people."""
    address = Address.parse(owner.address)
    return "an unknown process" if address is None else f"process {address.pid}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
