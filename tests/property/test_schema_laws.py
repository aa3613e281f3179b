"""Whatever the codec writes is valid against the schema, and reads back as what was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.structural import problems
from tests.support.values import apps, values_of

from headwater.model.appstatus import AppStatus
from headwater.model.cluster import StreamWorker, WorkerSpec, WorkerStatus
from headwater.model.streamaction import StreamAction, StreamActionSpec
from headwater.model.streamaction import parse as parse_action
from headwater.model.streamaction_status import StreamActionStatus
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.spec import custom_resource_definitions

FEW = settings(deadline=None, max_examples=examples(60))


def schema_of(name: str) -> dict[str, Any]:
    definition = custom_resource_definitions()[name]
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


STREAM_APP = schema_of("streamapps.headwater.dev")
STREAM_WORKER = schema_of("streamworkers.headwater.dev")
STREAM_ACTION = schema_of("streamactions.headwater.dev")


@FEW
@given(app=apps())
def test_a_streamapp_is_valid_and_survives(app: StreamApp) -> None:
    written = json.loads(json.dumps(app.to_dict()))

    assert problems(written, STREAM_APP) == []
    assert parse(written) == app


@FEW
@given(status=values_of(AppStatus))
def test_a_status_is_valid_and_survives(status: AppStatus) -> None:
    written = json.loads(json.dumps(status.to_dict()))

    assert problems(written, STREAM_APP["properties"]["status"]) == []
    assert AppStatus.from_dict(written) == status


@FEW
@given(
    worker=st.builds(
        StreamWorker,
        name=st.just("a-w-0"),
        spec=values_of(WorkerSpec),
        status=values_of(WorkerStatus),
    )
)
def test_a_stream_worker_is_valid_and_survives(worker: StreamWorker) -> None:
    written = json.loads(json.dumps(worker.to_dict()))

    assert problems(written, STREAM_WORKER) == []
    assert StreamWorker.from_dict(written) == worker


@FEW
@given(spec=values_of(StreamActionSpec), status=values_of(StreamActionStatus))
def test_a_stream_action_is_valid_and_survives(
    spec: StreamActionSpec, status: StreamActionStatus
) -> None:
    action = StreamAction(name="a", spec=spec, status=status)
    written = json.loads(json.dumps(action.to_dict()))

    assert problems(written, STREAM_ACTION) == []
    assert parse_action(written) == action


@pytest.mark.parametrize(
    "schema",
    [STREAM_APP, STREAM_WORKER, STREAM_ACTION],
    ids=["StreamApp", "StreamWorker", "StreamAction"],
)
def test_everything_is_bounded_and_described(schema: dict[str, Any]) -> None:
    def loose(part: dict[str, Any], path: str) -> list[str]:
        found = []
        kind = part.get("type")
        if kind == "string" and not {"maxLength", "enum"} & part.keys() and path.count(".") > 1:
            found.append(f"{path}: no maxLength")
        if kind == "array":
            found += [] if "maxItems" in part else [f"{path}: no maxItems"]
            found += loose(part["items"], f"{path}[]")
        if kind == "object" and "additionalProperties" in part:
            found += [] if "maxProperties" in part else [f"{path}: no maxProperties"]
            found += loose(part["additionalProperties"], f"{path}.*")
        inside = part.get("properties", {})
        # Kubernetes' own classes in a pod template are described in the reference alone.
        is_terse = path.startswith(".spec.podTemplate.") and not any(
            inner.get("description") for inner in inside.values()
        )
        for name, inner in inside.items():
            is_described = bool(inner.get("description")) or name == "metadata" or is_terse
            found += [] if is_described else [f"{path}.{name}: no description"]
            found += loose(inner, f"{path}.{name}")
        return found

    assert loose(schema, "") == []
