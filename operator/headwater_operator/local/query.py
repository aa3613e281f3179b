"""``headwater query``: asks the workers of an application for what their stores hold, and shows it.

On one machine the workers are reached by their endpoints, on a cluster through the API server, with
the rights of whoever asks. Whom is asked for what is in ``query_asking``.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from headwater_operator.local.query_asking import ask_for_key, ask_for_range
from headwater_operator.local.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.local.query_asking import Question, Workers


def run(workers: Workers, question: Question, output: str) -> int:
    """Ask, and print the answer; return the exit code."""
    if question.key is None:
        answer = ask_for_range(workers, question)
    else:
        answer = ask_for_key(workers, question)
    if output == "json":
        json.dump(answer, sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif output == "yaml":
        import yaml  # noqa: PLC0415 - it takes time to load

        yaml.safe_dump(answer, sys.stdout, sort_keys=False, allow_unicode=True)
    elif "error" in answer:
        sys.stderr.write(f"{answer['message']}\n")
    else:
        rows = answer.get("rows", [answer])
        print_table(*table_of(rows))
    return 1 if "error" in answer else 0


def table_of(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return header and cells of rows as JSON shows them."""
    cells = [_cells(row) for row in rows]
    shown = [name for name in _COLUMNS if name in _ALWAYS or any(row[name] for row in cells)]
    return shown, [[row[name] for name in shown] for row in cells]


_COLUMNS: Final = ("KEY", "START", "END", "VALUE", "TIMESTAMP", "VALID TO", "PARTITION")
_ALWAYS: Final = ("KEY", "VALUE")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    window = row.get("window", {"start": "", "end": ""})
    return {
        "KEY": _text(row["key"]),
        "START": str(window["start"]),
        "END": str(window["end"]),
        "VALUE": _text(row["value"]),
        "TIMESTAMP": str(row.get("timestamp", "")),
        "VALID TO": str(row.get("validTo") or ""),
        "PARTITION": str(row["partition"]),
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
