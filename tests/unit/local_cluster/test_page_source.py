"""What the page asks of the applications of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.errors import EnvironmentProblemError
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.web import LocalSource

if TYPE_CHECKING:
    from pathlib import Path


def test_an_action_needs_a_cluster_that_runs(tmp_path: Path) -> None:
    source = LocalSource(ClusterDir(tmp_path / "home"))

    with pytest.raises(
        EnvironmentProblemError, match=r"nothing runs in .*: start it with headwater up"
    ):
        source.act("word-count", "pause", {})
