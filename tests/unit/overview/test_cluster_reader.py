"""The overview of an application as it is read from an API server."""

from __future__ import annotations

import json
import threading

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp
from tests.support.numbers import FakeNumbers, answer_about

from headwater.ids import TaskId
from headwater.model.podcontract import HTTP_PORT
from headwater_operator.kube.errors import ApiUnavailableError, ForbiddenError
from headwater_operator.observe.overview import ClusterReader, read_event
from headwater_operator.observe.proxied import ProxiedNumbers, Silence
from headwater_operator.overview.events import EventKind
from headwater_operator.web.scraping import ProxiedScraper


@pytest.fixture
def rig() -> KubeRig:
    rig = KubeRig()
    rig.apply(streamapp(assignment={"standbyReplicas": 1}))
    rig.until(lambda: rig.condition("StandbysReady")[0] == "True")
    return rig


def reader(rig: KubeRig, numbers: FakeNumbers | None = None) -> ClusterReader:
    return ClusterReader(rig.api, NAMESPACE, "wc", numbers or FakeNumbers())


def test_workers_tasks_copies_and_events_are_those_of_the_cluster(rig: KubeRig) -> None:
    shown = reader(rig).collect()

    held = {str(row.task): row.worker for row in shown.tasks}
    assert held == {task: worker for worker, tasks in rig.held().items() for task in tasks}
    assert [row.name for row in shown.workers] == ["wc-w-0", "wc-w-1"]
    assert all(row.is_alive and row.node for row in shown.workers)
    assert all(row.why for row in shown.tasks)
    assert all(copy.is_caught_up and copy.why for copy in shown.copies)
    assert {condition.type.value for condition in shown.conditions} >= {"Ready"}
    granted = {task for event in shown.events for task in event.granted}
    assert granted >= {row.task for row in shown.tasks}


def test_numbers_are_exact_of_workers_that_answer_and_rounded_of_the_others(rig: KubeRig) -> None:
    for worker in rig.workers.workers.values():
        worker.lag = 10_000
    rig.turn(8)
    copied = {copy.worker: row.task for row in reader(rig).collect().tasks for copy in row.copies}
    numbers = FakeNumbers(answers={"wc-w-0": answer_about({copied["wc-w-0"]: 1_203}, "i")})

    shown = reader(rig, numbers).collect()

    behind = {copy.worker: (copy.behind, copy.is_rounded) for copy in shown.copies}
    assert behind["wc-w-0"] == (1_203, False)
    assert behind["wc-w-1"] == (10_000, True)


def test_a_missing_right_makes_an_overview_less_exact_and_is_told(rig: KubeRig) -> None:
    def refuse(verb: str, plural: str, _name: str) -> None:
        if plural in {"pods", "leases", "events"}:
            raise ForbiddenError(f"cannot {verb} {plural}")

    rig.api.on_call = refuse

    shown = reader(rig).collect()

    assert [row.name for row in shown.workers] == ["wc-w-0", "wc-w-1"]
    assert len(shown.tasks) == 4
    for plural in ("pods", "leases", "events"):
        assert f"the right to list {plural} in namespace default is missing" in shown.inexact


def test_an_application_that_is_not_there_has_an_overview_that_says_so(rig: KubeRig) -> None:
    shown = ClusterReader(rig.api, NAMESPACE, "nobody", FakeNumbers()).collect()

    assert (shown.reason, shown.workers) == ("not applied, or deleted", ())


def test_an_event_names_its_worker_and_the_tasks_that_moved() -> None:
    manifest = {
        "metadata": {"name": "x"},
        "type": "Normal",
        "reason": "TasksGranted",
        "message": "wc-w-1: takes 0_1 0_2; gives up 1_0: tasks are asked back",
        "lastTimestamp": "2026-01-31T08:00:00Z",
    }

    event = read_event(manifest, ["wc-w-1"])

    assert (event.worker, event.kind, event.at_ms) == ("wc-w-1", EventKind.TASKS, 1_769_846_400_000)
    assert event.granted == (TaskId(0, 1), TaskId(0, 2))
    assert event.revoked == (TaskId(1, 0),)
    assert read_event({**manifest, "type": "Warning"}).kind is EventKind.FAILURE


class Pods:
    """Pods that answer as they are told to, through an API server."""

    def __init__(self, answers: dict[str, bytes | Exception]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, int, str]] = []

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, *, timeout_s: float | None = None
    ) -> tuple[int, bytes]:
        self.asked.append((namespace, pod, port, path))
        answer = self.answers[pod]
        if isinstance(answer, Exception):
            raise answer
        return 401 if b"UNAUTHORIZED" in answer else 200, answer


def test_numbers_are_asked_for_through_the_api_server() -> None:
    told = {"worker": "w-0", "incarnation": "i", "threads": [], "tasks": []}
    pods = Pods(
        {
            "w-0": json.dumps(told).encode(),
            "w-1": b"<html>",
            "w-2": ApiUnavailableError("no such thing"),
        }
    )
    numbers = ProxiedNumbers(pods, "shop")

    answers = numbers.ask(dict.fromkeys(pods.answers, ""))
    numbers.close()

    assert list(answers) == ["w-0"]
    assert answers["w-0"].incarnation == "i"
    assert ("shop", "w-0", HTTP_PORT, "/tasks") in pods.asked
    assert numbers.refused == ""


def test_a_refused_proxy_is_told() -> None:
    pods = Pods({"w-0": ForbiddenError('cannot get resource "pods/proxy"')})
    numbers = ProxiedNumbers(pods, "shop")

    assert numbers.ask({"w-0": ""}) == {}
    numbers.close()
    assert numbers.refused == 'cannot get resource "pods/proxy"'


def test_a_worker_that_asks_for_a_token_is_told_in_its_own_words() -> None:
    refusal = {"error": "UNAUTHORIZED", "message": "show the token of the Secret callers"}
    pods = Pods({"w-0": json.dumps(refusal).encode(), "w-1": b"UNAUTHORIZED, and no JSON"})
    numbers = ProxiedNumbers(pods, "shop")

    assert numbers.ask({"w-0": "", "w-1": ""}) == {}
    numbers.close()
    assert numbers.refused == "show the token of the Secret callers"


class SilentPods(Pods):
    """Pods of which some take the question and do not answer."""

    def __init__(self, answers: dict[str, bytes | Exception], silent: str) -> None:
        super().__init__(answers)
        self.may_answer = threading.Event()
        self._silent = silent

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, *, timeout_s: float | None = None
    ) -> tuple[int, bytes]:
        if pod == self._silent:
            self.asked.append((namespace, pod, port, path))
            assert self.may_answer.wait(300)
            raise ApiUnavailableError("no answer")
        return super().ask_pod(namespace, pod, port, path, timeout_s=timeout_s)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_that_did_not_answer_is_not_waited_for_again_for_a_while(is_late: bool) -> None:
    now_ms = [0]
    told = {"worker": "w-0", "incarnation": "i", "threads": [], "tasks": []}
    pods = SilentPods(
        {"w-0": json.dumps(told).encode(), "w-1": ApiUnavailableError("no answer")},
        "w-1" if is_late else "",
    )
    silence = Silence(10_000, lambda: now_ms[0])
    numbers = ProxiedNumbers(pods, "shop", timeout_s=0.2, silence=silence)
    endpoints = dict.fromkeys(pods.answers, "")

    numbers.ask(endpoints)
    numbers.ask(endpoints)
    asked = [pod for _, pod, _, _ in pods.asked]
    now_ms[0] = 10_000
    numbers.ask(endpoints)
    pods.may_answer.set()
    numbers.close()

    assert asked.count("w-1") == 1
    assert [pod for _, pod, _, _ in pods.asked].count("w-1") == 2


def test_a_pod_whose_metrics_did_not_come_is_not_waited_for_again_for_a_while() -> None:
    now_ms = [0]
    pods = SilentPods({"w-0": b"up 1", "w-1": b"up 1"}, "w-1")
    silence = Silence(10_000, lambda: now_ms[0])
    scraper = ProxiedScraper(pods, "shop", timeout_s=0.2, silence=silence)
    endpoints = dict.fromkeys(pods.answers, "")

    scraper.scrape(endpoints)
    scraper.scrape(endpoints)
    pods.may_answer.set()
    scraper.close()

    assert [pod for _, pod, _, _ in pods.asked].count("w-1") == 1


TOLD = {"worker": "w", "incarnation": "i", "threads": [], "tasks": []}
TASK = {"task": "0_0", "role": "Active"}


def told(**changed: object) -> bytes:
    return json.dumps({**TOLD, **changed}).encode()


NONSENSE = {
    "too deep": b"[" * 100_000,
    "no text": b"\xff",
    "null": b"null",
    "infinite slot of a thread": told(threads=[{"slot": float("inf")}]),
    "infinite slot of a task": told(tasks=[{**TASK, "slot": float("inf")}]),
    "infinite offset": told(tasks=[{**TASK, "committed": {"in-0": float("inf")}}]),
    "list of offsets": told(tasks=[{**TASK, "committed": ["in-0"]}]),
    "list as a size": told(tasks=[{**TASK, "stateBytes": []}]),
    "number of tasks": told(tasks=7),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
def test_a_worker_that_answers_nonsense_counts_as_silent(body: bytes) -> None:
    pods = Pods({"w-0": body, "w-1": json.dumps(TOLD).encode()})
    numbers = ProxiedNumbers(pods, "shop")

    assert list(numbers.ask(dict.fromkeys(pods.answers, ""))) == ["w-1"]
    numbers.close()
