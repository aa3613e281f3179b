"""Writes ``describe/*.txt`` from what Java says: ``python -m tests.golden.record``."""

from __future__ import annotations

import json

from tests.golden.test_describe import CASES, DIRECTORY
from tests.java.tool import Oracle


def main() -> None:
    oracle = Oracle()
    for case in CASES:
        answer = oracle.ask(json.loads((DIRECTORY / f"{case}.json").read_text()))
        assert "error" not in answer, (case, answer["error"])
        (DIRECTORY / f"{case}.txt").write_text(answer["describe"])
        print(case)
    oracle.close()


if __name__ == "__main__":
    main()
