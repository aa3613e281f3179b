"""How ``spec.kafka`` says to prove who we are, with credentials from files, as client settings.

The files are those that the pod contract names; on a cluster they are keys of Secrets. A password
is read once, at the start, and lives in memory and in the pipe to the children alone.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigError
from headwater.model import podcontract
from headwater.model.streamapp_kafka import AuthenticationType

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.streamapp_kafka import KafkaSpec

_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - the name of a setting


def security_of(kafka: KafkaSpec, directory: Path | None) -> dict[str, str]:
    """Return the settings of every Kafka client, by Kafka's names; none if nothing is asked for.

    Args:
        kafka: of the StreamApp.
        directory: where the files with credentials are; ``None`` if there is none.

    Raises:
        ConfigError: a file is missing, empty, or not what it should be.
    """
    if kafka.tls is None and kafka.authentication is None:
        return {}
    settings: dict[str, str] = {}
    if kafka.tls is not None and kafka.tls.ca_secret_ref is not None:
        asked = f"spec.kafka.tls.caSecretRef, key {kafka.tls.ca_secret_ref.key}"
        authorities = _file(directory, podcontract.CA_FILE, asked)
        _check_authorities(authorities, asked)
        settings["ssl.ca.location"] = str(authorities)
    wanted = kafka.authentication
    is_sasl = wanted is not None and wanted.type is not AuthenticationType.TLS
    if wanted is not None:
        asked = f"spec.kafka.authentication.secretRef {wanted.secret_ref.name}"
        if is_sasl:
            settings["sasl.mechanism"] = wanted.type.value
            settings["sasl.username"] = _text(directory, podcontract.USERNAME_FILE, asked)
            settings["sasl.password"] = _text(directory, podcontract.PASSWORD_FILE, asked)
        else:
            certificate = _file(directory, podcontract.CERTIFICATE_FILE, asked)
            key = _file(directory, podcontract.KEY_FILE, asked)
            if _KEY_PASSWORD not in kafka.config:
                _check_pair(certificate, key, asked)
            settings["ssl.certificate.location"] = str(certificate)
            settings["ssl.key.location"] = str(key)
    transport = "SSL" if kafka.tls is not None else "PLAINTEXT"
    settings["security.protocol"] = f"SASL_{transport}" if is_sasl else transport
    return settings


def registry_of(kafka: KafkaSpec, directory: Path | None) -> dict[str, str]:
    """Return what serdes are told of the schema registry; nothing if none is named.

    Args:
        kafka: of the StreamApp.
        directory: where the files with credentials are; ``None`` if there is none.

    Raises:
        ConfigError: a file is missing or empty, or the user's name has a colon.
    """
    registry = kafka.schema_registry
    if registry is None:
        return {}
    settings = {"schema.registry.url": registry.url}
    if registry.secret_ref is not None:
        asked = f"spec.kafka.schemaRegistry.secretRef {registry.secret_ref.name}"
        name = _text(directory, podcontract.REGISTRY_USERNAME_FILE, asked)
        password = _text(directory, podcontract.REGISTRY_PASSWORD_FILE, asked)
        if ":" in name:
            raise ConfigError(
                f"{asked}: the user's name has a colon: basic authentication has none"
            )
        settings["basic.auth.user.info"] = f"{name}:{password}"
    return settings


def _file(directory: Path | None, name: str, asked: str) -> Path:
    """Return the path of a file that is there.

    Raises:
        ConfigError: it is not, or it is empty.
    """
    if directory is None:
        raise ConfigError(
            f"{asked}: it is not known where the credentials are; set {podcontract.ENV_KAFKA_DIR}, "
            f"or --kafka-dir, to the directory with {name}"
        )
    path = directory / name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(
            f"{asked}: cannot use {path}: {error.strerror}; check that the Secret has this key"
        ) from error
    if size == 0:
        raise ConfigError(f"{asked}: {path} is empty; put a value under this key of the Secret")
    return path


def _check_authorities(path: Path, asked: str) -> None:
    """Make sure that a file holds certificates: the client only says that a setting failed.

    Raises:
        ConfigError: it holds none.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:
        raise ConfigError(
            f"{asked}: {path} holds no certificates in PEM ({_why(error)}); write them under this "
            "key of the Secret"
        ) from None


def _check_pair(certificate: Path, key: Path, asked: str) -> None:
    """Make sure that two files are a certificate and its key.

    Raises:
        ConfigError: they are not.
    """
    try:
        # A password is given so that nobody is asked for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ConfigError(
            f"{asked}: {certificate} and {key} are not a certificate and its key in PEM "
            f"({_why(error)}); write both into the Secret, {key.name} without a password"
        ) from None


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not readable"
    return error.strerror or type(error).__name__


def _text(directory: Path | None, name: str, asked: str) -> str:
    """Return what a file says, without the line end that many editors put behind it."""
    path = _file(directory, name, asked)
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        # What was read is not repeated: it is a secret.
        raise ConfigError(
            f"{asked}: cannot read {path} as text ({type(error).__name__}); write it as UTF-8"
        ) from None
