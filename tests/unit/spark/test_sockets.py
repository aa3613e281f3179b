"""The sockets of task hosts: none of a dead host stays, none of a living one goes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from headwater.local.filelock import FileLock
from headwater.spark.turns.hosts import remove_abandoned

if TYPE_CHECKING:
    from pathlib import Path


def test_sockets_of_dead_hosts_are_removed_and_no_others(tmp_path: Path) -> None:
    names = ("living", "dead", "starting", "unlocked")
    sockets = {name: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for name in names}
    for name, one in sockets.items():
        one.bind(str(tmp_path / name))
        if name != "unlocked":
            (tmp_path / f"{name}.lock").touch()
    sockets["living"].listen()
    for name in ("dead", "starting", "unlocked"):
        sockets[name].close()

    with FileLock(tmp_path / "starting.lock") as lock:
        lock.acquire(timeout_s=0)
        remove_abandoned(tmp_path)

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"living", "living.lock", "starting", "starting.lock"}
    sockets["living"].close()
