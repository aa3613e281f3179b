"""The files around the private Kafka: locks of jars, server.properties, the owner's lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.cli.kafka import RETENTION_VARIABLE
from headwater.cli.main import build_parser
from headwater.local import jar_sets
from headwater.local.accounts import write_options
from headwater.local.certificates import Certificate
from headwater.local.filelock import FileLock, FileLockHeldError, is_held
from headwater.local.properties import Listeners, render


@pytest.mark.parametrize("name", sorted(jar_sets.ROOTS))
def test_a_lock_names_all_roots_and_sums_and_no_address(name: str) -> None:
    text = (Path(jar_sets.__file__).parent / "locks" / f"{name}.lock.toml").read_text()

    locked = jar_sets.load(name)

    assert set(jar_sets.ROOTS[name]) <= {jar.coordinates for jar in locked.jars}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in locked.jars)
    assert "//" not in text


def test_two_sets_agree_on_the_jars_they_share() -> None:
    sums: dict[str, set[str]] = {}
    for name in jar_sets.ROOTS:
        for jar in jar_sets.load(name).jars:
            sums.setdefault(jar.coordinates, set()).add(jar.sha256)

    assert all(len(found) == 1 for found in sums.values())


def _settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_without_requests_the_broker_listens_on_loopback_alone() -> None:
    settings = _settings(
        render(Listeners(1, 2), data=Path("/d"), users={}, certificate=None, overrides={})
    )

    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1"
    assert settings["auto.create.topics.enable"] == "false"
    # A partition is bounded by its size, not by the age of its records.
    assert settings["log.retention.ms"] == "-1"
    assert settings["log.retention.bytes"] == str(4 * 1024**3)
    assert not any(key.startswith("listener.name.secure") for key in settings)


def test_overrides_win_and_extra_listeners_are_advertised_by_their_host() -> None:
    listeners = Listeners(1, 2, advertise="host.example", bind="0.0.0.0", external=3, secure=4)
    certificate = Certificate(Path("/tls/broker.p12"), "secret", Path("/tls/ca.pem"))

    settings = _settings(
        render(
            listeners,
            data=Path("/d"),
            users={"u": 'a"b\\c'},
            certificate=certificate,
            overrides={"log.retention.ms": "5"},
        )
    )

    assert settings["log.retention.ms"] == "5"
    assert settings["listeners"].endswith("EXTERNAL://0.0.0.0:3,SECURE://0.0.0.0:4")
    assert settings["advertised.listeners"].endswith(
        "EXTERNAL://host.example:3,SECURE://host.example:4"
    )
    # Escaped once for the login module and once more for the properties file.
    login = settings["listener.name.secure.plain.sasl.jaas.config"]
    assert login.endswith(r'user_u="a\\"b\\\\c";')


def test_who_shows_a_certificate_has_a_listener_of_his_own() -> None:
    certificate = Certificate(Path("/tls/broker.p12"), "secret", Path("/tls/ca.pem"))

    settings = _settings(
        render(
            Listeners(1, 2, mutual=5),
            data=Path("/d"),
            users={},
            certificate=certificate,
            client_authorities=Path("/clients.pem"),
            overrides={},
        )
    )

    assert settings["listeners"].endswith("MUTUAL://127.0.0.1:5")
    assert settings["listener.name.mutual.ssl.client.auth"] == "required"
    assert settings["listener.name.mutual.ssl.truststore.location"] == "/clients.pem"
    assert not any(key.startswith("listener.name.secure") for key in settings)


def test_no_command_line_that_makes_an_account_says_anything_of_its_password(
    tmp_path: Path,
) -> None:
    path = tmp_path / "accounts"
    assert write_options({"alice": "in wonderland"}, path) == [f"@{path}"]

    lines = path.read_text().splitlines()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [line.split("=")[1] for line in lines] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert all("saltedpassword=" in line and "wonderland" not in line for line in lines)
    assert write_options({}, path) == []


def test_a_lock_excludes_its_own_process_and_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = FileLock(path), FileLock(path)
    first.acquire(timeout_s=0)

    with pytest.raises(FileLockHeldError, match="is locked by process"):
        second.acquire(timeout_s=0)

    assert is_held(path)
    first.release()
    assert not is_held(path)
    second.acquire(timeout_s=0)
    second.release()


def test_a_lock_on_a_deleted_file_excludes_nobody_and_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = FileLock(path), FileLock(path)
    first.acquire(timeout_s=0)
    path.unlink()

    second.acquire(timeout_s=0)

    assert is_held(path)
    first.release()
    assert is_held(path)
    second.release()


@pytest.mark.parametrize("text", ["0", "-2", "4GiB", ""])
def test_a_bound_that_is_no_number_of_bytes_is_refused_from_flag_and_environment(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["kafka", "start", f"--retention-bytes={text}"])
    monkeypatch.setenv(RETENTION_VARIABLE, text)
    with pytest.raises(SystemExit):
        build_parser().parse_args(["kafka", "start"])

    assert capsys.readouterr().err.count("is no number of bytes: expected 1 or more, or -1") == 2


def test_the_bound_comes_from_the_flag_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(RETENTION_VARIABLE, "1000")

    parser = build_parser()

    assert parser.parse_args(["kafka", "start"]).retention_bytes == 1_000
    told = parser.parse_args(["kafka", "start", "--retention-bytes=-1"])
    assert told.retention_bytes == -1
