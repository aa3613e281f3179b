"""The text of a YAML file with StreamApps, and with the ConfigMaps that hold their topologies.

One file serves every command and a cluster, so what else lies in it for a cluster is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import yaml

from headwater.errors import SpecError
from headwater.model.cluster import API_VERSION
from headwater.model.streamapp import KIND, StreamApp, parse

if TYPE_CHECKING:
    from collections.abc import Callable

_CONFIG_MAP: Final = "ConfigMap"
_LIST: Final = "List"
_OURS: Final = API_VERSION.partition("/")[0]


def stream_apps(
    text: str, file: object, *, made_local: Callable[[StreamApp], StreamApp] | None = None
) -> list[StreamApp]:
    """Return every StreamApp of a file; the documents are divided by ``---``, or items of a List.

    A topology in a ConfigMap of the same file is put in where the StreamApp refers to it.

    Args:
        text: of the file.
        file: its name, for errors.
        made_local: called with each before its topology is put in; it raises ``SpecError`` if
            the StreamApp cannot be used here.

    Raises:
        SpecError: it is not YAML, holds no StreamApp, or one of them is wrong or refers to a
            ConfigMap that is not there; the message names the file and the field.
    """
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise SpecError(f"{file}{place}: {problem}") from error
    documents = [one for document in documents for one in _listed(document)]
    sources = _config_maps(documents)
    apps: dict[str, StreamApp] = {}
    several = len(documents) > 1
    for index, document in enumerate(documents):
        if _is_for_a_cluster(document):
            continue
        place = f"{file}, document {index + 1}" if several else str(file)
        try:
            app = parse(document)
            app = _with_its_topology(app if made_local is None else made_local(app), sources)
        except SpecError as error:
            raise SpecError(f"{place}: {error}") from error
        if app.name in apps:
            raise SpecError(f"{place}: metadata.name: {app.name!r} is there twice")
        apps[app.name] = app
    if not apps:
        raise SpecError(f"{file}: there is no StreamApp in it")
    return list(apps.values())


def unreadable(file: object, error: OSError | UnicodeDecodeError) -> SpecError:
    """Say why the file cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return SpecError(f"cannot read {file}: {reason}")


def _listed(document: object) -> Sequence[object]:
    """Return the objects of a list, as ``kubectl get --output=yaml`` prints several."""
    items = document.get("items") if isinstance(document, Mapping) else None
    return items if _kind_of(document) == _LIST and isinstance(items, list) else [document]


def _kind_of(document: object) -> object:
    return document.get("kind") if isinstance(document, Mapping) else None


def _is_for_a_cluster(document: object) -> bool:
    """Whether a document is Kubernetes' own (a Secret, a ConfigMap) and no misspelled StreamApp."""
    version = document.get("apiVersion") if isinstance(document, Mapping) else None
    is_named = isinstance(version, str) and not version.startswith(_OURS)
    return is_named and isinstance(_kind_of(document), str) and _kind_of(document) != KIND


def _config_maps(documents: Sequence[object]) -> dict[str, Mapping[str, object]]:
    """Return the data of the ConfigMaps in the file by name."""
    found: dict[str, Mapping[str, object]] = {}
    for document in documents:
        if isinstance(document, Mapping) and _kind_of(document) == _CONFIG_MAP:
            metadata, data = document.get("metadata"), document.get("data")
            name = metadata.get("name") if isinstance(metadata, Mapping) else None
            found[str(name)] = data if isinstance(data, Mapping) else {}
    return found


def _with_its_topology(app: StreamApp, sources: Mapping[str, Mapping[str, object]]) -> StreamApp:
    """Put in what a cluster would look up.

    Raises:
        SpecError: the topology is in a ConfigMap that is not in the file.
    """
    topology = app.spec.topology
    reference = topology.config_map_ref
    if reference is None:
        return app
    source = sources.get(reference.name, {}).get(reference.key)
    if not isinstance(source, str):
        raise SpecError(
            f"spec.topology.configMapRef: there is no ConfigMap {reference.name!r} with the key "
            f"{reference.key!r} in this file; on one machine put it there, or use inline or module"
        )
    here = replace(topology, inline=source, config_map_ref=None)
    return replace(app, spec=replace(app.spec, topology=here))
