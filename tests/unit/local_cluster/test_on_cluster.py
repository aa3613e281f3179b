"""What commands for a cluster say of missing rights, and when a new version has caught up."""

from __future__ import annotations

import sys

import pytest

from headwater.errors import EnvironmentProblemError, KafkaUnavailableError
from headwater_operator.local.cluster_promoting import records_behind
from headwater_operator.local.on_cluster import with_advice
from headwater_operator.local.promoting import answer_of

REFUSED = 'GET /x: pods "w:8080" is forbidden: User "ann" cannot {} resource "{}" in API group "{}"'


@pytest.mark.parametrize(
    ("verb", "resource", "group", "asked_for"),
    [
        ("get", "pods/proxy", "", "--verb=get --resource=pods/proxy,"),
        ("list", "streamworkers", "headwater.dev", "--resource=streamworkers.headwater.dev,"),
        ("patch", "streamapps/scale", "headwater.dev", "--resource=streamapps.headwater.dev/scale"),
    ],
)
def test_a_missing_right_is_told_with_the_command_that_grants_it(
    verb: str, resource: str, group: str, asked_for: str
) -> None:
    told = with_advice(REFUSED.format(verb, resource, group), "shop")

    assert f'cannot {verb} resource "{resource}"' in told
    assert "kubectl create role NAME --namespace shop --verb=" in told
    assert asked_for in told


def test_what_is_no_missing_right_is_told_as_it_is() -> None:
    assert with_advice("GET /x: Unauthorized", "shop") == "GET /x: Unauthorized"


def task(lag: int | None, **committed: int) -> dict[str, object]:
    named = {name.replace("_", "-"): offset for name, offset in committed.items()}
    return {"role": "Active", "lag": lag, "committed": named}


@pytest.mark.parametrize(
    ("new", "old", "behind"),
    [
        ([task(0, orders_0=5), task(0, orders_1=7)], [], 0),
        ([task(2, orders_0=5), task(3, orders_1=7)], [], 5),
        # What it has not heard of yet, or has not committed.
        ([task(0, orders_0=5)], [task(0, orders_0=9)], 4),
        ([task(6, orders_0=5)], [task(0, orders_0=9)], 6),
        ([task(0, orders_0=9)], [task(0, orders_0=5)], 0),
        ([task(0, orders_0=5), task(None, orders_1=0)], [], None),
        # Internal topics have names of their own.
        ([task(0, totals_2_x_0=1)], [task(0, totals_x_0=9)], 0),
    ],
)
def test_a_version_has_caught_up_when_it_has_committed_what_the_other_one_has(
    new: list[dict[str, object]], old: list[dict[str, object]], behind: int | None
) -> None:
    assert records_behind(new, old) == behind


def test_a_program_that_asks_kafka_and_does_not_answer_is_named() -> None:
    with pytest.raises(KafkaUnavailableError, match="how many records totals-2 has left"):
        answer_of(
            [sys.executable, "-c", "import threading; threading.Event().wait(60)"], "totals-2", 0.2
        )
    with pytest.raises(EnvironmentProblemError, match=r"^no broker$"):
        answer_of([sys.executable, "-c", "raise SystemExit('error: no broker')"], "totals-2", 60)
    assert answer_of([sys.executable, "-c", "print('[1]')"], "totals-2", 60) == [1]
