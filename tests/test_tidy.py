"""What linters miss.

Sizes, docstrings, names, paths in the documents, and what must never be committed.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unstable import PAGE, not_mended

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
LINES_MAX = 500
FUNCTION_LINES_MAX = 70
_DOMAIN = ".org"
_REGISTRIES = {
    "c3db8466ffcd858989be3a43536c0756": 9,
    "a4aa2ac280bb8d1a0ce7a1be5a7bfb10": 8,
    "8b5bb5eb9d758455b8635855cf8aaf05": 16,
    "00a7dc5a0cc388586b8665846e7d8ae9": 16,
    "8743857e3ea00fd1c64bbc68b8af2419": 9,
}
"""Hosts of package registries, all in that domain, by digest with their length: not named here."""


def tracked(*suffixes: str) -> list[Path]:
    return [path for path in all_tracked() if not suffixes or path.suffix in suffixes]


@cache
def all_tracked() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed]
    return tuple(path for path in paths if path.is_file())


@cache
def text_of(path: Path) -> str:
    return path.read_text(errors="replace")


def digest_of(host: str) -> str:
    return hashlib.sha256(host.encode()).hexdigest()[:32]


def names_a_registry(text: str, registries: Mapping[str, int] = _REGISTRIES) -> bool:
    """Whether the name of a registry's host stands anywhere in a text, in capitals or not."""
    lowered = text.lower()
    for found in re.finditer(re.escape(_DOMAIN), lowered):
        for digest, length in registries.items():
            name = lowered[max(0, found.end() - length) : found.end()]
            if digest_of(name) == digest:
                return True
    return False


def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function within a node; walks statements, not the expressions, which are most."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, part, None)
        for statement in inner if isinstance(inner, list) else ():
            yield from functions(statement)


def product_modules() -> list[Path]:
    return [
        path
        for path in tracked(".py")
        if path.is_relative_to(ROOT / "worker") or path.is_relative_to(ROOT / "operator")
    ]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_modules_are_short_and_say_what_they_are_for() -> None:
    too_long = {
        relative(path): n
        for path in product_modules()
        if (n := len(text_of(path).splitlines())) > LINES_MAX
    }
    silent = [relative(path) for path in product_modules() if not ast.get_docstring(tree_of(path))]

    assert too_long == {}
    assert silent == []


def test_functions_are_short() -> None:
    long_functions = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in [
            *product_modules(),
            *[p for p in tracked(".py") if p.is_relative_to(ROOT / "tests")],
        ]
        for node in functions(tree_of(path))
        if (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert long_functions == []


def test_the_operator_folder_is_never_a_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "worker" / "__init__.py").exists()


def test_no_module_is_called_utils() -> None:
    assert [
        relative(path)
        for path in tracked(".py")
        if path.stem in {"utils", "util", "helpers", "misc"}
    ] == []


def test_a_registry_is_found_by_its_digest() -> None:
    planted = {digest_of("jars.example.org"): len("jars.example.org")}

    for text in (
        "jars.example.org",
        "https://A.JARS.example.ORG/x",
        "example.org jars.example.org.",
    ):
        assert names_a_registry(text, planted), text
    for text in ("", ".org", "example.org", "jars.example.or", "bars.example.org"):
        assert not names_a_registry(text, planted), text


def test_no_registry_and_no_machine_is_named() -> None:
    machine = re.compile("/" + "root/|/" + "work/")
    texts = {relative(p): text_of(p) for p in tracked() if p.stat().st_size < 1_000_000}

    assert [name for name, text in texts.items() if names_a_registry(text)] == []
    assert [name for name, text in texts.items() if machine.search(text)] == []


def test_nothing_is_left_unfinished() -> None:
    marks = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|X" + "XX)\b|raise NotImplemented" + "Error")
    assert [
        relative(path) for path in tracked(".py", ".java", ".sh") if marks.search(text_of(path))
    ] == []


def test_what_only_a_soak_runs_repeats_what_other_tests_show() -> None:
    """A parameter has others beside it; a whole test names the one that stays."""
    tests = [path for path in tracked(".py") if path.is_relative_to(ROOT / "tests")]
    wrapped = re.compile(r'\(\n +(stays=".*")\n\)')
    marked = [
        line.strip()
        for path in tests
        for line in wrapped.sub(r"(\1)", text_of(path)).splitlines()
        if "pytest.mark." + "soak" in line
    ]
    whole = [line for line in marked if "pytest.param(" not in line]
    stays = [re.fullmatch(r'@[a-z.]+\(stays="(.*)::(.*)"\)', line) for line in whole]

    assert marked
    assert [line for line, found in zip(whole, stays, strict=True) if found is None] == []
    assert all(f"def {found[2]}(" in text_of(ROOT / found[1]) for found in stays if found)


def test_no_mark_of_a_conflict_is_left() -> None:
    marks = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert [relative(path) for path in tracked() if marks.search(text_of(path))] == []


def test_tests_use_no_mocks_and_do_not_sleep_for_luck() -> None:
    mocks = re.compile("unittest." + "mock|Magic" + r"Mock|monkeypatch\.set" + "attr")
    sleeps = re.compile(r"\btime\.sl" + r"eep\(")
    tests = [path for path in tracked(".py") if path.is_relative_to(ROOT / "tests")]

    assert [relative(path) for path in tests if mocks.search(text_of(path))] == []
    assert [
        relative(path) for path in tests if sleeps.search(text_of(path)) and path.stem != "waiting"
    ] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(
        r"`((?:worker|operator|tests|docs|examples|benchmarks)/[\w./-]+)`",
        (ROOT / page).read_text(),
    )

    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_test_that_was_unstable_twice_is_mended_or_taken_apart() -> None:
    assert not_mended((ROOT / PAGE).read_text()) == []


def test_a_test_that_is_listed_as_unstable_exists_unless_it_was_taken_apart() -> None:
    rows = [line.split("|")[1:4] for line in (ROOT / PAGE).read_text().splitlines()]
    listed = [(row[0].strip(" `"), row[2]) for row in rows if row and "::" in row[0]]

    assert listed
    for test, done in listed:
        name, _, function = test.partition("::")
        exists = f"def {function.partition('[')[0]}(" in text_of(ROOT / name)
        assert exists or "taken apart" in done, test
