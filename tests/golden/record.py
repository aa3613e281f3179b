"""Writes ``describe/*.txt`` and ``changelogs/*.jsonl`` from what Java says.

python -m tests.golden.record
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.golden import changelogs, test_describe
from tests.java.tool import Oracle

if TYPE_CHECKING:
    from collections.abc import Mapping


def main() -> None:
    oracle = Oracle()

    def answer(case: str, request: Mapping[str, Any]) -> dict[str, Any]:
        found = oracle.ask(request)
        assert "error" not in found, (case, found["error"])
        print(case)
        return found

    for case in test_describe.CASES:
        request = json.loads((test_describe.DIRECTORY / f"{case}.json").read_text())
        path = test_describe.DIRECTORY / f"{case}.txt"
        path.write_text(answer(case, request)["describe"])
    for case, request in changelogs.CASES.items():
        lines = changelogs.lines(answer(case, request)["produced"])
        (changelogs.DIRECTORY / f"{case}.jsonl").write_text("\n".join(lines) + "\n")
    oracle.close()


if __name__ == "__main__":
    main()
