"""What the page sees of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.kube_rig import NAMESPACE, KubeRig, streamapp
from tests.support.numbers import FakeNumbers

from headwater.errors import UserError
from headwater_operator.dashboards.history import Sample
from headwater_operator.kube.errors import ApiUnavailableError
from headwater_operator.web.cluster import ClusterSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def source(rig: KubeRig) -> ClusterSource:
    return ClusterSource(
        rig.api, [NAMESPACE], numbers=lambda _: FakeNumbers(), scraper=lambda _: Scraped()
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
