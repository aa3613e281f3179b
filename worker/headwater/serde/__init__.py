"""User data between bytes and values.

May import ``errors``, ``config``, ``model``; touches no device.
"""

from headwater.serde.base import Serde
from headwater.serde.builtin import Serdes

__all__ = ["Serde", "Serdes"]
