"""Credentials for Kafka: from files as the pod contract names them to settings of the clients."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube.pki import Authority
from tests.support.pages import blocks

from headwater.config import StreamsConfig
from headwater.errors import ConfigError, SpecError
from headwater.kafka.errors import Connection
from headwater.kafka.producer import StreamsProducer
from headwater.kafka.settings import producer_settings
from headwater.model.secretnames import is_secret
from headwater.model.streamapp import parse
from headwater.native.application import ApplicationSettings
from headwater.service.settings import WorkerSettings, config_of

SECRET = "correct horse"


def config(directory: Path | None, **kafka: Any) -> dict[str, Any]:
    document = {
        "apiVersion": "headwater.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "orders"},
        "spec": {
            "topology": {"module": "a:b"},
            "kafka": {"bootstrapServers": "broker:9093", **kafka},
        },
    }
    return config_of(parse(document), {}, directory)


def authentication(kind: str) -> dict[str, Any]:
    return {"type": kind, "secretRef": {"name": "kafka-user"}}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    authority = Authority(tmp_path / "pki")
    pair = authority.user("orders")
    contents = {
        "ca.crt": authority.files.certificate.read_text(),
        "tls.crt": pair.certificate.read_text(),
        "tls.key": pair.key.read_text(),
        "username": "username\n",
        "password": f"{SECRET}\n",
        "registry-username": "reader\n",
        "registry-password": f"{SECRET}: 2\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("tls", "protocol"), [({}, "SASL_PLAINTEXT"), ({"tls": {}}, "SASL_SSL")], ids=["plain", "tls"]
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_and_a_password_are_read_from_files(
    directory: Path, mechanism: str, tls: dict[str, Any], protocol: str
) -> None:
    found = config(directory, authentication=authentication(mechanism), **tls)

    assert found["security.protocol"] == protocol
    assert found["sasl.mechanism"] == mechanism
    assert (found["sasl.username"], found["sasl.password"]) == ("username", SECRET)
    assert "ssl.ca.location" not in found


def test_certificate_key_and_authorities_are_told_as_paths(directory: Path) -> None:
    tls = {"caSecretRef": {"name": "authority", "key": "root.pem"}}

    found = config(directory, authentication=authentication("TLS"), tls=tls)

    assert found["security.protocol"] == "SSL"
    assert found["ssl.ca.location"] == str(directory / "ca.crt")
    assert found["ssl.certificate.location"] == str(directory / "tls.crt")
    assert found["ssl.key.location"] == str(directory / "tls.key")


def test_without_tls_and_authentication_nothing_is_read(tmp_path: Path) -> None:
    assert "security.protocol" not in config(tmp_path / "nowhere")


def test_the_kafka_client_takes_the_settings_as_they_are(directory: Path) -> None:
    found = config(directory, authentication=authentication("SCRAM-SHA-512"), tls={})
    parsed = StreamsConfig.parse(found)

    connection = Connection(parsed.bootstrap_servers)
    settings = producer_settings(parsed, connection, client_id="test", transactional_id=None)
    StreamsProducer(settings, connection).discard()


@pytest.mark.parametrize(
    ("file", "kafka", "asked"),
    [
        ("ca.crt", {"tls": {"caSecretRef": {"name": "authority"}}}, "tls.caSecretRef"),
        ("password", {"authentication": authentication("PLAIN")}, "secretRef kafka-user"),
        ("tls.key", {"tls": {}, "authentication": authentication("TLS")}, "secretRef kafka-user"),
    ],
)
def test_what_is_missing_or_empty_is_named_with_the_field_that_asks_for_it(
    directory: Path, file: str, kafka: dict[str, Any], asked: str
) -> None:
    (directory / file).write_text("")
    with pytest.raises(ConfigError, match=rf"{asked}.*{file} is empty"):
        config(directory, **kafka)

    (directory / file).unlink()
    with pytest.raises(ConfigError, match=rf"{asked}.*{file}: No such file"):
        config(directory, **kafka)

    with pytest.raises(ConfigError, match=rf"{asked}.*HEADWATER_KAFKA_DIR"):
        config(None, **kafka)


def test_what_is_no_certificate_or_of_another_key_is_named_and_not_repeated(
    directory: Path,
) -> None:
    tls = {"caSecretRef": {"name": "authority"}}
    key = (directory / "tls.key").read_text()
    other = Authority(directory / "other").user("other")
    for wrong in ("no key", other.key.read_text()):
        (directory / "tls.key").write_text(wrong)
        with pytest.raises(ConfigError, match=r"secretRef kafka-user.*tls.crt and .*tls.key") as no:
            config(directory, authentication=authentication("TLS"), tls=tls)
        assert wrong not in str(no.value)

    (directory / "tls.key").write_text(key)
    config(directory, authentication=authentication("TLS"), tls=tls)
    (directory / "ca.crt").write_text(key)
    with pytest.raises(ConfigError, match=r"tls.caSecretRef, key ca.crt: .* no certificates") as no:
        config(directory, tls=tls)
    assert key.splitlines()[1] not in str(no.value)


def test_a_key_whose_password_is_a_setting_is_left_to_the_client(directory: Path) -> None:
    (directory / "tls.key").write_text("encrypted")

    found = config(
        directory,
        authentication=authentication("TLS"),
        tls={},
        config={"ssl.key.password": "${SOMEWHERE}"},
    )

    assert found["ssl.key.location"] == str(directory / "tls.key")


def test_a_password_is_in_no_message_and_no_description(directory: Path) -> None:
    found = config(directory, authentication=authentication("PLAIN"))
    application = ApplicationSettings(config=found, topology="a:b")
    settings = WorkerSettings(app="orders", name="orders-w-0", application=application)

    child = settings.for_child(settings.parsed(), 0, threads=1)

    assert child.application.config["sasl.password"] == SECRET
    assert SECRET not in f"{settings!r}{child!r}"
    (directory / "password").write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(ConfigError, match="UnicodeDecodeError") as raised:
        config(directory, authentication=authentication("PLAIN"))
    assert SECRET not in str(raised.value)


def test_the_registry_and_its_user_are_told_to_serdes(directory: Path) -> None:
    registry = {"url": "https://registry:8081", "secretRef": {"name": "registry-user"}}

    found = config(directory, schemaRegistry=registry)
    parsed = StreamsConfig.parse(found)

    assert parsed.serde_settings == {
        "schema.registry.url": "https://registry:8081",
        "basic.auth.user.info": f"reader:{SECRET}: 2",
    }
    assert config(None, schemaRegistry={"url": "http://r:1"})["schema.registry.url"] == "http://r:1"
    assert is_secret("basic.auth.user.info")


def test_what_the_registry_s_secret_lacks_is_named(directory: Path) -> None:
    registry = {"url": "https://registry:8081", "secretRef": {"name": "registry-user"}}
    asked = r"spec\.kafka\.schemaRegistry\.secretRef registry-user: "

    (directory / "registry-username").write_text("a:b")
    with pytest.raises(ConfigError, match=asked + "the user's name has a colon"):
        config(directory, schemaRegistry=registry)
    (directory / "registry-username").unlink()
    with pytest.raises(ConfigError, match=asked + "cannot use .*registry-username"):
        config(directory, schemaRegistry=registry)


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        ({"schemaRegistry": {"url": "http://user:word@r"}}, "an http address without a user"),
        ({"schemaRegistry": {"url": "registry:8081"}}, "an http address without a user"),
        (
            {
                "schemaRegistry": {"url": "http://r"},
                "config": {"schema.registry.url": "http://other"},
            },
            "schemaRegistry says where the registry is",
        ),
    ],
)
def test_a_registry_is_named_once_and_without_a_password(kafka: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        config(None, **kafka)


def test_the_example_of_the_page_says_all_that_is_needed(directory: Path) -> None:
    [block] = blocks("serdes.md", "yaml")

    found = config_of(parse(yaml.safe_load(block)), {}, directory)

    assert found["schema.registry.url"] == "https://registry.example:8081"
    assert found["basic.auth.user.info"] == f"reader:{SECRET}: 2"
