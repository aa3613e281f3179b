"""An application as its user gives it: what everybody is told who runs it, or a part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headwater.config import StreamsConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.dsl.loading import SourceText

Options: TypeAlias = "Mapping[str, str | int | float | bool]"
"""A StreamsConfig as given, by dotted name; there may be a password in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSettings:
    """A configuration and a topology; it travels to other processes pickled.

    Attributes:
        config: the StreamsConfig as given (dotted names); there may be a password in it.
        topology: ``"module:function"``, a module's text or a cloudpickled function.
        import_path: directories put in front of ``sys.path``.
    """

    config: Options = field(repr=False)
    topology: str | SourceText | bytes
    import_path: tuple[str, ...] = ()

    def parsed(self) -> StreamsConfig:
        """Return the configuration, checked.

        Raises:
            ConfigError: an option is unknown or wrong.
        """
        return StreamsConfig.parse(self.config)
