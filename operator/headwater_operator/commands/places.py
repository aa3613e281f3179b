"""Where applications are: in a directory of this machine, or on a cluster."""
# ruff: noqa: PLC0415  # every command imports this module: nothing heavy at the top

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from headwater.errors import EnvironmentProblemError, SpecError, UserError
from headwater_operator.commands.versions import Versions
from headwater_operator.local import on_cluster
from headwater_operator.local.layout import ClusterDir, default_root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from headwater_operator.kube.api import Manifest
    from headwater_operator.kube.client import KubeClient
    from headwater_operator.local.on_cluster import ClusterApp
    from headwater_operator.overview.snapshot import Snapshot


class Place(Protocol):
    """Where applications are."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all applications."""
        ...

    def fleet(self) -> Sequence[Snapshot]:
        """Return all applications in short: without workers and tasks where that costs a look."""
        ...

    def look(self, app: str) -> Snapshot:
        """Return one application in full.

        Raises:
            SpecError: there is no such application.
        """
        ...


class Here:
    """The applications of a directory of this machine.

    Args:
        cluster: the directory.
    """

    def __init__(self, cluster: ClusterDir) -> None:
        self.cluster = cluster

    @property
    def name(self) -> str:
        """The directory."""
        return str(self.cluster.root)

    @property
    def way_in(self) -> str:
        """How there comes to be an application."""
        return "start one with headwater up, or name another directory with --home"

    def names(self) -> Sequence[str]:
        """Return the names of all applications."""
        return [directory.name for directory in self.cluster.apps()]

    def fleet(self) -> Sequence[Snapshot]:
        """Return all applications."""
        return [self.look(name) for name in self.names()]

    def look(self, app: str) -> Snapshot:
        """Return one application in full.

        Raises:
            SpecError: there is no such application.
        """
        from headwater_operator.local import control
        from headwater_operator.local.collect import Collector

        control.require(self.cluster, app)
        collector = Collector(self.cluster, app)
        try:
            found = collector.collect()
        finally:
            collector.close()
        if control.running_supervisor(self.cluster) is not None:
            return found
        return replace(found, state="DOWN", reason="the local cluster does not run", workers=())


class OnCluster:
    """The StreamApps of a namespace, or of all.

    Args:
        client: with the rights of whoever asks.
        namespace: that is meant.
        is_everywhere: list those of all namespaces.
    """

    def __init__(self, client: KubeClient, namespace: str, *, is_everywhere: bool = False) -> None:
        self.client = client
        self.namespace = namespace
        self._is_everywhere = is_everywhere
        self._versions = Versions()

    @property
    def name(self) -> str:
        """The namespace."""
        return "any namespace" if self._is_everywhere else f"namespace {self.namespace}"

    @property
    def way_in(self) -> str:
        """How there comes to be an application."""
        return "apply a StreamApp there, or name another namespace with --namespace"

    def app(self, name: str) -> ClusterApp:
        """Return one StreamApp, to be read and changed."""
        return on_cluster.ClusterApp(self.client, self.namespace, name)

    def read(self, name: str) -> Manifest:
        """Return a StreamApp as stored now; warn if its operator is of another version.

        Raises:
            SpecError: there is none.
        """
        found = self.app(name).read()
        self._versions.expect_same(found)
        return found

    def names(self) -> Sequence[str]:
        """Return the names of all applications."""
        from headwater_operator.kube.api import STREAM_APPS

        return [each["metadata"]["name"] for each in self.client.list(STREAM_APPS, self.namespace)]

    def fleet(self) -> Sequence[Snapshot]:
        """Return all applications in short."""
        from headwater_operator.kube.api import STREAM_APPS
        from headwater_operator.observe.overview import in_short

        found = self.client.list(STREAM_APPS, None if self._is_everywhere else self.namespace)
        for each in found:
            self._versions.expect_same(each)
        return [in_short(each) for each in found]

    def look(self, app: str) -> Snapshot:
        """Return one application in full.

        Raises:
            SpecError: there is no such application.
            KubeApiError: the API server refuses, or does not answer.
        """
        from headwater_operator.observe.overview import ClusterReader
        from headwater_operator.observe.proxied import ProxiedNumbers

        manifest = self.read(app)
        numbers = ProxiedNumbers(self.client, self.namespace)
        reader = ClusterReader(self.client, self.namespace, app, numbers)
        try:
            return reader.read(manifest)
        finally:
            reader.close()


@contextmanager
def place_of(args: argparse.Namespace) -> Iterator[Here | OnCluster]:
    """Yield where the applications of a command are.

    Raises:
        EnvironmentProblemError: a library is not installed.
        KubeApiError: the API server cannot be reached, refuses, or has no StreamApps.
    """
    if not on_cluster.is_meant(args):
        yield Here(directory_of(args))
        return
    is_everywhere = getattr(args, "all_namespaces", False)
    with on_cluster.connected(args) as client:
        yield OnCluster(client, on_cluster.namespace_of(args), is_everywhere=is_everywhere)


def directory_of(args: argparse.Namespace) -> ClusterDir:
    """Return the directory of the applications of this machine."""
    home = getattr(args, "home", None)
    return ClusterDir(default_root() if home is None else home.absolute())


def chosen(place: Here | OnCluster, app: str | None) -> str:
    """Return the application that is named, or the only one.

    Raises:
        UserError: none is named, and there are several.
        SpecError: there is none at all.
    """
    if app is not None:
        return app
    names = place.names()
    if len(names) == 1:
        return names[0]
    if not names:
        raise SpecError(f"there is no application in {place.name}: {place.way_in}")
    raise UserError(
        f"there are {len(names)} applications in {place.name}: name one of {', '.join(names)}"
    )


def on_a_cluster_only(place: Here | OnCluster, word: str, here: str) -> OnCluster:
    """Return the cluster.

    Args:
        place: that is meant.
        word: needs a cluster.
        here: what to do on one machine instead.

    Raises:
        EnvironmentProblemError: the applications of this machine are meant.
    """
    if isinstance(place, OnCluster):
        return place
    raise EnvironmentProblemError(
        f"headwater {word} is for StreamApps on Kubernetes: name their --namespace; on one machine "
        f"{here}"
    )
