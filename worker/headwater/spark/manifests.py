"""The driver's voice in the manifest topic: one driver at a time, by its transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.kafka.driver_topic import MANIFEST_KEY, DriverVoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.kafka.access import Access
    from headwater.kafka.driver_topic import GroupOffsets
    from headwater.model.backfill import Manifest


class ManifestWriter:
    """Writes manifests, each in a transaction, unless another driver has come.

    Making one fences the driver before; what it finds afterwards is what that one has written.

    Args:
        access: to the broker; creates the topic.

    Raises:
        KafkaUnavailableError: nobody answered.
    """

    def __init__(self, access: Access) -> None:
        self._voice = DriverVoice(access)

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
