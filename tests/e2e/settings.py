"""What the journey is told about the cluster it runs on, and what follows from that. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from headwater.model.streamapp import AccessMode
from tests.support.spark_classes import QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READ_WRITE_ONCE_POD = AccessMode.READ_WRITE_ONCE_POD.value
NO_SUCH_TAG = "there-is-no-such-tag"
WORKER_MAX_MB = 350
OPERATOR_MAX_MB = 250
SPARK_MAX_MB = 1_500


class NotToldError(Exception):
    """A setting that the journey cannot do without is missing, or one that goes with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the journey goes; every field is a variable of ``make e2e-cluster`` in capitals.

    Attributes:
        kubeconfig: of an administrator of the cluster.
        worker_image: with a tag that is not ``latest``.
        operator_image: the same.
        bootstrap: addresses of a Kafka, the same for this machine and for the cluster's pods.
        next_worker_image: another tag that workers are rolled to; may be the same image.
        example_image: of the word count example, made from its Dockerfile.
        backfill_image: of the same example, made from the image with Spark.
        spark_image: of the worker with Spark, made with ``--target spark``.
        state_access_mode: of the application's volumes: ``ReadWriteOncePod``, where storage and
            scheduler know it.
        stop_kubelet: a shell command that stops the kubelet of a node.
        start_kubelet: one that starts it again.
    """

    kubeconfig: str = ""
    worker_image: str = ""
    operator_image: str = ""
    bootstrap: str = ""
    next_worker_image: str = ""
    example_image: str = ""
    backfill_image: str = ""
    spark_image: str = ""
    state_access_mode: str = ""
    stop_kubelet: str = ""
    start_kubelet: str = ""

    def check(self) -> None:
        """Raise ``NotToldError`` if the journey cannot begin."""
        needed = {name: getattr(self, name) for name in REQUIRED}
        if missing := [variable(name) for name, value in needed.items() if not value]:
            raise NotToldError(
                f"not set: {', '.join(missing)}; run it as: make e2e-cluster "
                + " ".join(f"{variable(name)}=..." for name in REQUIRED)
            )
        if bool(self.stop_kubelet) != bool(self.start_kubelet):
            raise NotToldError(
                "STOP_KUBELET and START_KUBELET go together: set both, or neither to leave out "
                "the step that stops the kubelet"
            )
        if self.state_access_mode not in ("", READ_WRITE_ONCE_POD):
            raise NotToldError(
                f"STATE_ACCESS_MODE is {self.state_access_mode}: the step that needs it is about "
                f"{READ_WRITE_ONCE_POD}; set that, or nothing to leave the step out"
            )
        for image in (self.worker_image, self.next_worker_image):
            if "@" in image:
                raise NotToldError(f"{image}: give a tag, not a digest; one roll-out is to a tag")

    def left_out(self) -> dict[str, str]:
        """Return the steps that are left out, each with what it would need."""
        found = {}
        if not self.next_worker_image:
            found["a roll to another tag"] = "NEXT_WORKER_IMAGE"
        if not self.example_image:
            found["the committed example"] = "EXAMPLE_IMAGE"
        if not (self.example_image and self.backfill_image):
            found["a backfill of it by a Job"] = "EXAMPLE_IMAGE and BACKFILL_IMAGE"
        if not self.spark_image:
            found["workers and Spark in turn"] = "SPARK_IMAGE"
        if not self.state_access_mode:
            found["a volume that one pod alone may use"] = "STATE_ACCESS_MODE"
        if not self.stop_kubelet:
            found["the kubelet stopped and started"] = "STOP_KUBELET and START_KUBELET"
        return found


REQUIRED = ("kubeconfig", "worker_image", "operator_image", "bootstrap")
OPTIONAL = tuple(field.name for field in fields(Settings) if field.name not in REQUIRED)


def variable(name: str) -> str:
    """Return the variable of ``make e2e-cluster`` for a field."""
    return name.upper()


def split_image(image: str) -> tuple[str, str]:
    """Return repository and tag; the tag is empty if there is none. The registry may have a port.

    What follows ``@`` counts as a part of the repository's name: it is no tag.
    """
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag or "@" in image:
        return image, ""
    return repository, tag


def bad_image(image: str) -> str:
    """Return an image that cannot be pulled from where ``image`` comes from."""
    return f"{split_image(image)[0]}:{NO_SUCH_TAG}"


def example(manifest: str, image: str) -> str:
    """Return the example's StreamApp with its image under the name that it has on the cluster."""
    return re.sub(r"(?m)^(  image:) .*$", rf"\1 {image}", manifest)


def backfill_job(found: str, image: str, bootstrap: str) -> str:
    """Return the manifests of the page on backfills, for this cluster; it may be a small one."""
    for told, ours in (
        ("word-count:1-spark", image),
        ("kafka:9092", bootstrap),
        ("instances=4", "instances=2"),
    ):
        assert told in found, told
        found = found.replace(told, ours)
    last = "--spark-config=spark.executor.instances=2"
    small = "--spark-config=spark.kubernetes.executor.request.cores=100m"
    quick = f"--spark-config=spark.executor.extraJavaOptions={QUICK}"
    found = re.sub(rf"(?m)^( *- ){last}$", rf"\1{last}\n\1{small}\n\1{quick}", found)
    # A StreamAction lets it run.
    return re.sub(r"(?m)^spec:\n  template:$", "spec:\n  suspend: true\n  template:", found)


def chart_values(settings: Settings) -> dict[str, Any]:
    """Return the chart's values: the operator's image, and the defaults of StreamApps."""
    repository, tag = split_image(settings.operator_image)
    digest = ""
    if "@" in repository:
        repository, _, digest = repository.partition("@")
        repository = split_image(repository)[0]
    return {
        "image": {"repository": repository, "tag": tag, "digest": digest},
        "worker": {"image": settings.worker_image},
        "kafka": {"bootstrapServers": settings.bootstrap},
        "metrics": {"dashboards": {"create": True}},
        "web": {"create": True},
    }


def image_bytes(nodes: Sequence[Mapping[str, Any]], image: str) -> int | None:
    """Return how large an image is as a node says; ``None`` if none lists it.

    A node lists its largest images only, and knows them by their whole names.
    """
    for node in nodes:
        for listed in node.get("status", {}).get("images") or ():
            names = listed.get("names") or ()
            if any(name == image or name.endswith(f"/{image}") for name in names):
                return int(listed["sizeBytes"])
    return None
