"""The private Apache Kafka: one real broker per data directory, which ends with its owner.

    NEW --start--> RUNNING --stop--> STOPPED --start--> RUNNING
                   RUNNING --kill--> DOWN --restart--> RUNNING
                   RUNNING ------restart-----> RUNNING        same ports, same data

Every start on data of a former run fences that run first (``former``).

While RUNNING or DOWN we hold two locks of the data directory. The owner's lock is ours alone: who
finds it held is refused. The other one the broker inherits, so that after our death a new owner
waits until the old broker has ended.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headwater import privatefiles
from headwater.errors import LocalKafkaError
from headwater.files import replace_file
from headwater.local import accounts, jar_sets, jars
from headwater.local.certificates import Certificate, ensure_certificate
from headwater.local.filelock import FileLock, FileLockHeldError, is_held
from headwater.local.former import LOGGING as FENCING
from headwater.local.former import fence_former_run
from headwater.local.guarded import GuardedProgram
from headwater.local.handshake import answers_api_versions
from headwater.local.java import find_java
from headwater.local.jvm import FIRST_COMPILER, kafka_command
from headwater.local.ports import bind_address, free_port, is_free
from headwater.local.properties import LOOPBACK, Listeners, render, render_controller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_READY_S = 120.0
_STOP_GRACE_S = 15.0
_POLL_S = 0.05
_OLD_OWNER_GRACE_S = 2.0  # the kernel releases the lock a little after a kill
_OLD_BROKER_GRACE_S = 10.0
_FORMAT_TIMEOUT_S = 120
_START_TRIES = 3
_LOG_KEPT_BYTES = 10_000_000
_LOG_TAIL_LINES = 15
_SKIPPED = "Couldn't find leader endpoint for partitions"
LOCK_FILE = "owner.lock"
_BROKER_LOCK_FILE = "broker.lock"
STATE_FILE = "broker.json"


class KafkaBroker:
    """A private Kafka broker, usable as a context manager.

    Attributes:
        data_dir: everything the broker keeps; a temporary directory if none was given.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        is_ephemeral: bool = False,
        port: int | None = None,
        advertise: str | None = None,
        sasl_users: Mapping[str, str] | None = None,
        client_authorities: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Describe a broker; :meth:`start` starts it.

        Args:
            data_dir: directory to keep the data in; None for a temporary one.
            is_ephemeral: empty the directory before the start and delete it on stop, which is
                always done with a temporary one.
            port: port of the plaintext listener on 127.0.0.1; None for a free one.
            advertise: host name or address for one more plaintext listener, reached by that name.
            sasl_users: passwords by user name; if given, there is a SASL_SSL listener for PLAIN and
                SCRAM. SCRAM knows the users of the first start on this data.
            client_authorities: PEM file; if given, there is a listener that asks for a client
                certificate which one of them has signed.
            overrides: broker settings that win over ours, by their Kafka names.
            heap_mb: most memory of the Java heap, in megabytes.
            jvm_options: more options of its Java.
        """
        self.data_dir = Path() if data_dir is None else data_dir
        self._is_temporary = data_dir is None
        self._is_ephemeral = is_ephemeral or data_dir is None
        self._port = port
        self._advertise = advertise
        self._users = dict(sasl_users or {})
        self._client_authorities = client_authorities
        self._overrides = dict(overrides or {})
        self._heap_mb = heap_mb
        self._jvm_options = tuple(jvm_options)
        self._locks: list[FileLock] = []
        self._listeners: Listeners | None = None
        self._certificate: Certificate | None = None
        self._program: GuardedProgram | None = None

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker and return when it answers.

        Raises:
            LocalKafkaError: the jars or Java are missing, the data directory has another owner, the
                port is taken, or the broker ended or did not answer in time (with its log).
        """
        assert not self._locks, "the broker is started already"
        java = find_java()
        class_path = ":".join(map(str, jars.class_path(jar_sets.KAFKA)))
        if self._is_temporary:
            self.data_dir = Path(tempfile.mkdtemp(prefix="headwater-kafka-"))
        self._acquire_locks()
        try:
            (self.data_dir / STATE_FILE).unlink(missing_ok=True)
            if self._is_ephemeral:
                shutil.rmtree(self.data_dir / "kafka", ignore_errors=True)
            self._start_locked(java, class_path)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, *, grace_s: float = _STOP_GRACE_S) -> None:
        """Stop the broker and give the data directory back; an ephemeral one is deleted.

        Args:
            grace_s: it is killed if it has not ended after so many seconds.
        """
        if self._program is not None:
            self._program.stop(grace_s=grace_s)
            self._program = None
        if self._locks:
            (self.data_dir / STATE_FILE).unlink(missing_ok=True)
            if self._is_ephemeral:
                shutil.rmtree(self.data_dir, ignore_errors=True)
            self._listeners = None
        self._release_locks()

    def kill(self) -> None:
        """Kill the broker with SIGKILL; :meth:`restart` brings it back with its data."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def restart(self) -> None:
        """Stop the broker if it runs and start it again with the same ports and data.

        Raises:
            LocalKafkaError: as for :meth:`start`.
        """
        assert self._listeners is not None, "only a broker that was started can be restarted"
        if self._program is not None:
            self._program.stop(grace_s=_STOP_GRACE_S)
            self._program = None
        java = find_java()
        self._run(java, ":".join(map(str, jars.class_path(jar_sets.KAFKA))), self._listeners)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- answers ------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """Whether the broker's process runs."""
        return self._program is not None and self._program.is_running()

    @property
    def pid(self) -> int:
        """Process id of the broker's Java process."""
        assert self._program is not None, "the broker is not running"
        return self._program.pid

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients on this machine (plaintext)."""
        return f"{LOOPBACK}:{self._known_listeners.client}"

    @property
    def advertised_servers(self) -> str:
        """Address for clients elsewhere (plaintext); needs ``advertise``."""
        listeners = self._known_listeners
        assert listeners.external is not None, "the broker was not given a host to advertise"
        return f"{listeners.public_host}:{listeners.external}"

    @property
    def secure_servers(self) -> str:
        """Address of the SASL_SSL listener; needs ``sasl_users``."""
        listeners = self._known_listeners
        assert listeners.secure is not None, "the broker was not given users"
        return f"{listeners.public_host}:{listeners.secure}"

    @property
    def mutual_servers(self) -> str:
        """Address of the listener for client certificates; needs ``client_authorities``."""
        listeners = self._known_listeners
        assert listeners.mutual is not None, "the broker was not given authorities"
        return f"{listeners.public_host}:{listeners.mutual}"

    @property
    def ca_certificate(self) -> Path:
        """PEM certificate that clients of the listeners with TLS trust."""
        assert self._certificate is not None, "the broker was given no users and no authorities"
        return self._certificate.certificate

    @property
    def log_file(self) -> Path:
        """What the broker printed."""
        return self.data_dir / "broker.log"

    def secure_client_config(self, user: str, mechanism: str = accounts.PLAIN) -> dict[str, str]:
        """Client settings (Kafka names as librdkafka spells them) to connect as ``user``."""
        return {
            "bootstrap.servers": self.secure_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self._users[user],
            "ssl.ca.location": str(self.ca_certificate),
        }

    def log_tail(self) -> str:
        """Last lines of the broker's log."""
        try:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def skipped_markers(self) -> list[str]:
        """Return what the log says about transaction markers that were not written.

        Right for topics that were deleted. For any other it breaks what transactions promise:
        docs/adr/0030.
        """
        log = self.log_file.read_text(encoding="utf-8", errors="replace")
        return [line for line in log.splitlines() if _SKIPPED in line]

    # -- steps --------------------------------------------------------------------------------

    @property
    def _known_listeners(self) -> Listeners:
        assert self._listeners is not None, "the broker was not started"
        return self._listeners

    def _acquire_locks(self) -> None:
        try:
            privatefiles.own_root(self.data_dir)
            if (self.data_dir / "kafka").exists():
                privatefiles.own_directory(self.data_dir / "kafka")
            for name, timeout_s in (
                (LOCK_FILE, _OLD_OWNER_GRACE_S),
                (_BROKER_LOCK_FILE, _OLD_BROKER_GRACE_S),
            ):
                lock = FileLock(self.data_dir / name)
                lock.acquire(timeout_s=timeout_s)
                self._locks.append(lock)
        except FileLockHeldError as error:
            self._release_locks()
            raise LocalKafkaError(
                f"the private Kafka in {self.data_dir} belongs to process {error.holder}: use it, "
                f"stop it (headwater kafka stop --data {self.data_dir}) or name another directory"
            ) from error
        except privatefiles.NotOursError as error:
            raise LocalKafkaError(f"the private Kafka: {error}") from error
        except OSError as error:
            self._release_locks()
            raise LocalKafkaError(
                f"cannot use {self.data_dir} for the private Kafka: {error.strerror}; "
                "name another directory with --data"
            ) from error

    def _release_locks(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def _start_locked(self, java: Path, class_path: str) -> None:
        for last_try in (*[False] * (_START_TRIES - 1), True):
            listeners = self._choose_listeners()
            if self._users or self._client_authorities is not None:
                hosts = list(dict.fromkeys((LOOPBACK, "localhost", listeners.public_host)))
                self._certificate = ensure_certificate(java, self.data_dir / "tls", hosts)
            try:
                self._run(java, class_path, listeners)
            except LocalKafkaError:
                # Somebody took a port between our choice and the broker's start: choose again.
                if last_try or all(map(is_free, listeners.ports)) or self._port is not None:
                    raise
            else:
                return

    def _choose_listeners(self) -> Listeners:
        if self._port is not None and not is_free(self._port):
            raise LocalKafkaError(
                f"port {self._port} is in use; name another or leave --port away for a free one"
            )
        taken: set[int] = set()
        client = free_port(preferred=self._port or self._last_port(), taken=taken)
        return Listeners(
            client=client,
            controller=free_port(taken=taken),
            advertise=self._advertise,
            bind=bind_address(self._advertise) if self._advertise else LOOPBACK,
            external=free_port(taken=taken) if self._advertise else None,
            secure=free_port(taken=taken) if self._users else None,
            mutual=free_port(taken=taken) if self._client_authorities is not None else None,
        )

    def _last_port(self) -> int | None:
        """Port of the last run on this data: clients that remember it go on working."""
        try:
            return int((self.data_dir / "port").read_text())
        except (OSError, ValueError):
            return None

    def _run(self, java: Path, class_path: str, listeners: Listeners) -> None:
        data = self.data_dir / "kafka"
        properties = self.data_dir / "server.properties"
        text = render(
            listeners,
            data=data,
            users=self._users,
            certificate=self._certificate,
            client_authorities=self._client_authorities,
            overrides=self._overrides,
        )
        replace_file(properties, text, mode=0o600)
        self._rotate_log()
        if not (data / "meta.properties").exists():
            self._format(java, class_path, properties)
        elif self._last_port() is not None:  # noted when it was ready: it has led
            self._fence_former_run(java, class_path, listeners)
        self._program = GuardedProgram(
            kafka_command(
                *(java, class_path, "kafka.Kafka", str(properties)),
                options=["-Xms64m", f"-Xmx{self._heap_mb}m", *self._jvm_options],
            ),
            log_file=self.log_file,
            descriptors=[self._locks[-1].descriptor],
            remove_if_orphaned=self.data_dir if self._is_ephemeral else None,
        )
        self._wait_ready(listeners)
        self._listeners = listeners
        replace_file(self.data_dir / "port", str(listeners.client))
        self._write_state()

    def _fence_former_run(self, java: Path, class_path: str, listeners: Listeners) -> None:
        properties = self.data_dir / "controller.properties"
        text = render_controller(listeners, data=self.data_dir / "kafka")
        replace_file(properties, text, mode=0o600)
        fence_former_run(
            kafka_command(
                *(java, class_path, "kafka.Kafka", str(properties)),
                options=[FIRST_COMPILER, *FENCING],
            ),
            log_file=self.data_dir / "controller.log",
            descriptors=[self._locks[-1].descriptor],
        )

    def _format(self, java: Path, class_path: str, properties: Path) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        told = self.data_dir / "accounts"
        options = accounts.write_options(self._users, told)
        with self.log_file.open("ab") as log:
            done = subprocess.run(
                kafka_command(
                    *(java, class_path, "kafka.tools.StorageTool", "format"),
                    # The equals sign keeps an id that begins with a dash from reading as an option.
                    *(f"--cluster-id={cluster_id}", "--config", str(properties), *options),
                    options=[FIRST_COMPILER],
                ),
                stdout=log,
                stderr=log,
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
                umask=0o077,
            )
        told.unlink(missing_ok=True)
        if done.returncode != 0:
            raise LocalKafkaError(
                f"the directory {self.data_dir} could not be prepared for Kafka:\n{self.log_tail()}"
            )

    def _wait_ready(self, listeners: Listeners) -> None:
        deadline = time.monotonic() + _READY_S
        while not answers_api_versions(LOOPBACK, listeners.client, timeout_s=2.0):
            if not self.is_running():
                raise LocalKafkaError(
                    f"the private Kafka ended while starting; its log {self.log_file} "
                    f"ends with:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"the private Kafka did not answer on port {listeners.client} within "
                    f"{_READY_S:.0f} s; its log {self.log_file} ends with:\n{self.log_tail()}"
                )
            time.sleep(_POLL_S)

    def _rotate_log(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_KEPT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))

    def _write_state(self) -> None:
        listeners = self._known_listeners
        state = {
            "bootstrap_servers": self.bootstrap_servers,
            "advertised_servers": self.advertised_servers if listeners.external else None,
            "secure_servers": self.secure_servers if listeners.secure else None,
            "ca_certificate": str(self.ca_certificate) if self._certificate is not None else None,
            "data_dir": str(self.data_dir),
            "kafka_version": jar_sets.KAFKA_VERSION,
            "owner_pid": os.getpid(),
            "pid": self.pid,
        }
        replace_file(self.data_dir / STATE_FILE, json.dumps(state) + "\n")


def read_state(data_dir: Path) -> dict[str, str | int | None] | None:
    """What the running broker of a data directory says about itself, or None if none runs there.

    Raises:
        LocalKafkaError: its file is damaged.
    """
    if not is_held(data_dir / LOCK_FILE):
        return None
    try:
        state: dict[str, str | int | None] = json.loads((data_dir / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LocalKafkaError(
            f"{data_dir / STATE_FILE} is damaged, so the broker that runs in {data_dir} cannot be "
            "found; stop it and start it again: it writes the file anew"
        ) from error
    return state
