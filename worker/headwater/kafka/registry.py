"""Serdes whose schemas are in a schema registry: Avro, Protobuf and JSON Schema.

Confluent's own serializers do the work: their wire format, subjects, caches and rules. A serde
holds no client. The first record that needs the registry has it asked, and its answer is kept.
"""

from __future__ import annotations

import atexit
import copy
import json
import re
from abc import abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.client_settings import REGISTRY_PREFIX
from headwater.errors import (
    ConfigError,
    IncompatibleSchemaError,
    SchemaNotFoundError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from headwater.serde.base import Serde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_URL: Final = "schema.registry.url"
_STRATEGIES: Final = {
    "TopicNameStrategy": "topic_subject_name_strategy",
    "RecordNameStrategy": "record_subject_name_strategy",
    "TopicRecordNameStrategy": "topic_record_subject_name_strategy",
}
_SWITCHES: Final = ("auto.register.schemas", "use.latest.version", "normalize.schemas")
_EXTRA: Final = "pip install 'headwater[registry]'"


class RegistrySerde(Serde[T]):
    """What the serdes of a schema registry share.

    Settings are Confluent's, by Java's names: ``schema.registry.url``, ``basic.auth.user.info``,
    ``auto.register.schemas``, ``use.latest.version``, ``normalize.schemas``,
    ``key.subject.name.strategy`` and ``value.subject.name.strategy``; those of the client behind
    ``schema.registry.``, such as ``schema.registry.ssl.ca.location``. What is not given is taken
    from the application's configuration.

    Args:
        settings: of this serde alone.
        is_key: it reads and writes keys: it says so in subjects. An application knows by itself.
    """

    def __init__(
        self, *, settings: Mapping[str, object] | None = None, is_key: bool = False
    ) -> None:
        self._own = dict(settings or {})
        self._settings = self._own
        self._is_key = is_key

    def configured(self, settings: Mapping[str, object], *, is_key: bool) -> RegistrySerde[T]:
        """Return this serde with an application's settings behind its own."""
        found = copy.copy(self)
        vars(found).update(_settings={**settings, **self._own}, _is_key=is_key)
        return found

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the encoder of Confluent's wire format.

        Raises:
            ConfigError: a setting is missing or wrong, or the extra ``registry`` is not installed.
        """
        act, context = self._built(self._writer), self._context(topic)
        what, refused = self._what(topic), _of_registry()

        def serialize(value: T) -> bytes:
            self._check(value)
            try:
                data: bytes = act(value, context)
            except refused as error:
                raise self._told(error, f"cannot write {what}") from error
            except (AttributeError, KeyError, IndexError) as error:
                raise TypeError(
                    f"a {type(value).__name__} does not fit the schema: {error}"
                ) from error
            return data

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the decoder of Confluent's wire format; other bytes raise an error that says so.

        Raises:
            ConfigError: as for :meth:`serializer`.
        """
        act, context = self._built(self._reader), self._context(topic)
        what, refused = self._what(topic), _of_registry()

        def deserialize(data: bytes) -> T:
            try:
                found: T = act(data, context)
            except refused as error:
                raise self._told(error, f"cannot read {what}") from error
            return found

        return deserialize

    @abstractmethod
    def _writer(self, client: Any, settings: dict[str, Any]) -> Any:
        """Return Confluent's serializer."""

    @abstractmethod
    def _reader(self, client: Any, settings: dict[str, Any]) -> Any:
        """Return Confluent's deserializer."""

    def _check(self, value: T) -> None:
        """Refuse, with a TypeError, what the serializer would take wrongly."""

    @property
    def _half(self) -> str:
        return "key" if self._is_key else "value"

    def _what(self, topic: str) -> str:
        return f"a {self._half} of {topic}"

    def _context(self, topic: str) -> Any:
        from confluent_kafka.serialization import (  # noqa: PLC0415 - as needed, of an extra
            MessageField,
            SerializationContext,
        )

        return SerializationContext(topic, MessageField.KEY if self._is_key else MessageField.VALUE)

    def _built(self, make: Callable[[Any, dict[str, Any]], Any]) -> Any:
        try:
            client = _client(json.dumps(_of_client(self._settings), sort_keys=True))
            return make(client, self._of_serializer())
        except ImportError as error:
            raise ConfigError(
                f"{type(self).__name__} needs the extra 'registry' ({error}): {_EXTRA}"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{type(self).__name__}: {error}") from error

    def _of_serializer(self) -> dict[str, Any]:
        """Return what the settings say to a serializer."""
        found: dict[str, Any] = {
            name: _switch(name, self._settings[name])
            for name in _SWITCHES
            if name in self._settings
        }
        if found.get("use.latest.version"):
            found.setdefault("auto.register.schemas", False)
        name = f"{self._half}.subject.name.strategy"
        return {**found, "subject.name.strategy": _strategy(name, self._settings.get(name))}

    def _told(self, error: Exception, failed: str) -> SchemaRegistryError:
        """Return the error that says what the registry did, and what to do."""
        status = getattr(error, "http_status_code", None)
        url = re.sub("//[^/@]*@", "//", str(self._settings[_URL]))  # without a password
        if status is None:
            return SchemaRegistryUnavailableError(
                f"{failed}: the schema registry {url} does not answer ({error}); start it, or "
                f"correct {_URL}"
            )
        said = getattr(error, "error_message", None) or str(error)
        if status in {401, 403}:
            return SchemaRegistryError(
                f"{failed}: the schema registry {url} refuses us ({status}: {said}); correct "
                "basic.auth.user.info, or give this user the right"
            )
        if status == 404:
            return SchemaNotFoundError(
                f"{failed}: the schema registry {url} has no such schema ({said}); check that "
                f"{_URL} names the registry of the record's writer, or register the schema, or set "
                "auto.register.schemas"
            )
        if status == 409:
            return IncompatibleSchemaError(
                f"{failed}: the schema does not go with those that its subject has in {url} "
                f"({said}); give new fields a default, or change the subject's compatibility"
            )
        return SchemaRegistryError(f"{failed}: the schema registry {url} answers {status}: {said}")


class _OfDicts(RegistrySerde[T]):
    """What has a schema as text and values as dicts, or what two functions make of them."""

    def __init__(
        self,
        schema: str | None = None,
        *,
        to_dict: Callable[[T], Mapping[str, Any]] | None = None,
        from_dict: Callable[[dict[str, Any]], T] | None = None,
        settings: Mapping[str, object] | None = None,
        is_key: bool = False,
    ) -> None:
        super().__init__(settings=settings, is_key=is_key)
        self._schema = schema
        self._to_dict, self._from_dict = _without_context(to_dict), _without_context(from_dict)


class AvroSerde(_OfDicts[T]):
    """Avro (Confluent's ``GenericAvroSerde``): dicts, or what two functions make of them.

    Args:
        schema: the Avro schema as JSON; values are read into it, whichever they were written with.
            Without it values are read with their writer's schema, and none can be written unless
            ``use.latest.version`` is set.
        to_dict: makes a dict of a value.
        from_dict: makes a value of a dict.
        settings: see :class:`RegistrySerde`.
        is_key: see :class:`RegistrySerde`.
    """

    def _writer(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: PLC0415

        return AvroSerializer(client, self._schema, self._to_dict, settings)

    def _reader(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.avro import AvroDeserializer  # noqa: PLC0415

        settings = {"subject.name.strategy": settings["subject.name.strategy"]}
        return AvroDeserializer(client, self._schema, self._from_dict, conf=settings)


class JsonSchemaSerde(_OfDicts[T]):
    """JSON that a JSON Schema holds for (Confluent's ``KafkaJsonSchemaSerde``).

    Args:
        schema: the JSON Schema; its ``title`` is the record's name in subjects.
        to_dict: makes a dict of a value.
        from_dict: makes a value of a dict.
        settings: see :class:`RegistrySerde`.
        is_key: see :class:`RegistrySerde`.
    """

    def _writer(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer  # noqa: PLC0415

        return JSONSerializer(self._schema, client, self._to_dict, settings)

    def _reader(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer  # noqa: PLC0415

        settings = {"subject.name.strategy": settings["subject.name.strategy"]}
        return JSONDeserializer(self._schema, self._from_dict, client, conf=settings)


class ProtobufSerde(RegistrySerde[T]):
    """Messages of one Protobuf type (Confluent's ``KafkaProtobufSerde``).

    Args:
        message: the generated class.
        settings: see :class:`RegistrySerde`.
        is_key: see :class:`RegistrySerde`.
    """

    def __init__(
        self,
        message: type[T],
        *,
        settings: Mapping[str, object] | None = None,
        is_key: bool = False,
    ) -> None:
        super().__init__(settings=settings, is_key=is_key)
        self._message = message

    def _writer(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer  # noqa: PLC0415

        return ProtobufSerializer(self._message, client, settings)

    def _reader(self, client: Any, settings: dict[str, Any]) -> Any:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer  # noqa: PLC0415

        settings = {"subject.name.strategy": settings["subject.name.strategy"]}
        return ProtobufDeserializer(self._message, settings, client)

    def _check(self, value: T) -> None:
        if not isinstance(value, self._message):
            raise TypeError(f"a {type(value).__name__} is no {self._message.__name__}")


@cache
def _client(settings: str) -> Any:
    """Return the one client of a registry in this process: what it was told, it keeps."""
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415

    client = SchemaRegistryClient(json.loads(settings))
    atexit.register(client.close)
    return client


def _of_client(settings: Mapping[str, object]) -> dict[str, object]:
    """Return what the settings say to the client.

    Raises:
        ConfigError: there is no address.
    """
    if not settings.get(_URL):
        raise ConfigError(
            f"{_URL} is missing: set it in the application's configuration, in a StreamApp "
            "spec.config, or give it to the serde in settings"
        )
    found = {
        name.removeprefix(REGISTRY_PREFIX): value
        for name, value in settings.items()
        if name.startswith(REGISTRY_PREFIX)
    }
    if "basic.auth.user.info" in settings:
        found["basic.auth.user.info"] = settings["basic.auth.user.info"]
    source = found.pop("basic.auth.credentials.source", None) or settings.get(
        "basic.auth.credentials.source", "USER_INFO"
    )
    if source not in {"USER_INFO", "URL"}:
        raise ConfigError(
            f"basic.auth.credentials.source: {source!r} is not known; set USER_INFO, or URL"
        )
    return found


def _switch(name: str, value: object) -> bool:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ConfigError(f"{name}: {value!r} is neither true nor false")
    return text == "true"


def _strategy(name: str, given: object) -> Any:
    """Return the function that names subjects, by Java's class name or as given."""
    from confluent_kafka import schema_registry  # noqa: PLC0415

    if callable(given):
        return given
    chosen = str(given or "TopicNameStrategy").rpartition(".")[2]
    if chosen not in _STRATEGIES:
        raise ConfigError(f"{name}: {given!r} is none of {', '.join(_STRATEGIES)}")
    return getattr(schema_registry, _STRATEGIES[chosen])


def _without_context(function: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any] | None:
    """Return a function as Confluent's serializers call it: they pass the context, too."""
    return None if function is None else _WithoutContext(function)


class _WithoutContext:
    """A function that travels to another process if the one within does."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, value: Any, _context: Any) -> Any:
        return self._function(value)


def _of_registry() -> tuple[type[Exception], ...]:
    """Return the errors of the client: the registry says no, or nothing."""
    from confluent_kafka.schema_registry.common._httpx_compat import httpx  # noqa: PLC0415
    from confluent_kafka.schema_registry.error import SchemaRegistryError as Said  # noqa: PLC0415

    return (Said, httpx.TransportError)
