"""Containers beside the worker's in a StreamApp's ``spec.podTemplate``: before it, and with it.

Their security context is the operator's, and restricted, as the worker's own is; which user they
run as, and whether they may write to their root, is for the StreamApp to say.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # read by the codec
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from headwater.model import drivercontract, podcontract
from headwater.model.fields import Rule, meta
from headwater.model.streamapp_env import EnvFrom, EnvVar  # noqa: TC001  # read by the codec
from headwater.model.streamapp_labels import LABEL_NAME, QUANTITY, Quantity
from headwater.model.streamapp_volumes import SidecarMount  # noqa: TC001  # read by the codec

_OUR_NAMES: Final = (podcontract.CONTAINER, drivercontract.DRIVER, drivercontract.EXECUTOR)
_OUR_PORTS: Final = (podcontract.HTTP_PORT, drivercontract.RPC_PORT, drivercontract.BLOCKS_PORT)
_OUR_PORT_NAMES: Final = (podcontract.PORT_NAME, "rpc", "blocks")
_IMAGE: Final = meta(pattern="[!-~]+", meaning="an image")
_PORT: Final = meta(minimum=1, maximum=65_535)
_PORT_NAME: Final = meta(
    pattern="[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?",
    meaning="at most 15 lower-case letters, digits and '-'",
    max_length=15,
)
_SECONDS: Final = meta(minimum=1, maximum=86_400)
_HTTP_PATH: Final = meta(pattern="/.*", meaning="a path that begins with '/'")
_RESTRICTED: Final = "containers are restricted, as the worker's is: take it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a container asks for and may use at most.

    Attributes:
        requests: cpu, memory and ephemeral-storage that the node sets aside.
        limits: cpu, memory and ephemeral-storage that it may not exceed.
    """

    requests: Mapping[str, Quantity] = field(
        default_factory=dict, metadata=meta(each=QUANTITY, max_items=10)
    )
    limits: Mapping[str, Quantity] = field(
        default_factory=dict, metadata=meta(each=QUANTITY, max_items=10)
    )


class Restart(StrEnum):
    """What makes a sidecar of an init container."""

    ALWAYS = "Always"


class PullPolicy(StrEnum):
    """When a node fetches an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Protocol(StrEnum):
    """Of a port."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    """A port of the pod.

    Attributes:
        container_port: its number.
        name: by which others refer to it.
        protocol: left out: TCP.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!(self.containerPort in {list(_OUR_PORTS)})",
            message=f"{', '.join(map(str, _OUR_PORTS))} are the worker's and Spark's own: take "
            "another port",
            field="containerPort",
            holds=lambda port: port.container_port not in _OUR_PORTS,
        ),
        Rule(
            cel=f"!has(self.name) || !(self.name in {list(_OUR_PORT_NAMES)})",
            message=f"{', '.join(_OUR_PORT_NAMES)} are the worker's and Spark's own: take another "
            "name",
            field="name",
            holds=lambda port: port.name not in _OUR_PORT_NAMES,
        ),
        Rule.refusing(
            "hostPort", "integer", "pods share no port with their node: make a Service instead"
        ),
    )

    container_port: int = field(metadata=_PORT)
    name: str | None = field(default=None, metadata=_PORT_NAME)
    protocol: Protocol | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecAction:
    """A command that is run in the container.

    Attributes:
        command: the program and its arguments.
    """

    TERSE: ClassVar[bool] = True

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGetAction:
    """A request to the container.

    Attributes:
        port: its number or name.
        path: what is asked for; left out: /.
        scheme: HTTP or HTTPS; left out: HTTP.
    """

    TERSE: ClassVar[bool] = True

    port: int | str = field(metadata=_PORT_NAME)
    path: str | None = field(default=None, metadata=_HTTP_PATH)
    scheme: str | None = field(
        default=None, metadata=meta(pattern="HTTPS?", meaning="HTTP or HTTPS")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSocketAction:
    """A connection to the container.

    Attributes:
        port: its number or name.
    """

    TERSE: ClassVar[bool] = True

    port: int | str = field(metadata=_PORT_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepAction:
    """A pause.

    Attributes:
        seconds: how long.
    """

    TERSE: ClassVar[bool] = True

    seconds: int = field(metadata=meta(minimum=0, maximum=3_600))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a container is asked whether it is well.

    Attributes:
        exec: a command; it is well if that ends with 0.
        http_get: a request; it is well if the status is between 200 and 399.
        tcp_socket: a connection; it is well if that is taken.
        initial_delay_seconds: how long after its start.
        period_seconds: how often; left out: 10.
        timeout_seconds: how long an answer may take; left out: 1.
        success_threshold: how many in a row mean that it is well; left out: 1.
        failure_threshold: how many in a row mean that it is not; left out: 3.
    """

    TERSE: ClassVar[bool] = True
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.exec), has(self.httpGet), has(self.tcpSocket)].exists_one(x, x)",
            message="give exactly one of exec, httpGet and tcpSocket",
            holds=lambda probe: [probe.exec, probe.http_get, probe.tcp_socket].count(None) == 2,
        ),
    )

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    initial_delay_seconds: int | None = field(default=None, metadata=_SECONDS)
    period_seconds: int | None = field(default=None, metadata=_SECONDS)
    timeout_seconds: int | None = field(default=None, metadata=_SECONDS)
    success_threshold: int | None = field(default=None, metadata=meta(minimum=1, maximum=100))
    failure_threshold: int | None = field(default=None, metadata=meta(minimum=1, maximum=86_400))


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What is done when a container starts or ends.

    Attributes:
        exec: a command.
        http_get: a request.
        sleep: a pause.
    """

    TERSE: ClassVar[bool] = True
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.exec), has(self.httpGet), has(self.sleep)].exists_one(x, x)",
            message="give exactly one of exec, httpGet and sleep",
            holds=lambda handler: [handler.exec, handler.http_get, handler.sleep].count(None) == 2,
        ),
    )

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    sleep: SleepAction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """What is done when a container starts and before it ends.

    Attributes:
        post_start: right after its start.
        pre_stop: before it is told to end.
    """

    TERSE: ClassVar[bool] = True

    post_start: Handler | None = None
    pre_stop: Handler | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSecurity:
    """As whom a container runs; all else is restricted, as in the worker's container.

    Attributes:
        run_as_user: the user, not root; left out: the worker's.
        run_as_group: the group, not root; left out: the worker's.
        read_only_root_filesystem: whether it may write to its volumes alone.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule.refusing("privileged", "boolean", _RESTRICTED),
        Rule.refusing("allowPrivilegeEscalation", "boolean", _RESTRICTED),
        Rule.refusing("capabilities", "object", _RESTRICTED),
    )

    run_as_user: int | None = field(default=None, metadata=meta(minimum=1, maximum=2**31 - 1))
    run_as_group: int | None = field(default=None, metadata=meta(minimum=1, maximum=2**31 - 1))
    read_only_root_filesystem: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container beside the worker's.

    Attributes:
        name: its name.
        image: what it is made from.
        image_pull_policy: when a node fetches the image; left out: as Kubernetes decides by the
            tag.
        restart_policy: in initContainers, Always makes a sidecar of it. It starts before the
            worker, is started again whenever it ends, and ends after the worker.
        command: in place of the image's entry point.
        args: arguments.
        working_dir: where it is started.
        env: environment variables.
        env_from: Secrets and ConfigMaps each of whose keys is an environment variable.
        ports: its ports.
        resources: what it asks for and may use at most.
        volume_mounts: where volumes are found in it.
        startup_probe: whether it has started. A sidecar's is waited for before the worker starts.
        liveness_probe: whether it is to be started again.
        readiness_probe: whether it is ready. The pod's Ready depends on it; the worker's tasks do
            not.
        lifecycle: what is done when it starts and before it ends.
        security_context: as whom it runs.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!(self.name in {list(_OUR_NAMES)}) && !self.name.startsWith('headwater-')",
            message=f"{', '.join(_OUR_NAMES)} and names that begin with headwater- are the "
            "operator's: take another one",
            field="name",
            holds=lambda each: (
                each.name not in _OUR_NAMES and not each.name.startswith("headwater-")
            ),
        ),
    )

    name: str = field(metadata=LABEL_NAME)
    image: str = field(metadata=_IMAGE)
    image_pull_policy: PullPolicy | None = None
    restart_policy: Restart | None = None
    command: tuple[str, ...] = field(default=(), metadata=meta(max_items=50))
    args: tuple[str, ...] = field(default=(), metadata=meta(each=meta(max_length=32_768)))
    working_dir: str | None = None
    env: tuple[EnvVar, ...] = field(default=(), metadata=meta(keys=("name",), max_items=100))
    env_from: tuple[EnvFrom, ...] = field(default=(), metadata=meta(max_items=20))
    ports: tuple[ContainerPort, ...] = field(default=(), metadata=meta(max_items=20))
    resources: Resources = field(default_factory=Resources)
    volume_mounts: tuple[SidecarMount, ...] = field(
        default=(), metadata=meta(keys=("mountPath",), max_items=50)
    )
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    security_context: ContainerSecurity = field(default_factory=ContainerSecurity)

    @property
    def is_sidecar(self) -> bool:
        """Whether it runs as long as the worker does, if it stands in ``initContainers``."""
        return self.restart_policy is Restart.ALWAYS
