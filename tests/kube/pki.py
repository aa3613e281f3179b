"""Keys and certificates of one control plane: an authority, and whatever it vouches for."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VALID = dt.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that keeps its files in one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("headwater-test-authority")
        extensions = [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False),
            (_AUTHORITY_USAGE, True),
        ]
        certificate = self._sign(self._name, self._key.public_key(), extensions)
        self.files = self._write("ca", certificate, self._key)

    def server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """Certificate of a server that is reached by these names and addresses."""
        alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def user(self, name: str, groups: Sequence[str] = ()) -> KeyPair:
        """Certificate by which Kubernetes knows a user and the groups it belongs to."""
        return self._issue(
            "user-" + name.replace(":", "-"), _name(name, groups), ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def bare_key(self, name: str) -> Path:
        """A private key without a certificate."""
        path = self._directory / f"{name}.key"
        _write_private(path, _private_bytes(ec.generate_private_key(ec.SECP256R1())))
        return path

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        *more: x509.ExtensionType,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.ExtendedKeyUsage([usage]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
            *((extension, False) for extension in more),
        ]
        return self._write(file_name, self._sign(subject, key.public_key(), extensions), key)

    def _sign(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        extensions: Sequence[tuple[x509.ExtensionType, bool]],
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            # A clock that is stepped back a little must not make us invalid.
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + _VALID)
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self._key, hashes.SHA256())

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> KeyPair:
        pair = KeyPair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(pair.key, _private_bytes(key))
        return pair


_AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _name(common: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
