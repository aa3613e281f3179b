"""What programs may call in Kafka Streams, and its names here: ``python -m tests.golden.java_api``.

``java_api.tsv`` has what ``tests/java/api/PublicApi.java`` tells of Kafka's jar: a class and, after
a tab, one of its public methods or constants, or nothing for the class itself. A class or method
has the same name here in Python's spelling, or is a row of ``java_api_names.py``.
"""

from __future__ import annotations

import inspect
import re
import subprocess
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import headwater
from tests.golden.java_api_names import CLASSES, LEFT_OUT, METHODS, OF_STORES
from tests.java.tool import JavaTool

RECORDED = Path(__file__).with_suffix(".tsv")
_FACTORIES = {"as", "with"}
"""Of option objects: the constructor, if there is no method of this name."""


class Line(NamedTuple):
    """A class, as ``KStream`` or ``Topology.AutoOffsetReset``, and a method, ``""`` for none."""

    owner: str
    method: str

    @property
    def path(self) -> str:
        """The method's name in Java."""
        return f"{self.owner}.{self.method}" if self.method else self.owner


def lines() -> list[Line]:
    """Return what Java has."""
    found = []
    for line in RECORDED.read_text().splitlines():
        owner, method = line.split("\t")
        found.append(Line(re.sub(r"^([a-z]+\.)+", "", owner), method))
    return found


def name_of(line: Line) -> str | None:
    """Return what is called so here, as a path below ``headwater``; ``None`` if nothing is."""
    owner = CLASSES.get(line.owner, line.owner)
    given = METHODS.get(line.path)
    if given is not None or not line.method:
        found = given or owner
        return found if is_there(found) else None
    if not is_there(owner):
        return None
    for name in _spellings(line.method):
        if is_there(f"{owner}.{name}"):
            return f"{owner}.{name}"
    return owner if line.method in _FACTORIES else None


def reason_of(line: Line) -> str | None:
    """Return why nothing here is called so; ``None`` if no reason is given."""
    if line.path in LEFT_OUT or line.owner in LEFT_OUT:
        return LEFT_OUT.get(line.path) or LEFT_OUT[line.owner]
    is_store = line.owner.endswith(("Store", "StoreWithHeaders"))
    return OF_STORES.get(line.method) if is_store else None


def _spellings(java: str) -> list[str]:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", java).lower()
    plain = snake.removeprefix("with_")
    return [snake, f"{snake}_", java, plain, f"{snake}_ms", plain.removesuffix("_period")]


def is_there(path: str) -> bool:
    """Whether a path leads to a class, a method, or what an option object is given by keyword."""
    try:
        attrgetter(path)(headwater)
    except AttributeError:
        owner, _, name = path.rpartition(".")
        return bool(owner) and is_there(owner) and name in _parameters(attrgetter(owner)(headwater))
    return True


def _parameters(cls: Any) -> set[str]:
    """Of an option object: what is set by keyword."""
    try:
        return set(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        return set()


def listed() -> str:
    """Return what Java's jar has, as it is recorded."""
    tool = JavaTool(Path(__file__).parents[1] / "java" / "api")
    command = tool.command("PublicApi")
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return told.stdout


def main() -> None:
    RECORDED.write_text(listed())


if __name__ == "__main__":
    main()
