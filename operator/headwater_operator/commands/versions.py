"""Whether these commands and the operator are of one version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.version import VERSION
from headwater_operator.commands.output import warn

if TYPE_CHECKING:
    from collections.abc import Mapping


def difference(version: str) -> str:
    """Return what is to be said about the operator's version; empty if it is ours or not known.

    Args:
        version: that the operator has written into a status.
    """
    if version in ("", VERSION):
        return ""
    return (
        f"this command is Headwater {VERSION}, the operator is {version}: what they show and ask "
        f"for may differ; pip install 'headwater[kubectl]=={version}' brings the operator's version"
    )


class Versions:
    """Warns of an operator of another version, once for each version."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def expect_same(self, manifest: Mapping[str, Any]) -> None:
        """Warn if the operator that wrote a StreamApp's status is of another version."""
        said = difference(str((manifest.get("status") or {}).get("version") or ""))
        if said and said not in self._told:
            self._told.add(said)
            warn(said)
