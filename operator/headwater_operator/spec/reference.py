"""The reference pages ``docs/reference/*.md``, from where the schemas come from, too."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin, get_type_hints

from headwater.ids import TaskId, TopicPartition
from headwater.model.appstatus import AppStatus, ConditionType
from headwater.model.cluster import API_VERSION, StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.codec import encode
from headwater.model.fields import (
    Change,
    FieldInfo,
    Metadata,
    each_of,
    fields_of,
    rules_of,
    summary_of,
)
from headwater.model.imagecatalog import StreamImageCatalog, StreamImageCatalogSpec
from headwater.model.streamaction import StreamAction, StreamActionSpec
from headwater.model.streamaction_status import StreamActionStatus
from headwater.model.streamapp import StreamApp, StreamAppSpec
from headwater_operator.spec.schema import default_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHANGES: Final[Mapping[Change, str]] = {
    Change.LIVE: "taken over while the workers run; no pod is replaced",
    Change.ROLL: (
        "workers are replaced one at a time, each behind its standbys, and keep their volumes"
    ),
    Change.RECREATE: (
        "holds for workers made from then on; a worker keeps the volume it has. To move one over, "
        "name it in spec.scaleDown.workersToRemove with whenScaled: Delete"
    ),
    Change.IMMUTABLE: "refused",
}
_CONDITIONS: Final[Mapping[ConditionType, str]] = {
    ConditionType.READY: (
        "every task runs, or will within seconds, from the specification as it stands; the one "
        "to wait for"
    ),
    ConditionType.PROGRESSING: (
        "the operator is about something: a roll-out, an operation, tasks or copies on their way. "
        "`False` with another reason than `Complete`: it is stuck"
    ),
    ConditionType.SPEC_VALID: "the specification is carried out as it stands",
    ConditionType.ASSIGNMENT_CONVERGED: "every task is where it belongs",
    ConditionType.STATE_RESTORED: "no active task restores",
    ConditionType.STANDBYS_READY: "every standby that is wanted could take over at once",
    ConditionType.DEGRADED: "somebody has to do something: the message names cause and next step",
    ConditionType.SUSPENDED: "`spec.suspend` keeps it from running",
    ConditionType.PAUSED: (
        "`spec.paused` keeps tasks from processing, and what they had processed is committed; or "
        "the annotation `headwater.dev/pause-reconciliation` keeps the operator from doing anything"
    ),
    ConditionType.SCALING_LIMITED: "there are more workers than tasks",
    ConditionType.RECONCILING: (
        "what the specification asks for is being carried out; copies that warm up are not waited "
        "for"
    ),
    ConditionType.STALLED: (
        "what the specification asks for is not carried out until somebody acts"
    ),
}
_CLUSTER: Final = "¹"

_APP_HEAD: Final = f"""# StreamApp

`apiVersion: {API_VERSION}`, `kind: StreamApp`, short name `sapp`. You write `spec`, the control
loop writes `status`.

One file serves `headwater up` on a laptop and `kubectl apply` on a cluster: both read it by the
same schema and refuse the same mistakes. Fields marked {_CLUSTER} need a cluster (pods, volumes,
Secrets, ConfigMaps): `headwater up` checks them and passes over them. It cannot do without two of
them, and says what to do instead: a topology in a ConfigMap (put the ConfigMap into the same file),
and `tls` or `authentication` for a Kafka that you name.

Numbers are whole. Amounts are Kubernetes' (`500m`, `2`, `10Gi`), durations a number with `ms`,
`s`, `m` or `h` (`500ms`, `30s`, `10m`). Only `replicas` is filled in by the API server when it is
left out; every other default is applied where it is used, so what you applied is what you see.

There is one version, `v1alpha1`: it is served and it is stored. Fields are added to it; what one
release takes, the next one takes, too. A field that has to be renamed, removed or given another
meaning comes as a new version that is served beside this one, without a conversion webhook. The
definitions of a release are applied before its operator:
`kubectl apply --server-side --filename crds`.

What follows when a field of a running application changes:

| Change | What happens |
| --- | --- |
"""

_WORKER_HEAD: Final = f"""# StreamWorker

`apiVersion: {API_VERSION}`, `kind: StreamWorker`, short name `sw`. One per worker, named
`<StreamApp>-w-<number>`; it outlives the worker's pod, because it remembers what the worker's
volume stores. The control loop alone writes `spec`, the worker alone writes `status`. It is there
to be read: do not edit it.

Fields that hold their default are left out. Tasks are written `<sub-topology>_<partition>`.
"""

_ACTION_HEAD: Final = f"""# StreamAction

`apiVersion: {API_VERSION}`, `kind: StreamAction`, short name `sact`. You create it, the control
loop carries it out once and writes `status`. Of `spec` only `cancel` can be changed afterwards.
[actions.md](../actions.md) shows each type at work. It needs a cluster.
"""


_CATALOG_HEAD: Final = f"""# StreamImageCatalog

`apiVersion: {API_VERSION}`, `kind: StreamImageCatalog`, short name `simg`. You write it; StreamApps
of its namespace name one of its versions in `spec.imageCatalogRef`. It needs a cluster.
[live-changes.md](../live-changes.md#an-image-by-its-version) shows it at work.
"""


@dataclass(frozen=True, slots=True)
class _Section:
    path: str
    kind: type
    change: Change | None
    cluster_only: bool


def reference_pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {
        "streamapp.md": _stream_app_page(),
        "streamworker.md": _stream_worker_page(),
        "streamaction.md": _stream_action_page(),
        "streamimagecatalog.md": _stream_image_catalog_page(),
    }


def _stream_app_page() -> str:
    changes = [f"| {change} | {text} |" for change, text in _CHANGES.items()]
    lines = [_APP_HEAD.rstrip(), *changes, "", *_rules(StreamApp)]
    lines += _object("spec", StreamAppSpec, changes=True)
    lines += _object("status", AppStatus, changes=False)
    lines += _conditions()
    return _page(lines)


def _conditions() -> Iterator[str]:
    yield from ("## Conditions", "")
    yield "On a cluster. All are `Unknown` at first, some until a worker has reported the topology."
    yield from ("", "| Condition | when all is well | `True` says |", "| --- | --- | --- |")
    for kind in ConditionType:
        yield f"| `{kind}` | `{kind.when_well}` | {_CONDITIONS[kind]} |"


def _stream_worker_page() -> str:
    lines = [_WORKER_HEAD.rstrip(), "", *_rules(StreamWorker)]
    lines += _object("spec", WorkerSpec, changes=False)
    lines += _object("status", WorkerStatus, changes=False)
    return _page(lines)


def _stream_action_page() -> str:
    lines = [_ACTION_HEAD.rstrip(), "", *_rules(StreamAction)]
    lines += _object("spec", StreamActionSpec, changes=False)
    lines += _object("status", StreamActionStatus, changes=False)
    return _page(lines)


def _stream_image_catalog_page() -> str:
    lines = [_CATALOG_HEAD.rstrip(), "", *_rules(StreamImageCatalog)]
    lines += _object("spec", StreamImageCatalogSpec, changes=False)
    return _page(lines)


def _page(lines: list[str]) -> str:
    note = "<!-- Written by `make crds` from worker/headwater/model. Do not edit. -->"
    return "\n".join([note, "", *lines]).rstrip() + "\n"


def _object(path: str, kind: type, *, changes: bool) -> Iterator[str]:
    """Yield the sections of an object and everything in it."""
    sections = [_Section(path, kind, None, cluster_only=False)]
    while sections:
        section = sections.pop(0)
        yield from _section(section, changes=changes)
        sections[:0] = _inner(section)


def _section(section: _Section, *, changes: bool) -> Iterator[str]:
    hints = get_type_hints(section.kind)
    yield f"## {section.path}"
    yield ""
    yield summary_of(section.kind)
    yield ""
    yield f"| Field | Type | Default |{' Change |' if changes else ''} Meaning |"
    yield f"| --- | --- | --- |{' --- |' if changes else ''} --- |"
    for info in fields_of(section.kind):
        mark = _CLUSTER if info.metadata.get("cluster_only") or section.cluster_only else ""
        default = "required" if info.is_required else default_text(info)
        # A column of its own where objects have a class, empty for those whose parts differ.
        change = f" {change_of_info(info, section.change) or ''} |" if changes else ""
        what = _type(hints[info.attribute], info.metadata)
        cells = f"| `{info.name}`{mark} | {what} | {default} |{change} {info.meaning} |"
        yield cells.replace("|  |", "| |")
    yield ""
    yield from _rules(section.kind)


def _rules(kind: type) -> Iterator[str]:
    rules = rules_of(kind)
    if not rules:
        return
    yield "Refused, with this message:"
    yield ""
    for rule in rules:
        place = f"`{rule.field}`: " if rule.field else ""
        yield f"- {place}{rule.message}"
    yield ""


def change_of_info(info: FieldInfo, inherited: Change | None) -> Change | None:
    """Return a field's class: its own, or that of what it is part of."""
    own = info.metadata.get("change")
    return own if isinstance(own, Change) else inherited


def _inner(section: _Section) -> list[_Section]:
    hints = get_type_hints(section.kind)
    found: list[_Section] = []
    for info in fields_of(section.kind):
        change = change_of_info(info, section.change)
        cluster_only = section.cluster_only or bool(info.metadata.get("cluster_only"))
        members = classes_in(hints[info.attribute])
        for member in members:
            path = f"{section.path}.{info.name}"
            if get_origin(hints[info.attribute]) is tuple:
                path += "[]"
            if len(members) > 1:
                path += f" with kind {encode(typing.cast('Any', member).KIND)}"
            found.append(_Section(path, member, change, cluster_only=cluster_only))
    return found


def classes_in(kind: object) -> list[type]:
    """Return the resource classes that a field's type leads to."""
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
        return [kind]
    origin = get_origin(kind)
    if origin in (Union, types.UnionType) or origin is tuple:
        return [found for argument in get_args(kind) for found in classes_in(argument)]
    return []


_PLAIN: Final[Mapping[object, str]] = {
    str: "text",
    int: "number",
    bool: "true or false",
    TaskId: "task",
    TopicPartition: "[topic, number]",
}


def _type(kind: object, metadata: Metadata) -> str:
    """Name a field's type for a person."""
    if metadata.get("duration"):
        return "duration"
    if metadata.get("date_time"):
        return "time"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{encode(member)}`" for member in kind)
    if kind in _PLAIN:
        return _PLAIN[kind] + _bounds(metadata)
    return _composed_type(kind, metadata)


def _composed_type(kind: object, metadata: Metadata) -> str:
    arguments = [item for item in get_args(kind) if item not in (type(None), Ellipsis)]
    match get_origin(kind):
        case None:
            return "object"
        case origin if origin is tuple:
            return f"list of {_type(arguments[0], each_of(metadata))}"
        case origin if origin in (Union, types.UnionType):
            if len(arguments) == 1:
                return _type(arguments[0], metadata)
            if set(arguments) == {str, int}:
                return "amount" if "amount" in str(metadata.get("meaning")) else "text or number"
            return "object, by its `kind`"
        case _:
            return f"mapping to {_type(arguments[1], each_of(metadata))}"


def _bounds(metadata: Metadata) -> str:
    minimum, maximum = metadata.get("minimum"), metadata.get("maximum")
    if minimum is not None and maximum is not None:
        return f", {minimum} to {maximum}"
    return f", at least {minimum}" if minimum is not None else ""
