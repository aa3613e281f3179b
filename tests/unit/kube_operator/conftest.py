"""Clusters in memory, as most tests here begin."""

from __future__ import annotations

import pytest
from tests.support.kube_rig import KubeRig, streamapp


@pytest.fixture
def rig() -> KubeRig:
    return KubeRig()


@pytest.fixture
def ready(rig: KubeRig) -> KubeRig:
    """Its StreamApp is ready."""
    rig.apply(streamapp())
    rig.until(rig.is_ready)
    return rig
