"""The token that workers with ``spec.http.authentication`` ask for, as whoever asks may read it.

The StreamApp names the Secret, and nobody else: a worker that could name one would be sent what
any other Secret of the namespace holds.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import QueryError
from headwater.model.podcontract import TOKEN_FILE
from headwater_operator.kube.api import STREAM_APPS, Resource
from headwater_operator.kube.errors import ForbiddenError

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.kube.client import KubeClient

_SECRETS: Final = Resource("v1", "Secret", "secrets")
_INSTEAD: Final = "or give the token with --token-file FILE"


class AppToken:
    """The token of one StreamApp.

    Args:
        client: with the rights of whoever asks: to get the StreamApp and the Secret.
        namespace: of the StreamApp.
        app: its name.
        file: holds the token instead; ``None``: the Secret does.
    """

    def __init__(self, client: KubeClient, namespace: str, app: str, file: Path | None) -> None:
        self._client = client
        self._namespace = namespace
        self._app = app
        self._file = file

    def read(self) -> str:
        """Return it as it is now.

        Raises:
            QueryError: it cannot be read; the error says what to do instead.
        """
        if self._file is not None:
            try:
                found = self._file.read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise QueryError(f"--token-file {self._file} cannot be read: {error}") from error
            if not found:
                raise QueryError(f"--token-file {self._file} is empty: write the token into it")
            return found
        name = self._secret_name()
        try:
            secret = self._client.get(_SECRETS, self._namespace, name)
        except ForbiddenError as error:
            raise QueryError(
                f"workers of {self._app} ask for the token of the Secret {name}, which may not be "
                f"read: {error}; have the right to get it granted, {_INSTEAD}"
            ) from error
        if secret is None:
            raise QueryError(
                f"workers of {self._app} ask for the token of the Secret {name}, and there is none "
                f"in namespace {self._namespace}: create it, {_INSTEAD}"
            )
        return self._value_of(secret, name)

    def _secret_name(self) -> str:
        try:
            found: Any = self._client.get(STREAM_APPS, self._namespace, self._app)
        except ForbiddenError as error:
            raise QueryError(
                f"workers of {self._app} ask for a token, and the StreamApp that names its Secret "
                f"may not be read: {error}; have the right granted, {_INSTEAD}"
            ) from error
        for field in ("spec", "http", "authentication", "secretRef", "name"):
            found = found.get(field) if isinstance(found, dict) else None
        if not found:
            raise QueryError(
                f"workers of {self._app} ask for a token, and the StreamApp names no Secret "
                f"(spec.http.authentication): they are of an earlier revision; wait, {_INSTEAD}"
            )
        return str(found)

    def _value_of(self, secret: dict[str, Any], name: str) -> str:
        try:
            written = (secret.get("data") or {}).get(TOKEN_FILE) or ""
            found = base64.b64decode(written, validate=True).decode("ascii").strip()
        except ValueError:
            found = ""
        if not found:
            raise QueryError(
                f"the Secret {name} holds no token in ASCII under its key {TOKEN_FILE}: put one "
                f"there, {_INSTEAD}"
            )
        return found
