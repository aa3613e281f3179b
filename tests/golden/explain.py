"""Writes ``kubectl/*``, what kubectl explains and shows: ``python -m tests.golden.explain``."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent / "kubectl"
CASES = (
    "--recursive sapp",
    "--recursive sw",
    "--recursive sact",
    "sapp",
    "sapp.spec",
    "sapp.spec.topology",
    "sapp.spec.assignment",
    "sapp.spec.scaleDown",
    "sapp.spec.kafka",
    "sapp.spec.state",
    "sapp.spec.podTemplate",
    "sapp.status",
    "sapp.status.conditions",
    "sw.spec",
    "sw.spec.duties",
    "sw.status",
    "sw.status.tasks",
    "sact.spec",
    "sact.status",
)

TABLES: tuple[tuple[str, ...], ...] = ((), ("--output=wide",))


def file_of(case: str) -> Path:
    """Return where the explanation of a case is kept."""
    return DIRECTORY / f"{case.removeprefix('--').replace(' ', '.')}.txt"


def table_of(options: tuple[str, ...]) -> Path:
    """Return where the table of all situations is kept."""
    return DIRECTORY / f"{'-'.join(('get-sapp', *options)).replace('--output=', '')}.out"


def main() -> None:
    from tests.kube import programs
    from tests.kube.control_plane import ControlPlane
    from tests.kube.definitions import APPS, Resources, install
    from tests.kube.fixtures import Command
    from tests.kube.kubeconfig import client_for
    from tests.kube.situations import apply_all

    with ControlPlane() as running, client_for(running.admin_kubeconfig) as api:
        install(api)
        kubectl = Command(programs.find("kubectl"), running.admin_kubeconfig, "default")
        apply_all(Resources(api, kubectl.namespace, APPS))
        for case in CASES:
            file_of(case).write_text(kubectl("explain", *case.split()))
        for options in TABLES:
            table_of(options).write_text(kubectl("get", "sapp", *options))


if __name__ == "__main__":
    main()
