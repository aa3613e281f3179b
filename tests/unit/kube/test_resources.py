"""Kinds of objects: what metrics call them."""

from __future__ import annotations

from headwater_operator.kube.api import PODS, Resource


def test_metrics_name_no_object() -> None:
    token = Resource("v1", "TokenRequest", "serviceaccounts/headwater-operator-caller/token")

    assert PODS.counted_as == "pods"
    assert token.counted_as == "serviceaccounts/token"
