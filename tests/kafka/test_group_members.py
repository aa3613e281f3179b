"""A Java application is seen in the group, whichever protocol it uses: we wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.java.tool import JavaTool
from tests.support.clients import Clients
from tests.support.waiting import wait_for

from headwater.config import StreamsConfig
from headwater.errors import GroupInUseError
from headwater.ids import TopicPartition
from headwater.kafka.admin import Admin
from headwater.kafka.errors import Connection
from headwater.kafka.settings import admin_settings
from headwater.model.topics import InternalTopic

pytestmark = [pytest.mark.kafka, pytest.mark.java]


# Of the classic protocol are the Java applications of test_bad_broker.py.
@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.soak), "streams"])
def test_a_running_java_application_is_a_member(
    bootstrap_servers: str, unique_name: str, tmp_path: Path, protocol: str
) -> None:
    config = StreamsConfig.parse(
        {"application.id": unique_name, "bootstrap.servers": bootstrap_servers}
    )
    connection = Connection(bootstrap_servers)
    admin = Admin(admin_settings(config, connection, client_id="test"), connection)
    source, sink = f"{unique_name}-lines", f"{unique_name}-out"
    admin.create_topics([InternalTopic(name=name, partitions=1) for name in (source, sink)])
    assert admin.group_members(unique_name) == ()

    app = JavaTool(Path(__file__).parents[1] / "java" / "apps").start(
        "WordCountApp",
        f"application.id={unique_name}",
        f"bootstrap.servers={bootstrap_servers}",
        f"input={source}",
        f"output={sink}",
        f"state.dir={tmp_path}",
        f"group.protocol={protocol}",
    )
    try:
        members = wait_for(lambda: admin.group_members(unique_name), what="a member", timeout_s=240)

        assert all(str(member) for member in members)
        with pytest.raises(GroupInUseError, match=unique_name):
            admin.alter_offsets(unique_name, {TopicPartition(source, 0): 0})
    finally:
        app.kill()
        app.communicate()


def test_a_member_of_the_consumer_protocol_is_a_member(
    bootstrap_servers: str, unique_name: str
) -> None:
    clients = Clients(bootstrap_servers, unique_name)
    clients.create()
    stranger = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique_name,
            "group.protocol": "consumer",
        }
    )
    stranger.subscribe([unique_name])
    try:
        wait_for(lambda: (stranger.poll(0.1), stranger.assignment())[1], what="an assignment")

        assert clients.admin.group_members(unique_name) != ()
        with pytest.raises(GroupInUseError, match="stop the application that is a member"):
            clients.admin.delete_group(unique_name)
    finally:
        stranger.close()
    wait_for(lambda: clients.admin.group_members(unique_name) == (), what="nobody left")
