"""``headwater journey``: pipes records into a topology in memory and prints where each went."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any

from headwater.cli import streamapps
from headwater.cli.options import add_topology
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headwater.testing.journey import Journeys


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "journey",
        help="show which nodes, stores and topics a record reaches",
        description="Run a topology in memory, as its tests do, without Kafka. Read records from "
        'standard input, a JSON object a line: {"topic": ..., "key": ..., "value": ...}, key and '
        "value as text or null. Print what became of each, a JSON object a line. What a record "
        "leaves in the stores is there for the next.",
    )
    add_topology(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer records until the input ends; return the exit code."""
    from headwater.testing.journey import Journeys  # noqa: PLC0415 - keeps help fast

    with _answers() as answers:
        topology, _ = streamapps.topology_asked_for(arguments)
        journeys = Journeys(topology, start_ms=int(time.time() * 1000))
        try:
            for line in sys.stdin:
                print(json.dumps(_answer(journeys, line)), file=answers, flush=True)
        finally:
            journeys.close()
    return 0


@contextmanager
def _answers() -> Iterator[IO[str]]:
    """Yield standard output for the answers alone; what the topology prints goes to errors."""
    sys.stdout.flush()
    out = sys.stdout.fileno()
    with os.fdopen(os.dup(out), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), out)
        try:
            yield answers
        finally:
            sys.stdout.flush()
            os.dup2(answers.fileno(), out)


def _answer(journeys: Journeys, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        key, value = (_bytes(record.get(name)) for name in ("key", "value"))
        return asdict(journeys.pipe(str(record["topic"]), key, value))
    except (HeadwaterError, ValueError, KeyError, AttributeError) as error:
        said = str(error) or type(error).__name__
        return {"error": said}


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is neither text nor null")  # noqa: TRY004  # bad input
    return value.encode()
