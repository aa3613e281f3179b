"""The words of ``kubectl headwater`` on a cluster in memory: what they show, change and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.kube_rig import NAMESPACE, streamapp

from headwater.cli.main import main as headwater
from headwater.version import VERSION
from headwater_operator.commands.acting import wait_for
from headwater_operator.commands.places import on_a_cluster_only, place_of
from headwater_operator.commands.plugin import main
from headwater_operator.kube.api import PODS, STREAM_ACTIONS, STREAM_APPS
from headwater_operator.kube.errors import ApiUnavailableError

if TYPE_CHECKING:
    from tests.unit.commands.conftest import Plugin

TASKS = ["0_0", "0_1", "1_0", "1_1"]


def numbers(plugin: Plugin, worker: str, *, lag: int = 7) -> None:
    """Have a worker answer through the proxy, as a real one does."""
    tasks = [
        {"task": task, "role": "Active", "lag": lag, "processed": 70, "recordsPerSecond": 7.5}
        for task in plugin.rig.held()[worker]
    ]
    told = {"worker": worker, "incarnation": "i", "threads": [], "tasks": tasks}
    plugin.served.pods[(worker, "/tasks")] = json.dumps(told).encode()


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_status_shows_all_applications_in_a_line_each(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin.run("status") == 0

    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAMESPACE", "NAME", "STATE", "READY", "WORKERS", "TASKS", "REASON"]
    assert row.split()[:7] == ["default", "wc", "●", "RUNNING", "yes", "2/2", "4/4"]


def test_status_says_by_its_exit_code_whether_everything_is_processed(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin.run("status wc") == 0

    plugin.rig.workers["wc-w-0"].frozen = True
    plugin.rig.node.end("wc-w-0", 137)
    plugin.rig.until(lambda: not plugin.rig.is_ready())

    assert plugin.run("status wc") == 1
    assert plugin.run("status") == 1
    assert "Ready" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_document_has_every_field_for_programs(
    plugin: Plugin, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    for worker in ("wc-w-0", "wc-w-1"):
        numbers(plugin, worker)

    assert plugin.run(f"status wc -o {form}") == 0

    out = capsys.readouterr().out
    shown = json.loads(out) if form == "json" else yaml.safe_load(out)
    assert (shown["app"], shown["namespace"], shown["isReady"]) == ("wc", "default", True)
    assert [task["task"] for task in shown["tasks"]] == TASKS
    assert (shown["lag"], shown["recordsPerS"], shown["inexact"]) == (28, 30.0, "")
    assert shown["version"] == VERSION


def test_tasks_shows_what_is_known_of_each_and_says_what_is_not(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers(plugin, "wc-w-0", lag=1_203)

    assert plugin.run("tasks -o wide") == 0

    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if line[:1].isdigit()}
    held = {task: worker for worker, tasks in plugin.rig.held().items() for task in tasks}
    assert sorted(rows) == TASKS
    for task, row in rows.items():
        assert held[task] in row
        assert ("1,203" in row) == (held[task] == "wc-w-0")
    assert any("standby on" in row and "caught up" in row for row in rows.values())
    assert any("the load is level so" in row for row in rows.values())


def test_lag_ends_with_one_if_it_is_more_than_asked_for(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin.run("lag wc --max 5") == 3  # nobody has told it
    said = capsys.readouterr().err
    assert "is not known, so --max 5 cannot be answered; the command status wc says" in said
    for worker in ("wc-w-0", "wc-w-1"):
        numbers(plugin, worker)

    assert plugin.run("lag wc --max 28") == 0
    assert plugin.run("lag wc --max 27") == 1
    out = capsys.readouterr().out
    assert "wc: lag 28" in out
    assert [line.split()[:3] for line in out.splitlines()[1:3]] == [
        ["0", "2", "14"],
        ["1", "2", "14"],
    ]


def test_why_says_where_a_task_is_since_when_and_what_would_move_it(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin.run("why 1_0") == 0

    out = capsys.readouterr().out
    assert out.startswith("1_0: ● RUNNING on wc-w-")
    assert ", for " in out.splitlines()[0]
    assert "placed there because: " in out
    assert "standby on wc-w-" in out
    assert out.splitlines()[-1].startswith("  It moves ")
    assert plugin.run("why 1_0 -o json") == 0
    assert document(capsys)["row"]["task"] == "1_0"


def test_scale_pause_and_resume_change_the_specification(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    def spec() -> dict[str, Any]:
        found = plugin.rig.api.get(STREAM_APPS, NAMESPACE, "wc")
        assert found is not None
        return dict(found["spec"])

    assert plugin.run("scale wc --replicas 3 --threads 2") == 0
    assert (spec()["replicas"], spec()["threadsPerWorker"]) == (3, 2)
    assert plugin.run("pause wc") == 0
    assert spec()["paused"] is True
    assert plugin.run("pause wc") == 0
    assert plugin.run("resume wc") == 0
    assert spec()["paused"] is False
    assert capsys.readouterr().out.splitlines() == [
        "wc: 2 -> 3 workers",
        "wc: 1 -> 2 StreamThreads per worker",
        "wc pauses",
        "wc is paused already",
        "wc goes on",
    ]


def test_a_change_is_made_anew_where_somebody_else_has_written_meanwhile(plugin: Plugin) -> None:
    def interfere(verb: str, _plural: str) -> None:
        if verb == "patch":
            plugin.served.before = lambda _verb, _plural: None
            plugin.rig.set("/spec/threadsPerWorker", 3)

    plugin.served.before = interfere

    assert plugin.run("scale wc --replicas 3") == 0

    found = plugin.rig.api.get(STREAM_APPS, NAMESPACE, "wc")
    assert found is not None
    assert (found["spec"]["replicas"], found["spec"]["threadsPerWorker"]) == (3, 3)


def test_a_change_is_given_up_where_somebody_else_writes_all_the_time(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    written = 0

    def interfere(verb: str, _plural: str) -> None:
        nonlocal written
        if verb == "patch":
            written += 1
            assert written <= 100, "the command does not give up"
            plugin.rig.set("/spec/threadsPerWorker", 3 + written)

    plugin.served.before = interfere

    assert plugin.run("scale wc --replicas 3") == 3

    assert written == 10
    assert "somebody else has changed wc before each of 10 attempts" in capsys.readouterr().err


def at_work(plugin: Plugin) -> None:
    """Have the operator and the workers do something whenever the plug-in looks."""
    plugin.served.before = lambda _verb, plural: (
        plugin.rig.turn(20) if plural == "streamactions" else None
    )


def test_drain_waits_until_the_worker_has_a_new_process(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    before = plugin.rig.uid(PODS, "wc-w-1")
    at_work(plugin)

    assert plugin.run("drain 1") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[1].startswith("Complete")
    assert plugin.rig.uid(PODS, "wc-w-1") not in ("", before)
    [action] = plugin.rig.api.list(STREAM_ACTIONS, NAMESPACE)
    assert action["spec"]["drainWorker"] == {"worker": "wc-w-1"}
    assert action["metadata"]["name"].startswith("drainworker-wc-w-1-")


def test_drain_bears_an_api_server_that_is_away_for_a_moment(plugin: Plugin) -> None:
    asked = 0

    def work(verb: str, plural: str) -> None:
        nonlocal asked
        if plural != "streamactions":
            return
        asked += verb == "get"
        if verb == "get" and asked <= 2:
            raise ApiUnavailableError("the API server has too much to do")
        plugin.rig.turn(20)

    plugin.served.before = work

    assert plugin.run("drain 1") == 0

    assert asked > 2


def test_an_api_server_that_stays_away_ends_the_wait(plugin: Plugin) -> None:
    assert plugin.run("drain 1 --no-wait") == 0
    [action] = plugin.rig.api.list(STREAM_ACTIONS, NAMESPACE)
    asked = 0

    def fail(_verb: str, plural: str) -> None:
        nonlocal asked
        if plural == "streamactions":
            asked += 1
            raise ApiUnavailableError("the API server has too much to do")

    plugin.served.before = fail
    named = Namespace(namespace=NAMESPACE, context=None, kubeconfig=plugin.config)
    with place_of(named) as place:
        cluster = on_a_cluster_only(place, "drain", "")
        with pytest.raises(ApiUnavailableError, match="too much to do"):
            wait_for(cluster, action["metadata"]["name"], away_s=0.0)

    assert asked == 1


def test_drain_says_that_the_action_goes_on_if_it_cannot_be_seen(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.served.refuse = lambda *called: called == ("get", "streamactions")

    assert plugin.run("drain 1") == 3

    [action] = plugin.rig.api.list(STREAM_ACTIONS, NAMESPACE)
    name, err = action["metadata"]["name"], capsys.readouterr().err
    assert f"{name} goes on; see kubectl get streamaction {name} --namespace default" in err
    assert f"to give it up: kubectl patch streamaction {name}" in err


def test_an_action_that_somebody_deletes_meanwhile_goes_no_further(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    def delete(verb: str, plural: str) -> None:
        if (verb, plural) == ("get", "streamactions"):
            for each in plugin.rig.api.list(STREAM_ACTIONS, NAMESPACE):
                plugin.rig.api.delete(STREAM_ACTIONS, NAMESPACE, each["metadata"]["name"])

    plugin.served.before = delete

    assert plugin.run("drain 1") == 3

    said = capsys.readouterr().err
    assert "somebody has deleted the StreamAction drainworker-wc-w-1-" in said
    assert "it goes no further: run the command again" in said


def test_restart_of_one_worker_leaves_the_others(plugin: Plugin) -> None:
    before = {name: plugin.rig.uid(PODS, name) for name in ("wc-w-0", "wc-w-1")}
    at_work(plugin)

    assert plugin.run("restart wc --worker wc-w-0") == 0

    assert plugin.rig.uid(PODS, "wc-w-0") != before["wc-w-0"]
    assert plugin.rig.uid(PODS, "wc-w-1") == before["wc-w-1"]


def test_an_action_that_fails_is_an_error_with_its_reason(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.rig.workers["wc-w-1"].holds_on = True
    at_work(plugin)

    assert plugin.run("drain wc-w-1 --timeout 30s") == 3

    assert "has failed (DeadlineExceeded): " in capsys.readouterr().err


def test_an_action_may_be_left_to_the_operator(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin.run("restart --no-wait") == 0

    assert "see kubectl get streamaction restart-wc-" in capsys.readouterr().out
    [action] = plugin.rig.api.list(STREAM_ACTIONS, NAMESPACE)
    assert action["spec"] == {"app": "wc", "type": "Restart", "ttlSecondsAfterFinished": 86_400}


def test_logs_of_all_pods_have_the_name_of_the_pod_before_each_line(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.served.logs = {"wc-w-0": "one\ntwo\n", "wc-w-1": "three\n"}

    assert plugin.run("logs wc") == 0
    assert plugin.run("logs wc --worker 1") == 0

    assert capsys.readouterr().out.splitlines() == [
        "wc-w-0 | one",
        "wc-w-0 | two",
        "wc-w-1 | three",
        "three",
    ]


def test_followed_logs_are_shown_once_and_a_next_pod_of_a_worker_from_its_start(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.served.logs = {"wc-w-0": "one\ntwo\n"}
    asked: list[str] = []

    def refuse(verb: str, resource: str) -> bool:
        """Give the worker another pod once its log was read, and end once that one's was.

        A log is asked for again when all of the answer before is printed.
        """
        if (verb, resource) == ("get", "pods/log"):
            asked.append(plugin.rig.uid(PODS, "wc-w-0"))
        if (verb, resource) != ("list", "pods"):
            return False
        if len(asked) == 2 and len(set(asked)) == 1:
            plugin.rig.node.end("wc-w-0", 0)
            plugin.rig.api.remove_pod(NAMESPACE, "wc-w-0")
            plugin.rig.until(lambda: "wc-w-0" in plugin.rig.names(PODS))
            plugin.served.logs["wc-w-0"] = "anew\n"
        return len(set(asked)) == 2 and asked.count(asked[-1]) > 1

    plugin.served.refuse = refuse

    assert plugin.run("logs wc --worker 0 --follow") == 3

    lines = capsys.readouterr().out.splitlines()
    shown = ("wc-w-0 | one", "wc-w-0 | two", "wc-w-0 | anew")
    assert [lines.count(line) for line in shown] == [1, 1, 1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("status nobody", 2, "there is no StreamApp 'nobody' in namespace default"),
        ("tasks wc --namespace elsewhere", 2, "there is no StreamApp 'wc' in namespace elsewhere"),
        (
            "tasks --namespace elsewhere",
            2,
            "there is no application in namespace elsewhere: apply a StreamApp there",
        ),
        ("why 9_9", 2, "wc has no task 9_9; its tasks: 0_0, 0_1, 1_0, 1_1"),
        ("why nine", 2, "'nine' is no task: write sub-topology and partition, such as 0_3"),
        ("scale wc", 2, "give --replicas, --threads, or both"),
        ("scale wc --replicas -1", 2, "replicas"),
        ("scale nobody --replicas 2", 2, "there is no StreamApp 'nobody'"),
        ("logs wc --worker 7", 2, "wc has no pod '7' (there are: wc-w-0, wc-w-1)"),
        ("status --context other", 3, "there is no context 'other' in the kubeconfig"),
        ("drain 7", 2, "wc has no worker '7' (there are: wc-w-0, wc-w-1)"),
        ("drain wc-w-0 --timeout soon", 2, "timeout"),
        ("restart nobody", 2, "there is no StreamApp 'nobody'"),
        ("report nobody", 2, "there is no StreamApp 'nobody'"),
    ],
)
def test_wrong_input_is_named_with_the_next_step(
    plugin: Plugin, capsys: pytest.CaptureFixture[str], words: str, code: int, said: str
) -> None:
    assert (plugin.run(words), said in capsys.readouterr().err) == (code, True)


def test_of_several_applications_one_has_to_be_named(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.rig.apply(streamapp("other"))

    assert plugin.run("tasks") == 2

    assert "there are 2 applications in namespace default: name one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "refused", "advice"),
    [
        ("status", ("list", "streamapps"), "--verb=list --resource=streamapps.headwater.dev"),
        ("tasks wc", ("list", "streamworkers"), "--resource=streamworkers.headwater.dev"),
        ("pause wc", ("patch", "streamapps"), "--verb=patch --resource=streamapps.headwater.dev"),
        ("logs wc", ("get", "pods/log"), "--verb=get --resource=pods/log"),
    ],
)
def test_a_missing_right_is_named_with_the_command_that_grants_it(
    plugin: Plugin,
    capsys: pytest.CaptureFixture[str],
    words: str,
    refused: tuple[str, str],
    advice: str,
) -> None:
    plugin.served.refuse = lambda verb, resource: (verb, resource) == refused

    assert plugin.run(words) == 3

    err = capsys.readouterr().err
    assert "who may grant it: kubectl create role NAME --namespace default" in err
    assert advice in err


def test_without_the_right_to_ask_pods_the_rest_is_shown_and_it_is_said(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.served.refuse = lambda _verb, resource: resource == "pods/proxy"
    for worker in plugin.rig.workers.workers.values():
        worker.lag = 10_000
    plugin.rig.turn(8)

    assert plugin.run("tasks wc") == 0

    out = capsys.readouterr().out
    assert "up to 10,000 behind" in out
    assert 'cannot get resource "pods/proxy"' in out
    assert "lags of copies are the rounded ones of their status" in out


def test_an_api_server_that_is_away_is_told(
    plugin: Plugin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load((tmp_path / "config").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = tmp_path / "away"
    away.write_text(yaml.safe_dump(config))

    assert main(["status", "--kubeconfig", str(away)]) == 3

    err = capsys.readouterr().err
    assert "the API server does not answer GET" in err
    assert "see kubectl cluster-info" in err
    assert "trying again" not in err


def test_an_operator_of_another_version_is_told_once(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {**plugin.rig.status(), "version": "9.9.9"}
    plugin.rig.api.set_status(STREAM_APPS, NAMESPACE, "wc", status)

    assert plugin.run("status wc") == 0

    out, err = capsys.readouterr()
    assert err.count("the operator is 9.9.9") == 1
    assert "pip install 'headwater[kubectl]==9.9.9'" in err
    assert "Headwater 9.9.9" in out


def test_headwater_means_this_machine_unless_an_option_names_a_cluster(
    plugin: Plugin,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert headwater(["status", "--home", str(tmp_path / "home")]) == 0
    assert f"no applications in {tmp_path / 'home'}" in capsys.readouterr().out
    assert headwater(["tasks", "--home", str(tmp_path / "home")]) == 2
    assert "home: start one with headwater up" in capsys.readouterr().err
    for words, instead in (
        (["drain", "1"], "headwater scale"),
        (["move", "0_0", "1"], "places tasks by itself"),
        (["restart", "wc"], "headwater down APP"),
    ):
        assert headwater([*words, "--home", str(tmp_path / "home")]) == 3
        said = capsys.readouterr().err
        assert f"headwater {words[0]} is for StreamApps on Kubernetes" in said
        assert instead in said
    for word in ("status", "tasks", "lag"):
        assert headwater([word, "wc", "--kubeconfig", plugin.config]) == 0
        assert "wc" in capsys.readouterr().out
    assert plugin.run("status") == 0


def test_headwater_lag_of_a_cluster_takes_every_form_and_a_limit(
    plugin: Plugin, capsys: pytest.CaptureFixture[str]
) -> None:
    for worker in ("wc-w-0", "wc-w-1"):
        numbers(plugin, worker)
    lag = ["lag", "wc", "--kubeconfig", plugin.config, "--namespace", "default"]

    assert headwater([*lag, "--max", "28", "-o", "wide"]) == 0
    assert "wc: lag 28" in capsys.readouterr().out
    assert headwater([*lag, "--max", "27", "-o", "yaml"]) == 1
    assert yaml.safe_load(capsys.readouterr().out)["lag"] == 28
    for option in (["--watch"], ["--bootstrap", "kafka:9092"]):
        assert headwater([*lag, *option]) == 2
        assert f"{option[0]}: only for what Kafka itself is asked" in capsys.readouterr().err


def completed(config: str, *words: str) -> list[str]:
    """Be ``kubectl``, which asks the program for completions."""
    program = Path(sys.executable).with_name("kubectl_complete-headwater")
    environment = {**os.environ, "KUBECONFIG": config}
    done = subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, check=True
    )
    *found, directive = done.stdout.splitlines()
    assert (directive, done.stderr) == (":4", "")
    return found


def test_words_and_names_are_completed(plugin: Plugin) -> None:
    assert completed(plugin.config, "ta") == ["tasks"]
    assert completed(plugin.config, "tasks", "") == ["wc"]
    assert completed(plugin.config, "why", "1") == ["1_0", "1_1"]
    assert completed(plugin.config, "tasks", "-o", "") == ["table", "wide", "json", "yaml"]
    assert completed("/nowhere", "tasks", "") == []
