"""How the watches reach the API server, and how they end."""

from __future__ import annotations

import pytest

from headwater_operator.handlers.hearing import Hearing
from headwater_operator.handlers.watching import Watches, bearer_token


@pytest.mark.parametrize(
    ("authorization", "token"),
    [("Bearer abc", "abc"), ("bearer abc", "abc"), ("abc", "abc"), ("", None)],
)
def test_the_token_is_found_however_the_client_writes_it(
    authorization: str, token: str | None
) -> None:
    assert bearer_token(authorization) == token


def test_watches_that_never_began_can_be_stopped() -> None:
    watches = Watches((None,), lambda key: None, lambda key: None, Hearing(lambda: 0, 30_000), bool)

    watches.stop(0.1)

    assert not watches.watched


@pytest.mark.parametrize("with_actions", [True, False])
def test_streamactions_are_watched_only_where_the_operator_may(with_actions: bool) -> None:
    watches = Watches((None,), lambda key: None, lambda key: None, Hearing(lambda: 0, 30_000), bool)

    registry = watches.registry(with_actions=with_actions)

    watched = {str(it.id) for it in registry._watching.get_all_handlers()}
    assert ("streamaction" in watched) is with_actions
    assert {"streamapp", "streamworkers", "pods"} <= watched
