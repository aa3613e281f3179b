"""How ``spec.kafka`` says to prove who we are, with credentials from files, as client settings.

The files are those that the pod contract names; on a cluster they are keys of Secrets. A password
is read once, at the start, and lives in memory and in the pipe to the children alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.errors import ConfigError
from headwater.model import podcontract
from headwater.model.streamapp_kafka import AuthenticationType

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.streamapp_kafka import KafkaSpec


def security_of(kafka: KafkaSpec, directory: Path | None) -> dict[str, str]:
    """Return the settings of every Kafka client, by Kafka's names; none if nothing is asked for.

    Args:
        kafka: of the StreamApp.
        directory: where the files with credentials are; ``None`` if there is none.

    Raises:
        ConfigError: a file is missing or empty.
    """
    if kafka.tls is None and kafka.authentication is None:
        return {}
    settings: dict[str, str] = {}
    if kafka.tls is not None and kafka.tls.ca_secret_ref is not None:
        asked = f"spec.kafka.tls.caSecretRef, key {kafka.tls.ca_secret_ref.key}"
        settings["ssl.ca.location"] = str(_file(directory, podcontract.CA_FILE, asked))
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
            settings["ssl.certificate.location"] = str(certificate)
            settings["ssl.key.location"] = str(_file(directory, podcontract.KEY_FILE, asked))
    transport = "SSL" if kafka.tls is not None else "PLAINTEXT"
    settings["security.protocol"] = f"SASL_{transport}" if is_sasl else transport
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
