"""Hypothesis strategies for resource classes, from the metadata that schemas come from, too."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from headwater.ids import TaskId, TopicPartition
from headwater.model.fields import (
    LENGTH_MAX,
    FieldInfo,
    Metadata,
    each_of,
    fields_of,
    limit,
    rules_of,
)
from headwater.model.streamaction import PARTS, ActionType, StreamActionSpec
from headwater.model.streamapp import ConfigMapSource, StreamApp, StreamAppSpec, TopologySource
from headwater.model.streamapp_affinity import Affinity, LabelRequirement, NodeRequirement
from headwater.model.streamapp_containers import Container, Handler, Probe
from headwater.model.streamapp_env import EnvFrom, EnvSource, EnvVar
from headwater.model.streamapp_pod import PodTemplate, Toleration, TolerationOperator
from headwater.model.streamapp_volumes import PodFieldFile, Projection, Volume

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_KEYS = st.text("abcdefghijklmnopqrstuvwxyz.-", min_size=1, max_size=8).map(lambda key: f"k{key}k")
_TIMES = st.datetimes().map(lambda time: f"{time.isoformat()}Z")


def values_of(kind: type) -> st.SearchStrategy[Any]:
    """Values of a resource class that keep its bounds, patterns and rules."""
    if kind in _BY_HAND:
        return _BY_HAND[kind]()
    return _built(kind)


def apps() -> st.SearchStrategy[StreamApp]:
    """Whole StreamApps, as :func:`headwater.model.streamapp.parse` returns them."""
    names = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
    return st.builds(_app, names, values_of(StreamAppSpec))


def _app(name: str, spec: StreamAppSpec) -> StreamApp:
    workers = tuple(f"{name}-w-{index}" for index in range(len(spec.scale_down.workers_to_remove)))
    scale_down = replace(spec.scale_down, workers_to_remove=workers)
    application_id = spec.application_id or name
    return StreamApp(
        name=name, spec=replace(spec, scale_down=scale_down, application_id=application_id)
    )


def _built(kind: type, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    fields = {
        info.attribute: _field(info, hints[info.attribute])
        for info in fields_of(kind)
        if info.attribute not in chosen
    }
    return st.builds(kind, **fields, **chosen).filter(_keeps_rules)


def _keeps_rules(value: Any) -> bool:
    return all(rule.holds is None or rule.holds(value) for rule in rules_of(type(value)))


def _field(info: FieldInfo, kind: Any) -> st.SearchStrategy[Any]:
    strategy = _value(kind, info.metadata)
    # An optional text is left out, never written empty, unless its pattern takes that.
    return st.just("") | strategy if info.default == "" else strategy


def _value(kind: Any, metadata: Metadata) -> st.SearchStrategy[Any]:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return st.one_of(
            *(
                st.none() if member is type(None) else _value(member, metadata)
                for member in get_args(kind)
            )
        )
    if origin is tuple:
        return _list(get_args(kind)[0], metadata)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(_KEYS, _value(get_args(kind)[1], each_of(metadata)), max_size=3)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return values_of(kind)
    return _scalar(kind, metadata)


def _list(kind: Any, metadata: Metadata) -> st.SearchStrategy[Any]:
    keys = [_attribute(kind, key) for key in metadata.get("keys", ())]  # type: ignore[attr-defined]
    unique_by = None
    if keys:
        unique_by = lambda item: tuple(getattr(item, key) for key in keys)  # noqa: E731
    items = _value(kind, each_of(metadata))
    if metadata.get("unique"):
        return st.lists(items, max_size=3, unique=True).map(tuple)
    return st.lists(items, max_size=3, unique_by=unique_by).map(tuple)


def _attribute(kind: type, name: str) -> str:
    return next(info.attribute for info in fields_of(kind) if info.name == name)


def _scalar(kind: Any, metadata: Metadata) -> st.SearchStrategy[Any]:
    if metadata.get("duration"):
        return st.integers(0, 10**11)
    if metadata.get("date_time"):
        return _TIMES
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if kind is int:
        low, high = limit(metadata, "minimum", -(2**63)), limit(metadata, "maximum", 2**63 - 1)
        return st.integers(low, high)
    return _text(metadata) if kind is str else _PLAIN[kind]


_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    TaskId: st.builds(TaskId, st.integers(0, 10**9), st.integers(0, 10**9)),
    TopicPartition: st.builds(TopicPartition, _TEXT, st.integers(0, 10**9)),
}


def _text(metadata: Metadata) -> st.SearchStrategy[str]:
    pattern = metadata.get("pattern")
    if not isinstance(pattern, str):
        return _TEXT
    longest = limit(metadata, "max_length", LENGTH_MAX)
    alphabet = st.characters(codec="ascii")
    texts = st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True, alphabet=alphabet)
    return texts.filter(lambda text: len(text) <= longest)


def _topologies() -> st.SearchStrategy[TopologySource]:
    info = {info.attribute: info for info in fields_of(TopologySource)}
    functions = st.none() | _scalar(str, info["function"].metadata)
    return st.one_of(
        st.builds(TopologySource, module=_scalar(str, info["module"].metadata)),
        st.builds(TopologySource, inline=_TEXT, function=functions),
        st.builds(TopologySource, config_map_ref=values_of(ConfigMapSource), function=functions),
    )


def _env_vars() -> st.SearchStrategy[EnvVar]:
    return _built(EnvVar, value=st.none()) | _built(EnvVar, value_from=st.none())


def _tolerations() -> st.SearchStrategy[Toleration]:
    return _built(
        Toleration,
        operator=st.just(TolerationOperator.EXISTS),
        value=st.none(),
        toleration_seconds=st.none(),
    ) | _built(Toleration, operator=st.just(TolerationOperator.EQUAL), key=st.just("dedicated"))


def _one_of(kind: type) -> st.SearchStrategy[Any]:
    """Values of a class of which one of the optional objects has to be given."""
    hints = get_type_hints(kind)
    parts = {
        field.name: member
        for field in dataclasses.fields(kind)
        for member in get_args(hints[field.name])
        if isinstance(member, type) and is_dataclass(member)
    }
    return st.one_of(
        *(
            _built(kind, **{name: values_of(part) if name == one else st.none() for name in parts})
            for one, part in parts.items()
        )
    )


def _requirements(kind: type) -> st.SearchStrategy[Any]:
    """Requirements of affinity: those with values and those without."""
    operators = get_type_hints(kind)["operator"]
    without = [operators("Exists"), operators("DoesNotExist")]
    return st.one_of(
        _built(kind, operator=st.sampled_from(without), values=st.just(())),
        _built(
            kind,
            operator=st.sampled_from([each for each in operators if each not in without]),
            values=st.just(("a", "b")),
        ),
    )


@st.composite
def _pod_templates(draw: st.DrawFn) -> PodTemplate:
    """As below. Hypothesis writes a strategy out, and this one is too long for that."""
    return draw(_every_pod_template())


@cache
def _every_pod_template() -> st.SearchStrategy[PodTemplate]:
    """Pod templates whose parts go together: most of what is drawn freely would not."""
    hints = get_type_hints(PodTemplate)
    info = {info.attribute: info for info in fields_of(PodTemplate)}
    lists = ("volume_mounts", "init_containers", "containers")
    mounts = _field(info["volume_mounts"], hints["volume_mounts"])
    none = st.just(())
    several = st.lists(values_of(Container), max_size=1).map(tuple)
    empty = dict.fromkeys(lists, none)
    # Not all at once: that would be hundreds of values for each template.
    bare = _built(PodTemplate, **empty, affinity=st.just(Affinity()))
    placed = _built(PodTemplate, **empty, **dict.fromkeys(("env", "env_from", "volumes"), none))
    return st.one_of(
        st.builds(_joined, bare, mounts, none, none),
        st.builds(_joined, placed, none, none, none),
        st.builds(_joined, bare, none, several, several),
    ).filter(_keeps_rules)


def _joined(
    template: PodTemplate,
    mounts: tuple[Any, ...],
    before: tuple[Container, ...],
    beside: tuple[Container, ...],
) -> PodTemplate:
    def named(mounts: tuple[Any, ...]) -> tuple[Any, ...]:
        volumes = template.volumes
        return tuple(
            replace(mount, name=volumes[index % len(volumes)].name)
            for index, mount in enumerate(mounts if volumes else ())
        )

    return replace(
        template,
        volume_mounts=named(mounts),
        init_containers=tuple(
            replace(
                each,
                name=f"before-{index}",
                volume_mounts=named(each.volume_mounts),
                startup_probe=each.startup_probe if each.is_sidecar else None,
                liveness_probe=each.liveness_probe if each.is_sidecar else None,
                readiness_probe=each.readiness_probe if each.is_sidecar else None,
                lifecycle=each.lifecycle if each.is_sidecar else None,
            )
            for index, each in enumerate(before)
        ),
        containers=tuple(
            replace(
                each,
                name=f"beside-{index}",
                restart_policy=None,
                volume_mounts=named(each.volume_mounts),
            )
            for index, each in enumerate(beside)
        ),
    )


def _stream_action_specs() -> st.SearchStrategy[Any]:
    """Each type with what is said about it, and about no other."""
    hints = get_type_hints(StreamActionSpec)
    parts = {
        kind: next(each for each in get_args(hints[name]) if each is not type(None))
        for kind, name in PARTS.items()
    }
    return st.one_of(
        *(
            _built(
                StreamActionSpec,
                type=st.just(kind),
                **{
                    name: values_of(parts[kind]) if other is kind else st.none()
                    for other, name in PARTS.items()
                },
            )
            for kind in ActionType
        )
    )


_BY_HAND: dict[type, Callable[[], st.SearchStrategy[Any]]] = {
    TopologySource: _topologies,
    **{
        kind: partial(_one_of, kind)
        for kind in (EnvSource, EnvFrom, PodFieldFile, Projection, Probe, Handler, Volume)
    },
    **{kind: partial(_requirements, kind) for kind in (LabelRequirement, NodeRequirement)},
    EnvVar: _env_vars,
    Toleration: _tolerations,
    PodTemplate: _pod_templates,
    StreamActionSpec: _stream_action_specs,
}
