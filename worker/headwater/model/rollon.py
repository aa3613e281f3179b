"""Secrets and ConfigMaps whose change asks for new processes: ``spec.upgrade.rollOn``.

    StreamApp.spec ──► mounts of the pod ──► ChangedFiles (worker) ──► StreamWorker.status.rollOn
        ──► the next revision (operator)

A worker tells names only. Neither contents nor a digest of them leave its process: a short secret
could be guessed from one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from headwater.model.fields import meta
from headwater.model.streamapp_kafka import NAME_MEANING, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping


class RollOnKind(StrEnum):
    """What may ask for a roll-out by changing."""

    SECRET = "Secret"  # noqa: S105 - the name of a kind
    CONFIG_MAP = "ConfigMap"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOn:
    """A Secret or ConfigMap of the StreamApp's namespace.

    Attributes:
        kind: which of the two.
        name: its name.
    """

    kind: RollOnKind
    name: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


_NAMES = meta(each=meta(max_length=300), max_items=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOnStatus:
    """What a worker has found of what ``spec.upgrade.rollOn`` names.

    Attributes:
        revision: that its process was started as.
        changed: what holds something else than when the process began, as "Secret db".
        missing: what is not there, or is empty.
    """

    revision: str = field(default="", metadata=meta(max_length=63))
    changed: tuple[str, ...] = field(default=(), metadata=_NAMES)
    missing: tuple[str, ...] = field(default=(), metadata=_NAMES)


def compared(
    revision: str, first: Mapping[str, bytes], now: Mapping[str, bytes]
) -> RollOnStatus | None:
    """Return what has become of contents; ``None`` if all is as it was, and there.

    Args:
        revision: that the process was started as.
        first: something that tells contents apart, by name, when the process began; empty for none.
        now: the same, as it is now.
    """
    changed = tuple(sorted(name for name in now if now[name] and now[name] != first[name]))
    missing = tuple(sorted(name for name in now if not now[name]))
    if not changed and not missing:
        return None
    return RollOnStatus(revision=revision, changed=changed, missing=missing)
