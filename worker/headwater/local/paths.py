"""Where the private Kafka keeps what it fetched and what it stores."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Directory of fetched and compiled things; safe to delete.

    ``$HEADWATER_CACHE``, else ``$XDG_CACHE_HOME/headwater``, else ``~/.cache/headwater``.
    """
    if chosen := os.environ.get("HEADWATER_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"


def data_home() -> Path:
    """Directory of data that is kept between runs.

    ``$HEADWATER_DATA``, else ``$XDG_DATA_HOME/headwater``, else ``~/.local/share/headwater``.
    """
    if chosen := os.environ.get("HEADWATER_DATA"):
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "headwater"
