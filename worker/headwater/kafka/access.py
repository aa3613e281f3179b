"""How the broker is asked about an application: one value in place of the four that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.kafka.admin import Admin
from headwater.kafka.errors import Connection
from headwater.kafka.settings import admin_settings

if TYPE_CHECKING:
    from headwater.config import StreamsConfig

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An admin client, and what it takes to make further clients beside it.

    Attributes:
        config: the application's.
        connection: what all these clients know of the broker.
        admin: asked about topics, offsets and groups.
        client_id: what the names of the clients begin with; shown in the broker's logs.
    """

    config: StreamsConfig
    connection: Connection
    admin: Admin
    client_id: str

    @classmethod
    def of(cls, config: StreamsConfig, *, client_id: str, timeout_s: float = _TIMEOUT_S) -> Access:
        """Make an admin client with a connection of its own.

        Args:
            config: the application's.
            client_id: what the names of the clients begin with.
            timeout_s: for one question to the broker.

        Raises:
            ConfigError: the client refuses its settings.
        """
        connection = Connection(config.bootstrap_servers)
        settings = admin_settings(config, connection, client_id=f"{client_id}-admin")
        admin = Admin(settings, connection, timeout_s=timeout_s)
        return cls(config=config, connection=connection, admin=admin, client_id=client_id)
