"""The one exception tree: a class per thing the caller can do.

    HeadwaterError
    ├── UserError                       fix what you wrote, then run again (no traceback is shown)
    │   ├── ConfigError                 a configuration value
    │   ├── SpecError                   a field of the StreamApp
    │   ├── TopologyError               the topology as built
    │   └── ImportPathError             "module:function" does not lead to a topology
    ├── EnvironmentProblemError         something around us is missing or refuses
    │   ├── KafkaUnavailableError       no broker answers
    │   ├── KafkaAuthError              the broker refuses us
    │   ├── SchemaRegistryError         the schema registry refuses
    │   │   ├── SchemaRegistryUnavailableError   it does not answer
    │   │   ├── SchemaNotFoundError     it has no such schema
    │   │   └── IncompatibleSchemaError a schema does not go with those before it
    │   ├── TopicError                  a topic is missing or has the wrong partitions
    │   │   ├── MissingTopicError
    │   │   └── PartitionMismatchError
    │   ├── GroupInUseError             a foreign member is in the consumer group
    │   ├── OffsetsExpiredError         changelog holds data but the group has no committed offset
    │   ├── ChangelogLostError          the group has committed offsets, its changelog is gone
    │   ├── InstanceRunningError        another instance owns this application id
    │   ├── BackfillError               a backfill cannot begin, or cannot go on
    │   │   └── BackfillUnfinishedError its state is half loaded: finish it or give it up
    │   ├── EngineError                 another engine runs the application
    │   ├── LocalKafkaError             the private Kafka cannot be had or started
    │   ├── ImportTimeoutError          the topology's module takes too long to import
    │   ├── QueryFailedError            a partition of a store gave no answer
    │   ├── InvalidStateStoreError      a store cannot be read here and now
    │   │   ├── UnknownStateStoreError  there is none, or none of that type
    │   │   ├── StreamsNotStartedError, StreamsRebalancingError, StreamsStoppedError
    │   │   ├── StateStoreMigratedError, StateStoreNotAvailableError
    │   │   └── InvalidStateStorePartitionError
    │   └── StateError                  the state directory or a store
    │       ├── StoreLockedError        used by another process
    │       ├── StoreFormatError        written by a newer version
    │       ├── DiskFullError
    │       └── StoreCorruptedError     to be thrown away and rebuilt from its changelog
    ├── RecordError                     one record; a handler has already had its say
    │   ├── DeserializationError
    │   ├── InvalidTimestampError
    │   ├── ProcessingError
    │   ├── SerializationError
    │   └── ProductionError
    │       └── RecordTooLargeError
    ├── QueryError                      a state store cannot be asked so
    │   ├── InvalidCursorError          a cursor is damaged, or of another question
    │   ├── CursorExpiredError
    │   └── NotShownAsJsonError         a value has no form in JSON: ask for its bytes
    ├── FunctionHangsError              a function of the user's does not return
    └── FencedError                     another producer has our transactional id: ask again

A message says what happened, with which thing, and what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class HeadwaterError(Exception):
    """Root of everything Headwater raises on purpose.

    Attributes:
        exit_code: what a command line ends with when this error reaches it.
    """

    exit_code: ClassVar[int] = 1


class UserError(HeadwaterError):
    """The caller wrote something that cannot work."""

    exit_code = 2


class ConfigError(UserError):
    """A configuration value is missing, has the wrong type or is out of range."""


class SpecError(UserError):
    """A StreamApp resource has an unknown, missing or wrong field."""


class TopologyError(UserError):
    """The topology breaks a rule (Kafka Streams' TopologyException)."""


class ImportPathError(UserError):
    """``module:function`` cannot be imported, is not callable or returns no topology."""


class EnvironmentProblemError(HeadwaterError):
    """Something outside the program is missing, refuses or is in use."""

    exit_code = 3


class KafkaUnavailableError(EnvironmentProblemError):
    """No broker answered in time."""


class KafkaAuthError(EnvironmentProblemError):
    """The broker refused the credentials, the TLS handshake or the operation."""


class SchemaRegistryError(EnvironmentProblemError):
    """The schema registry refuses what a serde asks of it."""


class SchemaRegistryUnavailableError(SchemaRegistryError):
    """The schema registry does not answer."""


class SchemaNotFoundError(SchemaRegistryError):
    """The schema registry has no such schema, or no such subject."""


class IncompatibleSchemaError(SchemaRegistryError):
    """A schema is not compatible with those that its subject has."""


class TopicError(EnvironmentProblemError):
    """A topic is not as the topology needs it."""


class MissingTopicError(TopicError):
    """A source topic does not exist or was deleted."""


class PartitionMismatchError(TopicError):
    """Co-partitioned topics, or an existing internal topic, have the wrong number of partitions."""


class GroupInUseError(EnvironmentProblemError):
    """The consumer group has a live member that is not ours, for example a Java application."""


class ResetError(UserError):
    """A reset asks for offsets that cannot be chosen."""


class DiffError(UserError):
    """The outputs of two applications cannot be compared."""


class ImportTimeoutError(EnvironmentProblemError):
    """Importing the topology took longer than ``spec.topology.importTimeout``."""


class OffsetsExpiredError(EnvironmentProblemError):
    """A task has no committed offset although its changelog holds data.

    We never guess ``earliest``.
    """


class ChangelogLostError(EnvironmentProblemError):
    """The application has read records, but the changelog of what it made of them is gone.

    It is missing, or is younger than the state on disk. We never begin with an empty store by
    ourselves, and never delete what may be the last copy of the state.
    """


class InstanceRunningError(EnvironmentProblemError):
    """Another live instance owns the application id."""


class BackfillError(EnvironmentProblemError):
    """A backfill cannot begin, or what it has loaded so far cannot be gone on with."""


class BackfillUnfinishedError(BackfillError):
    """A backfill has loaded the application's state only in part: nobody may run on it."""


class EngineError(EnvironmentProblemError):
    """Another engine runs the application, or which one does cannot be told."""


class LocalKafkaError(EnvironmentProblemError):
    """The private Kafka cannot be fetched, started or reached."""


class StateError(EnvironmentProblemError):
    """A state directory or store cannot be used."""


class StoreLockedError(StateError):
    """The store directory is in use by another process."""


class StoreFormatError(StateError):
    """The store was written by a newer format than this version reads."""


class DiskFullError(StateError):
    """The disk that holds the state is full."""


class StoreCorruptedError(StateError):
    """The store cannot be trusted; it is thrown away and rebuilt from its changelog."""


class RecordError(HeadwaterError):
    """One record could not be handled and its handler said FAIL."""

    exit_code = 4


class DeserializationError(RecordError):
    """A key or value could not be decoded."""


class InvalidTimestampError(RecordError):
    """The timestamp extractor gave a negative timestamp and the extractor forbids that."""


class BufferFullError(RecordError):
    """The buffer of a suppression has no room, and was told not to let anything go early."""


class ProcessingError(RecordError):
    """User code in a processor raised."""


class SerializationError(RecordError):
    """A key or value could not be encoded."""


class ProductionError(RecordError):
    """A record could not be delivered to its topic."""


class RecordTooLargeError(ProductionError):
    """A record is larger than the broker or the producer takes."""


class FunctionHangsError(HeadwaterError):
    """A function of the user's has not returned within ``max.poll.interval.ms``.

    Its StreamThread is killed and another one tries the record again.
    """


class FencedError(HeadwaterError):
    """Another producer initialised our transactional id: the tasks belong to somebody else now."""

    exit_code = 5


class QueryError(HeadwaterError):
    """A state store cannot be asked so."""

    exit_code = 2


class InvalidCursorError(QueryError):
    """A cursor is damaged, or belongs to another question."""


class CursorExpiredError(QueryError):
    """A cursor is too old to go on from."""


class NotShownAsJsonError(QueryError):
    """A key or value of a store has no form in JSON."""


class QueryFailedError(EnvironmentProblemError):
    """A partition of a store gave no answer; the message begins with Kafka's ``FailureReason``."""


class InvalidStateStoreError(EnvironmentProblemError):
    """A state store cannot be read here and now (Kafka's ``InvalidStateStoreException``)."""


class UnknownStateStoreError(InvalidStateStoreError):
    """The topology has no such store, or none of that type."""


class StreamsNotStartedError(InvalidStateStoreError):
    """The application has not been started."""


class StreamsRebalancingError(InvalidStateStoreError):
    """Tasks of the store are being restored or moved: try again."""


class StreamsStoppedError(InvalidStateStoreError):
    """The application has ended, or is about to."""


class StateStoreMigratedError(InvalidStateStoreError):
    """The task was here and has moved: get the store again, here or from who has it now."""


class StateStoreNotAvailableError(InvalidStateStoreError):
    """The store was closed: get it again."""


class InvalidStateStorePartitionError(InvalidStateStoreError):
    """The store has no such partition."""
