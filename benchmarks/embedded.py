"""A whole worker of Headwater for the rows that need one: a main process and its children.

    python -m benchmarks.embedded --work count --input T --output T [name=value ...]

Says RUNNING on standard error when all tasks run and ends at a line or the end of standard input,
as the Java yardstick does.
"""

from __future__ import annotations

import argparse
import os
import sys

from headwater import KafkaStreams
from headwater.model.lifecycle import ClientState


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("settings", nargs="*", metavar="name=value")
    options = parser.parse_args()
    os.environ["HEADWATER_BENCH_INPUT"] = options.input
    os.environ["HEADWATER_BENCH_OUTPUT"] = options.output
    config = dict(setting.split("=", 1) for setting in options.settings)

    def tell(now: ClientState, _before: ClientState) -> None:
        if now is ClientState.RUNNING:
            print("RUNNING", file=sys.stderr, flush=True)

    streams = KafkaStreams(f"benchmarks.works:{options.work}", config)
    streams.set_state_listener(tell)
    with streams:
        sys.stdin.readline()
    return 0


if __name__ == "__main__":
    sys.exit(main())
