"""Names of options: further spellings, and those of Kafka Streams that change nothing here."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__emit_interval_ms_kstreams_windowed_aggregation__": "windows_emit_interval_ms",
        "__emit_interval_ms_kstreams_outer_join_spurious_results_fix__": "joins_emit_interval_ms",
        "cache_max_bytes_buffering": "statestore_cache_max_bytes",
        "default_deserialization_exception_handler": "deserialization_exception_handler",
        "default_production_exception_handler": "production_exception_handler",
    }
)
"""The field of an option that has another name."""
NOT_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acceptable_recovery_lag": "copies of tasks are a StreamApp's: spec.assignment",
        "built_in_metrics_version": "there is one version of the metrics",
        "default_client_supplier": "it names a Java class",
        "enable_metrics_push": "brokers take none from here; metrics.otlp.endpoint pushes them",
        "group_protocol": "workers do not join a consumer group",
        "log_summary_interval_ms": "the metrics say it at any time",
        "max_warmup_replicas": "copies of tasks are a StreamApp's: spec.assignment",
        "metric_reporters": "it names Java classes; use /metrics or metrics.otlp.endpoint",
        "num_standby_replicas": "copies of tasks are a StreamApp's: spec.assignment",
        "probing_rebalance_interval_ms": "tasks move when the control loop says so",
        "task_assignor_class": "the control loop assigns tasks",
        "upgrade_from": "there is no older version to upgrade from",
    }
)
"""Options of Kafka Streams that would change nothing, and why."""
