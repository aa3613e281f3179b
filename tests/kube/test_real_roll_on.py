"""Real workers are rolled out when a Secret or ConfigMap changes that asks for it.

The operator reads no Secret.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from headwater.model import metrics
from headwater_operator.dashboards.choosing import ROLL_OUTS
from headwater_operator.dashboards.promql import annotation_promql
from tests.kube.scraping import scraped_workers
from tests.kube.story import APP, Counting, Workers, explained, one_at_a_time, step, until_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

TELLING = """
import logging, os
from pathlib import Path
from headwater import Serdes

log = logging.getLogger("shop.orders")


def build(builder):
    prefix, password = os.environ["HEADWATER_TEST_TOPICS"], os.environ["PASSWORD"]
    note = Path(os.environ["NOTES"], "note")

    def tell(key, value):
        if key.startswith("look-"):
            log.info("%s sees password %s, note %s.", key, password, note.read_text())

    (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=Serdes.string)
        .peek(tell)
        .group_by_key()
        .count(store="counts")
        .to_stream()
        .to(f"{prefix}-out", key_serde=Serdes.string, value_serde=Serdes.long)
    )
"""
RUNNING: Final = f"{metrics.REVISION.sample_name} == 1"
TEMPLATE = {
    "volumes": [{"name": "notes", "secret": {"secretName": "notes"}}],
    "volumeMounts": [{"name": "notes", "mountPath": "/notes", "readOnly": True}],
}
PASSWORD = {
    "name": "PASSWORD",
    "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}},
}


@dataclass
class Telling:
    """Workers that say which password they began with, and what a mounted note says now."""

    counting: Counting
    journey: Journey
    cluster: Cluster
    _looks: Iterator[int] = field(default_factory=itertools.count)

    def apply(self) -> None:
        """Make what workers read, and two that are rolled out with a Secret and a ConfigMap."""
        for name, key in (("db", "password"), ("notes", "note")):
            self.journey.kubectl("create", "secret", "generic", name, f"--from-literal={key}=first")
        self.journey.kubectl("create", "configmap", "flags", "--from-literal=flag=off")
        asked = {"Secret": "db", "ConfigMap": "flags"}
        app = self.counting.app(
            replicas=2,
            topology={"inline": TELLING},
            upgrade={"rollOn": [{"kind": kind, "name": name} for kind, name in asked.items()]},
            env={"NOTES": "/notes"},
            template=TEMPLATE,
        )
        assert isinstance(app["spec"], dict)
        app["spec"]["podTemplate"]["env"].append(PASSWORD)
        self.journey.apply(app)

    def change(self, secret: str, key: str) -> None:
        """Give a key of a Secret another value."""
        change = json.dumps({"stringData": {key: "second"}})
        self.journey.kubectl("patch", "secret", secret, f"--patch={change}")

    def do_all_see(self, password: str, note: str) -> bool:
        """Have a few records counted; whether each worker has seen these with them."""
        look = next(self._looks)
        self.counting.feed(f"look-{look}-{number}" for number in range(40))
        pattern = rf"look-{look}-\d+ sees password (\w+), note (\w+)\."
        seen = {
            name: set(re.findall(pattern, self.cluster.log(self.journey.namespace, name)))
            for name in self.journey.held()
        }
        return list(seen.values()) == [{(password, note)}] * 2

    def revision(self) -> str:
        """The revision that all workers run."""
        return str(self.journey.status()["revision"]["current"])


def test_a_changed_secret_that_asks_for_it_replaces_each_worker_once_and_no_other_one_does(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    telling, workers = Telling(counting, journey, cluster), Workers(journey)
    with explained(journey, own_installation.process("first"), cluster):
        with step("two workers"):
            telling.apply()
            until_shared(journey, 2)
            assert telling.do_all_see("first", "first")
        before, revision = journey.uids(), telling.revision()
        with step("a Secret that does not ask for it changes"):
            telling.change("notes", "note")
            journey.until(lambda: telling.do_all_see("first", "second"), "the note to be mounted")
            assert not any(each.status.roll_on for each in workers.all().values())
        with counting.under_load():
            with (
                step("one that asks for it changes"),
                marked(journey, unique_name, tmp_path),
                one_at_a_time(journey),
            ):
                # The first step has replaced nobody, and its change is not among those counted.
                assert (journey.uids(), telling.revision()) == (before, revision)
                telling.change("db", "password")
                journey.until(
                    lambda: telling.revision() == f"{revision}-1" and journey.is_settled(),
                    "the change to be rolled out",
                )
            counting.until_more()
        counting.until_counted()
        until_shared(journey, 2)
        assert telling.do_all_see("second", "second")
        told = journey.kubectl("get", "events", "--field-selector=reason=ConfigurationChanged")
        assert told.count("Secret db has changed since workers were started from it") == 1
        assert telling.revision() == f"{revision}-1"
        with step("a ConfigMap that asks for it changes"), one_at_a_time(journey):
            change = json.dumps({"data": {"flag": "on"}})
            journey.kubectl("patch", "configmap", "flags", f"--patch={change}")
            journey.until(
                lambda: telling.revision() == f"{revision}-2" and journey.is_settled(),
                "the ConfigMap to be rolled out",
            )
        told = journey.kubectl("get", "events", "--field-selector=reason=ConfigurationChanged")
        assert told.count("ConfigMap flags has changed since workers were started from it") == 1
        counting.feed(f"last-{number}" for number in range(40))
        counting.until_counted()
        journey.kubectl("delete", "sapp", APP, "--timeout=220s")
        counting.check_volumes(journey, cluster)


@contextmanager
def marked(journey: Journey, application_id: str, directory: Path) -> Iterator[None]:
    """See that dashboards mark a roll-out in the block, with its application, and only there."""
    with scraped_workers(journey, directory) as server:
        mark = annotation_promql(ROLL_OUTS, ())
        journey.until(lambda: len(server.instant(RUNNING)) == 2, "both workers to be scraped")
        assert server.instant(mark) == []
        began = time.time()

        yield

        [found] = server.range(mark, began, time.time(), 1.0)
        assert found.labels == {"namespace": journey.namespace, "application_id": application_id}
        assert {value for _, value in found.points} == {2}
        journey.until(lambda: not server.instant(mark), "the mark to end")
