"""The StreamApp's ``spec.spark``: how Spark runs the application when it is the engine."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the schema is made of it at run time
from dataclasses import dataclass, field

from headwater.model.fields import meta
from headwater.model.streamapp_kafka import Scalar  # noqa: TC001 - the schema is made of it


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSpec:
    """How Spark runs the application. It may stay here while the engine is Native.

    Attributes:
        master: where Spark runs its tasks, such as local[2] or spark://host:7077. Left out:
            local[*] on one machine; on Kubernetes, executors in pods of their own, as many as
            replicas.
        trigger_interval_ms: how long from one micro-batch to the next at the least; outputs appear
            at the end of a micro-batch.
        max_offsets_per_trigger: how many offsets a micro-batch takes at most, all partitions
            together.
        config: options by Spark's names. Write true and false in quotes.
    """

    master: str | None = field(
        default=None,
        metadata=meta(
            pattern=r"[!-~]+",
            meaning="a master as Spark writes it, such as local[2]",
            max_length=1_000,
        ),
    )
    trigger_interval_ms: int = field(
        default=500, metadata=meta(json="triggerInterval", duration=True)
    )
    max_offsets_per_trigger: int = field(
        default=100_000, metadata=meta(minimum=1, maximum=1_000_000_000)
    )
    config: Mapping[str, Scalar] = field(default_factory=dict)
