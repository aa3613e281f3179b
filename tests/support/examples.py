"""How many examples a property is tried with: a share of its own number, as for seeds."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 20
"""Below this a law is hardly tried."""
OWN = 100
"""What a property without a number of its own is tried with."""

_share = [1.0]


def take_share(share: float) -> None:
    """Set the share of this run; before test modules are imported."""
    _share[0] = share
    settings.register_profile("share", settings.default, max_examples=examples(OWN))
    settings.load_profile("share")


def examples(number: int) -> int:
    """Return the share of ``number``, which is what all of a run has."""
    return max(min(FEWEST, number), round(number * _share[0]))
