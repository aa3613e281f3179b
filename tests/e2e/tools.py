"""The page on tools for a cluster: its reader, and what he does with two versions of a program."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

import yaml
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headwater.errors import QueryFailedError
from headwater_operator.kube.client import KubeClient
from headwater_operator.kube.errors import ApiUnavailableError
from headwater_operator.local.query_asking import Question, ask_for_key
from headwater_operator.local.query_workers import ClusterWorkers
from tests.e2e.site import APP, PATIENCE_S, say
from tests.support.pages import blocks
from tests.support.reading import held
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.site import Site
    from tests.kube.fixtures import Command

STORE: Final = "counts-store"
QUERY, PAUSE, COMPARE, RESET = (block.splitlines() for block in blocks("tools-on-a-cluster.md"))
[ROLE] = blocks("tools-on-a-cluster.md", "yaml")
OLD, NEW = "totals", "totals-2"
VERSIONS: Final = [
    *blocks("reprocessing-in-place.md", "yaml"),
    *blocks("reprocessing-side-by-side.md", "yaml"),
]
ORDERS: Final = {b"ann": (5, 7), b"bob": (3, -1), b"eve": (2, 2)}
TOTALS: Final = {OLD: {b"ann": 12, b"bob": 2, b"eve": 4}, NEW: {b"ann": 12, b"bob": 3, b"eve": 4}}
TWICE: Final = {b"ann": 24, b"bob": 6, b"eve": 8}
_ASKED_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the page in a directory.

    Attributes:
        site: the cluster.
        directory: his own.
        kubeconfig: says who he is.
    """

    site: Site
    directory: Path
    kubeconfig: Path

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start a command of the page; its names are those of this cluster."""
        text = command.replace("--namespace shop", f"--namespace {self.site.namespace}")
        text = text.replace("kafka:9092", self.site.settings.bootstrap)
        here = [str(self.site.kubectl.program.parent), os.path.dirname(sys.executable)]  # noqa: PTH120
        return subprocess.Popen(
            ["/bin/bash", "-c", text],
            cwd=self.directory,
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "PATH": os.pathsep.join([*here, os.environ["PATH"]]),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], code: int = 0) -> str:
        """Wait for its end; return what it has printed, or complained about."""
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, (process.args, out, err)
        return out + err if code else out

    def run(self, command: str, *, code: int = 0) -> str:
        began = time.monotonic()
        told = self.finish(self.start(command), code)
        say(f"{command}: {time.monotonic() - began:.0f} s\n{told[:2_000]}")
        return told

    def word(self, words: str, *, code: int = 0) -> str:
        """Run a word of ``kubectl headwater``."""
        return self.run(f"kubectl headwater {words} --namespace shop", code=code)

    @contextmanager
    def page(self) -> Iterator[str]:
        """Have ``kubectl headwater web`` run; yields its URL."""
        with self.start("exec kubectl headwater web --web 127.0.0.1:0 --namespace shop") as process:
            try:
                assert process.stdout is not None
                url, _, said = process.stdout.readline().partition(" ")
                assert said.startswith("shows "), (url, said)
                yield url
            finally:
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE_S) == 0

    def as_account(self, name: str) -> Reader:
        """Return the same reader with the rights of a service account, which is made."""
        kubectl = self.site.kubectl
        kubectl("create", "serviceaccount", name)
        config = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-ojson"))
        config["users"][0]["user"] = {"token": kubectl("create", "token", name).strip()}
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return replace(self, kubeconfig=path)


@contextmanager
def asked_all_the_while(site: Site, key: str) -> Iterator[None]:
    """Ask for the count of a word until the block ends.

    It never goes back, and what is no answer says so. There is one at the end.
    """
    client = KubeClient.from_environment(site.kubectl.kubeconfig)
    workers = ClusterWorkers(client, site.namespace, APP)
    question = Question(store=STORE, key=key, options={"requireActive": "true"})
    counts: list[int] = []
    refused: list[str] = []
    wrong: list[BaseException] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(_ASKED_EVERY_S):
            try:
                counts.append(ask_for_key(workers, question).get("value", 0))
            except (QueryFailedError, ApiUnavailableError) as error:
                refused.append(str(error))
            except BaseException as error:
                wrong.append(error)
                raise

    thread = threading.Thread(target=ask, name="asks for a count", daemon=True)
    thread.start()
    try:
        yield
        before = len(counts)
        wait_for(lambda: wrong or len(counts) > before, what="an answer", timeout_s=PATIENCE_S)
    finally:
        ended.set()
        thread.join(60)
        client.close()
    say(f"{len(counts)} answers, {len(refused)} without: {sorted(set(refused))[:5]}")
    assert wrong == []
    assert counts == sorted(counts)
    assert len(counts) > len(refused)


def answer_for(site: Site, key: str) -> dict[str, Any]:
    """What the command shows of a key, wherever it is."""
    client = KubeClient.from_environment(site.kubectl.kubeconfig)
    try:
        workers = ClusterWorkers(client, site.namespace, APP)
        return ask_for_key(workers, Question(store=STORE, key=key, options={}))
    finally:
        client.close()


def worker_answers(site: Site, name: str, path: str) -> tuple[int, dict[str, Any]]:
    """What one worker answers to a path."""
    client = KubeClient.from_environment(site.kubectl.kubeconfig)
    try:
        workers = ClusterWorkers(client, site.namespace, APP)
        [worker] = [each for each in workers.all() if each.name == name]
        return workers.get(worker, path)
    finally:
        client.close()


def missing_rights(site: Site, reader: Reader) -> None:
    """Who may nothing is told what to ask for, until he may what the page's role grants."""
    one, _ = QUERY
    kubectl = site.kubectl
    try:
        asker = reader.as_account("asker")
        role = yaml.safe_load(ROLE)
        account = f"{site.namespace}:asker"
        binding = ("create", "rolebinding", "asker", f"--role={role['metadata']['name']}")
        kubectl(*binding, f"--serviceaccount={account}")
        for rules, verb, resource in (
            ([], "list", "streamworkers.headwater.dev"),
            (role["rules"][:1], "get", "pods/proxy"),
        ):
            site.apply({**role, "rules": rules})
            grants = f"--verb={verb} --resource={resource}"
            wait_for(
                lambda grants=grants: grants in asker.run(one, code=3),
                what=f"to be told of {grants}",
                timeout_s=PATIENCE_S,
                every_s=1,
            )
        site.apply(role)
        told = wait_for(
            lambda: asker.start(one).communicate(timeout=PATIENCE_S)[0],
            what="an answer to who may ask",
            timeout_s=PATIENCE_S,
            every_s=1,
        )
        assert told == reader.run(one)
    finally:
        for kind, name in (
            ("rolebinding", "asker"),
            ("role", "headwater-query"),
            ("serviceaccount", "asker"),
        ):
            kubectl("delete", kind, name, "--ignore-not-found")


@contextmanager
def forwarded(kubectl: Command, service: str, port: int) -> Iterator[str]:
    """Have ``kubectl port-forward`` run; yields the URL at which a Service answers here."""
    command = [
        str(kubectl.program),
        f"--kubeconfig={kubectl.kubeconfig}",
        f"--namespace={kubectl.namespace}",
        *("port-forward", f"service/{service}", f":{port}"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", said)
            assert found is not None, said
            yield f"http://127.0.0.1:{found[1]}/"
        finally:
            process.terminate()


class Versions:
    """Two versions of an application that adds up orders, side by side.

    Args:
        site: the cluster.
        bootstrap: of Kafka.
    """

    def __init__(self, site: Site, bootstrap: str) -> None:
        self._site = site
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def __enter__(self) -> Self:
        there = self._topics()
        assert not there, f"{', '.join(there)} are on this Kafka already: take another"
        return self

    def __exit__(self, *_: object) -> None:
        """Remove them, and what they have made."""
        self._site.kubectl("delete", "sapp", OLD, NEW, "--ignore-not-found")
        if mine := self._topics():
            for future in self._admin.delete_topics(mine).values():
                future.result(PATIENCE_S)
        for future in self._admin.delete_consumer_groups([OLD, NEW]).values():
            with suppress(KafkaException):  # it has not come so far
                future.result(PATIENCE_S)

    def _topics(self) -> list[str]:
        topics = self._admin.list_topics(timeout=60).topics
        return [
            name for name in topics if name in ("orders", OLD, NEW) or name.startswith(f"{OLD}-")
        ]

    def apply(self) -> None:
        """Run both; their volumes go with them."""
        apps = [yaml.safe_load(text) for text in VERSIONS]
        for app in apps:
            app["spec"]["config"] = {"commit.interval.ms": 200}
            app["spec"]["state"] = {"retention": {"whenDeleted": "Delete"}}
        self._site.apply(*apps)
        for name in (OLD, NEW):
            self.wait(name, "Ready")

    def wait(self, name: str, condition: str) -> None:
        self._site.kubectl(
            "wait", f"--for=condition={condition}", f"sapp/{name}", f"--timeout={PATIENCE_S}s"
        )

    def spec(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._site.get("sapp", name)["spec"]
        return found

    def feed(self) -> None:
        """Send every order."""
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for customer, amounts in ORDERS.items():
            for amount in amounts:
                producer.produce("orders", amount.to_bytes(8, "big", signed=True), customer)
        assert producer.flush(60) == 0

    def written(self, topic: str) -> dict[bytes, int]:
        """The last total of each customer."""
        return {
            message.key() or b"": int.from_bytes(message.value() or b"", "big")
            for message in held(self._bootstrap, topic)
        }

    def records(self, topic: str) -> int:
        return len(list(held(self._bootstrap, topic)))

    def until_written(self, topic: str, totals: dict[bytes, int]) -> None:
        wait_for(
            lambda: self.written(topic) == totals,
            what=f"the totals in {topic}",
            timeout_s=PATIENCE_S,
            every_s=0.5,
        )

    def has_read_everything(self, name: str) -> bool:
        """Whether everything is committed that there is to read."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": name})
        try:
            partitions = [TopicPartition("orders", number) for number in range(2)]
            return all(
                each.offset == consumer.get_watermark_offsets(each, timeout=60)[1]
                for each in consumer.committed(partitions, timeout=60)
            )
        finally:
            consumer.close()

    def fails_for(self, name: str) -> str:
        """The error that keeps a version from going on; empty if none does."""
        failure = self._site.get("sapp", name)["status"].get("failure") or {}
        return str(failure.get("error", ""))

    @contextmanager
    def stranger(self, name: str) -> Iterator[None]:
        """Somebody else is a member of a version's consumer group."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": name, "client.id": "stranger"}
        )
        consumer.subscribe(["orders"])
        over = threading.Event()

        def stay() -> None:
            while not over.is_set():
                consumer.poll(0.1)

        member = threading.Thread(target=stay, daemon=True)
        member.start()
        try:
            yield
        finally:
            over.set()
            member.join()
            consumer.close()
