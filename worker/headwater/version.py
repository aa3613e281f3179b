"""The version of Headwater that is installed."""

from __future__ import annotations

from importlib import metadata
from typing import Final

VERSION: Final = metadata.version("headwater")
