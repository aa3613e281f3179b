"""The StreamApp's ``spec.http``: who may ask workers by HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headwater.model.fields import meta
from headwater.model.streamapp_kafka import SecretReference  # noqa: TC001  # read by the codec


class Protected(StrEnum):
    """What workers answer only to callers with a token."""

    STATE = "State"
    ALL = "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAuthentication:
    """Callers of workers show a token.

    Attributes:
        secret_ref: a Secret with the token under the key token. While you replace it, the key
            token-previous may hold the former one, which is accepted, too.
        protects: State is what stores hold. All is metrics and progress, too. Probes are always
            answered.
    """

    secret_ref: SecretReference
    protects: Protected = Protected.STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec:
    """What workers serve by HTTP.

    Attributes:
        authentication: what callers show. Left out: everybody who reaches a worker is answered.
    """

    authentication: HttpAuthentication | None = field(
        default=None, metadata=meta(cluster_only=True)
    )
