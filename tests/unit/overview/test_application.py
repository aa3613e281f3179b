"""The overview of an application, of its resource and status."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from tests.support.documents import MINIMAL

from headwater.model.appstatus import AppStatus, EngineStatus
from headwater.model.lifecycle import Engine
from headwater.model.streamapp import ProcessingGuarantee, parse
from headwater_operator.overview.application import snapshot_of

APP = parse(yaml.safe_load(MINIMAL))


@pytest.mark.parametrize("given", ProcessingGuarantee)
def test_the_guarantee_is_that_of_the_engine_that_has_the_application(
    given: ProcessingGuarantee,
) -> None:
    app = replace(APP, spec=replace(APP.spec, processing_guarantee=given))

    found = {
        engine: snapshot_of(
            app, AppStatus(engine=EngineStatus(name=engine)), (), rate=lambda *_: 0.0
        ).guarantee
        for engine in (Engine.NATIVE, Engine.SPARK)
    }

    assert found == {Engine.NATIVE: given, Engine.SPARK: "exactly_once_v2"}
