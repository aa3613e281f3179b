"""The StreamApp: what a user writes in YAML, as frozen values, checked once for every command.

    apiVersion: headwater.dev/v1alpha1
    kind: StreamApp
    metadata: {name: word-count}
    spec:
      topology: {module: "examples.word_count.app:build"}
      replicas: 2
      threadsPerWorker: 2
      processingGuarantee: exactly_once_v2
      assignment: {standbyReplicas: 1, moveDelay: 30s}
      kafka:
        bootstrapServers: broker-1:9092        # left out: a private Kafka
        config: {security.protocol: SSL}       # for every client
        topics: [{name: TextLinesTopic, partitions: 4}]
      config: {commit.interval.ms: 100}        # as Kafka Streams' StreamsConfig
      state: {retention: {whenScaled: Retain, whenDeleted: Retain}}

The field types, their metadata and the rules are the schema: :func:`parse` checks them, and the
custom resource definition and ``docs/reference/streamapp.md`` are generated from them. One file
serves a laptop and a cluster: fields that only a cluster can carry out are passed over elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final

from headwater.errors import SpecError
from headwater.model.cluster import API_VERSION
from headwater.model.codec import check_rules, decode, encode_object, nearest
from headwater.model.fields import Change, Rule, meta
from headwater.model.imagecatalog import ImageCatalogRef  # noqa: TC001  # read by the codec
from headwater.model.lifecycle import Engine
from headwater.model.livesettings import LIVE_OPTIONS, live_option_rules
from headwater.model.streamapp_assignment import AssignmentPolicy
from headwater.model.streamapp_autoscaling import AutoscalingSpec
from headwater.model.streamapp_containers import PullPolicy  # noqa: TC001  # read by the codec
from headwater.model.streamapp_http import HttpSpec
from headwater.model.streamapp_kafka import (
    NAME_MEANING,
    NAME_PATTERN,
    KafkaSpec,
    Scalar,
    SecretReference,
    TopicSpec,
    own_field_rules,
)
from headwater.model.streamapp_labels import QUANTITY, Labelled, Quantity
from headwater.model.streamapp_logging import LoggingSpec
from headwater.model.streamapp_pod import PodTemplate
from headwater.model.streamapp_spark import SparkSpec
from headwater.model.streamapp_topology import ConfigMapSource, TopologySource
from headwater.model.streamapp_upgrade import OnFailure, UpgradeSpec

__all__ = [
    "KIND",
    "AssignmentPolicy",
    "AutoscalingSpec",
    "ConfigMapSource",
    "Engine",
    "HttpSpec",
    "KafkaSpec",
    "LoggingSpec",
    "OnFailure",
    "PodTemplate",
    "ProcessingGuarantee",
    "Retention",
    "Scalar",
    "ScaleDownPolicy",
    "ScaleDownSpec",
    "SecretReference",
    "SparkSpec",
    "StateRetention",
    "StateSpec",
    "StreamApp",
    "StreamAppSpec",
    "TopicSpec",
    "TopologySource",
    "UpgradeSpec",
    "parse",
]

KIND: Final = "StreamApp"

_APPLICATION_ID: Final = "[A-Za-z0-9._-]{1,150}"
_WORKER: Final = meta(
    pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?-w-[0-9]{1,9}",
    meaning="a worker's name, <name of the StreamApp>-w-<number>",
    max_length=63,
)
_NAME_MAX: Final = 53
_NAME = re.compile(f"[a-z0-9]([-a-z0-9]{{0,{_NAME_MAX - 2}}}[a-z0-9])?")


class ProcessingGuarantee(StrEnum):
    """Kafka Streams' ``processing.guarantee``."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"


class Retention(StrEnum):
    """What becomes of a worker's state directory (or volume)."""

    RETAIN = "Retain"
    DELETE = "Delete"


class ScaleDownPolicy(StrEnum):
    """Which worker goes when nobody is named; one that does not run always goes first."""

    LEAST_STATE = "LeastState"
    NEWEST = "Newest"


class AccessMode(StrEnum):
    """Who may use a worker's volume at the same time."""

    READ_WRITE_ONCE_POD = "ReadWriteOncePod"
    READ_WRITE_ONCE = "ReadWriteOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRetention:
    """When local state is thrown away; it can always be rebuilt from the changelogs.

    Attributes:
        when_scaled: when a worker is removed because ``replicas`` went down.
        when_deleted: when the StreamApp is deleted.
    """

    when_scaled: Retention = Retention.RETAIN
    when_deleted: Retention = Retention.RETAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """Local state: the volume of each worker, and when it is thrown away.

    Attributes:
        storage_class_name: the storage class of the volumes; left out: the cluster's default.
        size: how much each volume holds. Volumes that are there grow with it, if their storage
            class can do that; a smaller size holds for workers made from then on.
        access_mode: ReadWriteOncePod keeps a second pod off the volume, where the storage class
            supports it.
        retention: when it is thrown away.
        volume_claim: labels and annotations of the volumes' claims. Claims that are there get them,
            too; what you take out again stays on them.
    """

    storage_class_name: str | None = field(
        default=None,
        metadata=meta(
            pattern=NAME_PATTERN,
            meaning=NAME_MEANING,
            max_length=253,
            change=Change.RECREATE,
            cluster_only=True,
        ),
    )
    size: Quantity = field(
        default="10Gi", metadata={**QUANTITY, **meta(change=Change.LIVE, cluster_only=True)}
    )
    access_mode: AccessMode = field(
        default=AccessMode.READ_WRITE_ONCE, metadata=meta(change=Change.RECREATE, cluster_only=True)
    )
    retention: StateRetention = field(default=StateRetention(), metadata=meta(change=Change.LIVE))
    volume_claim: Labelled = field(
        default_factory=Labelled, metadata=meta(change=Change.LIVE, cluster_only=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownSpec:
    """Which workers go, and how long they may take.

    Attributes:
        policy: which worker goes when replicas goes down and nobody is named. LeastState is the
            one of whose state the least would have to be restored by the others, in offsets of
            changelogs as far as they are known; then the one with the least of all, then the
            newest. Newest is the one with the highest number.
        workers_to_remove: workers to remove by name. When replicas goes down, they go first; as
            long as it does not, others take their place. Names stay here until you take them out.
        drain_timeout_ms: how long a worker that goes may wait for copies of its state elsewhere;
            after that its tasks move without.
    """

    policy: ScaleDownPolicy = ScaleDownPolicy.LEAST_STATE
    workers_to_remove: tuple[str, ...] = field(default=(), metadata=meta(each=_WORKER, unique=True))
    drain_timeout_ms: int = field(
        default=600_000, metadata=meta(json="drainTimeout", duration=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAppSpec:
    """What the user wants to run.

    Attributes:
        topology: where the topology comes from.
        engine: what executes it.
        application_id: consumer group, prefix of internal topics and transactional ids. Left out:
            the StreamApp's name. It cannot be changed: what is stored under it belongs to it.
        image: the worker image, with a tag or digest; left out: the one named when the operator was
            installed.
        image_catalog_ref: where to look the image up by a version, in place of image.
        image_pull_policy: when a node fetches the image; left out: as Kubernetes decides by the
            tag.
        image_pull_secrets: Secrets with which to fetch the image.
        replicas: how many workers; 0 runs nothing and keeps everything. With autoscaling in mode
            Auto, where it begins, and from where it goes on whenever you change this number.
        autoscaling: how many workers there are to be, decided by lag.
        threads_per_worker: StreamThreads (processes) per worker.
        processing_guarantee: as Kafka Streams.
        suspend: stop the workers and keep everything, as with 0 replicas; replicas stays as it is.
        paused: process nothing while the workers run on (Kafka Streams' pause). What was processed
            is committed; restores and standbys go on.
        assignment: where copies of tasks are, and how tasks move.
        scale_down: which workers go, and how long they may take.
        kafka: which Kafka.
        config: settings by Kafka Streams' names. Numbers and texts; write true and false in quotes.
        logging: what its processes log.
        http: what workers serve by HTTP, and to whom. Spark's driver takes no part in it.
        spark: how Spark runs it, if that is the engine.
        state: local state.
        upgrade: how a change that needs new pods is rolled out.
        restart_nonce: replace every worker, one at a time, whenever this number changes.
        pod_template: what the worker pods look like.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        *own_field_rules(),
        *live_option_rules(),
        Rule(
            cel="!has(self.image) || !has(self.imageCatalogRef)",
            message="give image or imageCatalogRef, not both",
            field="imageCatalogRef",
            holds=lambda spec: spec.image is None or spec.image_catalog_ref is None,
        ),
        Rule(
            cel=(
                "!has(self.paused) || !self.paused || !has(self.engine) || self.engine != 'Spark'"
            ),
            message=(
                "Spark cannot pause; set suspend instead, which stops the driver and keeps "
                "everything, or run it with engine Native"
            ),
            field="paused",
            holds=lambda spec: not spec.paused or spec.engine is Engine.NATIVE,
        ),
        Rule(
            cel="!has(self.autoscaling) || !has(self.engine) || self.engine != 'Spark'",
            message="Spark's executors are not autoscaled: take autoscaling out, or set replicas",
            field="autoscaling",
            holds=lambda spec: spec.autoscaling is None or spec.engine is Engine.NATIVE,
        ),
        Rule(
            cel=(
                "!has(self.upgrade) || !has(self.upgrade.rollOn) || "
                "self.upgrade.rollOn.size() == 0 || !has(self.engine) || self.engine != 'Spark'"
            ),
            message=(
                "Spark's driver watches no Secret or ConfigMap: take upgrade.rollOn out, and "
                "change restartNonce instead"
            ),
            field="upgrade",
            holds=lambda spec: not spec.upgrade.roll_on or spec.engine is Engine.NATIVE,
        ),
    )

    topology: TopologySource = field(metadata=meta(change=Change.ROLL))
    engine: Engine = field(default=Engine.NATIVE, metadata=meta(change=Change.ROLL))
    application_id: str = field(
        default="",
        metadata=meta(
            pattern=_APPLICATION_ID,
            meaning="letters, digits, '.', '_' and '-' (at most 150)",
            max_length=150,
            change=Change.IMMUTABLE,
        ),
    )
    image: str | None = field(
        default=None,
        metadata=meta(pattern="[!-~]+", meaning="an image", change=Change.ROLL, cluster_only=True),
    )
    image_catalog_ref: ImageCatalogRef | None = field(
        default=None, metadata=meta(change=Change.ROLL, cluster_only=True)
    )
    image_pull_policy: PullPolicy | None = field(
        default=None, metadata=meta(change=Change.ROLL, cluster_only=True)
    )
    image_pull_secrets: tuple[SecretReference, ...] = field(
        default=(),
        metadata=meta(keys=("name",), max_items=10, change=Change.ROLL, cluster_only=True),
    )
    replicas: int = field(
        default=1,
        metadata=meta(minimum=0, maximum=10_000, change=Change.LIVE, default_in_schema=True),
    )
    autoscaling: AutoscalingSpec | None = field(default=None, metadata=meta(change=Change.LIVE))
    threads_per_worker: int = field(
        default=1, metadata=meta(minimum=1, maximum=256, change=Change.LIVE)
    )
    processing_guarantee: ProcessingGuarantee = field(
        default=ProcessingGuarantee.AT_LEAST_ONCE, metadata=meta(change=Change.ROLL)
    )
    suspend: bool = field(default=False, metadata=meta(change=Change.LIVE))
    paused: bool = field(default=False, metadata=meta(change=Change.LIVE))
    assignment: AssignmentPolicy = field(
        default=AssignmentPolicy(), metadata=meta(change=Change.LIVE)
    )
    scale_down: ScaleDownSpec = field(default=ScaleDownSpec(), metadata=meta(change=Change.LIVE))
    kafka: KafkaSpec = field(default_factory=KafkaSpec, metadata=meta(change=Change.ROLL))
    config: Mapping[str, Scalar] = field(
        default_factory=dict, metadata=meta(change=Change.ROLL, live_keys=LIVE_OPTIONS)
    )
    logging: LoggingSpec = field(default=LoggingSpec(), metadata=meta(change=Change.ROLL))
    http: HttpSpec = field(default=HttpSpec(), metadata=meta(change=Change.ROLL))
    spark: SparkSpec = field(default_factory=SparkSpec, metadata=meta(change=Change.LIVE))
    state: StateSpec = StateSpec()
    upgrade: UpgradeSpec = field(
        default=UpgradeSpec(), metadata=meta(change=Change.LIVE, cluster_only=True)
    )
    restart_nonce: int = field(
        default=0, metadata=meta(minimum=0, change=Change.ROLL, cluster_only=True)
    )
    pod_template: PodTemplate = field(
        default_factory=PodTemplate, metadata=meta(change=Change.ROLL, cluster_only=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamApp:
    """A named application to run: a topology, the workers that run it, and the Kafka it reads."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(f"self.metadata.name.size() <= {_NAME_MAX} && !self.metadata.name.contains('.')"),
            message=(
                f"metadata.name: expected at most {_NAME_MAX} lower-case letters, digits and '-': "
                "workers, pods and volumes are named after it"
            ),
        ),
        Rule(
            cel=(
                "!has(self.spec.scaleDown) || !has(self.spec.scaleDown.workersToRemove) || "
                "self.spec.scaleDown.workersToRemove"
                # Comparing costs what the shorter text costs; the API server sets no bound for a
                # name, so w.startsWith(self.metadata.name) would be too expensive.
                ".all(w, w.substring(0, w.lastIndexOf('-w-')) == self.metadata.name)"
            ),
            message="name workers of this StreamApp: <its name>-w-<number>",
            field="spec.scaleDown.workersToRemove",
            holds=lambda app: all(
                worker.rpartition("-w-")[0] == app.name
                for worker in app.spec.scale_down.workers_to_remove
            ),
        ),
        Rule(
            cel=(
                "(has(self.spec.applicationId) ? self.spec.applicationId : self.metadata.name) == "
                "(has(oldSelf.spec.applicationId) ? oldSelf.spec.applicationId "
                ": oldSelf.metadata.name)"
            ),
            message=(
                "applicationId cannot be changed: committed offsets, changelogs and transactional "
                "ids belong to it; delete the StreamApp and apply it with the new one"
            ),
            field="spec.applicationId",
            reason="FieldValueForbidden",
        ),
    )

    name: str
    spec: StreamAppSpec

    @property
    def wanted_workers(self) -> int:
        """How many workers there are to be: ``spec.replicas``, none while it is suspended."""
        return 0 if self.spec.suspend else self.spec.replicas

    @property
    def application_id(self) -> str:
        """The application id: ``spec.applicationId``, or else the name."""
        return self.spec.application_id or self.name

    @property
    def is_exactly_once(self) -> bool:
        """Whether records are processed in transactions."""
        return self.spec.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2

    def with_replicas(self, replicas: int) -> StreamApp:
        """Return the application scaled to ``replicas`` workers.

        Raises:
            SpecError: the number is negative or beyond the schema's bound.
        """
        return self._with(replicas=replicas)

    def with_threads(self, threads: int) -> StreamApp:
        """Return the application with so many StreamThreads in each worker.

        Raises:
            SpecError: the number is less than 1 or beyond the schema's bound.
        """
        return self._with(threadsPerWorker=threads)

    def with_pause(self, *, paused: bool) -> StreamApp:
        """Return the application paused, or not.

        Raises:
            SpecError: Spark runs it.
        """
        return self._with(paused=paused)

    def _with(self, **fields: object) -> StreamApp:
        data = self.to_dict()
        spec = data["spec"]
        assert isinstance(spec, dict)
        return parse({**data, "spec": {**spec, **fields}})

    def to_dict(self) -> dict[str, object]:
        """Return the resource as JSON values; :func:`parse` reads it back as an equal StreamApp."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": encode_object(self.spec),
        }


def parse(document: object) -> StreamApp:
    """Read a StreamApp from the values of a YAML or JSON document.

    Metadata other than the name, and ``status``, are Kubernetes' business and passed over.

    Raises:
        SpecError: a field is unknown, missing or wrong; the message begins with its path.
    """
    if not isinstance(document, Mapping):
        raise SpecError("expected a StreamApp (a mapping with apiVersion, kind, metadata and spec)")
    known = ("apiVersion", "kind", "metadata", "spec", "status")
    for name in document:
        if name not in known:
            raise SpecError(f"{name}: unknown field{nearest(str(name), known)}")
    _expect(document, "apiVersion", API_VERSION)
    _expect(document, "kind", KIND)
    name = _name_of(document)
    if "spec" not in document:
        raise SpecError("spec: required field is missing")
    spec = decode(StreamAppSpec, document["spec"], path="spec", strict=True)
    app = StreamApp(name=name, spec=replace(spec, application_id=spec.application_id or name))
    check_rules(app, path="")
    return app


def _expect(document: Mapping[object, object], name: str, wanted: str) -> None:
    if name not in document:
        raise SpecError(f"{name}: required field is missing; expected {wanted!r}")
    if document[name] != wanted:
        raise SpecError(f"{name}: expected {wanted!r}, got {document[name]!r}")


def _name_of(document: Mapping[object, object]) -> str:
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or "name" not in metadata:
        raise SpecError("metadata.name: required field is missing")
    name = metadata["name"]
    # Worker names, pods and volumes are built from it, and they are DNS labels of at most 63
    # characters.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SpecError(
            f"metadata.name: expected at most {_NAME_MAX} lower-case letters, digits and '-', with "
            f"a letter or digit at both ends, got {name!r}"
        )
    return name
