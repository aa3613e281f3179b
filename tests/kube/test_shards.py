"""Two operators share a cluster by a label of its namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater_operator.kube.api import NAMESPACES, STREAM_WORKERS
from tests.kube.journey import TASKS, Installation, forget_apps, fresh_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from headwater_operator.kube.client import KubeClient
    from tests.kube.control_plane import ControlPlane
    from tests.kube.journey import Journey

LABEL = "example.com/shard"


@pytest.fixture
def shards(
    admin: KubeClient,
    kube_api: ApiClient,
    control_plane: ControlPlane,
    tmp_path: Path,
    namespace: str,
) -> Iterator[list[Installation]]:
    """Two installations of the operator, each for the namespaces that have its name as label."""
    made = []
    for name in ("left", "right"):
        home = fresh_namespace(admin, name)
        one = Installation(admin, kube_api, control_plane, tmp_path, home, sweep_s=2)
        one.selector = f"{LABEL}={name}"
        made.append(one.install())
    yield made
    for each in made:
        each.uninstall()
        admin.delete(NAMESPACES, None, each.home)
    # Another operator would take its application id for taken.
    forget_apps(admin, namespace)


def epochs(user: Journey) -> list[int]:
    """Of all grants, from the lowest."""
    return sorted(each["spec"]["epoch"] for each in user.api.list(STREAM_WORKERS, user.namespace))


@pytest.mark.timeout(300)
@pytest.mark.sampled
def test_a_namespace_whose_label_changes_is_handed_over_and_each_task_runs_once(
    shards: list[Installation], user: Journey
) -> None:
    left, right = (each.process(place) for each, place in zip(shards, "lr", strict=True))
    user.until(lambda: "no namespace has the label" in left.log, "the first to say so")
    user.kubectl("label", "namespace", user.namespace, f"{LABEL}=left")
    user.begin()
    user.until(lambda: "namespaces with the label" in left.log, "it to be found")
    assert user.namespace not in right.log
    before = epochs(user)
    # As high as those of a leader that has been replaced often.
    highest = shards[0].generation()

    user.kubectl("label", "--overwrite", "namespace", user.namespace, f"{LABEL}=right")
    user.until(lambda: f"{user.namespace}/wc: handed over" in left.log, "the hand-over")
    user.scale(3)
    user.until(lambda: user.is_settled() and len(user.names(STREAM_WORKERS)) == 3, "the third")

    assert user.tasks() == TASKS
    assert shards[1].generation() > highest
    assert min(epochs(user)) >= max(before)
    assert {each.exit_status for each in (left, right)} == {None}
