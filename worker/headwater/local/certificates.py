"""A self-signed certificate for the TLS listener, made by Java's own keytool."""

from __future__ import annotations

import ipaddress
import os
import secrets
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VALID_DAYS = "3650"
_KEYTOOL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Certificate:
    """A key store for the broker and the certificate that a client has to trust.

    Attributes:
        key_store: PKCS12 file with key and certificate.
        password: opens the key store.
        certificate: PEM file, for ``ssl.ca.location`` of a client.
    """

    key_store: Path
    password: str
    certificate: Path


def ensure_certificate(java: Path, directory: Path, hosts: Sequence[str]) -> Certificate:
    """Certificate for exactly these hosts, kept in ``directory`` between starts.

    Raises:
        LocalKafkaError: keytool failed.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    subject = "san=" + ",".join(_alternative_name(host) for host in hosts)
    key_store, certificate = directory / "broker.p12", directory / "ca.pem"
    password_file, subject_file = directory / "password", directory / "hosts"
    if certificate.exists() and subject_file.exists() and subject_file.read_text() == subject:
        return Certificate(key_store, password_file.read_text(), certificate)
    key_store.unlink(missing_ok=True)
    password = secrets.token_hex(16)
    descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    store = [
        "-keystore",
        str(key_store),
        "-storetype",
        "PKCS12",
        "-storepass:file",
        str(password_file),
    ]
    alias = ["-alias", "broker"]
    name = ["-dname", "CN=Headwater private Kafka", "-validity", _VALID_DAYS]
    key = ["-keyalg", "EC", "-groupname", "secp256r1"]
    _keytool(java, "-genkeypair", *alias, *key, *name, "-ext", subject, *store)
    _keytool(java, "-exportcert", "-rfc", *alias, "-file", str(certificate), *store)
    subject_file.write_text(subject)
    return Certificate(key_store, password, certificate)


def _alternative_name(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"dns:{host}"
    return f"ip:{host}"


def _keytool(java: Path, *arguments: str) -> None:
    # keytool is a class of the base module: runtimes without the program of that name have it too.
    command = [str(java), "-m", "java.base/sun.security.tools.keytool.Main", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_KEYTOOL_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise LocalKafkaError(
            f"keytool of {java} could not make a certificate: {(done.stdout + done.stderr).strip()}"
        )
