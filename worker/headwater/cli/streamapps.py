"""The StreamApp that a command is given, and the Kafka that it means."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InstanceRunningError, LocalKafkaError, SpecError
from headwater.local.filelock import is_held
from headwater.model import appfile
from headwater.model.streamapp import TopologySource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headwater.model.streamapp import StreamApp

_KAFKA = "kafka"
"""Where the cluster directory of `headwater up` has its broker."""


def read(path: Path, name: str | None, topology: str | None) -> StreamApp:
    """Return the StreamApp that is meant.

    Args:
        path: of the YAML file; other objects in it are passed over, but for ConfigMaps that hold
            a topology.
        name: which one, if the file has several.
        topology: ``module:function`` in place of what the StreamApp says.

    Raises:
        SpecError: the file cannot be read, or it is not clear which StreamApp is meant.
    """

    def with_topology(app: StreamApp) -> StreamApp:
        if topology is None:
            return app
        return replace(app, spec=replace(app.spec, topology=TopologySource(module=topology)))

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise appfile.unreadable(path, error) from error
    apps = {app.name: app for app in appfile.stream_apps(text, path, made_local=with_topology)}
    if name is not None and name in apps:
        return apps[name]
    if name is None and len(apps) == 1:
        return next(iter(apps.values()))
    raise SpecError(f"{path} holds {', '.join(sorted(apps))}; name one of them with --app")


def home_of(home: Path | None) -> Path:
    """Return the directory of `headwater up`: as given, else as it finds it itself."""
    return (home or Path(os.environ.get("HEADWATER_HOME", ".headwater"))).absolute()


def check_not_up(root: Path, name: str, *, again: str) -> None:
    """Refuse while the local cluster of this directory runs the application.

    Args:
        root: the directory.
        name: of the StreamApp.
        again: what to do afterwards.

    Raises:
        InstanceRunningError: it does.
    """
    if is_held(root / "supervisor.lock") and (root / "apps" / name / "app.json").exists():
        raise InstanceRunningError(
            f"`headwater up` runs {name} in {root}; end it first (`headwater down`), then {again}"
        )


def names_broker(app: StreamApp, bootstrap: str | None, options: Sequence[str]) -> bool:
    """Whether a Kafka is named anywhere; if not, the private one is meant.

    Args:
        app: the StreamApp.
        bootstrap: ``--bootstrap``.
        options: of the application, each as ``NAME=VALUE``.
    """
    kafka = app.spec.kafka
    names = [*kafka.config, *app.spec.config, *(text.split("=")[0] for text in options)]
    is_option = any(name.replace("_", ".") == "bootstrap.servers" for name in names)
    return bool(bootstrap or kafka.bootstrap_servers or is_option)


def without_credentials(app: StreamApp) -> StreamApp:
    """Return a StreamApp as it is on the private Kafka, which asks for none."""
    kafka = replace(app.spec.kafka, tls=None, authentication=None)
    return replace(app, spec=replace(app.spec, kafka=kafka))


@contextmanager
def private_kafka(root: Path) -> Iterator[str]:
    """Yield the address of the private Kafka of `headwater up`; it is started if it does not run.

    One that was started here is stopped at the end; its data stays.

    Args:
        root: the directory of `headwater up`.

    Raises:
        LocalKafkaError: it cannot be started.
    """
    from headwater.local.broker import KafkaBroker, read_state  # noqa: PLC0415 - keeps help fast

    data = root / _KAFKA
    state = read_state(data)
    if state is not None:
        yield str(state["bootstrap_servers"])
        return
    sys.stderr.write(f"no broker is named: starting the private Kafka of {root}\n")
    try:
        broker = KafkaBroker(data).start()
    except LocalKafkaError as error:
        raise LocalKafkaError(
            f"{error}. Or name a broker: spec.kafka.bootstrapServers, --bootstrap host:port"
        ) from error
    try:
        yield broker.bootstrap_servers
    finally:
        broker.stop()
