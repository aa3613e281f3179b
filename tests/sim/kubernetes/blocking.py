"""Code that blocks, as a process that takes steps: it can be frozen or killed wherever it waits.

The operator is written as code that calls the API server and waits for the answer. Here it runs in
a thread of its own, but only ever while the simulation waits for it: the baton is with one of the
two. So one seed decides everything, as it does for generators.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from tests.sim.world import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sim.kubernetes.world import KubeWorld


class KilledError(BaseException):
    """The process was killed; nothing in it runs any more."""


class Blocking(Process):
    """A process that runs ``main`` and takes a step from one pause to the next."""

    world: KubeWorld

    def __init__(self, world: KubeWorld, name: str) -> None:
        self._mine = threading.Lock()
        self._theirs = threading.Lock()
        self._mine.acquire()
        self._theirs.acquire()
        self._delay_ms = 0
        self._is_over = False
        self._is_killed = False
        self._error: BaseException | None = None
        super().__init__(world, name)

    def main(self) -> None:
        """Do everything; wait with ``pause``."""
        raise AssertionError(f"{type(self).__name__} does nothing")

    def pause(self, for_ms: int) -> None:
        """Let the others go on; called by ``main``."""
        self._delay_ms = for_ms
        self._theirs.release()
        self._mine.acquire()
        if self._is_killed:
            raise KilledError

    def run(self) -> Iterator[int]:
        thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        thread.start()
        try:
            while True:
                self._go_on()
                if self._error is not None:
                    raise self._error
                if self._is_over:
                    return
                yield self._delay_ms
        finally:
            if not self._is_over:
                self._is_killed = True
                self._go_on()
            thread.join()

    def _go_on(self) -> None:
        self.world.running = self
        self._mine.release()
        self._theirs.acquire()
        self.world.running = None

    def _run(self) -> None:
        self._mine.acquire()
        try:
            if not self._is_killed:
                self.main()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever steps it has to know
            self._error = error
        self._is_over = True
        self._theirs.release()


class Guard:
    """A lock between such processes: whoever waits for it lets the others go on."""

    def __init__(self, world: KubeWorld) -> None:
        self._world = world
        self._owner: Blocking | None = None
        self._depth = 0

    def __enter__(self) -> Self:
        me = self._world.running
        assert me is not None
        while self._owner not in (None, me):
            me.pause(5)
        self._owner = me
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
