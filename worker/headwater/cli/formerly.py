"""What `headwater up` of this directory has left behind that may still write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.cli.streamapps import home_of
from headwater.errors import SpecError
from headwater.model.cluster import StreamWorker

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.streamapp import StreamApp


def worker_ids(home: Path | None, app: StreamApp) -> tuple[str, ...]:
    """Return the transactional ids of every worker that the local cluster ever had for ``app``.

    A worker that was frozen when its supervisor ended, or is on another machine that shares the
    directory, may hold an open transaction; whoever takes the application over fences it. Which
    guarantee the application asks for now does not say under which one they ran.

    Raises:
        SpecError: a file is damaged.
    """
    found: list[str] = []
    for file in sorted((home_of(home) / "apps" / app.name / "workers").glob("*/spec.json")):
        try:
            worker = StreamWorker.from_dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise SpecError(
                f"{file}: it says which workers there were, and cannot be read ({error}); restore "
                "it from a copy, or remove it if none of them can still run"
            ) from error
        found += worker.transactional_ids(app.application_id)
    return tuple(found)
