"""Applications of `headwater up`, or of files, for commands that ask Kafka about them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from headwater.cli import streamapps
from headwater.errors import SpecError
from headwater.model import appfile
from headwater.model.streamapp import StreamApp, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from headwater.config import StreamsConfig
    from headwater.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalApp:
    """One application as it was applied.

    Attributes:
        app: its StreamApp.
        import_path: directories from which its topology is imported.
    """

    app: StreamApp
    import_path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the StreamApp."""
        return self.app.name

    def config(
        self, bootstrap: str | None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> StreamsConfig:
        """Return its configuration.

        Args:
            bootstrap: of the broker, in place of the StreamApp's.
            settings: of clients of that broker.

        Raises:
            ConfigError: a value is wrong.
        """
        from headwater.config import StreamsConfig  # noqa: PLC0415 - keeps help fast

        return StreamsConfig.parse({**self._values(bootstrap), **settings})

    def topology(self, bootstrap: str | None) -> Topology:
        """Import and build its topology.

        Raises:
            ImportPathError: there is no such topology.
            TopologyError: the topology breaks a rule.
        """
        from headwater.native.loading import topology_of  # noqa: PLC0415
        from headwater.service.settings import topology_source  # noqa: PLC0415

        source = topology_source(self.app.spec.topology)
        return topology_of(source, self.import_path, self._values(bootstrap))

    def _values(self, bootstrap: str | None) -> Mapping[str, str | int | float | bool]:
        from headwater.service.settings import config_of  # noqa: PLC0415

        overrides: dict[str, str | int] = {"bootstrap.servers": bootstrap} if bootstrap else {}
        app = streamapps.without_credentials(self.app) if bootstrap else self.app
        return config_of(app, overrides)


def of_home(root: Path) -> dict[str, LocalApp]:
    """Return the applications of a directory of `headwater up`, by name.

    Raises:
        SpecError: a file is damaged.
    """
    found = {}
    for file in sorted((root / "apps").glob("*/app.json")):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            app = parse(data["streamApp"])
            paths = tuple(str(path) for path in data.get("importPath", ()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SpecError(f"{file}: damaged ({error}); apply the StreamApp again") from error
        found[app.name] = LocalApp(app=app, import_path=paths)
    return found


def named(root: Path, name: str) -> LocalApp:
    """Return one application.

    Raises:
        SpecError: there is no such application, or a file is damaged.
    """
    known = of_home(root)
    if name in known:
        return known[name]
    raise SpecError(
        f"there is no application {name!r} in {root} (known: {', '.join(known) or 'none'}); "
        "start it with: headwater up -f FILE"
    )


def of_files(
    files: Sequence[Path], names: Sequence[str], import_path: Sequence[str], bootstrap: str | None
) -> dict[str, LocalApp]:
    """Return applications as files describe them, such as those that a cluster runs.

    Args:
        files: YAML with StreamApps, or what ``kubectl get --output=yaml`` printed of them.
        names: which.
        import_path: directories from which their topologies are imported.
        bootstrap: ``--bootstrap``.

    Raises:
        SpecError: a file cannot be read, an application is missing, or it names no broker.
    """
    known: dict[str, StreamApp] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise appfile.unreadable(file, error) from error
        known |= {app.name: app for app in appfile.stream_apps(text, file)}
    given = ", ".join(map(str, files))
    for name in names:
        if name not in known:
            raise SpecError(
                f"there is no StreamApp {name!r} in {given} (there are: {', '.join(known)})"
            )
        if not streamapps.names_broker(known[name], bootstrap, ()):
            raise SpecError(f"{name} in {given} names no broker: name one with --bootstrap")
    return {name: LocalApp(app=known[name], import_path=tuple(import_path)) for name in names}


@contextmanager
def broker_of(
    root: Path, apps: Mapping[str, LocalApp], bootstrap: str | None
) -> Iterator[str | None]:
    """Yield the address of the broker in place of the StreamApps'; ``None`` if they name one.

    Args:
        root: the directory of `headwater up`; its private Kafka is started if nobody names one.
        apps: of which applications.
        bootstrap: ``--bootstrap``.

    Raises:
        LocalKafkaError: the private Kafka cannot be started.
    """
    if bootstrap or all(streamapps.names_broker(one.app, None, ()) for one in apps.values()):
        yield bootstrap
        return
    with streamapps.private_kafka(root) as address:
        yield address
