"""A worker's client of the API server, and its threads, when answers are late, odd or missing."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripted_api import Answer, Asked, ScriptedApi
from tests.support.waiting import wait_for

from headwater.errors import ConfigError
from headwater.ids import TaskId
from headwater.model.cluster import (
    LAG_UNKNOWN,
    Lease,
    Role,
    StoredTask,
    TaskStatus,
    WorkerError,
    WorkerStatus,
)
from headwater.model.lifecycle import TaskState
from headwater.service.carrier import CarrierUnavailableError
from headwater.service.clock import boot_ms
from headwater.service.kube.carrier import KubeCarrier
from headwater.service.kube.client import Access, KubeClient, NotFoundError, RefusedError
from headwater.service.kube.manifests import is_urgent, renewed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

T0, T1 = TaskId(0, 0), TaskId(0, 1)
WORKER: dict[str, Any] = {
    "apiVersion": "headwater.dev/v1alpha1",
    "kind": "StreamWorker",
    "metadata": {"name": "w-0", "uid": "u-1", "generation": 1},
    "spec": {"app": "orders", "epoch": 1},
}
LEASE: dict[str, Any] = {"metadata": {"name": "w-0", "resourceVersion": "1"}, "spec": {}}


def status(code: int, reason: str, **details: str) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "so", "details": details}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ScriptedApi]:
    with ScriptedApi(tmp_path, lambda asked: Answer()) as running:
        yield running


@pytest.fixture
def client(api: ScriptedApi) -> Iterator[KubeClient]:
    made = KubeClient(api.access, timeout_s=30)
    yield made
    made.close()
    made.drop()


# -- the client -----------------------------------------------------------------------------------


def test_a_connection_is_kept_and_the_token_is_read_for_every_request(
    api: ScriptedApi, client: KubeClient
) -> None:
    client.get("/a", "A")
    (api.access.directory / "token").write_text("token-2\n")
    client.put("/a", {"x": 1}, "A")
    client.apply("/a/status", {"x": 2}, "A")

    assert api.connections == 1
    tokens = [asked.headers["Authorization"] for asked in api.asked]
    assert tokens == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
    assert api.asked[2].path == "/a/status?fieldManager=headwater-worker&force=true"
    assert api.asked[2].headers["Content-Type"] == "application/apply-patch+yaml"
    assert [asked.body for asked in api.asked] == [None, {"x": 1}, {"x": 2}]


def test_a_kept_connection_that_the_server_has_closed_is_opened_again(
    api: ScriptedApi, client: KubeClient
) -> None:
    api.answer = lambda asked: Answer(headers={"Connection": "close"})
    for _ in range(3):
        client.get("/a", "A")

    assert api.connections == 3


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_not_now_is_told_with_how_long_to_wait(
    api: ScriptedApi, client: KubeClient, code: int
) -> None:
    api.answer = lambda asked: Answer(code=code, headers={"Retry-After": "3"})
    with pytest.raises(CarrierUnavailableError, match=f"answered {code} to GET A") as raised:
        client.get("/a", "A")
    assert raised.value.retry_after_s == 3.0
    assert not isinstance(raised.value, RefusedError)

    api.answer = lambda asked: Answer(code=code, headers={"Retry-After": "3600"})
    with pytest.raises(CarrierUnavailableError) as raised:
        client.get("/a", "A")
    assert raised.value.retry_after_s == 10.0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, "of one release"),
        (401, "the pod's token is not accepted"),
        (403, "check the Role and RoleBinding"),
        (409, "another object by now"),
        (422, "of one release"),
        (413, "see the API server's log"),
        (302, "see the API server's log"),
    ],
)
def test_a_refusal_names_the_thing_what_the_server_said_and_what_to_do(
    api: ScriptedApi, client: KubeClient, code: int, words: str
) -> None:
    api.answer = lambda asked: Answer(code=code, body=status(code, "No"))

    with pytest.raises(RefusedError, match=rf"PUT Lease w-0 \({code}\): so; .*{words}") as raised:
        client.put("/a", {}, "Lease w-0")
    assert (raised.value.code, raised.value.reason) == (code, "No")


def test_only_the_object_itself_is_not_found(api: ScriptedApi, client: KubeClient) -> None:
    """A server that has just started does not know the kind yet: that is no deletion."""
    for body in (b"404 page not found\n", status(404, "NotFound")):
        api.answer = lambda asked, body=body: Answer(code=404, body=body)  # type: ignore[misc]
        with pytest.raises(RefusedError, match="definitions are installed") as raised:
            client.get("/a", "A")
        assert not isinstance(raised.value, NotFoundError)

    api.answer = lambda asked: Answer(code=404, body=status(404, "NotFound", name="w-0"))
    with pytest.raises(NotFoundError):
        client.get("/a", "A")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"<html>"),
        Answer(body=b"\xff\xfe"),
        Answer(body=[1, 2]),
        Answer(body=WORKER, cuts=True),
        Answer(code=503, body=WORKER, cuts=True),
    ],
    ids=["no JSON", "no text", "no object", "cut", "cut refusal"],
)
def test_what_is_no_answer_is_asked_for_again_later(
    api: ScriptedApi, client: KubeClient, answer: Answer
) -> None:
    api.answer = lambda asked: answer
    with pytest.raises(CarrierUnavailableError):
        client.get("/a", "A")

    api.answer = lambda asked: Answer(body=WORKER)
    assert client.get("/a", "A") == WORKER


def test_a_server_that_is_silent_or_not_there_is_named(api: ScriptedApi) -> None:
    hold = threading.Event()
    api.answer = lambda asked: Answer(hold=hold)
    client = KubeClient(api.access, timeout_s=0.2)
    with pytest.raises(CarrierUnavailableError, match=r"127\.0\.0\.1:.*timed out"):
        client.get("/a", "A")
    hold.set()
    client.close()
    client.drop()

    nobody = KubeClient(
        Access(host="127.0.0.1", port=1, directory=api.access.directory), timeout_s=2
    )
    with pytest.raises(CarrierUnavailableError, match=r"127\.0\.0\.1:1 gave no answer: .*refused"):
        nobody.get("/a", "A")
    nobody.close()
    nobody.drop()


def test_a_server_of_another_authority_is_told_nothing(api: ScriptedApi, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ScriptedApi(elsewhere, lambda asked: Answer()) as other:
        impostor = Access(host=api.access.host, port=api.access.port, directory=elsewhere)
        client = KubeClient(impostor, timeout_s=30)
        with pytest.raises(CarrierUnavailableError, match="certificate verify failed"):
            client.get("/a", "A")
        client.drop()
        assert api.asked == other.asked == []

    (elsewhere / "ca.crt").unlink()
    with pytest.raises(
        CarrierUnavailableError, match=r"authorities of the API server in .*ca\.crt"
    ):
        client.get("/a", "A")


def test_an_exchange_can_be_cut_from_another_thread(api: ScriptedApi) -> None:
    hold = threading.Event()
    api.answer = lambda asked: Answer(hold=hold)
    client = KubeClient(api.access, timeout_s=60)
    errors: list[Exception] = []

    def ask() -> None:
        try:
            client.get("/a", "A")
        except CarrierUnavailableError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: api.asked, what="the request")
    client.close()
    thread.join(10)

    assert len(errors) == 1
    assert len(api.asked) == 1
    hold.set()
    client.drop()


def test_outside_of_a_pod_the_missing_variables_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_HOST.*unset HEADWATER_NAMESPACE"):
        Access.of({}, tmp_path)


# -- the threads ----------------------------------------------------------------------------------


class World:
    """Answers as an API server with one worker does, except where a test says otherwise."""

    def __init__(self) -> None:
        self.version = itertools.count(2)
        self.held: threading.Event | None = None
        self.watches: list[Answer] = []
        self.no_more = threading.Event()

    def __call__(self, asked: Asked) -> Answer:
        if "watch=true" in asked.path:
            return self.watches.pop(0) if self.watches else Answer(lines=[], hold=self.no_more)
        if asked.method == "PUT":
            version = {"resourceVersion": str(next(self.version))}
            return Answer(body={**asked.body, "metadata": {"name": "w-0", **version}})
        if asked.method == "PATCH":
            return Answer(hold=self.held)
        return Answer(body=LEASE if "leases" in asked.path else WORKER)


@pytest.fixture
def world(api: ScriptedApi) -> World:
    api.answer = World()
    return api.answer


@pytest.fixture
def carrier(api: ScriptedApi, world: World) -> Iterator[KubeCarrier]:
    made = KubeCarrier(api.access, namespace="shop", name="w-0")
    yield made
    world.no_more.set()
    if world.held is not None:
        world.held.set()
    made.close()


def test_a_status_that_hangs_delays_no_renewal(
    api: ScriptedApi, world: World, carrier: KubeCarrier
) -> None:
    world.held = threading.Event()
    carrier.write_status(WorkerStatus(incarnation="abc"))
    wait_for(lambda: api.of("PATCH"), what="the status")

    lease = Lease(worker="w-0", holder="abc", duration_ms=3_000)
    told: list[int] = []

    def has_renewed() -> bool:
        if (at_ms := carrier.renew(lease)) is not None:
            told.append(at_ms)
        return len(told) >= 3

    wait_for(has_renewed, what="three renewals")
    assert len(api.of("PATCH")) == 1
    times = [asked.body["spec"]["renewTime"] for asked in api.of("PUT")]
    assert times == sorted(set(times))


def test_nothing_is_renewed_for_a_main_loop_that_does_not_turn(
    api: ScriptedApi, carrier: KubeCarrier
) -> None:
    lease = Lease(worker="w-0", holder="abc", duration_ms=300)
    wait_for(lambda: carrier.renew(lease) is not None, what="a renewal", every_s=0.01)
    wait_for(lambda: carrier._lease._is_silent(lease), what="the silence to be noticed")
    before, began_ms = len(api.of("PUT")), boot_ms()
    wait_for(lambda: boot_ms() - began_ms > 3 * lease.duration_ms, what="three durations")

    # One may have been under way.
    assert len(api.of("PUT")) <= before + 1
    wait_for(lambda: carrier.renew(lease) is not None, what="renewals to go on", every_s=0.01)


def test_numbers_wait_and_go_with_the_next_thing_that_somebody_waits_for(
    api: ScriptedApi, carrier: KubeCarrier
) -> None:
    def held(lag: int, *, caught_up: bool) -> WorkerStatus:
        task = TaskStatus(
            task=T0, state=TaskState.RUNNING, role=Role.STANDBY, lag=lag, caught_up=caught_up
        )
        return WorkerStatus(incarnation="abc", tasks=(task,))

    carrier.write_status(held(100_000, caught_up=False))
    wait_for(lambda: api.of("PATCH"), what="the first status")
    for lag in (10_000, 1_000):
        carrier.write_status(held(lag, caught_up=False))
    began_ms = boot_ms()
    wait_for(lambda: boot_ms() - began_ms > 600, what="time enough for another write")
    assert len(api.of("PATCH")) == 1
    carrier.write_status(held(0, caught_up=True))
    wait_for(lambda: len(api.of("PATCH")) == 2, what="the second status")

    written = [asked.body["status"]["tasks"][0] for asked in api.of("PATCH")]
    assert [task.get("lag", 0) for task in written] == [100_000, 0]
    assert api.of("PATCH")[0].body["metadata"] == {"name": "w-0", "uid": "u-1"}


def event(kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": manifest}


def of_generation(generation: int) -> dict[str, Any]:
    return {**WORKER, "metadata": {**WORKER["metadata"], "generation": generation}}


def test_a_watch_is_begun_again_whatever_ended_it(
    api: ScriptedApi, world: World, carrier: KubeCarrier
) -> None:
    carrier.read()
    endings = [
        Answer(lines=[event("ERROR", status(410, "Expired"))]),
        Answer(lines=[b'{"type": "ADD']),
        Answer(lines=[]),
        Answer(code=429, headers={"Retry-After": "0"}),
        Answer(lines=[event("BOOKMARK", of_generation(7)), event("MODIFIED", WORKER)]),
        Answer(lines=[event("ADDED", of_generation(2))], hold=None),
    ]
    world.watches += endings
    # The one that hangs until now ends as a connection does.
    world.no_more.set()

    wait_for(lambda: not world.watches, what="every watch to be begun")
    wait_for(carrier.has_changed, what="the change")
    assert all("resourceVersion=" not in asked.path for asked in api.of("GET", "watch=true"))


def test_a_change_that_the_watch_does_not_tell_is_found_all_the_same(
    api: ScriptedApi, world: World
) -> None:
    carrier = KubeCarrier(api.access, namespace="shop", name="w-0", read_again_ms=100)
    carrier.read()

    wait_for(carrier.has_changed, what="the next look")

    world.no_more.set()
    carrier.close()


# -- what is written ------------------------------------------------------------------------------


def test_what_the_control_loop_waits_for_is_urgent_and_numbers_are_not() -> None:
    task = TaskStatus(task=T0, state=TaskState.RESTORING, role=Role.WARMUP, lag=10_000)
    stored = StoredTask(task=T1, offset_bucket=10_000, changelogs="aa", saved_hour=3)
    before = WorkerStatus(incarnation="abc", tasks=(task,), stored=(stored,))

    def after(**changes: Any) -> WorkerStatus:
        return replace(before, **changes)

    def with_task(**changes: Any) -> WorkerStatus:
        return after(tasks=(replace(task, **changes),))

    assert is_urgent(None, before)
    assert not is_urgent(before, with_task(lag=1_000))
    assert not is_urgent(
        before, after(stored=(StoredTask(task=T1, changelogs="aa", saved_hour=4),))
    )
    urgent = [
        with_task(caught_up=True),
        with_task(state=TaskState.RUNNING),
        with_task(lag=LAG_UNKNOWN),
        after(tasks=()),
        after(stored=()),
        after(stored=(StoredTask(task=T1, changelogs="bb"),)),
        after(acknowledged_epoch=1),
        after(incarnation="def"),
        after(fenced_slots=(0,)),
        after(endpoint="127.0.0.1:1"),
        after(error=WorkerError(error="StateError", message="no")),
    ]
    assert [changed for changed in urgent if not is_urgent(before, changed)] == []


def test_every_renewal_differs_even_if_the_clock_was_set_back() -> None:
    lease = Lease(worker="w-0", holder="abc", duration_ms=6_500)

    first = renewed(LEASE, lease, 1_700_000_000_123_456)
    second = renewed(first, lease, 1_600_000_000_000_000)
    third = renewed(second, Lease(worker="w-0", holder="def"), 1_800_000_000_000_000)

    assert first["spec"] == {
        "holderIdentity": "abc",
        "leaseDurationSeconds": 7,
        "acquireTime": "2023-11-14T22:13:20.123456Z",
        "renewTime": "2023-11-14T22:13:20.123456Z",
        "leaseTransitions": 1,
    }
    assert second["spec"] == {**first["spec"], "renewTime": "2023-11-14T22:13:20.123457Z"}
    assert third["spec"]["leaseTransitions"] == 2
    assert third["spec"]["acquireTime"] == third["spec"]["renewTime"]
    assert third["metadata"] == LEASE["metadata"]
