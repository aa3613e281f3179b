"""A versioned store against a list of all versions, and against what its changelog restores."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.stores import TASK, TOPIC, Recorder

from headwater.model.stores import StoreKind, StoreSpec
from headwater.ports import LATEST, NOT_PUT
from headwater.serde import Serdes
from headwater.state import ChangelogFacts, MemoryBackend, StoreRestorer, open_store
from headwater.state.versioned import VersionedStore

KEYS = ("", "a", "ab", "b")
TIMES = st.integers(0, 60)
PUT = st.tuples(
    st.just("put"), st.sampled_from(KEYS), st.none() | st.text("xyz", max_size=2), TIMES
)
STEPS = st.lists(PUT | st.sampled_from([("commit",), ("seal",), ("abort",)]), max_size=40)


class Model:
    """All versions that were ever put, by key and time."""

    def __init__(self, history: int) -> None:
        self.history = history
        self.time = -1
        self.versions: dict[str, dict[int, str | None]] = {key: {} for key in KEYS}

    def copy(self) -> Model:
        """Return another one like this."""
        made = Model(self.history)
        made.time = self.time
        made.versions = {key: dict(found) for key, found in self.versions.items()}
        return made

    def put(self, key: str, value: str | None, time: int) -> int:
        """Put a version and tell when the next one begins."""
        if time < self.time - self.history:
            return NOT_PUT
        self.time = max(self.time, time)
        self.versions[key][time] = value
        return min((t for t in self.versions[key] if t > time), default=LATEST)

    def as_of(self, key: str, time: int) -> tuple[str, int] | None:
        """Return value and time of what was valid."""
        found = self.versions[key]
        valid = max((t for t in found if t <= time), default=None)
        is_too_old = time < self.time - self.history and valid != max(found, default=None)
        if valid is None or is_too_old or (value := found[valid]) is None:
            return None
        return value, valid


def _store(history: int, recorder: Recorder, backend: MemoryBackend) -> VersionedStore:
    store = open_store(
        _spec(history),
        task=TASK,
        changelog_topic=TOPIC,
        backend=backend,
        cache=None,
        changelog_send=recorder.send,
        key_serde=Serdes.string,
        value_serde=Serdes.string,
    )
    assert isinstance(store, VersionedStore)
    return store


def _spec(history: int) -> StoreSpec:
    return StoreSpec(name="v", kind=StoreKind.VERSIONED, retention_ms=history, persistent=False)


def _check(store: VersionedStore, model: Model) -> None:
    for key in KEYS:
        assert store.get(key) == model.as_of(key, 1_000)
        for time in range(0, 62, 3):
            assert store.get_as_of(key, time) == model.as_of(key, time), (key, time)


@given(steps=STEPS, history=st.sampled_from([0, 7, 30, 100]))
def test_a_versioned_store_is_a_list_of_versions(steps: list[Any], history: int) -> None:
    store, model = _store(history, Recorder(), MemoryBackend()), Model(history)
    committed, sealed = model.copy(), None
    for step in steps:
        match step:
            case "put", key, value, time:
                assert store.put_version(key, value, time) == model.put(key, value, time)
            case ("seal",) if sealed is None:
                store.flush_changelog()
                store.seal()
                sealed = model.copy()
            case ("abort",):
                store.abort()
                model, sealed = committed.copy(), None
            case ("commit",):
                store.flush_changelog()
                store.commit(None)
                committed, sealed = (sealed or model).copy(), None
            case _:
                pass
        _check(store, model)


@given(
    puts=st.lists(PUT, max_size=40),
    history=st.sampled_from([0, 7, 30, 100]),
    batch=st.integers(1, 40),
)
def test_a_changelog_restores_what_the_store_held(
    puts: list[Any], history: int, batch: int
) -> None:
    recorder = Recorder()
    store = _store(history, recorder, MemoryBackend())
    model = Model(history)
    for _, key, value, time in puts:
        store.put(key, value, time)
        model.put(key, value, time)
        store.flush_changelog()
    facts = ChangelogFacts(
        topic_id="t", log_start=0, log_end=len(recorder.sent), delete_retention_ms=1
    )
    restorer = StoreRestorer(_spec(history), None, facts, now_ms=0, holder="a test")
    records: list[Any] = [
        (offset, time, key, value, None) for offset, (key, value, time) in enumerate(recorder.sent)
    ]
    for start in range(0, len(records), batch):
        part = records[start : start + batch]
        restorer.apply(part, part[-1][0] + 1)
    backend: Any = restorer.take()

    restored = _store(history, Recorder(), backend)

    oldest = model.time - history
    for key in KEYS:
        assert restored.get(key) == model.as_of(key, 1_000)
        for time in range(max(0, oldest), 62):
            assert restored.get_as_of(key, time) == model.as_of(key, time), (key, time)
