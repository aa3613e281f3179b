"""Processors that users write (Kafka's Processor API)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.model.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProcessor(Operator):
    """A user's processor; ``supplier()`` makes one per task. Its node names its stores."""

    changes_keys: ClassVar = True
    changes_values: ClassVar = True

    supplier: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFixedKeyProcessor(Operator):
    """A user's processor that keeps keys; see ``UserProcessor``."""

    keeps_keys: ClassVar = True
    changes_values: ClassVar = True

    supplier: Callable[[], Any]
