"""Repeat a seed: ``python -m tests.sim.kubernetes SEED``, with the options below if it had them."""

from __future__ import annotations

import sys

from tests.sim.kubernetes.run import simulate
from tests.sim.world import ViolationError


def main() -> int:
    """Run it; print its story."""
    try:
        world = simulate(
            sys.argv[1],
            exactly_once="--at-least-once" not in sys.argv,
            acts="--actions" in sys.argv,
            autoscales="--autoscaling" in sys.argv,
            changes="--changes" in sys.argv,
            shards="--shards" in sys.argv,
            watches="--secret" in sys.argv,
        )
    except ViolationError as violation:
        print(violation)
        return 1
    print("\n".join(world.story))
    return 0


if __name__ == "__main__":
    sys.exit(main())
