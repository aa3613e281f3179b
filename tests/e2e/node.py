"""The user's journey on a real node of this machine: ``python -m tests.e2e.node FOLDER``.

The folder holds a tool that runs one node: ``up.sh`` starts it (again) and prints the path of a
kubeconfig, ``build-image.sh DOCKERFILE CONTEXT TAG [OPTIONS]`` builds an image onto it, ``down.sh
--purge`` takes it away, and ``lib.sh`` can ``stop kubelet``. Its settings are variables: the state
of the node (``HKN_RUN``) is a directory of this run, and the programs of Kubernetes are those of
`make kube` and two more (``HKN_PREBUILT``). Kafka is a private broker that listens on the node's
address too.

``prepare``, which `make caches` calls, builds the images once with a network: their packages are
layers in the tool's cache (``HKN_CACHE``) then, and the journey's builds fetch nothing.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headwater.local.broker import KafkaBroker
from tests.e2e.settings import READ_WRITE_ONCE_POD
from tests.kube import programs
from tests.kube.programs import OF_A_NODE, PRODUCTS
from tests.support import spark_classes

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
_BASE = "BASE=python:3.11-slim-bookworm"
_OPERATOR = "headwater-operator:0.1.0"
_WORKER = "headwater-worker:0.1.0"
_NEXT_WORKER = "headwater-worker:0.1.0-next"
# As the example's StreamApp names it.
_EXAMPLE = "word-count:1"
_SPARK = "headwater-worker:0.1.0-spark"
_BACKFILL = "word-count:1-spark"
# Each with its Dockerfile, the image that it begins at, and what else is to be said of it.
IMAGES: dict[str, tuple[str, ...]] = {
    _OPERATOR: ("Dockerfile.operator", _BASE),
    _WORKER: ("Dockerfile.worker", _BASE),
    _NEXT_WORKER: ("Dockerfile.worker", _BASE),
    _SPARK: ("Dockerfile.worker", _BASE, "--target", "spark"),
    _EXAMPLE: ("examples/word_count/Dockerfile", f"WORKER={_WORKER}"),
    _BACKFILL: ("examples/word_count/Dockerfile", f"WORKER={_SPARK}"),
}
_SCRIPTS = ("up.sh", "build-image.sh", "down.sh", "lib.sh")
# Nobody listens there. Docker leaves these two arguments out when it looks for a layer it has made.
_NOWHERE = "http://127.0.0.1:1"
_WITHOUT_NETWORK = tuple(
    text for name in ("HTTP_PROXY", "HTTPS_PROXY") for text in ("--build-arg", f"{name}={_NOWHERE}")
)


class NodeError(Exception):
    """There is no such tool, or one of its scripts failed."""


class Node:
    """A node that is there inside a ``with``.

    Attributes:
        tool: the folder with the scripts.
        kubeconfig: of its administrator.
    """

    def __init__(self, tool: Path, state: Path) -> None:
        """Describe it.

        Raises:
            NodeError: the folder is no such tool.
        """
        if missing := [name for name in _SCRIPTS if not (tool / name).is_file()]:
            raise NodeError(
                f"{tool} has no {', '.join(missing)}: KUBE_NODE names the folder of a tool that "
                "runs a node (CONTRIBUTING.md, On a cluster)"
            )
        self.tool = tool.resolve()
        prebuilt = ":".join(str(product.directory) for product in (*PRODUCTS, OF_A_NODE))
        self._settings = {"HKN_RUN": str(state), "HKN_PREBUILT": prebuilt, "HKN_NICE": "0"}
        self.kubeconfig = ""

    def __enter__(self) -> Self:
        try:
            self.kubeconfig = self._script("up.sh").splitlines()[-1]
        except BaseException:
            self._down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._down()

    def _down(self) -> None:
        self._script("down.sh", "--purge")

    def build(self, tag: str, dockerfile: str, begins_at: str, *options: str) -> None:
        """Build an image onto the node; ``begins_at`` sets the image that it begins at."""
        self._script("build-image.sh", dockerfile, ".", tag, "--build-arg", begins_at, *options)

    def address(self) -> str:
        """Return the address by which pods reach this machine."""
        path = '{.items[0].status.addresses[?(@.type=="InternalIP")].address}'
        command = [str(programs.find("kubectl")), f"--kubeconfig={self.kubeconfig}", "get", "nodes"]
        done = subprocess.run(
            [*command, f"--output=jsonpath={path}"], capture_output=True, text=True, check=True
        )
        return done.stdout

    def stop_kubelet(self) -> str:
        """Return the shell command that stops it."""
        library = shlex.quote(str(self.tool / "lib.sh"))
        return self._shell(f"bash -c {shlex.quote(f'. {library}; stop kubelet')}")

    def start_kubelet(self) -> str:
        """Return the shell command that starts it."""
        return self._shell(shlex.quote(str(self.tool / "up.sh")))

    def _shell(self, command: str) -> str:
        settings = " ".join(f"{name}={shlex.quote(text)}" for name, text in self._settings.items())
        return f"env {settings} {command}"

    def _script(self, name: str, *arguments: str) -> str:
        """Run a script of the tool; what it prints to standard error is shown."""
        done = subprocess.run(
            [str(self.tool / name), *arguments],
            cwd=ROOT,
            env=os.environ | self._settings,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NodeError(f"{name} {' '.join(arguments)} ended with {done.returncode}, see above")
        return done.stdout


def main(arguments: list[str]) -> int:
    """Bring the node up, build the images, run the journey; return its exit status."""
    if len(arguments) != 1:
        print("usage: python -m tests.e2e.node FOLDER")
        return 2
    tool = Path(arguments[0])
    if not prepared(tool).exists():
        print(
            "the journey on a node: what its images are made of is not in the cache: "
            f"run `make caches KUBE_NODE={tool}` first"
        )
        return 1
    return _inside(tool, _journey)


def prepare(tool: Path) -> int:
    """Fetch what the images are made of, unless that was done; return the exit status."""
    done = prepared(tool)
    if done.exists():
        print("the layers of the images for the node are there")
        return 0
    print("fetching what the images for the node are made of: its programs, base image, packages")
    status = _inside(tool, _images_with_a_network)
    if status == 0:
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()
    return status


def prepared(tool: Path) -> Path:
    """Path of the file that says that the layers of the images as they are now have been made."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("HKN_CACHE") or caches / "headwater-kube-node")
    read = [ROOT / name for name, *_ in IMAGES.values()] + [ROOT / "pyproject.toml"]
    read += [path for path in sorted(tool.glob("*")) if path.is_file()]
    digest = hashlib.sha256()
    for path in read:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache / f".headwater-images-{digest.hexdigest()[:16]}"


def _inside(tool: Path, act: Callable[[Node], int]) -> int:
    """Do something on a node that is there for as long as it takes; return the exit status."""
    # Sockets lie in there, and the path of a socket is short.
    with tempfile.TemporaryDirectory(prefix="hw-node-", dir="/tmp") as directory:
        try:
            with Node(tool, Path(directory) / "run") as node:
                return act(node)
        except NodeError as error:
            print(f"the node: {error}")
            return 1


def _images_with_a_network(node: Node) -> int:
    _build_images(node, ())
    return 0


def _build_images(node: Node, more: tuple[str, ...]) -> None:
    started = time.monotonic()
    for tag, (dockerfile, begins_at, *options) in IMAGES.items():
        began = time.monotonic()
        node.build(tag, dockerfile, begins_at, *options, *more)
        print(f"{tag} in {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(IMAGES)} images in {time.monotonic() - started:.0f} s", flush=True)


def _journey(node: Node) -> int:
    try:
        _build_images(node, _WITHOUT_NETWORK)
    except NodeError:
        prepared(node.tool).unlink(missing_ok=True)  # a layer is gone, if that was the reason
        raise
    os.environ.setdefault("HEADWATER_KAFKA_OPTS", spark_classes.QUICK)
    with KafkaBroker(advertise=node.address()) as broker:
        settings = {
            "kubeconfig": node.kubeconfig,
            "bootstrap": broker.advertised_servers,
            "worker-image": _WORKER,
            "operator-image": _OPERATOR,
            "next-worker-image": _NEXT_WORKER,
            "example-image": _EXAMPLE,
            "backfill-image": _BACKFILL,
            "spark-image": _SPARK,
            "state-access-mode": READ_WRITE_ONCE_POD,
            "stop-kubelet": node.stop_kubelet(),
            "start-kubelet": node.start_kubelet(),
        }
        command = [sys.executable, "-u", "-m", "pytest", "tests/e2e", "-v", "-s", "-x"]
        command += ["-p", "no:cacheprovider"]
        command += [f"--{name}={text}" for name, text in settings.items()]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
