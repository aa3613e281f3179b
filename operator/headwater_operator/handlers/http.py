"""Probes and metrics of the operator by HTTP; no request touches anything but values.

/healthz   200 while the process does its work, or stands by for the one that does
/readyz    200 when it leads, and its watches hear, or stands by; says what else is to be known
/metrics   Prometheus
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from headwater.httpserver import Answer, HttpServer, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry


def serve(
    host: str,
    port: int,
    registry: CollectorRegistry,
    *,
    sickness: Callable[[], str],
    obstacle: Callable[[], str],
    remark: Callable[[], str] = str,
) -> HttpServer:
    """Serve what an operator says of itself.

    Args:
        host: address to listen at.
        port: 0 picks a free one.
        registry: what is scraped.
        sickness: returns why the process should be replaced; empty if it is well.
        obstacle: returns why it is not ready; empty if it is.
        remark: returns what is to be known of one that is ready; empty if there is nothing.

    Raises:
        ConfigError: the port cannot be used.
    """
    routes: dict[str, Callable[[Request], Answer]] = {
        "/healthz": lambda _: _verdict(sickness()),
        "/readyz": lambda _: _verdict(obstacle(), remark()),
        "/metrics": lambda _: Answer(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST),
    }
    return HttpServer(host, port, routes, advice="choose another --http-port")


def _verdict(problem: str, remark: str = "") -> Answer:
    if problem:
        return Answer.text(problem, HTTPStatus.SERVICE_UNAVAILABLE)
    return Answer.text(f"ok; {remark}" if remark else "ok")
