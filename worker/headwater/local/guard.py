"""Stands between an owner and a long-running program so that the program never outlives its owner.

Run as a script by its path, importing nothing else of ours, so that it starts in milliseconds:

    python -I guard.py [--remove DIRECTORY] -- PROGRAM ARGUMENT...

    standard input    commands from the owner, one a line: ``stop SECONDS`` (terminate, after so
                      many seconds kill) and ``kill``; its end means that the owner is gone: kill
    standard output   one line: the process id of the program
    standard error    inherited by the program, together with its standard output

The program dies with the guard as well (parent-death signal). The guard ends, with the program's
exit status, when the program has ended. The directory is removed if the owner is gone.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_OWNER_CHECK_S = 0.5


def main(arguments: list[str]) -> int:
    """Run the program that the arguments name, until it ends or must end."""
    split = arguments.index("--")
    options, command = arguments[:split], arguments[split + 1 :]
    owner = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = start(command)
    # Nobody else may hold the write end of our report, else the owner could wait for it for ever.
    os.write(1, f"{program.pid}\n".encode())
    os.close(1)
    owner_is_gone = supervise(program, owner)
    program.kill()
    program.wait()
    if owner_is_gone and options[:1] == ["--remove"]:
        shutil.rmtree(options[1], ignore_errors=True)
    return abs(int(program.returncode))


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a program that is killed by the kernel when this process ends, whatever the cause."""
    libc = ctypes.CDLL(None, use_errno=True)
    guard = os.getpid()

    def die_with_guard() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:
            os._exit(1)

    # Inherited descriptors stay open: through one of them the program holds a lock.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=die_with_guard,  # noqa: PLW1509 - this process has one thread
        close_fds=False,
    )


def supervise(program: subprocess.Popen[bytes], owner: int) -> bool:
    """Return when the program has ended or should be killed; true if because the owner is gone."""
    ended = os.pidfd_open(program.pid)
    kill_at: float | None = None
    pending = b""
    while True:
        wait_s = _OWNER_CHECK_S if kill_at is None else max(0.0, kill_at - time.monotonic())
        readable, _, _ = select.select([0, ended], [], [], min(wait_s, _OWNER_CHECK_S))
        if ended in readable or (kill_at is not None and time.monotonic() >= kill_at):
            return False
        # A process forked by the owner may hold our input open after the owner's death.
        if os.getppid() != owner:
            return True
        if 0 not in readable:
            continue
        received = os.read(0, 4096)
        if not received:
            return True
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            word, _, argument = line.decode().partition(" ")
            if word == "kill":
                return False
            program.terminate()
            kill_at = time.monotonic() + float(argument)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
