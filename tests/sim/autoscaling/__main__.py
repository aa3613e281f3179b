"""Plays a day, says what happened and draws it: ``python -m tests.sim.autoscaling [SEED]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.sim.autoscaling.day import simulate
from tests.sim.autoscaling.load import Arrivals
from tests.sim.autoscaling.picture import picture
from tests.sim.autoscaling.world import CAPACITY

SEED: Final = "a day"
PICTURE: Final = Path(__file__).parents[3] / "docs" / "autoscaling-day.svg"


def drawn(seed: str = SEED) -> str:
    """Return the picture of a day."""
    return picture(simulate(seed), Arrivals(seed), CAPACITY)


def main() -> None:
    """Play a day; without a seed of its own, it is the one of the page, which is drawn."""
    seed = sys.argv[1] if len(sys.argv) > 1 else SEED
    day = simulate(seed)
    for at_s, before, after, why in day.moves:
        print(f"{at_s / 3600:5.2f} h  from {before} to {after} workers  {why}")
    print(f"seed {seed!r}: {len(day.moves)} changes")
    if seed == SEED:
        PICTURE.write_text(picture(day, Arrivals(seed), CAPACITY))
        print(PICTURE)


if __name__ == "__main__":
    main()
