"""The Kubernetes programs that the tests run, and where they lie.

They are built once per version into the cache (`make kube`), each renamed into place when it is
complete: a program that lies there is whole. Instead of building, those of the same version are
copied from the folders of ``HEADWATER_KUBE_PREBUILT`` (separated by colons), or from the folder in
which the tool for a real node keeps its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headwater.local.paths import cache_dir

PREBUILT_VARIABLE = "HEADWATER_KUBE_PREBUILT"
_ASK_TIMEOUT_S = 60


class ProgramsMissingError(Exception):
    """A program that a test needs has not been built."""


@dataclass(frozen=True, slots=True)
class Product:
    """Programs that are released together, as Go packages of one module.

    Attributes:
        name: what people call it.
        version: without the leading ``v``.
        module: Go module that holds the packages.
        packages: Go package by program.
        stamps: variables, by their full names, that tell a program its version.
        ask: arguments by program that make it print its version; ``--version`` if not named.
    """

    name: str
    version: str
    module: str
    packages: dict[str, str]
    stamps: dict[str, str]
    ask: dict[str, tuple[str, ...]]

    @property
    def label(self) -> str:
        """Name and version, as in the names of folders."""
        return f"{self.name}-{self.version}"

    @property
    def directory(self) -> Path:
        """Where its programs lie in the cache."""
        return kube_cache() / self.label

    def program(self, name: str) -> Path:
        """Path of one of its programs, there or not."""
        return self.directory / name

    def missing(self) -> list[str]:
        """Its programs that the cache lacks."""
        return [name for name in self.packages if not self.program(name).exists()]

    def is_version_of(self, path: Path, name: str) -> bool:
        """Whether the program at ``path`` says that it is of our version."""
        command = [str(path), *self.ask.get(name, ("--version",))]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        said = re.search(r"v?(\d+\.\d+\.\d+(?:-[\w.]+)?)", done.stdout)
        return done.returncode == 0 and said is not None and said[1] == self.version


def _kubernetes(version: str, name: str, *names: str) -> Product:
    major, minor, _ = version.split(".")
    said = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    # What a reproducible build says; clients compare nothing but the version.
    said |= {"gitTreeState": "clean", "gitCommit": "0", "buildDate": "2026-01-01T00:00:00Z"}
    return Product(
        name=name,
        version=version,
        module="k8s.io/kubernetes",
        packages={each: f"k8s.io/kubernetes/cmd/{each}" for each in names},
        stamps={
            f"k8s.io/{package}.{variable}": value
            for package in ("component-base/version", "client-go/pkg/version")
            for variable, value in said.items()
        },
        ask={"kubectl": ("version", "--client", "--output=yaml")},
    )


_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
KUBERNETES = _kubernetes("1.36.3", "kubernetes", *_CONTROL_PLANE)
OF_A_NODE = _kubernetes(KUBERNETES.version, "kubernetes-node", "kubelet", "kube-proxy")
"""What a real node needs beyond (``tests.e2e.node``); not among the programs of the other tests."""
ETCD = Product(
    name="etcd",
    version="3.6.8",
    module="go.etcd.io/etcd/server/v3",
    packages={"etcd": "go.etcd.io/etcd/server/v3"},
    stamps={},
    ask={},
)
HELM = Product(
    name="helm",
    version="4.3.1",
    module="helm.sh/helm/v4",
    packages={"helm": "helm.sh/helm/v4/cmd/helm"},
    stamps={"helm.sh/helm/v4/internal/version.version": "v4.3.1"},
    ask={"helm": ("version", "--short")},
)
KUBECONFORM = Product(
    name="kubeconform",
    version="0.8.0",
    module="github.com/yannh/kubeconform",
    packages={"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
    stamps={"main.version": "v0.8.0"},
    ask={"kubeconform": ("-v",)},
)
PRODUCTS = (ETCD, KUBERNETES, HELM, KUBECONFORM)


def kube_cache() -> Path:
    """The part of the cache that holds these programs, and what building them leaves."""
    return cache_dir() / "kube"


def find(name: str) -> Path:
    """Path of a program.

    Raises:
        ProgramsMissingError: it has not been built.
    """
    product = next(product for product in PRODUCTS if name in product.packages)
    path = product.program(name)
    if not path.exists():
        raise ProgramsMissingError(
            f"{name} {product.version} is not in {product.directory}: run `make kube` once "
            f"(about 15 minutes), or name a folder that holds it in {PREBUILT_VARIABLE}"
        )
    return path


def prebuilt_folders() -> list[Path]:
    """Folders in which programs of the same version may lie already."""
    named = os.environ.get(PREBUILT_VARIABLE, "")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [*map(Path, filter(None, named.split(":"))), caches / "headwater-kube-node" / "bin"]


def adopt_prebuilt(product: Product) -> list[str]:
    """Copy what the cache lacks from the folders of prebuilt programs; return what was copied."""
    adopted = []
    for name in product.missing():
        for folder in prebuilt_folders():
            if product.is_version_of(folder / name, name):
                product.directory.mkdir(parents=True, exist_ok=True)
                staging = product.directory / f".{name}.copying"
                shutil.copy2(folder / name, staging)
                staging.replace(product.program(name))
                adopted.append(name)
                break
    return adopted
