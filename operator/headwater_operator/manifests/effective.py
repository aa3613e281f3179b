"""The StreamApp as its workers are to read it: with all that is said elsewhere filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import SpecError
from headwater.model.lifecycle import Engine
from headwater.model.movewindows import unknown_zone

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp
    from headwater_operator.manifests.settings import Installation


def effective(
    app: StreamApp, installation: Installation, source: str | None, catalog_image: str = ""
) -> StreamApp:
    """Fill in what the installation says, and the text of a topology in a ConfigMap.

    Args:
        app: as the user wrote it.
        installation: defaults of this installation.
        source: what stands in the ConfigMap that ``spec.topology.configMapRef`` names.
        catalog_image: what ``spec.imageCatalogRef`` names; empty if it is not there.

    Raises:
        SpecError: something is said nowhere; the message begins with the field to set.
    """
    spec = app.spec
    is_spark = spec.engine is Engine.SPARK
    image = spec.image or catalog_image
    image = image or (installation.spark_image if is_spark else installation.worker_image)
    if not image:
        raise SpecError(
            "spec.image: say which worker image to run; no default was named when the operator was "
            "installed"
        )
    servers = spec.kafka.bootstrap_servers or installation.bootstrap_servers
    if not servers:
        raise SpecError(
            "spec.kafka.bootstrapServers: say which Kafka to use; no default was named when the "
            "operator was installed"
        )
    if problem := unknown_zone(spec.assignment.move_windows):
        raise SpecError(problem)
    topology = spec.topology
    if topology.config_map_ref is not None:
        reference = topology.config_map_ref
        if source is None:
            raise SpecError(
                f"spec.topology.configMapRef: there is no ConfigMap {reference.name!r} with the "
                f"key {reference.key!r} in this namespace; create it, or correct the reference"
            )
        topology = replace(topology, inline=source, config_map_ref=None)
    kafka = spec.kafka.settled(servers)
    # What was looked up stands in the place of the reference: another image is another revision.
    filled = replace(spec, image=image, image_catalog_ref=None, kafka=kafka, topology=topology)
    return replace(app, spec=filled)
