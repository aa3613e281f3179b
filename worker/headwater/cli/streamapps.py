"""The StreamApp that a command is given, and the Kafka that it means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import InstanceRunningError, LocalKafkaError, SpecError, UserError
from headwater.local.filelock import is_held
from headwater.model import appfile
from headwater.model.streamapp import TopologySource
from headwater.model.streamapp_kafka import listed_topics
from headwater.privatefiles import own_root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from headwater.model.streamapp import StreamApp
    from headwater.model.topology import Topology

_KAFKA: Final = "kafka"
"""Where the cluster directory of `headwater up` has its broker."""
_STOP_S: Final = 30.0


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


def topology_asked_for(arguments: argparse.Namespace) -> tuple[Topology, StreamApp | None]:
    """Return the topology that ``options.add_topology`` lets a person name, and its StreamApp.

    Raises:
        UserError: neither a function nor a file is named.
        SpecError: the file cannot be read, or it is not clear which StreamApp is meant.
        ImportPathError: there is no such topology.
        TopologyError: the topology breaks a rule.
    """
    from headwater.native.loading import topology_of  # noqa: PLC0415 - keeps help fast
    from headwater.service.settings import config_of, topology_source  # noqa: PLC0415

    if arguments.file is not None:
        app = read(arguments.file, arguments.app, arguments.topology)
        source = topology_source(app.spec.topology)
        return topology_of(
            source, arguments.import_path, config_of(without_credentials(app), {})
        ), app
    if arguments.topology is None:
        raise UserError("no topology is named: give MODULE:FUNCTION, or -f FILE with a StreamApp")
    return topology_of(arguments.topology, arguments.import_path), None


def home_of(home: Path | None) -> Path:
    """Return the directory of `headwater up`: as given, else as it finds it itself."""
    return (home or Path(os.environ.get("HEADWATER_HOME") or ".headwater")).absolute()


def private_kafka_dir(root: Path) -> Path:
    """Return where the private Kafka of `headwater up` keeps its data.

    Args:
        root: the directory of `headwater up`.
    """
    return root / _KAFKA


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


def create_listed(app: StreamApp, config: Mapping[str, str | int | float | bool]) -> None:
    """Create the topics that the StreamApp lists, as `headwater up` does.

    Args:
        app: the StreamApp; those that exist stay as they are.
        config: of Kafka Streams, with the broker's address.

    Raises:
        KafkaUnavailableError: the broker does not answer.
    """
    from headwater.config import StreamsConfig  # noqa: PLC0415 - keeps help fast
    from headwater.service.duties import Duties  # noqa: PLC0415

    topics = listed_topics(app.spec.kafka)
    if not topics:
        return
    duties = Duties(StreamsConfig.parse(config), client_id=f"{app.application_id}-topics")
    known = duties.partitions([topic.name for topic in topics])
    duties.create_topics([topic for topic in topics if topic.name not in known])


@contextmanager
def private_kafka(root: Path) -> Iterator[str]:
    """Yield the address of the private Kafka of `headwater up`; it is started if it does not run.

    Who else uses it meanwhile goes on when we end, and we go on when they do: whoever is left
    starts it anew. The data stays.

    Args:
        root: the directory of `headwater up`.

    Raises:
        LocalKafkaError: it cannot be started.
    """
    from headwater.local import class_data  # noqa: PLC0415 - keeps help fast
    from headwater.local.broker import read_state  # noqa: PLC0415

    data = private_kafka_dir(root)
    if read_state(data) is None:
        sys.stderr.write(f"no broker is named: starting the private Kafka of {root}\n")
    class_data.prepare()  # what shows its progress belongs on this terminal
    own_root(data)
    log = data / "owner.log"
    command = [sys.executable, "-m", "headwater.cli.main", "kafka", "start", "--data", str(data)]
    with log.open("wb") as said:
        owner = subprocess.Popen(
            [*command, "--json", "--until-eof", "--share"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for us: the broker is needed to the end
        )
    assert owner.stdin is not None
    assert owner.stdout is not None
    try:
        line = owner.stdout.readline()
        if not line:
            why = log.read_text(errors="replace").rpartition("error: ")[2].strip()
            raise LocalKafkaError(
                f"{why or 'the private Kafka does not start'}. Or name a broker: "
                "spec.kafka.bootstrapServers, --bootstrap host:port"
            )
        yield str(json.loads(line)["bootstrap_servers"])
    finally:
        owner.stdin.close()
        _await(owner)
        owner.stdout.close()


def _await(owner: subprocess.Popen[bytes]) -> None:
    try:
        owner.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        owner.kill()  # the broker's guard clears up
        owner.wait()
