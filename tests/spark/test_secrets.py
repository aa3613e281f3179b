"""A password among Spark's options reaches Spark, and no command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.backfills import ROOT
from tests.support.secretive import VALUE

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    "master", [pytest.param("local[1]", marks=pytest.mark.soak), "local-cluster[1,1,1024]"]
)
@pytest.mark.sampled
def test_a_password_of_spark_is_on_no_command_line(master: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.secretive", master],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr[-4000:]
    said = json.loads(ended.stdout.splitlines()[-1])
    assert (said["conf"], said["hadoop"]) == (VALUE, VALUE)
    assert said["memory"] == "512m", "what the JVM must know at its start is there"
    assert said["java"] >= 1
    assert said["shown"] == []
