"""The parts of `make test`: each test file is in one of them; what is left out is said."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.parts import (
    IN_PYTHON,
    MINUTES,
    NODE,
    QUICK,
    REST,
    ROOT,
    Part,
    Plan,
    _result,
    _tell,
    files,
    left_out,
    plan,
)
from tests.unstable import Verdict

from headwater.kafka.native_module import NO_EXTENSIONS

if TYPE_CHECKING:
    from pathlib import Path


def test_every_file_of_tests_is_in_one_part() -> None:
    found = Counter(name for names in files().values() for name in names)

    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")}
    journey = {name for name in there if name.startswith("tests/e2e/")}
    assert found == Counter(there - journey)
    assert all(files().values())


@pytest.mark.parametrize("everything", [False, True])
def test_make_test_has_its_parts_and_make_test_all_the_others_behind_them(
    tmp_path: Path, everything: bool
) -> None:
    chosen = plan([], "tool", tmp_path, everything=everything)

    names = [part.name for part in chosen.parts if part.name != NODE]
    assert names == ["check", *QUICK, *(REST if everything else ())]
    assert (NODE in [part.name for part in chosen.parts]) is everything
    assert files().keys() == {*QUICK, *REST}


def test_records_take_the_path_in_python_in_some_parts_with_kafka_and_in_c_in_others(
    tmp_path: Path,
) -> None:
    chosen = plan([], "tool", tmp_path, everything=True)

    in_python = {part.name for part in chosen.parts if part.settings.get(NO_EXTENSIONS)}
    assert in_python == set(IN_PYTHON) == {"kafka-2", "oracle", "troubles"}
    part = _part("first", f"import os; assert os.environ[{NO_EXTENSIONS!r}] == '1'")
    part.settings = {NO_EXTENSIONS: "1"}
    part.run()
    assert part.passed


def test_what_make_test_has_needs_no_kubernetes() -> None:
    """By the markers and fixtures that the sources name; the demonstration is among them."""
    of_kube = re.compile(r"mark\.kube\b|\b(control_plane|kubeconfig|kube_api): [A-Z]")
    quick = [name for part in QUICK for name in files()[part]]

    found = {name for name in quick if of_kube.search(_code(name))}
    assert found == set()
    assert "tests/kafka/test_demonstration.py" in quick
    assert "tests/spark/test_three_ways.py" in quick


def test_what_is_left_out_is_said_with_the_command_that_has_it() -> None:
    said = "\n".join(left_out(["check", *QUICK], everything=False))
    with_node = left_out(["check", *QUICK, *REST, NODE], everything=True)
    without = left_out(["check", *QUICK, *REST], everything=True)

    assert all(part in said for part in REST)
    assert re.findall(r"make [a-z0-9-]+", said) == [
        *("make test-all", "make test-all", "make e2e-cluster", "make soak")
    ]
    assert len(without) == len(with_node) + 1
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"make ([a-z0-9-]+)", said):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_a_part_begins_when_what_it_needs_has_passed(tmp_path: Path) -> None:
    first = _part("first", f"open(r'{tmp_path / 'a'}', 'w').close()")
    second = _part("second", f"open(r'{tmp_path / 'a'}')", after=("first",))
    third = _part("third", "pass")
    plan = Plan([first, second, third])

    plan.run(at_once=2)

    assert [part.passed for part in plan.parts] == [True, True, True]


def test_a_part_whose_need_has_failed_is_not_run_and_has_not_passed() -> None:
    needed = _part("needed", "print('=== FAILURES ==='); print('it broke'); raise SystemExit(3)")
    needing = _part("needing", "pass", after=("needed",))
    last = _part("last", "pass", after=("needing",))
    other = _part("other", "pass")
    plan = Plan([last, needed, needing, other])

    plan.run(at_once=1)

    assert (needed.passed, needing.passed, other.passed) == (False, False, True)
    assert (needing.took_s, last.took_s, last.passed) == (None, None, False)
    assert "it broke\n" in needed.told


def test_parts_run_side_by_side(tmp_path: Path) -> None:
    plan = Plan([_meets(tmp_path, "a", "b"), _meets(tmp_path, "b", "a")])

    plan.run(at_once=2)

    assert all(part.passed for part in plan.parts)


def test_a_part_that_mostly_waits_runs_beside_the_others(tmp_path: Path) -> None:
    plan = Plan([_meets(tmp_path, "a", "b"), _meets(tmp_path, "b", "a", waits=True)])

    plan.run(at_once=1)

    assert all(part.passed for part in plan.parts)


@pytest.mark.parametrize("waits", [False, True])
def test_whoever_needs_a_part_that_is_not_run_is_not_waited_for(waits: bool) -> None:
    last = _part("last", "pass", after=("needing",), waits=waits)
    needing = _part("needing", "pass", after=("needed",))
    plan = Plan([last, _part("needed", "raise SystemExit(3)"), needing])

    plan.run(at_once=1)

    assert [(part.ended, part.passed) for part in plan.parts] == [(True, False)] * 3


def test_the_last_lines_say_what_each_kind_of_tests_costs_in_all_parts_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _part("first", f"print('{MINUTES}kafka 12.3, the others 0.5, java 3.0')")
    second = _part("second", f"print('{MINUTES}spark 25.0, kafka 0.4')\nraise SystemExit(1)")
    plan = Plan([first, second, _part("check", "print('kafka 7.0')")])
    plan.run(at_once=2)

    verdict = Verdict(failed=("second",), unstable=())
    _tell(plan.parts, verdict, everything=True)
    assert _result(verdict, 60) == 1

    lines = capsys.readouterr().out.splitlines()
    assert (
        "minutes by what is needed, all parts: spark 25.0, kafka 12.7, java 3.0, the others 0.5"
    ) in lines
    assert "minutes by part: first 0.0, second 0.0, check 0.0" in lines
    assert lines[-1] == "FAILED: second in 1.0 min"


@pytest.mark.parametrize("at_once", [1, 2])
def test_nothing_more_begins_once_it_is_ended(at_once: int) -> None:
    plan = Plan([_part("a", "pass"), _part("b", "pass")])
    plan.end()

    plan.run(at_once)

    assert [part.took_s for part in plan.parts] == [None, None]


def _code(name: str) -> str:
    return (ROOT / name).read_text()


def _part(name: str, program: str, *, after: tuple[str, ...] = (), waits: bool = False) -> Part:
    return Part(name, [sys.executable, "-c", program], after, waits)


def _meets(folder: Path, own: str, other: str, *, waits: bool = False) -> Part:
    """A part that ends only once the other one runs, too."""
    program = (
        f"import os\nopen(r'{folder / own}', 'w').close()\n"
        f"while not os.path.exists(r'{folder / other}'): pass"
    )
    return _part(own, program, waits=waits)
