"""Where a record goes: nodes, stores and topics that it reaches in the test driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from examples.click_stream import app as click_stream
from examples.word_count import app as word_count

from headwater import StreamsBuilder
from headwater.testing.journey import Journeys

JOURNEY = (sys.executable, "-m", "headwater.cli.main", "journey")
ROOT = Path(__file__).parents[3]


def journeys(module: object) -> Journeys:
    builder = StreamsBuilder()
    module.build(builder)  # type: ignore[attr-defined]
    return Journeys(builder.build(), start_ms=1_700_000_000_000)


def test_a_record_is_followed_over_a_repartition_topic_into_store_and_output() -> None:
    found = journeys(word_count).pipe("TextLinesTopic", None, b"hello world")

    assert "KSTREAM-FLATMAPVALUES-0000000001" in found.nodes
    assert "KTABLE-TOSTREAM-0000000007" in found.nodes
    assert found.stores == ("counts-store",)
    counts = [
        (each.key, each.value) for each in found.written if each.topic == "WordsWithCountsTopic"
    ]
    assert counts == [("hello", "0x0000000000000001"), ("world", "0x0000000000000001")]


def test_each_record_tells_of_itself_alone_and_finds_what_others_have_left() -> None:
    running = journeys(click_stream)
    running.pipe("user-profiles", b"u", b'{"name": "Ann"}')

    view = running.pipe("page-views", b"u", b'{"page": "/"}')
    again = running.pipe("page-views", b"u", b'{"page": "/"}')
    search = running.pipe("searches", b"u", b'{"terms": "skis"}')

    assert view.nodes == again.nodes
    assert "KSTREAM-LEFTJOIN-0000000004" in view.nodes
    assert "KTABLE-SOURCE-0000000002" not in view.nodes
    assert "same-time-merge" not in view.nodes
    assert "KSTREAM-LEFTJOIN-0000000004" not in search.nodes
    assert "same-time-merge" in search.nodes
    outputs = [each.value or "" for each in search.written if each.topic == "user-activities"]
    assert [json.loads(each)["name"] for each in outputs] == ["Ann", "Ann"]


def test_a_topic_that_is_not_read_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="does not read topic 'nope'; it reads TextLinesTopic"):
        journeys(word_count).pipe("nope", None, b"x")


def test_the_command_answers_line_by_line_and_goes_on_after_bad_input() -> None:
    lines = [
        '{"topic": "TextLinesTopic", "key": "k", "value": "hello"}',
        '{"topic": "nope"}',
        "no json",
        '{"topic": "TextLinesTopic", "value": 1}',
        '{"topic": "TextLinesTopic", "key": "k", "value": "hello"}',
    ]

    done = subprocess.run(
        [*JOURNEY, "examples.word_count.app:build"],
        input="\n".join(lines) + "\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    first, unread, broken, number, last = map(json.loads, done.stdout.splitlines())
    assert first["nodes"] == last["nodes"] != []
    assert "nope" in unread["error"]
    assert "line 1" in broken["error"]
    assert number["error"] == "1 is neither text nor null"
    assert last["written"][1]["value"] == "0x0000000000000002"


PRINTS = """
from headwater import Serdes

print("imported")


def build(builder):
    stream = builder.stream("in", key_serde=Serdes.string, value_serde=Serdes.string)
    stream.for_each(lambda key, value: print("seen"))
"""


def test_what_a_topology_prints_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)

    done = subprocess.run(
        [*JOURNEY, "prints:build", "--import-path", str(tmp_path)],
        input='{"topic": "in", "value": "hello"}\n',
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert json.loads(done.stdout)["nodes"] != []
    assert done.stderr.splitlines().count("imported") == 1
    assert "seen" in done.stderr
