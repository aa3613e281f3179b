"""From ``module:function`` to a topology, and the message for each way that can fail."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest

from headwater import StreamsBuilder, Topology
from headwater.cli import describe
from headwater.cli.main import main
from headwater.dsl.loading import SourceText, build_topology, load_text, load_topology
from headwater.errors import ImportPathError, TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODULE = """
from headwater import StreamsBuilder, Topology
number = 3
def by_builder(builder): builder.stream("in").to("out")
def by_topology(): return Topology().add_source("s", "in")
def by_own_builder():
    builder = StreamsBuilder()
    builder.stream("in")
    return builder
def optional(builder=None): builder.stream("in")
class Application:
    @staticmethod
    def build(builder): builder.stream("in")
def nothing(builder): pass
def text(): return "text"
def two(builder, other): pass
def keyword(*, builder): pass
def broken(builder): raise ValueError("no luck")
def clash(builder): builder.stream("in").peek(print, name="a").peek(print, name="a")
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """A module on the path, gone afterwards."""
    (tmp_path / "planted_app.py").write_text(MODULE)
    (tmp_path / "planted_broken.py").write_text("import no_such_package\n")
    (tmp_path / "planted_raising.py").write_text("1 / 0\n")
    sys.path.insert(0, str(tmp_path))
    yield "planted_app"
    sys.path.remove(str(tmp_path))
    for name in ("planted_app", "planted_broken", "planted_raising"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "function", ["by_builder", "by_topology", "by_own_builder", "optional", "Application.build"]
)
def test_a_function_may_take_a_builder_or_return_what_it_built(module: str, function: str) -> None:
    assert "in" in load_topology(f"{module}:{function}").describe()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("planted_app", "not of the form 'module:function'"),
        (":build", "not of the form"),
        ("planted_app:", "not of the form"),
        ("no_such_module.app:build", "no module 'no_such_module'.*PYTHONPATH"),
        (
            "planted_broken:build",
            r"ModuleNotFoundError: No module named 'no_such_package' \(.*broken.py, line 1\)",
        ),
        ("planted_raising:build", "ZeroDivisionError"),
        ("planted_app:missing", "has no 'missing'; it defines .*by_builder, by_own_builder"),
        ("planted_app:number", "is a int, not a function"),
        ("planted_app:nothing", "empty topology"),
        ("planted_app:text", "returned str"),
        ("planted_app:two", r"takes \(builder, other\)"),
        ("planted_app:keyword", r"takes \(builder\)"),
        ("planted_app:broken", "raised ValueError: no luck"),
    ],
)
def test_a_path_that_leads_nowhere_says_why_and_what_next(
    module: str, path: str, message: str
) -> None:
    with pytest.raises(ImportPathError, match=message):
        load_topology(path)


TEXT = """
from headwater import StreamsBuilder

TOPIC = "in"

def make(builder: StreamsBuilder) -> None:
    builder.stream(TOPIC).to("out")
"""


def test_a_source_text_is_a_module_whose_lines_tracebacks_show() -> None:
    assert "in" in load_text(SourceText(text=TEXT, function="make")).describe()

    function = vars(sys.modules["streamapp_topology"])["make"]
    assert inspect.getsource(function).splitlines()[1].strip() == 'builder.stream(TOPIC).to("out")'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import no_such_package",
            "ModuleNotFoundError: No module named 'no_such_package'.*line 1",
        ),
        ("x = 1\n1 / 0\n", r"ZeroDivisionError: division by zero \(<spec.topology>, line 2\)"),
        ("def make(:\n", r"SyntaxError: .* \(<spec.topology>, line 1\)"),
        ("a = '\0'", "source code string cannot contain null bytes"),
        ("import sys\nsys.exit('no')", r"SystemExit: no \(<spec.topology>, line 2\)"),
        ("raise ValueError", r"failed: ValueError \(<spec.topology>, line 1\)"),
        ("def other(): pass", "has no function 'make'; it defines other"),
        ("make = 3", "has no function 'make'; it defines no function"),
        ("def make(builder): pass", "empty topology"),
        ("def make(builder):\n    1 / 0", r"'spec.topology:make' raised ZeroDiv.*line 2\)"),
    ],
)
def test_a_source_text_that_makes_no_topology_says_why_and_where(text: str, message: str) -> None:
    with pytest.raises(ImportPathError, match=message):
        load_text(SourceText(text=text, function="make"))


def test_a_topology_that_breaks_a_rule_keeps_its_own_error(module: str) -> None:
    with pytest.raises(TopologyError, match="already added"):
        load_topology(f"{module}:clash")


def test_a_function_in_hand_is_built_like_a_loaded_one() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in")

    assert isinstance(build_topology(build), Topology)


def test_a_callable_without_signature_is_called_with_nothing() -> None:
    with pytest.raises(ImportPathError, match="returned dict"):
        build_topology(dict)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", "Sub-topology: 0"),
        ("mermaid", 'subgraph g0["Sub-topology 0"]'),
        ("json", '"source_topics": ['),
        ("json", '"kind": "source"'),
        ("svg", ">Sub-topology 0</text>"),
    ],
)
def test_describe_prints_a_topology(
    module: str, form: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["describe", f"{module}:by_builder", "--format", form])

    assert status == 0
    assert expected in capsys.readouterr().out


def test_describe_draws_topics_nodes_stores_and_their_edges(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["describe", "examples.word_count.app:build", "--format", "mermaid"])

    drawn = capsys.readouterr().out.splitlines()
    assert '  t0[/"TextLinesTopic"/]:::topic' in drawn
    assert '  t1[/"counts-store-repartition"/]:::internal' in drawn
    assert '    s1_0[("counts-store")]:::store' in drawn
    assert "  t0 --> n0" in drawn
    assert "  n6 <--> s1_0" in drawn


def test_describe_shows_a_user_s_mistake_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["describe", "no_such_module:build"])

    assert status == ImportPathError.exit_code
    assert capsys.readouterr().err.startswith("error: There is no module 'no_such_module'")


def test_describe_registers_itself() -> None:
    added: list[tuple[str, Any]] = []

    class Parsers:
        def add_parser(self, name: str, **_: Any) -> Any:
            added.append((name, self))
            return self

        def add_argument(self, *_: Any, **__: Any) -> None:
            pass

        def set_defaults(self, *, run: Callable[..., int]) -> None:
            added.append(("run", run))

    describe.register(Parsers())

    assert [name for name, _ in added] == ["describe", "run"]
