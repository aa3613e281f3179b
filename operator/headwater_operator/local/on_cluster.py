"""StreamApps on Kubernetes, for commands that a person runs with rights of his own.

One rule says which applications a command is about: ``kubectl headwater`` means those of the
cluster, ``headwater`` those of this machine unless an option names a cluster.

The API server decides what he may do. What it refuses is told with the right that is missing.
"""
# ruff: noqa: PLC0415  # every `headwater` command imports this module: nothing heavy at the top

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import EnvironmentProblemError, SpecError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from headwater.model.appstatus import AppStatus
    from headwater_operator.kube.api import Manifest
    from headwater_operator.kube.client import KubeClient

FIELD_MANAGER: Final = "headwater-cli"
"""The name under which these commands own fields."""
_MISSING_RIGHT: Final = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a cluster, as ``kubectl`` has them."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NS",
        help="of the StreamApp on Kubernetes (default: that of the context)",
    )
    parser.add_argument(
        "--context", metavar="NAME", help="of the kubeconfig (default: its current context)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="instead of the one that kubectl would use"
    )


def is_meant(args: argparse.Namespace) -> bool:
    """Whether the arguments name a cluster; else the applications of this machine are meant."""
    named = (args.namespace, args.context, args.kubeconfig)
    return getattr(args, "is_plugin", False) or any(value is not None for value in named)


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[KubeClient]:
    """Yield a client with the rights of whoever runs the command.

    Raises:
        EnvironmentProblemError: the client library is not installed.
        ApiUnavailableError: nothing says where the API server is, or it does not answer.
        ForbiddenError: a right is missing; the error names verb and resource.
    """
    try:
        from headwater_operator.kube.client import KubeClient
    except ModuleNotFoundError as error:
        raise EnvironmentProblemError(
            f"a cluster is asked with {error.name}: pip install 'headwater[operator]'"
        ) from error
    from headwater_operator.kube.errors import (
        ApiUnavailableError,
        ForbiddenError,
        NotFoundError,
    )

    client = KubeClient.from_environment(
        args.kubeconfig, context=args.context, field_manager=FIELD_MANAGER
    )
    try:
        yield client
    except ForbiddenError as error:
        raise ForbiddenError(with_advice(str(error), namespace_of(args))) from error
    except ApiUnavailableError as error:
        said = str(error).removesuffix("; trying again")
        raise ApiUnavailableError(f"{said}; see kubectl cluster-info") from error
    except NotFoundError as error:
        if not is_about_definitions(error):
            raise
        raise NotFoundError(
            f"the cluster does not know this kind of object ({error}): install the operator of "
            "Headwater there, or a newer one"
        ) from error
    finally:
        client.close()


def namespace_of(args: argparse.Namespace) -> str:
    """Return the namespace that is meant: the one that is named, else that of the context.

    Raises:
        ApiUnavailableError: the kubeconfig or the context cannot be used.
    """
    if args.namespace is not None:
        return str(args.namespace)
    from headwater_operator.kube.client import default_namespace

    return default_namespace(args.kubeconfig, args.context)


def is_about_definitions(error: Exception) -> bool:
    """Whether the API server does not know a kind of Headwater's objects."""
    return "the server could not find the requested resource" in str(error) or (
        "404 page not found" in str(error)
    )


def with_advice(said: str, namespace: str) -> str:
    """Return what the API server refused, and the command that grants the right.

    Args:
        said: its words.
        namespace: where the right is missing.
    """
    missing = _MISSING_RIGHT.search(said)
    if missing is None:
        return said
    resource = missing["resource"]
    if missing["group"]:
        name, slash, subresource = resource.partition("/")
        resource = f"{name}.{missing['group']}{slash}{subresource}"
    return (
        f"{said}; who may grant it: kubectl create role NAME --namespace {namespace} "
        f"--verb={missing['verb']} --resource={resource}, and a rolebinding of it"
    )


class ClusterApp:
    """One StreamApp.

    Args:
        client: with the rights of whoever asks.
        namespace: its own.
        name: its own.
    """

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name

    def read(self) -> Manifest:
        """Return it as stored now.

        Raises:
            SpecError: there is none.
        """
        from headwater_operator.kube.api import STREAM_APPS

        found = self._client.get(STREAM_APPS, self.namespace, self.name)
        if found is None:
            raise SpecError(
                f"there is no StreamApp {self.name!r} in namespace {self.namespace}; see "
                f"kubectl get streamapps --namespace {self.namespace}"
            )
        return found

    def change(self, found: Manifest, operations: Sequence[Mapping[str, Any]]) -> None:
        """Carry out a JSON patch on the StreamApp as it was read.

        Raises:
            ConflictError: it has changed since.
            NotFoundError: it is gone.
        """
        from headwater_operator.kube.api import STREAM_APPS

        metadata = found["metadata"]
        unchanged = [
            {"op": "test", "path": f"/metadata/{field}", "value": metadata[field]}
            for field in ("uid", "resourceVersion")
        ]
        self._client.patch(STREAM_APPS, self.namespace, self.name, [*unchanged, *operations])


def status_of(found: Manifest) -> AppStatus | None:
    """Return the status of a StreamApp; ``None`` while it is about an earlier specification."""
    from headwater_operator.observe.snapshot import read_status

    status = read_status(found)
    return status if status.observed_generation == found["metadata"]["generation"] else None
