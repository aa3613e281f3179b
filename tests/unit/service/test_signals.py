"""What signals do to a program with an embedded application, without Kafka."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

TERMINATED = 128 + signal.SIGTERM
_HEAD = """
import os, signal, threading
from headwater.service import signals

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
app = object()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with signals as a shell in the foreground leaves them."""
    return subprocess.run(
        [sys.executable, "-c", _HEAD + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_leaves_its_blocks_first(number: signal.Signals) -> None:
    done = run(f"""
        signals.watch(app)
        try:
            os.kill(os.getpid(), {number.value})
        finally:
            print("left")
    """)

    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "left\n", "")


def test_what_closes_is_not_broken_off_and_the_signal_counts_afterwards() -> None:
    done = run("""
        signals.watch(app)
        with signals.held_back():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            print("closed")
        print("not reached")
    """)

    assert (done.returncode, done.stdout) == (TERMINATED, "closed\n")


def test_a_signal_during_the_close_that_another_one_has_begun_changes_nothing() -> None:
    done = run("""
        signals.watch(app)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            with signals.held_back():
                os.kill(os.getpid(), signal.SIGINT)
            print("closed")
    """)

    assert (done.returncode, done.stdout, done.stderr) == (TERMINATED, "closed\n", "")


def test_ctrl_c_during_a_close_is_raised_once_it_is_closed() -> None:
    done = run("""
        signals.watch(app)
        try:
            with signals.held_back():
                os.kill(os.getpid(), signal.SIGINT)
                print("closed")
        except KeyboardInterrupt:
            print("interrupted")
    """)

    assert (done.returncode, done.stdout) == (0, "closed\ninterrupted\n")


def test_a_handler_of_the_programs_own_stays_also_during_a_close() -> None:
    done = run("""
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        signals.watch(app)
        os.kill(os.getpid(), signal.SIGTERM)
        with signals.held_back():
            os.kill(os.getpid(), signal.SIGTERM)
        signals.forget(app)
        os.kill(os.getpid(), signal.SIGTERM)
    """)

    assert (done.returncode, done.stdout) == (0, "mine\n" * 3)


def test_outside_the_main_thread_nothing_is_changed() -> None:
    done = run("""
        def work():
            signals.watch(app)
            with signals.held_back():
                signals.forget(app)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    """)

    assert (done.returncode, done.stderr) == (0, "")


def test_once_the_last_application_is_closed_signals_are_what_they_were() -> None:
    done = run("""
        other = object()
        signals.watch(app)
        signals.watch(other)
        signals.forget(app)
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        signals.forget(other)
        os.kill(os.getpid(), signal.SIGTERM)
    """)

    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
