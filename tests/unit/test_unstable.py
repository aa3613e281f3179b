"""A failure of a test with real processes is looked at twice; any other is final."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests import record, unstable
from tests.parts import NODE, ROOT, Part, _result, _tell, failures
from tests.record import Outcome, Session
from tests.unstable import MOST, MOST_AGAIN, judge, not_mended, to_run_again, told

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_REAL = Outcome("real", 1, is_real=True, log="it broke")
_CONFTEST = """
import pytest
from tests import record

def pytest_addoption(parser):
    record.add_option(parser)

def pytest_configure(config):
    record.begin(config)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return record.with_needs(item, (yield))
"""
_TESTS = '''
import pytest
from pathlib import Path

def fails_first(name, folder=Path(__file__).parent):
    """True the first time only."""
    seen = folder / name
    if seen.exists():
        return False
    seen.touch()
    return True

def test_fine():
    print("this one is not run again")

@pytest.mark.processes
@pytest.mark.parametrize("number", range({unstable}))
def test_flickers(number):
    print("the output of", number)
    assert not fails_first(f"flicker-{{number}}"), "the first time"

@pytest.fixture
def broken():
    raise OSError("no port")

@pytest.mark.processes
@pytest.mark.skipif({stable} < 1, reason="not planted")
def test_red(broken):
    pass

@pytest.mark.skipif({pure} < 1, reason="not planted")
def test_pure():
    assert not fails_first("pure"), "by a flickering decision"
'''


def test_only_failed_tests_with_real_processes_are_run_again() -> None:
    sessions = {
        "a": _session(_ok("1"), _bad("2"), _bad("3", is_real=False)),
        "b": _session(_bad("4")),
    }

    assert to_run_again(sessions) == ["2", "4"]


@pytest.mark.parametrize(("number", "runs"), [(MOST_AGAIN, True), (MOST_AGAIN + 1, False)])
def test_where_most_is_broken_nothing_is_run_again(number: int, runs: bool) -> None:
    sessions = {"a": _session(*(_bad(str(each)) for each in range(number)))}

    assert bool(to_run_again(sessions)) is runs
    assert runs or not judge(sessions, {}).passes


def test_a_failure_that_comes_again_stays_red() -> None:
    verdict = judge({"a": _session(_bad("1"), _bad("2"))}, {"1": True, "2": False})

    assert (verdict.failed, verdict.unstable, verdict.passes) == (("a",), ("1",), False)


@pytest.mark.parametrize(("number", "passes"), [(0, True), (MOST, True), (MOST + 1, False)])
def test_more_unstable_tests_than_three_fail_the_run(number: int, passes: bool) -> None:
    names = [str(each) for each in range(number)]
    sessions = {name: _session(_bad(name)) for name in names}

    verdict = judge(sessions, dict.fromkeys(names, True))

    assert (verdict.failed, len(verdict.unstable), verdict.passes) == ((), number, passes)


@pytest.mark.parametrize(
    "session",
    [
        Session((_REAL,), None),
        Session((_REAL,), 2),
        Session((_REAL,), 3),
        Session((_REAL, Outcome("pure", 1, is_real=False, log="it broke")), 1),
        Session((), 1),
        Session(),
    ],
    ids=["killed", "interrupted", "internal-error", "a-pure-one-too", "no-failure", "no-session"],
)
def test_what_is_more_than_a_failed_test_is_never_forgiven(session: Session) -> None:
    assert judge({"a": session}, {"real": True}).failed == ("a",)


def test_the_journey_on_a_node_is_one_test() -> None:
    assert to_run_again({NODE: _session(_bad(NODE))}) == [NODE]


def test_the_last_lines_name_unstable_tests_their_logs_and_the_page() -> None:
    verdict = judge({"a": _session(_bad("t::x"))}, {"t::x": True})

    lines = told(verdict, "the/file")

    assert "1 test failed" in lines[0]
    assert "the/file" in lines[0]
    assert lines[1] == "  t::x"
    assert unstable.PAGE in lines[2]
    assert told(judge({}, {}), "the/file") == []


@pytest.mark.parametrize(
    ("done", "named"),
    [
        (["nothing yet"], False),
        (["nothing yet", "nothing yet"], True),
        (["mended: a longer limit", "seen again"], True),
        (["nothing yet", "mended: it waits"], False),
        (["nothing yet", "taken apart into two"], False),
    ],
)
def test_a_test_that_is_listed_twice_must_be_mended(done: list[str], named: bool) -> None:
    lines = [f"| `tests/a.py::test_b` | today | {each} |" for each in done]
    page = "\n".join(["| test | seen | what |", "| --- | --- | --- |", *lines])

    assert not_mended(page) == (["tests/a.py::test_b"] if named else [])


def test_a_session_is_read_as_far_as_it_was_written(tmp_path: Path) -> None:
    assert record.read(tmp_path / "none") == Session()
    file = tmp_path / "record"
    whole = '{"test": "a", "seconds": 1.5, "is_real": true, "log": "it broke"}\n'

    file.write_text(whole + whole[:20])
    assert record.read(file) == Session((Outcome("a", 1.5, is_real=True, log="it broke"),), None)

    file.write_text(whole + '{"status": 1}\n')
    assert record.read(file).status == 1


@pytest.mark.parametrize(
    ("planted", "last_line", "again"),
    [
        ({"unstable": 1}, "all passed, 1 unstable in 0.0 min", ["test_flickers[0]"]),
        (
            {"unstable": 4},
            "FAILED: 4 unstable tests, more than 3 in 0.0 min",
            [f"test_flickers[{number}]" for number in range(4)],
        ),
        ({"stable": 1}, "FAILED: tiny in 0.0 min", ["test_red"]),
        ({"pure": 1}, "FAILED: tiny in 0.0 min", []),
    ],
    ids=["one-unstable", "four-unstable", "a-stable-one", "a-pure-one-that-flickers"],
)
def test_planted_failures_are_told_apart(
    planted: dict[str, int],
    last_line: str,
    again: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = _TESTS.format(**{"unstable": 0, "stable": 0, "pure": 0, **planted})
    (tmp_path / "test_tiny.py").write_text(text)
    part = _tiny(tmp_path)
    part.run()
    assert not part.passed

    verdict = failures([part], tmp_path / "logs" / "unstable.log")

    _tell([part], verdict, everything=True)
    assert _result(verdict, 0) == (0 if verdict.passes else 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == last_line
    ran = {
        line.split("::")[1] for line in lines if re.match(r" +again \| (PASS|FAIL|ERR).*::", line)
    }
    assert {name.split(" ")[0] for name in ran} == set(again)
    unstable_too = [name for name in again if "flickers" in name]
    assert (tmp_path / "logs").exists() is bool(unstable_too)
    for name in unstable_too:
        logs = (tmp_path / "logs" / "unstable.log").read_text()
        both = logs.split(f"=== test_tiny.py::{name}\n")[1].split("\n=== test_tiny")[0]
        first, second = both.split("=== alone, passed:")
        output = f"the output of {name[-2]}"
        assert "the first time" in first
        assert output in first
        assert output in second


def test_a_test_that_ends_its_process_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_tiny.py").write_text(
        "import os, pytest\n@pytest.mark.processes\ndef test_ends():\n    os._exit(1)\n"
    )
    part = _tiny(tmp_path)
    part.run()

    assert part.session.status is None
    assert failures([part], tmp_path / "log").failed == ("tiny",)


def _tiny(folder: Path) -> Part:
    (folder / "conftest.py").write_text(_CONFTEST)
    program = (
        "import os, sys; os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'; "
        f"sys.path.insert(0, {str(ROOT)!r}); import pytest; sys.exit(pytest.main())"
    )
    command = [sys.executable, "-c", program, "-c", "/dev/null", "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-q"]
    file = folder / "record"
    return Part(
        "tiny", [*command, f"--record={file}"], record=file, alone=(*command,), folder=folder
    )


def _session(*outcomes: Outcome) -> Session:
    return Session(outcomes, 1)


def _ok(test: str) -> Outcome:
    return Outcome(test, 1, is_real=True)


def _bad(test: str, *, is_real: bool = True) -> Outcome:
    return Outcome(test, 1, is_real=is_real, log="it broke")
