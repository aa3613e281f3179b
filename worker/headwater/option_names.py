"""Names of options: further spellings, and those of Kafka Streams that change nothing here."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_MEMBER: Final = "workers do not join a consumer group"
_RACKS: Final = "copies of tasks are spread by a StreamApp's spec.assignment.topologyKeys"
_CLEANUP: Final = (
    "stores that are on the disk shorten a later restore, so none is deleted for its age; "
    "spec.state.retention of a StreamApp and KafkaStreams.clean_up delete them"
)

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
        "allow_os_group_write_access": "files are their user's alone, and in a pod their group's",
        "application_server": (
            "a worker's address is that of its HTTP service: http_port of KafkaStreams, or what "
            "the control loop gives it"
        ),
        "built_in_metrics_version": "there is one version of the metrics",
        "default_client_supplier": "it names a Java class",
        "enable_metrics_push": "brokers take none from here; metrics.otlp.endpoint pushes them",
        "group_instance_id": _NO_MEMBER,
        "group_protocol": _NO_MEMBER,
        "log_summary_interval_ms": "the metrics say it at any time",
        "max_warmup_replicas": "copies of tasks are a StreamApp's: spec.assignment",
        "metric_reporters": "it names Java classes; use /metrics or metrics.otlp.endpoint",
        "num_standby_replicas": "copies of tasks are a StreamApp's: spec.assignment",
        "probing_rebalance_interval_ms": "tasks move when the control loop says so",
        "rack_aware_assignment_non_overlap_cost": _RACKS,
        "rack_aware_assignment_strategy": _RACKS,
        "rack_aware_assignment_tags": _RACKS,
        "rack_aware_assignment_traffic_cost": _RACKS,
        "state_cleanup_delay_ms": _CLEANUP,
        "state_cleanup_dir_max_age_ms": _CLEANUP,
        "task_assignor_class": "the control loop assigns tasks",
        "upgrade_from": "there is no older version to upgrade from",
    }
)
"""Options of Kafka Streams that would change nothing, and why."""
