"""What each processor node does, as data: one frozen class per operator, one module per family.

The DSL writes operators into a ``Topology``; an engine compiles them into closures. Between table
nodes a record's value is a *change*: the plain tuple ``(new, old)``, where ``old`` is ``None``
unless the node was told to send old values (Kafka Streams' ``Change``).

``dsl``, ``processor/operators`` and ``spark/frames/rules`` have a module of the same name for every
family (``docs/adr/0061-an-operator-has-the-same-room-on-every-floor.md``).
"""

from __future__ import annotations

import importlib
from typing import Final

FAMILIES: Final = (
    "stateless",
    "table",
    "aggregate",
    "window",
    "cogroup",
    "transform",
    "join",
    "foreign",
    "suppress",
    "global_table",
    "stream_join",
    "user",
    "asynchronous",
)
"""The families of operators: the modules of this package."""


def import_families(package: str) -> None:
    """Import the module of every family in ``package``, so that each registers what it knows.

    Raises:
        ModuleNotFoundError: a family has no module there.
    """
    for family in FAMILIES:
        importlib.import_module(f"{package}.{family}")
