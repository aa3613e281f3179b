"""Kafka that asks who we are: credentials from files, as a pod has them from Secrets.

The worker, the broker, its accounts and all certificates are real.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import Producer
from tests.kube.pki import Authority
from tests.support.handed import PASSWORD, USER, Given, Handed, login
from tests.support.local_cluster import LocalCluster, create_topics, read_counts, streamapp
from tests.support.waiting import wait_for
from tests.support.worker import Counting, family

from headwater import errors
from headwater.cli.main import main
from headwater.config import StreamsConfig
from headwater.ids import TaskId, TopicPartition
from headwater.kafka.access import Access
from headwater.local.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.sampled, pytest.mark.kafka, pytest.mark.slow]

T0, T1 = TaskId(0, 0), TaskId(0, 1)
GUESS = "guessed-by-somebody"
PAGES = ("/healthz", "/readyz", "/tasks", "/metrics")


@dataclass
class Secured:
    """A broker with its accounts, and what belongs to it.

    Attributes:
        broker: it.
        clients: the authority whose certificates it takes.
        strangers: one that it does not know.
    """

    broker: KafkaBroker
    clients: Authority
    strangers: Authority

    @property
    def trusted(self) -> str:
        return self.broker.ca_certificate.read_text()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("authorities")
    clients, strangers = (Authority(directory / name) for name in ("clients", "strangers"))
    with KafkaBroker(
        sasl_users={USER: PASSWORD}, client_authorities=clients.files.certificate, heap_mb=256
    ) as broker:
        yield Secured(broker, clients, strangers)


def certificate(secured: Secured, authority: Authority) -> Given:
    pair = authority.user("counting")
    key = pair.key.read_text()
    return Given(
        files={
            "ca.crt": secured.trusted,
            "tls.crt": pair.certificate.read_text(),
            "tls.key": key,
        },
        kafka={
            "bootstrapServers": secured.broker.mutual_servers,
            "tls": {"caSecretRef": {"name": "authority"}},
            "authentication": {"type": "TLS", "secretRef": {"name": "account"}},
        },
        hidden=key.splitlines()[1:-1],
    )


def good(secured: Secured, kind: str) -> Given:
    return certificate(secured, secured.clients) if kind == "TLS" else login(secured.broker, kind)


@pytest.mark.parametrize(
    "kind",
    [
        "PLAIN",
        # The workers of test_kafka_rights.py count with it.
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.soak),
        pytest.param("SCRAM-SHA-512", marks=pytest.mark.soak),
        "TLS",
    ],
)
def test_a_worker_counts_with_credentials_from_files_which_go_nowhere_else(
    secured: Secured, kind: str, unique_name: str, tmp_path: Path
) -> None:
    counting = Counting(secured.broker.bootstrap_servers, unique_name)
    with Handed(counting, tmp_path, good(secured, kind)) as worker:
        worker.start()
        worker.incarnation()
        worker.grant(T0, T1)
        worker.runs(T0, T1, timeout_s=120)
        counting.send(200)
        wait_for(counting.all_counted, what="all counts", timeout_s=120)

        seen = []
        for each in family(worker.pid):
            with contextlib.suppress(psutil.NoSuchProcess):  # an idle StateUpdater ends
                seen.append(" ".join([*each.cmdline(), *each.environ().values()]))
        assert len(seen) > 1
        seen += [worker.get(page)[1] for page in PAGES]
        assert [text for text in seen if not worker.is_clean(text)] == []
        assert worker.stop() == 0
    worker.has_told_nothing()


def test_headwater_up_takes_the_same_from_its_file_and_keeps_it_to_its_user(
    secured: Secured, unique_name: str, tmp_path: Path
) -> None:
    create_topics(secured.broker.bootstrap_servers, unique_name, partitions=2)
    settings = secured.broker.secure_client_config(USER, "SCRAM-SHA-256")
    servers = settings.pop("bootstrap.servers")
    app = streamapp(
        None, unique_name, replicas=1, kafka={"bootstrapServers": servers, "config": settings}
    )
    with LocalCluster(tmp_path, unique_name) as cluster:
        cluster.up(app)
        cluster.wait_running(replicas=1)
        producer = Producer({"bootstrap.servers": secured.broker.bootstrap_servers})
        for key in ("a", "b", "a"):
            producer.produce(f"{unique_name}-in", key=key, value="x")
        assert producer.flush(30) == 0
        wait_for(
            lambda: read_counts(secured.broker.bootstrap_servers, unique_name) == {"a": 2, "b": 1},
            what="exact counts",
            timeout_s=120,
        )

        told = []
        for each in cluster.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                told.append(" ".join(each.cmdline()))
        cluster.interrupt()
        assert cluster.wait(120) == 0
        told += [cluster.output, cluster.worker_logs(10_000)]
        assert [text for text in told if PASSWORD in text] == []
        kept = [path for path in cluster.cluster.root.rglob("*") if path.is_file()]
        found = [path for path in kept if PASSWORD.encode() in path.read_bytes()]
        assert found
        assert [path for path in found if path.stat().st_mode & 0o077] == []


def wrong_password(secured: Secured) -> Given:
    return login(secured.broker, "SCRAM-SHA-512", GUESS)


def authority_of_somebody_else(secured: Secured) -> Given:
    given = login(secured.broker, "SCRAM-SHA-256")
    given.files["ca.crt"] = secured.strangers.files.certificate.read_text()
    return given


def no_certificate(secured: Secured) -> Given:
    given = certificate(secured, secured.clients)
    del given.kafka["authentication"]
    return given


def certificate_of_a_stranger(secured: Secured) -> Given:
    return certificate(secured, secured.strangers)


def no_password(secured: Secured) -> Given:
    given = login(secured.broker, "SCRAM-SHA-512")
    del given.files["password"]
    return given


def another_key(secured: Secured) -> Given:
    given = certificate(secured, secured.clients)
    given.files["tls.key"] = secured.clients.bare_key("another").read_text()
    given.hidden += given.files["tls.key"].splitlines()[1:-1]
    return given


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (wrong_password, errors.KafkaAuthError, ("SCRAM-SHA-512", "spec.kafka.authentication")),
        (authority_of_somebody_else, errors.KafkaAuthError, ("certificate", "spec.kafka.tls")),
        (no_certificate, errors.KafkaAuthError, ("spec.kafka.authentication (type TLS)",)),
        (
            certificate_of_a_stranger,
            errors.KafkaAuthError,
            ("spec.kafka.authentication (type TLS)",),
        ),
        (
            no_password,
            errors.ConfigError,
            ("secretRef account", "password: No such file", "has this key"),
        ),
        (another_key, errors.ConfigError, ("secretRef account", "tls.crt", "tls.key")),
    ],
)
def test_what_is_wrong_with_credentials_is_named_with_the_next_step_and_not_shown(
    secured: Secured,
    unique_name: str,
    tmp_path: Path,
    make: Any,
    error: type[errors.HeadwaterError],
    words: tuple[str, ...],
) -> None:
    counting = Counting(secured.broker.bootstrap_servers, unique_name)
    with Handed(counting, tmp_path, make(secured)) as worker:
        worker.start()
        if error is errors.KafkaAuthError:
            worker.incarnation()
            worker.grant(T0)

        code = worker.exit_code(120)

        reported = worker.status.error
        assert reported is not None
        assert (reported.error, code) == (error.__name__, error.exit_code)
        assert [word for word in words if word not in reported.message] == []
        output = worker.log.read_text()
        assert f"error: {reported.message}" in output
        assert "Traceback" not in output
    worker.has_told_nothing()


def test_lag_and_groups_take_client_settings_from_a_file(
    secured: Secured, unique_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{unique_name}-in"
    create_topics(secured.broker.bootstrap_servers, unique_name, partitions=2)
    config = StreamsConfig.parse(
        {"application.id": unique_name, "bootstrap.servers": secured.broker.bootstrap_servers}
    )
    committed = {TopicPartition(topic, 1): (0, "")}
    Access.of(config, client_id=unique_name).admin.alter_offsets(unique_name, committed)
    settings = secured.broker.secure_client_config(USER, "SCRAM-SHA-256")
    servers = settings.pop("bootstrap.servers")
    file = tmp_path / "client.properties"
    lines = [f"{name} = {value}" for name, value in settings.items()]
    file.write_text("\n".join(["# of the broker", "", *lines]))
    asked = [f"--home={tmp_path}", "--bootstrap", servers, "--command-config", str(file)]

    assert main(["groups", *asked, "-o", "json"]) == 0
    assert unique_name in {one["group"] for one in json.loads(capsys.readouterr().out)}
    assert main(["lag", unique_name, *asked, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [(one["topic"], one["committed"]) for one in found["partitions"]] == [(topic, 0)]
