"""Reads the YAML file with StreamApps that ``headwater up`` is given."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.errors import SpecError
from headwater.model import appfile
from headwater.model.losses import OPTION
from headwater.model.movewindows import unknown_zone
from headwater.model.secretnames import written_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.model.streamapp import StreamApp


def load(path: Path) -> list[StreamApp]:
    """Read every StreamApp of a file. See ``appfile.stream_apps``.

    Raises:
        SpecError: the file cannot be read, is not YAML, holds none, or one of them is wrong or
            needs a cluster; the message names the file and the field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise appfile.unreadable(path, error) from error
    apps = appfile.stream_apps(text, path, made_local=_on_one_machine)
    told = sorted({name for app in apps for name in written_secrets(app)})
    if told and path.stat().st_mode & 0o077:
        sys.stderr.write(
            f"warning: {path} holds {', '.join(told)}, and other users can read it: "
            f"chmod 600 {path}\n"
        )
    return apps


def allow_lost(apps: Sequence[StreamApp], changelogs: Sequence[str]) -> list[StreamApp]:
    """Return the StreamApps with the setting that accepts the loss of changelogs.

    Raises:
        SpecError: a changelog is none of these applications'.
    """
    found = [_allowing(app, changelogs) for app in apps]
    for changelog in changelogs:
        if not any(_has(app, changelog) for app in apps):
            ids = ", ".join(app.application_id for app in apps)
            raise SpecError(
                f"--allow-lost-changelog: {changelog} is no changelog of {ids}; give the name that "
                "the error names, such as APPLICATION-STORE-changelog"
            )
    return found


def _has(app: StreamApp, changelog: str) -> bool:
    return changelog.startswith(f"{app.application_id}-") and changelog.endswith("-changelog")


def _allowing(app: StreamApp, changelogs: Sequence[str]) -> StreamApp:
    own = [changelog for changelog in changelogs if _has(app, changelog)]
    if not own:
        return app
    config = dict(app.spec.config)
    given = [config.pop(name) for name in (OPTION, OPTION.replace(".", "_")) if name in config]
    config[OPTION] = ",".join(map(str, [*given, *own]))
    return replace(app, spec=replace(app.spec, config=config))


def _on_one_machine(app: StreamApp) -> StreamApp:
    """Refuse what cannot be passed over.

    Raises:
        SpecError: the StreamApp cannot run without a Secret that is not here, or names a time zone
            that nobody knows.
    """
    if problem := unknown_zone(app.spec.assignment.move_windows):
        raise SpecError(problem)
    kafka = app.spec.kafka
    if kafka.bootstrap_servers is not None and (kafka.tls or kafka.authentication):
        named = "tls" if kafka.tls else "authentication"
        raise SpecError(
            f"spec.kafka.{named}: its Secrets are on a cluster; on one machine say it in "
            "spec.kafka.config (security.protocol, sasl.*, ssl.*.location), or leave "
            "bootstrapServers out to use a private Kafka"
        )
    if kafka.schema_registry is not None and kafka.schema_registry.secret_ref is not None:
        raise SpecError(
            "spec.kafka.schemaRegistry.secretRef: its Secret is on a cluster; on one machine leave "
            "schemaRegistry out and say schema.registry.url and basic.auth.user.info in "
            "spec.kafka.config"
        )
    return app
