"""The life of one container of a pod.

waiting --start--> running --its process ends--> terminated --policy--> waiting, after a while
                   running --liveness or startup probe fails--> SIGTERM, SIGKILL
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tests.kube.kubelet.environment import ContainerConfigError
from tests.kube.kubelet.probes import KINDS, Probe
from tests.kube.kubelet.runs import CannotRunError, Run
from tests.kube.kubelet.status import ContainerState

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.kube.kubelet.environment import Start

Manifest = dict[str, Any]

_BACKOFF_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Before each start again; Kubernetes waits ten times as long."""
_RETRY_S: Final = 1.0
_MESSAGE_BYTES: Final = 2048
_MESSAGE_LINES: Final = 80
_NO_SUCH_PROGRAM: Final = 128


class UnknownImageError(Exception):
    """No image of this name can be pulled."""


class Container:
    """One container.

    Args:
        spec: of the container.
        pod: its manifest.
        address: of the pod.
        directory: where its process starts.
        logs: where its logs are kept.
        starting: returns how it is to be started now.
        acting: held while a process is started; raises if the machine may not.
        pool: where its probes ask.
        tell: told of reason and message of what is worth an Event.

    Attributes:
        run: its process; ``None`` while there is none.
        is_asked: the probes of this run are asked. If not, what they have said last holds. A new
            run begins as one that is asked.
    """

    def __init__(
        self,
        spec: Manifest,
        pod: Manifest,
        *,
        address: str,
        directory: Path,
        logs: Path,
        starting: Callable[[Manifest], Start],
        acting: Callable[[], AbstractContextManager[None]],
        pool: ThreadPoolExecutor,
        tell: Callable[[str, str], None],
    ) -> None:
        self.state = ContainerState(spec["name"], spec["image"])
        self.run: Run | None = None
        self.is_asked = True
        self._spec = spec
        self._policy = pod["spec"].get("restartPolicy") or "Always"
        self._grace_s = float(pod["spec"].get("terminationGracePeriodSeconds", 30))
        self._address = address
        self._directory = directory
        self._logs = logs
        self._starting = starting
        self._acting = acting
        self._pool = pool
        self._tell = tell
        self._probes: dict[str, Probe] = {}
        self._runs = 0
        self._next = 0.0
        self._kill_at: float | None = None
        self._is_told = False
        self._told_at = 0.0
        self._is_stopped = False

    # -- life ------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do what is to be done now."""
        if self.run is not None:
            self._watch(self.run)
        elif not self.is_over and time.monotonic() >= self._next:
            self._begin()

    def stop(self, grace_s: float) -> None:
        """End it for good: SIGTERM, and SIGKILL after a while, which a later call may shorten."""
        self._is_stopped = True
        self._end_within(grace_s)

    @property
    def is_over(self) -> bool:
        """No process is left and none will be started."""
        return self.run is None and (self._is_stopped or "terminated" in self.state.state)

    # -- start -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            start = self._starting(self._spec)
        except UnknownImageError as error:
            self._wait_for_image(str(error))
            return
        except ContainerConfigError as error:
            self._wait("CreateContainerConfigError", str(error))
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        self.state.restarts = self._runs
        self._kill_at, self._is_told, self.is_asked = None, False, True
        try:
            with self._acting():
                self._runs += 1
                self.run = Run(
                    start.command,
                    environment=start.environment,
                    directory=self._directory,
                    log=self.log,
                )
        except CannotRunError as error:
            self._ended(_NO_SUCH_PROGRAM, "StartError", str(error), now())
            return
        self.state.state = {"running": {"startedAt": now()}}
        self._probes = {
            kind: Probe(self._spec[f"{kind}Probe"], self._spec, self._address, self._pool)
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in self._spec
        }
        self._judge()

    def _wait_for_image(self, name: str) -> None:
        waiting = self.state.state.get("waiting") or {}
        if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff"):
            self._wait("ImagePullBackOff", f'Back-off pulling image "{name}"')
        else:
            self._wait("ErrImagePull", f'failed to pull and unpack image "{name}": not found')

    def _wait(self, reason: str, message: str) -> None:
        self.state.state = {"waiting": {"reason": reason, "message": message}}
        self._tell("Failed", message)
        self._next = time.monotonic() + _RETRY_S

    @property
    def log(self) -> Path:
        """Where the last run writes."""
        return self._logs / f"{self.state.name}-{self.state.restarts}.log"

    # -- run -------------------------------------------------------------------------------------

    def _watch(self, run: Run) -> None:
        code = run.exit_code
        if code is None and self._kill_at is not None and time.monotonic() >= self._kill_at:
            run.kill()
            code = run.exit_code
        if code is not None:
            reason = "Completed" if code == 0 else "Error"
            self._ended(code, reason, self._last_words(code), self._since())
            return
        if self._kill_at is None and self.is_asked:
            for probe in self._asked():
                probe.step()
        self._judge()

    def _asked(self) -> list[Probe]:
        startup = self._probes.get("startup")
        if startup is not None and startup.passes is not True:
            return [startup]
        return [probe for kind, probe in self._probes.items() if kind != "startup"]

    def _judge(self) -> None:
        startup, readiness = self._probes.get("startup"), self._probes.get("readiness")
        self.state.is_started = startup is None or startup.passes is True
        self.state.is_ready = self.state.is_started and (
            readiness is None or readiness.passes is True
        )
        for kind in ("startup", "liveness"):
            probe = self._probes.get(kind)
            if probe is not None and probe.passes is False and self._kill_at is None:
                self._tell("Unhealthy", f"{kind.capitalize()} probe failed: {probe.said}")
                self._tell("Killing", f"Container {self.state.name} failed {kind} probe")
                grace_s = self._grace_s if probe.grace_s is None else float(probe.grace_s)
                self._end_within(grace_s)

    def _end_within(self, grace_s: float) -> None:
        if self.run is None:
            return
        if not self._is_told:
            self.run.terminate()
            self._is_told = True
            self._told_at = time.monotonic()
        at = self._told_at + grace_s
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)

    # -- end -------------------------------------------------------------------------------------

    def _since(self) -> str:
        return str(self.state.state["running"]["startedAt"])

    def _ended(self, code: int, reason: str, message: str, since: str) -> None:
        self.run = None
        self.state.is_started = self.state.is_ready = False
        ended: Manifest = {
            "exitCode": code,
            "reason": reason,
            "startedAt": since,
            "finishedAt": now(),
        }
        if message:
            ended["message"] = message
        self.state.state = {"terminated": ended}
        goes_on = self._policy == "Always" or (self._policy == "OnFailure" and code != 0)
        if self._is_stopped or not goes_on:
            return
        delay_s = _BACKOFF_S[min(self._runs - 1, len(_BACKOFF_S) - 1)]
        self._next = time.monotonic() + delay_s
        said = f"back-off {delay_s:g}s restarting failed container={self.state.name}"
        self.state.last = {"terminated": ended}
        self.state.state = {"waiting": {"reason": "CrashLoopBackOff", "message": said}}
        if delay_s:
            self._tell("BackOff", said)

    def _last_words(self, code: int) -> str:
        policy = self._spec.get("terminationMessagePolicy")
        if code == 0 or policy != "FallbackToLogsOnError":
            return ""
        lines = self.log.read_bytes()[-_MESSAGE_BYTES:].decode(errors="ignore").splitlines()
        return "\n".join(lines[-_MESSAGE_LINES:])


def unsupported(container: Manifest) -> list[str]:
    """Return what a container asks for that no kubelet of the tests does."""
    asked = [
        f"{kind}Probe"
        for kind in ("startup", "liveness", "readiness")
        if container.get(f"{kind}Probe") and not set(KINDS) & container[f"{kind}Probe"].keys()
    ]
    return asked + [name for name in ("lifecycle",) if container.get(name)]


def now() -> str:
    """The time, as in the API."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
