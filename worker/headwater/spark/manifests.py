"""The driver's voice in the manifest topic: one driver at a time, by its transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.kafka.driver_topic import MANIFEST_KEY, DriverVoice
from headwater.kafka.errors import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.config import StreamsConfig
    from headwater.kafka.driver_topic import GroupOffsets
    from headwater.model.backfill import Manifest
    from headwater.service.duties import Duties


class ManifestWriter:
    """Writes manifests, each in a transaction, unless another driver has come.

    Making one fences the driver before; what it finds afterwards is what that one has written.

    Args:
        config: the application's.
        duties: has the admin client that creates the topic.
        client_id: shown in the broker's logs.

    Raises:
        KafkaUnavailableError: nobody answered.
    """

    def __init__(self, config: StreamsConfig, duties: Duties, *, client_id: str) -> None:
        connection = Connection(config.bootstrap_servers)
        self._voice = DriverVoice(config, connection, duties.admin, client_id=client_id)

    def write(
        self,
        manifest: Manifest,
        *,
        offsets: GroupOffsets | None = None,
        last_look: Callable[[], None] = lambda: None,
    ) -> Manifest:
        """Write ``manifest``, and commit offsets with it; both count when this returns.

        Args:
            manifest: says so far it has come.
            offsets: committed in the same transaction.
            last_look: called before that is committed; what it raises ends it.

        Raises:
            FencedError: another driver has taken over; nothing was written.
            KafkaUnavailableError: nobody answered; whether it was written is unknown.
        """
        self._voice.write(MANIFEST_KEY, manifest.encode(), offsets=offsets, last_look=last_look)
        return manifest
