"""The operator's own numbers for Prometheus. Labels are bounded: no task, no worker, no app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX: Final = "headwater_operator"


class Metrics:
    """All numbers of one operator process."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        """What is scraped."""
        self.reconciles: Final = Histogram(
            f"{_PREFIX}_reconcile_duration_seconds",
            "Rounds of observe, decide, act for one StreamApp, by how they ended.",
            ("result",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        """Rounds, by result: acted, idle, held_up, outdated, error."""
        self.looks: Final = Counter(
            f"{_PREFIX}_looks_total",
            "Decisions from what was known, without a look at the API server.",
            registry=self.registry,
        )
        """Decisions that read nothing."""
        self.actions: Final = Counter(
            f"{_PREFIX}_actions_total",
            "What was done to workers, by reason.",
            ("reason",),
            registry=self.registry,
        )
        """Actions, by reason."""
        self.calls: Final = Counter(
            f"{_PREFIX}_api_requests_total",
            "Requests to the API server, by verb, kind and HTTP status (0: no answer).",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        """Requests to the API server."""
        self.questions: Final = Counter(
            f"{_PREFIX}_lag_requests_total",
            "Workers asked for the exact lags of their copies, by whether they have answered.",
            ("result",),
            registry=self.registry,
        )
        """Questions to workers, by result: answered, silent."""
        self.apps: Final = Gauge(
            f"{_PREFIX}_streamapps",
            "StreamApps, by whether they are ready.",
            ("ready",),
            registry=self.registry,
        )
        """StreamApps by readiness."""
        self.degraded: Final = Gauge(
            f"{_PREFIX}_streamapps_degraded",
            "StreamApps whose condition Degraded is True: somebody has to do something.",
            registry=self.registry,
        )
        """StreamApps that need somebody."""
        self.leading: Final = Gauge(
            f"{_PREFIX}_leading", "1 while this operator leads.", registry=self.registry
        )
        """Whether this operator leads."""
        self.generation: Final = Gauge(
            f"{_PREFIX}_generation",
            "Generation of this operator's leadership.",
            registry=self.registry,
        )
        """Of the leadership."""

    def count_call(self, verb: str, plural: str, status: int) -> None:
        """Count a request to the API server."""
        self.calls.labels(verb, plural, str(status)).inc()

    def count_question(self, result: str) -> None:
        """Count a question to a worker."""
        self.questions.labels(result).inc()

    def watch_hearing(self, deaf_ms: Callable[[], Mapping[str, int]], kinds: Iterable[str]) -> None:
        """Show for how long the watch of each kind has been deaf."""
        gauge = Gauge(
            f"{_PREFIX}_watch_deaf_seconds",
            "For how long a watch has missed changes, as of the last sweep; 0 while it hears.",
            ("resource",),
            registry=self.registry,
        )
        for plural in kinds:
            gauge.labels(plural).set_function(
                lambda plural=plural: deaf_ms().get(plural, 0) / 1000  # type: ignore[misc]
            )

    def watch_namespaces(self, closed: Callable[[], float]) -> None:
        """Show how many of the watched namespaces do not let us read."""
        gauge = Gauge(
            f"{_PREFIX}_closed_namespaces",
            "Watched namespaces that were deleted or give no rights, as of the last sweep.",
            registry=self.registry,
        )
        gauge.set_function(closed)

    def watch_queue(self, depth: Callable[[], float], late_s: Callable[[], float]) -> None:
        """Show how many StreamApps wait, and for how long the first of them has."""
        for name, text, value in (
            ("queue_depth", "StreamApps that wait for a round.", depth),
            ("queue_late_seconds", "How long the StreamApp due longest has been waiting.", late_s),
        ):
            gauge = Gauge(f"{_PREFIX}_{name}", text, registry=self.registry)
            gauge.set_function(value)
