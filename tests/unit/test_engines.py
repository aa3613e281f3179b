"""Engines share by policy objects: none inherits from another, nor reads what is another's own."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

WORKER: Final = Path(__file__).resolve().parents[2] / "worker" / "headwater"
ENGINES: Final = ("native", "spark", "testing")


def package_of(module: str) -> str:
    """``headwater.native.loop`` belongs to ``native``."""
    parts = module.split(".")
    return parts[1] if parts[0] == "headwater" and len(parts) > 1 else ""


def imported(tree: ast.Module) -> dict[str, str]:
    """By name: the module of ``headwater`` that it comes from."""
    return {
        name.asname or name.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and package_of(node.module)
        for name in node.names
    }


def inherited(tree: ast.Module, own: str) -> Iterator[str]:
    """Classes whose base is another engine's."""
    names = imported(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for base in node.bases:
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            package = package_of(names.get(name.split(".")[0], ""))
            if package in ENGINES and package != own:
                yield f"{node.name}({name})"


def private(tree: ast.Module, own: str) -> Iterator[str]:
    """Names with an underscore that come from another package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and package_of(node.module or "") not in {"", own}:
            yield from (f"{node.module}.{n.name}" for n in node.names if n.name.startswith("_"))


def made(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives to something: functions, classes, variables, attributes, slots."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=n) | ast.AsyncFunctionDef(name=n) | ast.ClassDef(name=n):
                yield n
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Constant(value=str(name)):
                yield name  # one of __slots__


OF_NAMED_TUPLES: Final = frozenset({"_replace", "_asdict", "_fields", "_make"})


def reached(tree: ast.Module, own: Container[str], others: Container[str]) -> Iterator[str]:
    """Attributes with an underscore that another package has made, and the module's own has not."""
    foreign = libraries(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        is_private = node.attr.startswith("_") and not node.attr.endswith("_")
        is_private = is_private and node.attr not in OF_NAMED_TUPLES
        is_library_s = isinstance(node.value, ast.Name) and node.value.id in foreign
        if is_private and node.attr not in own and node.attr in others and not is_library_s:
            yield ast.unparse(node)


def libraries(tree: ast.Module) -> frozenset[str]:
    """Names that are imported from elsewhere than ``headwater``."""
    return frozenset(
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not package_of(getattr(node, "module", None) or "")
        for name in node.names
    )


@cache
def made_in(package: str) -> frozenset[str]:
    return frozenset(name for _, tree in trees(package) for name in made(tree))


def trees(own: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((WORKER / own).rglob("*.py")):
        yield path, ast.parse(path.read_text())


@pytest.mark.parametrize("own", ENGINES)
def test_no_class_inherits_from_another_engine(own: str) -> None:
    assert [(path.name, one) for path, tree in trees(own) for one in inherited(tree, own)] == []


PACKAGES: Final = sorted(path.parent.name for path in WORKER.glob("*/__init__.py"))


@pytest.mark.parametrize("own", PACKAGES)
def test_no_module_imports_what_is_another_package_s_own(own: str) -> None:
    assert [(path.name, one) for path, tree in trees(own) for one in private(tree, own)] == []


@pytest.mark.parametrize("own", PACKAGES)
def test_no_module_reads_an_attribute_that_is_another_package_s_own(own: str) -> None:
    names = made_in(own)
    others = frozenset[str]().union(*(made_in(other) for other in PACKAGES if other != own))

    assert [
        (path.name, one) for path, tree in trees(own) for one in reached(tree, names, others)
    ] == []


def test_an_attribute_of_another_package_is_noticed() -> None:
    tree = ast.parse(
        "class A:\n"
        "    __slots__ = ('_slot',)\n"
        "    def __init__(self): self._mine = 1\n"
        "    def _method(self): return self._mine, self._slot, self.loop._theirs\n"
        "A()._method()._replace()\n"
    )

    assert list(reached(tree, set(made(tree)), {"_theirs", "_mine"})) == ["self.loop._theirs"]


def test_what_is_not_allowed_is_noticed() -> None:
    tree = ast.parse(
        "from headwater.native.loop import ProcessingLoop\n"
        "from headwater.native import thread\n"
        "from headwater.native.loop import _POLL_S\n"
        "class A(ProcessingLoop): ...\n"
        "class B(Generic[T], thread.StreamThread): ...\n"
    )

    assert list(inherited(tree, "spark")) == ["A(ProcessingLoop)", "B(thread.StreamThread)"]
    assert list(private(tree, "spark")) == ["headwater.native.loop._POLL_S"]
    assert list(inherited(tree, "native")) == list(private(tree, "native")) == []
