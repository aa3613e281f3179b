"""The Kubernetes API as a worker needs it: a connection, requests, answers as values or errors.

The token is read anew for every request, because the kubelet replaces it before it expires; the
authorities are read anew for every connection. A connection is kept, so an exchange is one round
trip.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import ConfigError
from headwater.model import podcontract
from headwater.service.carrier import CarrierUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Manifest = dict[str, Any]

APPLY: Final = "application/apply-patch+yaml"
"""Server-side apply. JSON is YAML, except for the characters that ``_text`` writes as escapes."""
_JSON: Final = "application/json"
_USER_AGENT: Final = "headwater-worker"
_WATCH_SILENCE_S: Final = 120.0
"""A watch is given a bookmark about once a minute; one that stays silent for so long is dead."""
_RETRY_AFTER_MAX_S: Final = 10.0
"""A server that asks for more would cost us the Lease; it is asked again after this."""


class RefusedError(CarrierUnavailableError):
    """The API server answered, and said no: asking again helps only once somebody has acted.

    Attributes:
        code: the HTTP status.
        reason: the ``reason`` of the Status object, such as ``Forbidden``.
    """

    def __init__(self, message: str, *, code: int, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotFoundError(RefusedError):
    """The object is not there. Said by the API server of this very object, not of its kind."""


class ConflictError(RefusedError):
    """The object has been written by somebody else since it was read, or is another one by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a pod reaches the API server.

    Attributes:
        host: its address, as the kubelet tells every container.
        port: its port.
        directory: with the pod's token and the authorities that sign the server's certificate.
    """

    host: str
    port: int
    directory: Path

    @classmethod
    def of(cls, environment: Mapping[str, str], directory: Path) -> Access:
        """Return the access that the variables of a pod describe.

        Raises:
            ConfigError: they do not.
        """
        host = environment.get("KUBERNETES_SERVICE_HOST", "")
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not port.isdigit():
            raise ConfigError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server; "
                "Kubernetes sets them in every pod. Outside of one, unset "
                f"{podcontract.ENV_NAMESPACE} and give --cluster-dir"
            )
        return cls(host=host, port=int(port), directory=directory)

    @property
    def server(self) -> str:
        """``host:port``, for people."""
        return f"{self.host}:{self.port}"

    def token(self) -> str:
        """Return the pod's token as it is now.

        Raises:
            CarrierUnavailableError: there is none.
        """
        path = self.directory / podcontract.TOKEN_FILE
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CarrierUnavailableError(
                f"cannot read the pod's token {path} ({type(error).__name__}); check the volume "
                f"that {podcontract.ENV_SERVICE_ACCOUNT_DIR} names"
            ) from error
        if not token:
            raise CarrierUnavailableError(f"the pod's token {path} is empty; the kubelet fills it")
        return token

    def connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        """Return a connection that is opened by its first request.

        Raises:
            CarrierUnavailableError: the authorities cannot be read.
        """
        path = self.directory / podcontract.CA_FILE
        try:
            context = ssl.create_default_context(cafile=str(path))
        except OSError as error:
            raise CarrierUnavailableError(
                f"cannot read the authorities of the API server in {path}: {error}; check the "
                f"volume that {podcontract.ENV_SERVICE_ACCOUNT_DIR} names"
            ) from error
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)


class KubeClient:
    """One connection to the API server, for one thread; only ``close`` is for any thread.

    Args:
        access: where it is, and who we are.
        timeout_s: for each step of an exchange.
    """

    def __init__(self, access: Access, *, timeout_s: float) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPSConnection | None = None
        self._is_closed = False

    def get(self, path: str, what: str, accept: str = _JSON) -> Manifest:
        """Return an object as it is stored at this moment, never from a cache.

        Args:
            path: of the object in the API.
            what: it is, for messages.
            accept: the kind of document, where it is no object of the API.

        Raises:
            NotFoundError: it does not exist.
            RefusedError: it may not be read.
            CarrierUnavailableError: there was no answer, or "not now".
        """
        # Without a resourceVersion the answer comes from etcd, not from the server's memory.
        return self._answer("GET", path, what, accept=accept)

    def put(self, path: str, body: Manifest, what: str) -> Manifest:
        """Replace an object; return it as stored.

        Raises:
            ConflictError: it is no longer the version that ``body`` was made from.
            NotFoundError: it does not exist.
            RefusedError: it may not be written.
            CarrierUnavailableError: there was no answer, or "not now"; it may have been written.
        """
        return self._answer("PUT", path, what, body, _JSON)

    def apply(self, path: str, body: Manifest, what: str) -> Manifest:
        """Write the fields in ``body``, and no others, by server-side apply.

        Raises:
            ConflictError: the object is another one than ``body`` says.
            NotFoundError: it does not exist.
            RefusedError: it may not be written.
            CarrierUnavailableError: there was no answer, or "not now"; it may have been written.
        """
        query = f"?fieldManager={podcontract.FIELD_MANAGER}&force=true"
        return self._answer("PATCH", path + query, what, body, APPLY)

    def watch(self, path: str, what: str) -> Iterator[Manifest]:
        """Yield the events of a watch until the server ends it.

        Raises:
            RefusedError: it may not be watched.
            CarrierUnavailableError: there was no answer, "not now", or the watch was cut.
        """
        response = self._begin("GET", path, what, None, {}, _WATCH_SILENCE_S)
        try:
            while line := response.readline():
                yield _object(line, what)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._no_answer(error) from error
        finally:
            # Whatever is left of it would stand before the next answer.
            self.drop()

    def close(self) -> None:
        """Cut the connection, also under another thread that waits for an answer; for good."""
        self._is_closed = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # Not the TLS socket's own method: that one is not made for two threads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def drop(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- one exchange ----------------------------------------------------------------------------

    def _answer(
        self,
        method: str,
        path: str,
        what: str,
        body: Manifest | None = None,
        content_type: str = "",
        accept: str = _JSON,
    ) -> Manifest:
        headers = {"Accept": accept}
        if content_type:
            headers["Content-Type"] = content_type
        content = _text(body).encode() if body is not None else None
        response = self._begin(method, path, what, content, headers, self._timeout_s)
        try:
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.drop()
            raise self._no_answer(error) from error
        return _object(data, what)

    def _begin(
        self,
        method: str,
        path: str,
        what: str,
        content: bytes | None,
        headers: Mapping[str, str],
        silence_s: float,
    ) -> http.client.HTTPResponse:
        """Send a request; return the answer, unread, if it is a good one."""
        sent = {
            "Accept": _JSON,  # unless the headers say otherwise
            "Authorization": f"Bearer {self._access.token()}",
            "User-Agent": _USER_AGENT,
            **headers,
        }
        while True:
            is_kept = self._connection is not None and self._connection.sock is not None
            try:
                response = self._send(method, path, content, sent, silence_s)
                if response.status < HTTPStatus.MULTIPLE_CHOICES:
                    return response
                data = response.read()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.drop()
                # The server may have closed a kept connection since; all our requests can be
                # repeated. One that it took its time for is not repeated at once.
                if not is_kept or self._is_closed or isinstance(error, TimeoutError):
                    raise self._no_answer(error) from error
            else:
                raise self._refusal(response, data, f"{method} {what}")

    def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        silence_s: float,
    ) -> http.client.HTTPResponse:
        if self._is_closed:
            raise ConnectionAbortedError("closed")
        if self._connection is None:
            self._connection = self._access.connect(self._timeout_s)
        connection = self._connection
        if connection.sock is None:
            connection.connect()
        if self._is_closed:  # while it connected
            raise ConnectionAbortedError("closed")
        sock = connection.sock
        assert sock is not None
        _keep_alive(sock)
        connection.request(method, path, body=content, headers=dict(headers))
        sock.settimeout(silence_s)
        return connection.getresponse()

    def _no_answer(self, error: Exception) -> CarrierUnavailableError:
        said = str(error) or type(error).__name__
        return CarrierUnavailableError(
            f"the API server {self._access.server} gave no answer: {said}"
        )

    def _refusal(
        self, response: http.client.HTTPResponse, data: bytes, asked: str
    ) -> CarrierUnavailableError:
        status = _status(data)
        said = str(status.get("message") or response.reason)
        code = response.status
        if code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return CarrierUnavailableError(
                f"the API server {self._access.server} answered {code} to {asked}: {said}",
                retry_after_s=_seconds(response.headers.get("Retry-After")),
            )
        reason = str(status.get("reason") or "")
        kind = RefusedError
        # While a server starts it does not know the kind yet, and says so in another way.
        is_of_object = bool((status.get("details") or {}).get("name"))
        if code == HTTPStatus.NOT_FOUND and reason == "NotFound" and is_of_object:
            kind = NotFoundError
        elif code == HTTPStatus.CONFLICT:
            kind = ConflictError
        next_step = _NEXT_STEPS.get(code, "see the API server's log")
        message = f"the API server refused {asked} ({code}): {said}; {next_step}"
        return kind(message, code=code, reason=reason)


_NEXT_STEPS: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "use worker and custom resource definitions of one release",
    HTTPStatus.UNAUTHORIZED: (
        "the pod's token is not accepted: the pod was deleted, or its token has run out and the "
        "kubelet gives no other"
    ),
    HTTPStatus.FORBIDDEN: (
        "check the Role and RoleBinding of the pod's service account, and the admission policy for "
        "workers"
    ),
    HTTPStatus.NOT_FOUND: "check that the custom resource definitions are installed",
    HTTPStatus.CONFLICT: "somebody else has written it, or it is another object by now",
    HTTPStatus.UNPROCESSABLE_ENTITY: ("use worker and custom resource definitions of one release"),
}


def _keep_alive(connection: socket.socket) -> None:
    """Have the kernel find out within half a minute that the other side is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


_UNPRINTABLE: Final = {
    **{code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)},
    **{code: f"\\u{code:04x}" for code in (0xFEFF, 0xFFFE, 0xFFFF)},
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""What JSON takes as it is and YAML does not; halves of characters are in no UTF-8 at all."""


def _text(body: Manifest) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).translate(_UNPRINTABLE)


def _object(data: bytes, what: str) -> Manifest:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise CarrierUnavailableError(f"the answer about {what} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CarrierUnavailableError(f"the answer about {what} is no object")
    return found


def _status(data: bytes) -> Manifest:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float:
    """Read ``Retry-After``; a date in it, which no API server sends, counts as nothing said."""
    return min(float(text), _RETRY_AFTER_MAX_S) if text is not None and text.isdigit() else 0.0
