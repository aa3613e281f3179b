"""The path in C under sanitizers, and its memory over many records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.clients import Clients

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native" / "src"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-O1", "-g")
GROWTH = 32 * 2**20
"""Bytes that a process may grow by; a byte for each of 10^8 records would be three times that."""


class Fault(NamedTuple):
    """What is planted in a copy of the sources."""

    file: str
    right: str
    wrong: str


SHORT_COPY = Fault(
    "client.c",
    "size = topic_length + message->key_len + message->len;",
    "size = topic_length;",
)
FREED_TOO_EARLY = Fault(
    "reader.c",
    "if (run.length ? append(batches,",
    "rdkafka.message_destroy(self->messages[index]); if (run.length ? append(batches,",
)
FREED_TWICE = Fault("run.c", "    if (!self->whole) {", "    if (1) {")
KEPT = Fault(
    "reader.c",
    "!fill(record, 3, bytes_or_none(message->payload, message->len))",
    "!fill(record, 3, Py_NewRef(bytes_or_none(message->payload, message->len)))",
)
KEPT_RUN = Fault(
    "run.c",
    "        free(self->changes.each);\n        free(self->changes.bytes);",
    "        free(self->changes.each);",
)


def built(folder: Path, *flags: str, fault: Fault | None = None) -> Path:
    """Compile a copy of the extension; return what is to come first on the path of modules."""
    sources = folder / "src"
    shutil.copytree(NATIVE, sources)
    if fault is not None:
        file = sources / fault.file
        text = file.read_text()
        assert text.count(fault.right) == 1
        file.write_text(text.replace(fault.right, fault.wrong))
    package = sources / "headwater_native"
    subprocess.run(
        [
            *("cc", "-shared", "-fPIC", "-std=c11", *flags),
            f"-I{sysconfig.get_paths()['include']}",
            *map(str, sorted(sources.glob("*.c"))),
            *("-o", str(package / "_clients.abi3.so"), "-ldl", "-lpthread"),
        ],
        check=True,
    )
    return sources


def work(
    bootstrap: str, topic: str, records: int, modules: Path, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Send and read so many records by a process of its own."""
    Clients(bootstrap, topic).create(retention_bytes="50000000", segment_bytes="20000000")
    Clients(bootstrap, f"{topic}-refused").create(max_message_bytes="1000")
    paths = os.pathsep.join(map(str, (modules, ROOT)))
    command = [sys.executable, "-m", "tests.support.native_work", bootstrap, topic, str(records)]
    return subprocess.run(
        command,
        cwd=modules,
        env={**os.environ, "PYTHONPATH": paths, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=7_000,
    )


def sanitized(bootstrap: str, topic: str, modules: Path) -> subprocess.CompletedProcess[str]:
    """Do the work with what the compiler checks memory and arithmetic by."""
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return work(
        bootstrap,
        topic,
        100_000,
        modules,
        LD_PRELOAD=library,
        ASAN_OPTIONS="detect_leaks=0",
        UBSAN_OPTIONS="print_stacktrace=1",
        PYTHONMALLOC="malloc",
    )


def test_sanitizers_find_no_fault(bootstrap_servers: str, unique_name: str, tmp_path: Path) -> None:
    done = sanitized(bootstrap_servers, unique_name, built(tmp_path, *SANITIZED))

    assert done.returncode == 0, done.stderr[-5_000:]
    assert "Sanitizer" not in done.stderr
    assert "runtime error" not in done.stderr


@pytest.mark.parametrize(
    "fault",
    [SHORT_COPY, FREED_TOO_EARLY, FREED_TWICE],
    ids=["overflow", "use after free", "freed twice"],
)
def test_sanitizers_find_a_planted_fault(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, fault: Fault
) -> None:
    done = sanitized(bootstrap_servers, unique_name, built(tmp_path, *SANITIZED, fault=fault))

    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr


def growth(done: subprocess.CompletedProcess[str]) -> int:
    """By how many bytes the process has grown since a tenth of its work was done."""
    assert done.returncode == 0, done.stderr[-5_000:]
    first, last = json.loads(done.stdout.splitlines()[-1])
    return int(last - first)


@pytest.mark.parametrize(
    "records",
    [
        1_000_000,
        pytest.param(100_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(7_200)]),
    ],
)
def test_memory_does_not_grow_with_records(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, records: int
) -> None:
    done = work(bootstrap_servers, unique_name, records, built(tmp_path, "-O2"))

    assert growth(done) < GROWTH


@pytest.mark.parametrize("fault", [KEPT, KEPT_RUN], ids=["a record", "a run"])
def test_what_is_kept_is_seen_as_growth(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, fault: Fault
) -> None:
    done = work(bootstrap_servers, unique_name, 1_000_000, built(tmp_path, "-O2", fault=fault))

    assert growth(done) > GROWTH
