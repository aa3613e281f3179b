"""A worker with credentials in files, as a pod has them from Secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.worker import WorkerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.local.broker import KafkaBroker
    from tests.support.worker import Counting

USER = "alice"
PASSWORD = "not-to-be-seen-anywhere"


@dataclass
class Given:
    """What a worker is given.

    Attributes:
        files: in the directory with credentials, by name.
        kafka: the StreamApp's fields.
        hidden: what nobody may see.
    """

    files: dict[str, str]
    kafka: dict[str, Any]
    hidden: list[str] = field(default_factory=list)


def login(broker: KafkaBroker, kind: str, password: str = PASSWORD) -> Given:
    """What a worker needs to log in as :data:`USER`."""
    return Given(
        files={
            "ca.crt": broker.ca_certificate.read_text(),
            "username": USER,
            "password": f"{password}\n",
        },
        kafka={
            "bootstrapServers": broker.secure_servers,
            "tls": {"caSecretRef": {"name": "authority"}},
            "authentication": {"type": kind, "secretRef": {"name": "account"}},
        },
        hidden=[password],
    )


class Handed(WorkerProcess):
    """A worker with its directory of credentials, that talks as much as it can."""

    def __init__(self, counting: Counting, directory: Path, given: Given) -> None:
        credentials = directory / "kafka"
        credentials.mkdir()
        for name, text in given.files.items():
            (credentials / name).write_text(text)
        super().__init__(
            counting,
            directory,
            HEADWATER_KAFKA_DIR=str(credentials),
            HEADWATER_LOG_LEVEL="DEBUG",
        )
        self.streamapp["spec"]["kafka"] = given.kafka
        self._hidden = given.hidden

    def has_told_nothing(self) -> None:
        """Check everything that it has written."""
        written = [self.log, *(path for path in self.directory.iterdir() if path.is_file())]
        assert [path for path in written if not self.is_clean(path.read_text())] == []

    def is_clean(self, text: str) -> bool:
        return not any(secret in text for secret in self._hidden)
