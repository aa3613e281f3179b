"""The custom resource definitions: names, columns, subresources, and their schemas."""

from __future__ import annotations

from typing import Final

from headwater.model.appstatus import AppStatus
from headwater.model.cluster import API_VERSION, StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.fields import summary_of
from headwater.model.imagecatalog import StreamImageCatalog, StreamImageCatalogSpec
from headwater.model.streamaction import StreamAction, StreamActionSpec
from headwater.model.streamaction_status import StreamActionStatus
from headwater.model.streamapp import StreamApp, StreamAppSpec
from headwater_operator.spec.schema import Schema, object_schema, validations

GROUP: Final = API_VERSION.partition("/")[0]
VERSION: Final = API_VERSION.partition("/")[2]


def custom_resource_definitions() -> dict[str, Schema]:
    """Return the definitions by name."""
    return {
        definition["metadata"]["name"]: definition
        for definition in (
            stream_app_definition(),
            stream_worker_definition(),
            stream_action_definition(),
            stream_image_catalog_definition(),
        )
    }


def stream_app_definition() -> Schema:
    """Return ``streamapps.headwater.dev``."""
    return _definition(
        kind="StreamApp",
        singular="streamapp",
        plural="streamapps",
        short="sapp",
        schema=_unseen(_resource(StreamApp, StreamAppSpec, AppStatus)),
        columns=[
            _column("Desired", "integer", ".spec.replicas", "Workers asked for."),
            _column("Workers", "integer", ".status.readyReplicas", "Workers that are ready."),
            _column("Tasks", "integer", ".status.tasks.total", "Tasks of the topology."),
            _column("Running", "integer", ".status.tasks.running", "Tasks that process records."),
            _column("Restoring", "integer", ".status.tasks.restoring", "Tasks that restore."),
            _column("Ready", "string", _condition("Ready", "status"), "Whether all is well."),
            _column("Reason", "string", _condition("Ready", "reason"), "Why it is, or is not."),
            _column("Age", "date", ".metadata.creationTimestamp", "How old it is."),
            _column("Updated", "integer", ".status.updatedReplicas", "As specified.", wide=True),
            _column(
                "Autoscaled",
                "integer",
                ".status.autoscaling.replicas",
                "Workers that count, by lag.",
                wide=True,
            ),
            _column("Epoch", "integer", ".status.assignmentEpoch", "Of the assignment.", wide=True),
            _column("Message", "string", _condition("Ready", "message"), "What to do.", wide=True),
        ],
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        selectable=[".spec.applicationId"],
    )


def stream_worker_definition() -> Schema:
    """Return ``streamworkers.headwater.dev``."""
    return _definition(
        kind="StreamWorker",
        singular="streamworker",
        plural="streamworkers",
        short="sw",
        schema=_with_format(_resource(StreamWorker, WorkerSpec, WorkerStatus)),
        columns=[
            _column("App", "string", ".spec.app", "The StreamApp it works for."),
            _column("State", "string", ".status.state", "Of its process, in Kafka's words."),
            _column("Running", "string", ".status.running", "Of the tasks it holds, how many run."),
            _column("Copies", "string", ".status.copies", "Of its copies, how many caught up."),
            _column("Drain", "boolean", ".spec.drain", "Whether it is to end."),
            _column("Error", "string", ".status.error.error", "Why it cannot go on."),
            _column("Age", "date", ".metadata.creationTimestamp", "How old it is."),
            _column("Epoch", "integer", ".spec.epoch", "Of what is wanted of it.", wide=True),
            _column("Seen", "integer", ".status.acknowledgedEpoch", "Epoch it acts on.", wide=True),
            _column("Endpoint", "string", ".status.endpoint", "Its HTTP service.", wide=True),
        ],
        subresources={"status": {}},
        selectable=[".spec.app"],
    )


def stream_action_definition() -> Schema:
    """Return ``streamactions.headwater.dev``."""
    return _definition(
        kind="StreamAction",
        singular="streamaction",
        plural="streamactions",
        short="sact",
        schema=_resource(StreamAction, StreamActionSpec, StreamActionStatus),
        columns=[
            _column("App", "string", ".spec.app", "The StreamApp it is about."),
            _column("Type", "string", ".spec.type", "What is done."),
            _column("Phase", "string", ".status.phase", "How far it has come."),
            _column("Step", "string", ".status.step", "What is being done now."),
            _column("Progress", "string", ".status.progress", "How much of it is done."),
            _column("Reason", "string", ".status.reason", "Why it is so."),
            _column("Age", "date", ".metadata.creationTimestamp", "How old it is."),
            _column("Message", "string", ".status.message", "What to do.", wide=True),
            _column("Started", "date", ".status.startedAt", "When it was begun.", wide=True),
            _column("Finished", "date", ".status.finishedAt", "When it ended.", wide=True),
        ],
        subresources={"status": {}},
        selectable=[".spec.app"],
    )


def stream_image_catalog_definition() -> Schema:
    """Return ``streamimagecatalogs.headwater.dev``."""
    return _definition(
        kind="StreamImageCatalog",
        singular="streamimagecatalog",
        plural="streamimagecatalogs",
        short="simg",
        schema=_resource(StreamImageCatalog, StreamImageCatalogSpec),
        columns=[
            _column("First", "string", ".spec.images[0].version", "The first version."),
            _column("Image", "string", ".spec.images[0].image", "What it stands for."),
            _column("Age", "date", ".metadata.creationTimestamp", "How old it is."),
            _column("Images", "string", ".spec.images", "All of them.", wide=True),
        ],
    )


def _definition(
    *,
    kind: str,
    singular: str,
    plural: str,
    short: str,
    schema: Schema,
    columns: list[Schema],
    subresources: Schema | None = None,
    selectable: list[str] | None = None,
) -> Schema:
    fields = [{"jsonPath": path} for path in selectable or ()]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short],
                "categories": ["headwater"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **({"subresources": subresources} if subresources else {}),
                    **({"selectableFields": fields} if fields else {}),
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _resource(kind: type, spec: type, status: type | None = None) -> Schema:
    """Return the schema of a whole resource."""
    schema: Schema = {
        "type": "object",
        "description": summary_of(kind),
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {API_VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind.__name__}."},
            "metadata": {"type": "object"},
            "spec": object_schema(spec),
            **({} if status is None else {"status": object_schema(status)}),
        },
        "required": ["spec"],
    }
    rules = validations(kind)
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _with_format(schema: Schema) -> Schema:
    """Add what ``StreamWorker.to_dict`` writes beside the parts that every resource has."""
    meaning = "Of what spec and status hold; a worker refuses a newer one than its own."
    number = {"type": "integer", "format": "int64", "minimum": 1, "description": meaning}
    return {**schema, "properties": {**schema["properties"], "formatVersion": number}}


def _unseen(schema: Schema) -> Schema:
    """Say of a StreamApp without a status that no generation of it was observed.

    Tools that wait by the rules of kstatus take a resource without a status for done.
    """
    properties = schema["properties"]
    status = {**properties["status"], "default": {"observedGeneration": -1}}
    return {**schema, "properties": {**properties, "status": status}}


def _column(name: str, kind: str, path: str, meaning: str, *, wide: bool = False) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path, "description": meaning}
    return {**column, "priority": 1} if wide else column


def _condition(name: str, part: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].{part}'
