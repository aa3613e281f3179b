"""What all operators have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Predicate: TypeAlias = Callable[[Any, Any], bool]
KeyValueMapper: TypeAlias = Callable[[Any, Any], Any]


class Operator:
    """What a processor node does, as a frozen value; its class names it on every floor."""

    __slots__ = ()
