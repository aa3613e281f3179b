"""What the API server can answer instead of doing what it was asked, as one tree.

KubeApiError               (EnvironmentProblemError)
├── ApiUnavailableError    no answer, or "not now": try again later
├── ConflictError          somebody else has written meanwhile: read again, decide again
│   └── AlreadyExistsError
├── NotFoundError          the object (or its namespace, or its kind) is not there
├── ForbiddenError         a rule, a quota or an admission policy forbids it
├── InvalidError           the object breaks its schema
└── ExpiredError           the list that is being paged is too old: begin again
"""

from __future__ import annotations

from typing import ClassVar

from headwater.errors import EnvironmentProblemError


class KubeApiError(EnvironmentProblemError):
    """The API server refused; ``status`` and ``reason`` are its own words.

    Attributes:
        code: the HTTP status; 0 when there was no answer.
        reason: the ``reason`` of the Status object, such as ``AlreadyExists``.
    """

    code: ClassVar[int] = 0

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ApiUnavailableError(KubeApiError):
    """No answer came, or the API server has too much to do.

    Attributes:
        retry_after_s: how long it asks to be left alone.
    """

    code = 503

    def __init__(self, message: str, *, reason: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class ConflictError(KubeApiError):
    """A precondition does not hold: the object has changed, or is another one by now."""

    code = 409


class AlreadyExistsError(ConflictError):
    """An object of that name exists."""


class NotFoundError(KubeApiError):
    """There is no such object, namespace or kind."""

    code = 404


class ForbiddenError(KubeApiError):
    """Not allowed: by RBAC, an admission policy, a quota, or because the namespace terminates."""

    code = 403


class InvalidError(KubeApiError):
    """The object breaks its schema or a rule of it; nothing was stored."""

    code = 422


class ExpiredError(KubeApiError):
    """A continued list is older than what the API server keeps."""

    code = 410
