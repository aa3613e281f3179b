"""Stands between a kubelet and the process of a container, in place of its PID namespace.

Run as a script by its path, importing nothing of ours: ``python -I -S shim.py PROGRAM ARGUMENT...``

    standard input    commands, a letter each: ``t`` (SIGTERM to the program), ``k`` (SIGKILL to
                      everything); its end means that the kubelet is gone: SIGKILL to everything
    standard output   one line: the program's process id, or ``-`` and why it cannot be run
    standard error    inherited by the program, together with its standard output

When the program ends, whatever it has started and left behind is killed. The exit status is that of
a container: the program's own, or 128 and the number of the signal that ended it. The program dies
with the shim, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OWNER_CHECK_S = 0.5
_CANNOT_RUN = 128


def main(command: list[str]) -> int:
    """Run a program until it ends or must end."""
    owner = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    # Orphans among our descendants become our children, so none can leave us.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    shim = os.getpid()

    def die_with_shim() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if os.getppid() != shim:
            os._exit(1)

    try:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            preexec_fn=die_with_shim,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        os.write(1, f"-{error}\n".encode())
        return _CANNOT_RUN
    os.write(1, f"{program.pid}\n".encode())
    os.close(1)
    supervise(program, owner)
    program.kill()
    code = program.wait()
    kill_descendants()
    return 128 - code if code < 0 else code


def supervise(program: subprocess.Popen[bytes], owner: int) -> None:
    """Return when the program has ended or is to be killed."""
    ended = os.pidfd_open(program.pid)
    while True:
        readable, _, _ = select.select([0, ended], [], [], _OWNER_CHECK_S)
        # A process forked by the owner may hold our input open after the owner's death.
        if ended in readable or os.getppid() != owner:
            return
        if 0 not in readable:
            continue
        said = os.read(0, 1)
        if said != b"t":
            return
        program.terminate()


def kill_descendants() -> None:
    """Kill whatever is left below us, until nothing is."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)  # its own children become ours
        except ChildProcessError:
            return


def children() -> list[int]:
    """Return the process ids of our children."""
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
