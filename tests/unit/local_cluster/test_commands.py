"""What a person gets from the commands when nothing runs, or what was written is wrong."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater import driverlock
from headwater.cli.main import main
from headwater.errors import SpecError
from headwater.model.appstatus import AppStatus
from headwater.model.lifecycle import ClientState
from headwater.model.streamapp import Engine, TopologySource
from headwater_operator.decide.observed import Intent
from headwater_operator.local import control, files, manifest, resetting
from headwater_operator.local.layout import ClusterDir
from headwater_operator.local.observe import read_record
from headwater_operator.local.processes import identify
from headwater_operator.local.records import AppReport, ClusterPhase, KafkaRecord, SupervisorRecord
from headwater_operator.local.rootlock import RootLock

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.model.streamapp import StreamApp

GOOD = """
apiVersion: headwater.dev/v1alpha1
kind: StreamApp
metadata: {name: word-count}
spec:
  topology: {module: "examples.word_count.app:build"}
  replicas: 2
"""

IN_MAP = GOOD.replace('module: "examples.word_count.app:build"', "configMapRef: {name: code}")
CODE = """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data:
  topology.py: |
    def build(builder): ...
---
apiVersion: v1
kind: Secret
metadata: {name: unused}
"""
REGISTRY = GOOD + "  kafka: {schemaRegistry: {url: 'http://r', secretRef: {name: user}}}"
SECURED = GOOD + "  kafka: {bootstrapServers: 'b:9093', tls: {}}"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterDir:
    return ClusterDir(tmp_path / "home")


@pytest.fixture
def app(tmp_path: Path) -> StreamApp:
    file = tmp_path / "streamapp.yaml"
    file.write_text(GOOD)
    return manifest.load(file)[0]


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(GOOD.replace("replicas", "replcas"), "did you mean 'replicas'", id="a typo"),
        pytest.param(GOOD.replace("2", '"two"'), "spec.replicas: expected an integer", id="a type"),
        pytest.param("{", "line 1", id="not YAML"),
        pytest.param("", "there is no StreamApp in it", id="empty"),
        pytest.param(GOOD + "---" + GOOD, "document 2: metadata.name", id="twice the same name"),
        pytest.param(CODE, "there is no StreamApp in it", id="only what is for a cluster"),
        pytest.param(GOOD.replace("kind: StreamApp", "kind: StreamAp"), "'StreamAp'", id="a kind"),
        pytest.param(IN_MAP, "there is no ConfigMap 'code'", id="no ConfigMap"),
        pytest.param(
            IN_MAP.replace("name: code", "name: code, key: b.py") + CODE,
            "with the key 'b.py' in this file",
            id="no such key",
        ),
        pytest.param(
            REGISTRY, "secretRef: its Secret is on a cluster", id="a Secret of a registry"
        ),
        pytest.param(SECURED, "spec.kafka.tls: its Secrets are on a cluster", id="Secrets"),
    ],
)
def test_a_wrong_file_is_explained_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(text)

    code = run("up", "-f", file, "--home", tmp_path / "home")

    error = capsys.readouterr().err
    assert code == SpecError.exit_code
    assert str(file) in error
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "home").exists()


def test_a_topology_in_a_config_map_of_the_same_file_is_put_in(tmp_path: Path) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(IN_MAP + CODE)

    (app,) = manifest.load(file)

    assert app.spec.topology == TopologySource(inline="def build(builder): ...\n")


@pytest.mark.parametrize(
    "option",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.jaas.config",
        "producer.sasl.oauthbearer.client.secret",
    ],
)
def test_a_password_in_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file = tmp_path / "streamapp.yaml"
    harmless = "sasl.username: me, sasl.oauthbearer.token.endpoint.url: 'https://login/'"
    file.write_text(GOOD + f"  kafka: {{config: {{{option}: hunter2, {harmless}}}}}\n")
    file.chmod(0o644)
    manifest.load(file)
    said = capsys.readouterr().err

    assert f"holds {option}, and other users can read it: chmod 600 {file}" in said
    assert "hunter2" not in said
    file.chmod(0o600)
    manifest.load(file)
    assert capsys.readouterr().err == ""


def test_what_only_a_cluster_can_carry_out_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(GOOD + "  image: i:1\n  kafka: {tls: {}}\n  podTemplate: {labels: {a: b}}\n")

    (app,) = manifest.load(file)

    assert app.spec.image == "i:1"


def test_the_loss_of_a_changelog_is_accepted_for_its_own_application_only(app: StreamApp) -> None:
    other = replace(app, name="other", spec=replace(app.spec, application_id="other"))
    changelog = f"{app.application_id}-counts-changelog"

    allowed, same = manifest.allow_lost([app, other], [changelog])

    assert allowed.spec.config == {**app.spec.config, "allow.lost.changelogs": changelog}
    assert same == other
    again = f"{app.application_id}-sums-changelog"
    (both,) = manifest.allow_lost([allowed], [again])
    assert both.spec.config["allow.lost.changelogs"] == f"{changelog},{again}"
    with pytest.raises(SpecError, match="nobodys-changelog is no changelog of"):
        manifest.allow_lost([app], ["nobodys-changelog"])


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("up", "-f", tmp_path / "no.yaml", "--home", tmp_path) == SpecError.exit_code
    assert "no.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["scale", "x", "--replicas", "3"],
        ["scale", "x", "--threads", "3"],
        ["pause", "x"],
        ["resume", "x"],
        ["logs", "x"],
        ["get", "x"],
        ["down", "x"],
    ],
)
def test_an_unknown_application_is_named_with_the_known_ones(
    cluster: ClusterDir,
    app: StreamApp,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    control.apply(cluster, app, import_path=())

    assert run(*command, "--home", cluster.root) == SpecError.exit_code
    assert "'x'" in (error := capsys.readouterr().err)
    assert "known: word-count" in error


def test_scaling_changes_nothing_but_the_number(cluster: ClusterDir, app: StreamApp) -> None:
    control.apply(cluster, app, import_path=())

    assert run("scale", "word-count", "--replicas", 5, "--home", cluster.root) == 0

    record = read_record(cluster.app("word-count"))
    assert record is not None
    assert record.app == app.with_replicas(5)


def test_threads_are_scaled_alone_or_with_the_workers(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())
    home = ("--home", cluster.root)

    assert run("scale", "word-count", "--threads", 3, *home) == 0
    assert "StreamThreads per worker (it does not run now)" in capsys.readouterr().out
    assert wanted(cluster) == app.with_threads(3)
    assert run("scale", "word-count", "--threads", 4, "--replicas", 5, *home) == 0
    assert wanted(cluster) == app.with_threads(4).with_replicas(5)

    assert run("scale", "word-count", "--threads", 0, *home) == SpecError.exit_code
    assert "spec.threadsPerWorker: expected an integer >= 1" in capsys.readouterr().err
    assert run("scale", "word-count", *home) == 2
    assert "--replicas, --threads, or both" in capsys.readouterr().err
    assert wanted(cluster) == app.with_threads(4).with_replicas(5)


def test_up_refuses_a_number_of_threads_before_it_starts_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "streamapp.yaml"
    file.write_text(GOOD)

    code = run("up", "-f", file, "--threads", 0, "--home", tmp_path / "home")

    assert code == SpecError.exit_code
    assert "spec.threadsPerWorker: expected an integer >= 1" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_a_pause_is_written_down_and_taken_back(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())
    home = ("--home", cluster.root)

    assert [run("pause", "word-count", *home), run("pause", "word-count", *home)] == [0, 0]
    said = capsys.readouterr().out
    assert "word-count pauses (it does not run now)" in said
    assert "word-count is paused already" in said
    assert wanted(cluster) == app.with_pause(paused=True)

    assert run("resume", "word-count", *home) == 0
    assert wanted(cluster) == app


def test_an_application_of_spark_is_not_paused(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    on_spark = replace(app, spec=replace(app.spec, engine=Engine.SPARK))
    control.apply(cluster, on_spark, import_path=())

    assert run("pause", "word-count", "--home", cluster.root) == SpecError.exit_code
    assert "spec.paused: Spark cannot pause; set suspend instead" in capsys.readouterr().err
    assert wanted(cluster) == on_spark


def wanted(cluster: ClusterDir) -> StreamApp:
    record = read_record(cluster.app("word-count"))
    assert record is not None
    return record.app


def test_a_negative_scale_is_refused(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())

    assert run("scale", "word-count", "--replicas", -1, "--home", cluster.root) == 2
    assert "spec.replicas" in capsys.readouterr().err


def test_applying_again_counts_up_so_that_a_final_failure_is_tried_again(
    cluster: ClusterDir, app: StreamApp
) -> None:
    first = control.apply(cluster, app, import_path=())
    second = control.apply(cluster, app, import_path=())

    assert (first.applied, second.applied) == (1, 2)


def test_two_applications_never_share_an_application_id(
    cluster: ClusterDir, app: StreamApp, tmp_path: Path
) -> None:
    control.apply(cluster, app, import_path=())
    file = tmp_path / "other.yaml"
    file.write_text(
        GOOD.replace("name: word-count", "name: other") + "  applicationId: word-count\n"
    )

    with pytest.raises(SpecError, match="that of word-count"):
        control.apply(cluster, manifest.load(file)[0], import_path=())


def test_an_application_keeps_its_application_id(
    cluster: ClusterDir, app: StreamApp, tmp_path: Path
) -> None:
    control.apply(cluster, app, import_path=())
    file = tmp_path / "other.yaml"
    file.write_text(GOOD + "  applicationId: another\n")

    with pytest.raises(SpecError, match="has run as 'word-count'"):
        control.apply(cluster, manifest.load(file)[0], import_path=())


def test_only_the_applications_of_the_file_start_with_a_new_cluster(
    cluster: ClusterDir, app: StreamApp
) -> None:
    control.apply(cluster, app, import_path=())

    assert control.leave_stopped(cluster, but=["another"]) == ["word-count"]

    record = read_record(cluster.app("word-count"))
    assert record is not None
    assert record.intent is Intent.STOP


def test_get_says_that_nothing_is_there(
    cluster: ClusterDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("get", "--home", cluster.root) == 0
    assert "no applications" in capsys.readouterr().out


def test_get_shows_what_is_wanted_when_the_cluster_is_down(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())

    assert run("get", "word-count", "--home", cluster.root) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "READY", "TASKS", "EPOCH", "KAFKA", "REASON"]
    assert lines[1].split()[:4] == ["word-count", "DOWN", "0/2", "0/0"]


def test_what_a_driver_by_hand_runs_is_left_to_it(
    cluster: ClusterDir, app: StreamApp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())
    home = ("--home", cluster.root)
    with driverlock.held(cluster.root, tmp_path / "state", app.name, app.name, again="") as tell:
        tell("127.0.0.1:1")
        for command in (["up", "-f", tmp_path / "streamapp.yaml"], ["reset", app.name, "--yes"]):
            assert run(*command, *home) == 3
            assert capsys.readouterr().err.startswith(
                f"error: `headwater spark` runs word-count (process {os.getpid()}, "
                "http://127.0.0.1:1/status); end it first (Ctrl-C there), then headwater "
            )
        run("get", *home)
        [_, line] = capsys.readouterr().out.splitlines()
        assert "DOWN" not in line
        assert f"`headwater spark` runs word-count (process {os.getpid()}" in line
        run("down", *home)
        assert (
            f"but `headwater spark` runs word-count (process {os.getpid()}"
            in capsys.readouterr().out
        )
    run("get", *home)
    assert "DOWN" in capsys.readouterr().out


def test_get_shows_where_kafka_is_and_nothing_of_a_former_run(
    cluster: ClusterDir,
    app: StreamApp,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = control.apply(cluster, app, import_path=())
    status = AppStatus(state=ClientState.RUNNING, reason="all 4 tasks run")
    own = identify(os.getpid())
    assert own is not None
    supervisor = SupervisorRecord(
        pid=own.pid,
        started=own.started,
        phase=ClusterPhase.RUNNING,
        kafka=KafkaRecord(bootstrap_servers="127.0.0.1:20000"),
    )
    files.replace(cluster.supervisor, supervisor.to_dict())
    lock = RootLock(cluster.lock)
    assert lock.acquire()
    shown = []
    for applied in (record.applied, record.applied - 1):
        report = AppReport(status=status, applied=applied)
        files.replace(cluster.app(app.name).status, report.to_dict())
        run("get", "--home", cluster.root)
        shown.append(capsys.readouterr().out.splitlines()[1])
    lock.release()

    assert all("127.0.0.1:20000" in line for line in shown)
    assert "RUNNING" in shown[0]
    assert "starting" in shown[1]
    assert "RUNNING" not in shown[1]
    assert "all 4 tasks run" not in shown[1]


def test_an_option_that_a_command_does_not_know_shows_that_commands_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run("up", "-f", "x", "--replica", "3")

    said = capsys.readouterr().err
    assert said.startswith("usage: headwater up ")
    assert "unrecognized arguments: --replica 3" in said


def test_a_reset_is_not_done_unasked(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())

    # Standard input is no terminal here.
    assert run("reset", "word-count", "--home", cluster.root) == 2
    said = capsys.readouterr().err
    assert "--yes" in said
    assert said.count("word-count") == 1


def test_a_reset_names_an_application_id_that_is_not_the_applications_name(app: StreamApp) -> None:
    other = replace(app, spec=replace(app.spec, application_id="counts"))

    asked = resetting.question_before_reset(other)

    assert asked.endswith("state of word-count (application id counts)?")


def test_down_says_that_nothing_runs(
    cluster: ClusterDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("down", "--home", cluster.root) == 0
    assert "nothing runs" in capsys.readouterr().out


def test_a_deleted_application_is_forgotten(cluster: ClusterDir, app: StreamApp) -> None:
    control.apply(cluster, app, import_path=())

    assert run("down", "word-count", "--delete", "--home", cluster.root) == 0
    assert cluster.apps() == []


def test_nothing_is_forgotten_that_was_not_named(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())

    assert run("down", "--delete", "--home", cluster.root) == 2
    assert "name of an application" in capsys.readouterr().err
    assert [found.name for found in cluster.apps()] == ["word-count"]


def test_logs_says_that_nothing_was_printed_yet(
    cluster: ClusterDir, app: StreamApp, capsys: pytest.CaptureFixture[str]
) -> None:
    control.apply(cluster, app, import_path=())

    assert run("logs", "word-count", "--home", cluster.root) == 0
    assert "has printed anything yet" in capsys.readouterr().out
