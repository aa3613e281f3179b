"""What commands, supervisor and control loop write for each other, beside the resources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from headwater.errors import SpecError
from headwater.model.appstatus import AppStatus
from headwater.model.codec import decode, encode_object
from headwater.model.streamapp import StreamApp, parse
from headwater_operator.decide.observed import RESET_NOW, Intent
from headwater_operator.local.processes import ProcessId


class ClusterPhase(StrEnum):
    """How far a local cluster is."""

    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """The private Kafka.

    Attributes:
        bootstrap_servers: its address; empty while it has not answered or is not needed.
        pid: the broker's process; 0 while it does not run.
        failures: starts in a row that failed.
    """

    bootstrap_servers: str = ""
    pid: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """One supervisor.

    Attributes:
        pid: its process.
        started: see ``processes.ProcessId``.
        phase: how far its cluster is.
        generation: of the control loop that runs or is about to; only grows.
        loop_pid: the control loop's process; 0 between two of them.
        loop_started: see ``processes.ProcessId``.
        loop_failures: control loops in a row that ended soon after their start.
        kafka: the private Kafka.
    """

    pid: int
    started: str
    phase: ClusterPhase
    generation: int = 0
    loop_pid: int = 0
    loop_started: str = ""
    loop_failures: int = 0
    kafka: KafkaRecord = field(default_factory=KafkaRecord)

    @property
    def identity(self) -> ProcessId:
        """Which process the supervisor is."""
        return ProcessId(pid=self.pid, started=self.started)

    def to_dict(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: object) -> SupervisorRecord:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the record is damaged.
        """
        return decode(cls, data, path="supervisor.json", strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRecord:
    """What is wanted of one application; written by commands.

    Attributes:
        app: the StreamApp as applied.
        intent: what is wanted of it as a whole.
        applied: counts up whenever somebody asks for something; what had failed for good is tried
            again.
        reset: the last of these requests that was a reset and is done; 0 if none is.
        reset_to: where it begins after a reset (``headwater.model.resetting``).
        import_path: directories from which the workers import the topology.
    """

    app: StreamApp
    intent: Intent = Intent.RUN
    applied: int = 1
    import_path: tuple[str, ...] = ()
    reset: int = 0
    reset_to: str = RESET_NOW

    def asked(self, intent: Intent, *, reset_to: str = RESET_NOW) -> AppRecord:
        """Return this as a new request."""
        return replace(self, intent=intent, applied=self.applied + 1, reset_to=reset_to)

    def after_reset(self, request: int) -> AppRecord:
        """Return this once the reset of a request is done, unless that was answered before."""
        if self.reset >= request:
            return self
        is_latest = self.applied == request and self.intent is Intent.RESET
        intent = Intent.STOP if is_latest else self.intent
        return replace(self, intent=intent, reset=request)

    def is_reset(self, request: int) -> bool | None:
        """Tell what became of a reset: done, still wanted, or ``None``: given up for another."""
        if self.reset >= request:
            return True
        return False if self.applied == request and self.intent is Intent.RESET else None

    def to_dict(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return {
            "streamApp": self.app.to_dict(),
            "intent": self.intent.value,
            "applied": self.applied,
            "importPath": list(self.import_path),
            "reset": self.reset,
            "resetTo": self.reset_to,
        }

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> AppRecord:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the record is damaged.
        """
        applied, paths = data.get("applied"), data.get("importPath")
        reset = data.get("reset", 0)
        if not isinstance(applied, int) or not isinstance(reset, int):
            raise SpecError("app.json: damaged; apply the StreamApp again")
        if not isinstance(paths, list):
            raise SpecError("app.json: damaged; apply the StreamApp again")
        return cls(
            app=parse(data.get("streamApp")),
            intent=Intent(str(data.get("intent"))),
            applied=applied,
            import_path=tuple(str(path) for path in paths),
            reset=reset,
            reset_to=str(data.get("resetTo", RESET_NOW)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppReport:
    """What the control loop says of one application.

    Attributes:
        status: the StreamApp's status.
        applied: the :attr:`AppRecord.applied` that it was decided for.
        generation: of the control loop that decided.
    """

    status: AppStatus = field(default_factory=AppStatus)
    applied: int = 0
    generation: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return encode_object(self)

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> AppReport:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SpecError: the report is damaged.
        """
        return decode(cls, data, path="status.json", strict=False)
