"""Measures the operator's own numbers, which ``headwater_operator.metrics`` declares."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headwater.model.appstatus import ConditionStatus, ConditionType
from headwater_operator import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headwater.model.appstatus import AppStatus
    from headwater.model.metrics import Metric
    from headwater_operator.handlers.leases import Key

_PROBLEMS: Final = (ConditionType.DEGRADED, ConditionType.STALLED)
_NONE: Final[Mapping[Key, int]] = MappingProxyType({})
_UNTOLD: Final[Mapping[Key, str]] = MappingProxyType({})
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """All numbers of one operator process."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        """What is scraped."""
        declared = metrics.RECONCILES
        self.reconciles: Final = Histogram(
            declared.name, declared.help, declared.labels, buckets=_SECONDS, registry=self.registry
        )
        """Rounds, by result: acted, idle, held_up, outdated, handed_over, error."""
        self.looks: Final = self._counter(metrics.LOOKS)
        """Decisions that read nothing."""
        self.actions: Final = self._counter(metrics.ACTIONS)
        """Actions, by reason."""
        self.calls: Final = self._counter(metrics.API_REQUESTS)
        """Requests to the API server."""
        self.questions: Final = self._counter(metrics.LAG_REQUESTS)
        """Questions to workers, by result: answered, silent."""
        self.apps: Final = self._gauge(metrics.STREAMAPPS)
        """StreamApps by readiness."""
        self.degraded: Final = self._gauge(metrics.DEGRADED)
        """StreamApps that need somebody."""
        self._problems: Final = self._of_apps(metrics.PROBLEM)
        self._not_ready: Final = self._of_apps(metrics.NOT_READY)
        self._autoscaling: Final = self._of_apps(metrics.AUTOSCALING)
        self._desired: Final = self._of_apps(metrics.WORKERS_DESIRED)
        self._ready: Final = self._of_apps(metrics.WORKERS_READY)
        self.leading: Final = self._gauge(metrics.LEADING)
        """Whether this operator leads."""
        self.generation: Final = self._gauge(metrics.GENERATION)
        """Of the leadership."""

    def count_apps(
        self,
        statuses: Mapping[Key, AppStatus],
        not_ready: Mapping[Key, int] = _NONE,
        reasons: Mapping[Key, str] = _UNTOLD,
    ) -> None:
        """Show how many StreamApps are ready, which have a problem, and what autoscaling decides.

        Args:
            statuses: of all StreamApps.
            not_ready: how many workers of each are not ready.
            reasons: of those with ``spec.autoscaling``: why there are so many workers, in a word.
        """
        true = {key: _true(status) for key, status in statuses.items()}
        ready = sum(ConditionType.READY in found for found in true.values())
        self.apps.labels("true").set(ready)
        self.apps.labels("false").set(len(statuses) - ready)
        self.degraded.set(sum(ConditionType.DEGRADED in found for found in true.values()))
        self._problems.show(
            ((*key, kind.value, found[kind]), 1)
            for key, found in true.items()
            for kind in _PROBLEMS
            if kind in found
        )
        self._not_ready.show(not_ready.items())
        scaled = {key: it.autoscaling for key, it in statuses.items() if it.autoscaling is not None}
        self._autoscaling.show(
            ((*key, told.mode.value, reasons.get(key, "")), 1) for key, told in scaled.items()
        )
        self._desired.show((key, told.desired) for key, told in scaled.items())
        self._ready.show((key, statuses[key].ready_replicas) for key in scaled)

    def count_call(self, verb: str, plural: str, status: int) -> None:
        """Count a request to the API server."""
        self.calls.labels(verb, plural, str(status)).inc()

    def count_question(self, result: str) -> None:
        """Count a question to a worker."""
        self.questions.labels(result).inc()

    def watch_hearing(self, deaf_ms: Callable[[], Mapping[str, int]], kinds: Iterable[str]) -> None:
        """Show for how long the watch of each kind has been deaf."""
        gauge = self._gauge(metrics.WATCH_DEAF)
        for plural in kinds:
            gauge.labels(plural).set_function(
                lambda plural=plural: deaf_ms().get(plural, 0) / 1000  # type: ignore[misc]
            )

    def watch_namespaces(self, closed: Callable[[], float]) -> None:
        """Show how many of the watched namespaces do not let us read."""
        self._gauge(metrics.CLOSED_NAMESPACES).set_function(closed)

    def watch_queue(self, depth: Callable[[], float], late_s: Callable[[], float]) -> None:
        """Show how many StreamApps wait, and for how long the first of them has."""
        self._gauge(metrics.QUEUE_DEPTH).set_function(depth)
        self._gauge(metrics.QUEUE_LATE).set_function(late_s)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.sample_name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def _of_apps(self, metric: Metric) -> _OfApps:
        return _OfApps(self._gauge(metric))


class _OfApps:
    """A gauge with labels that name StreamApps; those that are gone have no number."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: set[tuple[str, ...]] = set()

    def show(self, numbers: Iterable[tuple[tuple[str, ...], float]]) -> None:
        shown = dict(numbers)
        for gone in self._shown - shown.keys():
            self._gauge.remove(*gone)
        for labels, number in shown.items():
            self._gauge.labels(*labels).set(number)
        self._shown = set(shown)


def _true(status: AppStatus) -> dict[ConditionType, str]:
    """Return the conditions that are True, with their reasons."""
    return {it.type: it.reason for it in status.conditions if it.status is ConditionStatus.TRUE}
