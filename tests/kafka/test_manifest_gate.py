"""Nobody runs on state that a backfill has loaded only in part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import manifests
from tests.support.clients import Clients
from tests.support.thread_rig import ThreadRig, Topics
from tests.support.topologies import counts_of
from tests.support.waiting import wait_for

from headwater import KafkaStreams
from headwater.errors import BackfillError, BackfillUnfinishedError
from headwater.ids import TaskId
from headwater.kafka.manifest import ManifestGate
from headwater.model.backfill import BackfillState, manifest_topic
from headwater.model.duties import DescribeGroup, DutyFailed, GroupDescribed
from headwater.model.lifecycle import ClientState
from headwater.native.messages import AddTasks, Failed, Go, Initialized
from headwater.service.duties import Duties

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SLOW_S = 240
"""How long a machine that is busy with other things may take for a step."""
UNFINISHED = pytest.mark.parametrize("state", [BackfillState.PREPARED, BackfillState.WRITTEN])
WAYS_ON = ("`headwater backfill` again", "--abort")


@pytest.fixture
def topics(bootstrap_servers: str, unique_name: str) -> Topics:
    topics = Topics(bootstrap_servers)
    topics.create(unique_name)
    topics.create(f"{unique_name}-counts")
    return topics


def leave(topics: Topics, app: str, state: BackfillState) -> None:
    manifests.leave(topics, app, manifests.manifest(state).encode())


def config(topics: Topics, app: str, directory: Path) -> dict[str, Any]:
    return {
        "application.id": app,
        "bootstrap.servers": topics.bootstrap_servers,
        "state.dir": str(directory),
    }


def test_an_application_starts_only_when_the_backfill_has_ended(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    topics.create(manifest_topic(unique_name))
    streams = KafkaStreams(counts_of(unique_name), config(topics, unique_name, tmp_path))
    for state in (BackfillState.PREPARED, BackfillState.WRITTEN):
        leave(topics, unique_name, state)

        with pytest.raises(BackfillUnfinishedError) as refused:
            streams.start()

        said = str(refused.value)
        assert [word for word in (state.value, unique_name, *WAYS_ON) if word not in said] == []
        streams = KafkaStreams(counts_of(unique_name), config(topics, unique_name, tmp_path))

    leave(topics, unique_name, BackfillState.COMMITTED)
    with streams:
        wait_for(lambda: streams.state is ClientState.RUNNING, what="RUNNING", timeout_s=SLOW_S)


@UNFINISHED
def test_a_thread_opens_no_task(
    topics: Topics, unique_name: str, tmp_path: Path, state: BackfillState
) -> None:
    topics.create(f"{unique_name}-counts-changelog", cleanup_policy="compact")
    topics.create(manifest_topic(unique_name))
    leave(topics, unique_name, state)
    with ThreadRig(topics, unique_name, counts_of(unique_name), tmp_path) as rig:
        rig.start_initialising()
        rig.wait_for(Initialized, timeout_s=SLOW_S)
        rig.child.send(Go(epoch=1))
        rig.child.send(AddTasks(tasks=(TaskId(0, 0),), epoch=1))

        failed = rig.wait_for(Failed, timeout_s=SLOW_S)

        assert failed.error == BackfillUnfinishedError.__name__
        assert [word for word in WAYS_ON if word not in failed.message] == []


def test_a_control_loop_is_told_instead_of_the_members(topics: Topics, unique_name: str) -> None:
    clients = Clients(topics.bootstrap_servers, unique_name)
    duties = Duties(clients.config, client_id="test")
    duty = DescribeGroup(id="group-1", epoch=1, group=unique_name)
    assert duties.carry_out(duty) == GroupDescribed(id="group-1")
    topics.create(manifest_topic(unique_name))
    leave(topics, unique_name, BackfillState.PREPARED)

    told = duties.carry_out(duty)

    assert isinstance(told, DutyFailed)
    assert told.error == BackfillUnfinishedError.__name__
    leave(topics, unique_name, BackfillState.ABORTED)
    assert duties.carry_out(duty) == GroupDescribed(id="group-1")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"version": 9}', ["version 9", "newer Headwater"]),
        (b"hello", ["no manifest", "reset"]),
    ],
    ids=["newer", "foreign"],
)
def test_a_manifest_that_is_none_is_not_passed_over(
    topics: Topics, unique_name: str, data: bytes, words: list[str]
) -> None:
    clients = Clients(topics.bootstrap_servers, unique_name)
    topics.create(manifest_topic(unique_name))
    manifests.leave(topics, unique_name, data)
    gate = ManifestGate(clients.access)

    with pytest.raises(BackfillError) as refused:
        gate.check()

    said = str(refused.value)
    assert [word for word in (manifest_topic(unique_name), *words) if word not in said] == []


def test_a_thread_whose_changelog_is_deleted_for_a_backfill_ends(
    topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    changelog = topics.create(f"{unique_name}-counts-changelog", cleanup_policy="compact")
    with ThreadRig(topics, unique_name, counts_of(unique_name), tmp_path) as rig:
        rig.start(TaskId(0, 0))
        topics.delete(changelog)

        failed = rig.wait_for(Failed, timeout_s=SLOW_S)

        assert changelog in failed.message
