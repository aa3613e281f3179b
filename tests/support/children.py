"""Targets for child processes in tests; a child imports this module by name."""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from typing import Any

from headwater.errors import ConfigError, FencedError, ProcessingError
from headwater.native.loading import child_topology
from headwater.native.process import ChildProcess, Link


def echo(settings: Any, link: Link) -> None:
    """Send back the settings, then every value until ``"stop"``."""
    link.send(settings)
    while (value := link.wait(60)) != "stop":
        link.send(value)


def user_mistake(settings: Any, link: Link) -> None:
    raise ConfigError("poll.ms must be a number: write poll.ms: 100")


def fenced(settings: Any, link: Link) -> None:
    raise FencedError("another producer took app-w-0")


def our_mistake(settings: Any, link: Link) -> None:
    raise RuntimeError("broken inside")


def failing_user_code(settings: Any, link: Link) -> None:
    try:
        int("not a number")
    except ValueError as error:
        raise ProcessingError("processor KSTREAM-MAP-0000000001 raised ValueError") from error


def deaf(settings: Any, link: Link) -> None:
    """Never look at the inbox: only the end of the parent ends this."""
    link.send("started")
    subprocess.run([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, check=False)


def parent_of_deaf(settings: Any, link: Link) -> None:
    child = ChildProcess("tests.support.children:deaf", None, name="grandchild")
    child.receive(30)
    link.send(child.pid)
    link.wait(600)


def logging_child(settings: Any, link: Link) -> None:
    """Build the topology as a StreamThread does, then log as user code and as we do."""
    child_topology(settings)
    for name in ("mylib", "headwater.native.thread"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger(name).log(level, "said by %s", name)
    link.send("done")


def holds_the_lock(_: object, link: Link) -> None:
    """Call native code that keeps Python's global lock, and that no signal ends.

    A sleep would not do: the signal that asks for the stacks ends it.
    """
    native = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(128)
    native.pthread_mutex_init(mutex, None)
    native.pthread_mutex_lock(mutex)
    link.send("holding")
    native.pthread_mutex_lock(mutex)
