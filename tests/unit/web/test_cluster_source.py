"""What the page sees of a cluster."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp
from tests.support.numbers import FakeNumbers

from headwater.errors import UserError
from headwater_operator.dashboards.history import Sample
from headwater_operator.kube.errors import ApiUnavailableError, ForbiddenError
from headwater_operator.web.cluster import ClusterSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater_operator.kube.api import Manifest, Resource
    from headwater_operator.web.cluster import Act

KEY = f"{NAMESPACE}/wc"


class Scraped:
    """Workers that tell one number each."""

    def scrape(self, endpoints: Mapping[str, str]) -> Mapping[str, Sequence[Sample]]:
        return {worker: [Sample("up", (), 1.0)] for worker in endpoints}

    def close(self) -> None:
        pass


@pytest.fixture
def rig() -> KubeRig:
    rig = KubeRig()
    rig.apply(streamapp())
    rig.until(lambda: rig.condition("Ready")[0] == "True")
    return rig


def source(rig: KubeRig, *, listed_s: float = 5.0, act: Act | None = None) -> ClusterSource:
    return ClusterSource(
        rig.api,
        [NAMESPACE],
        numbers=lambda _: FakeNumbers(),
        scraper=lambda _: Scraped(),
        act=act,
        listed_s=listed_s,
    )


def test_applications_are_named_with_their_namespace_and_workers_are_asked_where_they_are(
    rig: KubeRig,
) -> None:
    page = source(rig)

    sight = page.open(KEY)
    shown = sight.look()
    told = sight.scrape()
    sight.close()

    assert page.apps() == [KEY]
    assert (shown.namespace, shown.app) == (NAMESPACE, "wc")
    assert sorted(told) == [row.name for row in shown.workers]


def test_an_api_server_that_does_not_answer_leaves_the_list_as_it_was(rig: KubeRig) -> None:
    page = source(rig)
    assert page.apps() == [KEY]

    def fail(*_: str) -> None:
        raise ApiUnavailableError("no answer")

    rig.api.on_call = fail

    assert page.apps() == [KEY]
    with pytest.raises(ApiUnavailableError):
        page.open(KEY).look()
    assert source(rig).apps() == []


def test_the_operators_page_changes_nothing(rig: KubeRig) -> None:
    with pytest.raises(UserError, match="kubectl headwater"):
        source(rig).act(KEY, "pause", {})


def test_a_namespace_that_refuses_takes_nothing_from_the_others(rig: KubeRig) -> None:
    page = ClusterSource(
        rig.api,
        ["forbidden", NAMESPACE],
        numbers=lambda _: FakeNumbers(),
        scraper=lambda _: Scraped(),
    )
    answered = rig.api.list

    def refuse(resource: Resource, namespace: str | None, **chosen: str) -> tuple[Manifest, ...]:
        if namespace == "forbidden":
            raise ForbiddenError("streamapps is forbidden")
        return answered(resource, namespace, **chosen)

    rig.api.list = refuse  # type: ignore[method-assign]

    assert page.apps() == [KEY]
    assert page.refused == (
        "the StreamApps of namespace forbidden cannot be listed: streamapps is forbidden"
    )


def test_what_is_known_is_told_while_another_thread_lists(rig: KubeRig) -> None:
    page, asked, may_answer = source(rig, listed_s=0), threading.Event(), threading.Event()
    assert page.apps() == [KEY]

    def hang(*_: str) -> None:
        asked.set()
        assert may_answer.wait(300)

    rig.api.on_call = hang
    with ThreadPoolExecutor(2) as pool:
        listing = pool.submit(page.apps)
        assert asked.wait(60)
        told = pool.submit(page.apps)
        found = told.result(60) if not wait([told], 60).not_done else None
        may_answer.set()
        assert listing.result(60) == [KEY]

    assert found == [KEY]


def test_the_operators_page_has_no_buttons_and_an_admins_has(rig: KubeRig) -> None:
    assert not source(rig).may_act
    assert source(rig, act=lambda *_: "").may_act
