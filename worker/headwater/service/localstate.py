"""What a program does with the state of its own ``KafkaStreams``: hears restores, deletes it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import ConfigError
from headwater.model.lifecycle import ClientState
from headwater.model.restoring import RestoreStep, StateRestoreListener
from headwater.native.messages import StoreRestore
from headwater.service.decide.observations import GlobalThreadSaid, ThreadSaid, UpdaterSaid
from headwater.state.directory import StateDirectory

if TYPE_CHECKING:
    from headwater.config import StreamsConfig
    from headwater.service.decide.observations import Observation

log = logging.getLogger(__name__)

_STOPPED = (ClientState.CREATED, ClientState.NOT_RUNNING, ClientState.ERROR)


class LocalState:
    """The part of ``KafkaStreams`` that is about stores on this machine."""

    _config: StreamsConfig
    _state: ClientState
    _restores: StateRestoreListener | None = None

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Hear how every store is restored, and every global store is filled.

        It is called from a thread of ours, which supervises: let it return at once. Stores in
        memory are restored by the StreamThreads themselves, and again after each change of place.
        Global stores of which each StreamThread has a copy in memory are passed over.

        Raises:
            ConfigError: the application was started already, or the listener lacks a method.
        """
        if self._state is not ClientState.CREATED:
            raise ConfigError("set_global_state_restore_listener: set the listener before start()")
        for step in RestoreStep:
            if not callable(getattr(listener, step, None)):
                raise ConfigError(
                    f"set_global_state_restore_listener: {listener!r} has no method {step}; derive "
                    "its class from StateRestoreListener, and give an object of it"
                )
        self._restores = listener

    def clean_up(self) -> None:
        """Delete every store of this application below ``state.dir`` (``KafkaStreams.cleanUp``).

        The next start restores them from their changelogs. A store without a changelog is lost, and
        so is one whose changelog was deleted. Kafka is not touched: ``headwater reset`` and
        ``kafka-streams-application-reset`` are for that.

        Raises:
            ConfigError: the application runs.
            StoreLockedError: another process has a store open; nothing was deleted.
            StateError: the directory belongs to somebody else, or cannot be deleted.
        """
        if self._state not in _STOPPED:
            raise ConfigError(
                f"clean_up: the application is {self._state}; call it before start(), or after "
                "close() has returned True"
            )
        directory = StateDirectory(Path(self._config.state_dir), self._config.application_id)
        directory.clean(holder=f"clean_up of {self._config.application_id}")


def hear_restore(listener: StateRestoreListener | None, observation: Observation) -> None:
    """Tell a listener what a child has said of a restore; what the listener raises is logged."""
    if listener is None or not isinstance(observation, ThreadSaid | UpdaterSaid | GlobalThreadSaid):
        return
    message = observation.message
    if isinstance(message, StoreRestore):
        try:
            getattr(listener, message.step)(message.partition, message.store, *message.numbers)
        except Exception:
            log.exception("the state restore listener raised in %s", message.step)
