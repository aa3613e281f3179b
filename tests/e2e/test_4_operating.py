"""It is operated by the words of ``kubectl headwater``, and by StreamActions of each kind."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from tests.e2e.actions import act, create, ended
from tests.e2e.counted import PARTITIONS
from tests.e2e.site import APP
from tests.e2e.tools import STORE
from tests.support.page_events import seen

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.site import Site
    from tests.e2e.tools import Reader

TASKS = [f"{group}_{number}" for group in (0, 1) for number in range(PARTITIONS)]
SNAPSHOT = "before-the-upgrade"


def test_every_word_of_kubectl_headwater_does_what_it_says(
    site: Site, counted: Counted, reader: Reader
) -> None:
    site.scale(2)
    site.until_settled(2)
    with counted.under_load():
        look(site, reader)
        reader.word(f"pause {APP}")
        site.until(lambda: site.conditions("Paused")[0][0] == "True", "the pause")
        reader.word(f"resume {APP}")
        reader.word(f"scale {APP} --threads 1")
        site.until(lambda: site.threads() == dict.fromkeys(site.uids(), 1), "a thread in each")
        before = site.uids()
        assert "Complete" in reader.word(f"restart {APP} --worker 0")
        site.until_settled(2)
        restarted = site.uids()
        assert changed(before, restarted) == {f"{APP}-w-0"}
        assert "Complete" in reader.word(f"drain {APP}-w-1")
        site.until_settled(2)
        assert changed(restarted, site.uids()) == {f"{APP}-w-1"}
        task, to = next(
            (task, f"{APP}-w-{1 - int(name[-1])}")
            for name, tasks in site.held().items()
            for task in tasks
        )
        assert "Complete" in reader.word(f"move {task} {to}")
        assert task in site.held()[to]
        counted.until_more()
    counted.until_exact()
    counted.begin_anew()
    assert f"{APP} is reset" in reader.word(f"reset {APP} --to-earliest --yes")
    counted.until_exact()
    site.until_settled(2)


def look(site: Site, reader: Reader) -> None:
    """See what there is to see, each word once."""
    workers = sorted(site.uids())
    shown = json.loads(reader.word(f"status {APP} -o json"))
    assert (shown["isReady"], shown["state"], shown["inexact"]) == (True, "RUNNING", "")
    assert [each["task"] for each in shown["tasks"]] == TASKS
    shown = json.loads(reader.word(f"tasks {APP} -o json"))
    assert {each["worker"] for each in shown["tasks"]} == {*workers}
    assert f"{APP}: lag " in reader.word(f"lag {APP} --max 1000000")
    assert "1_0: ● RUNNING on" in reader.word(f"why 1_0 --app {APP}")
    assert f"Sub-topology: 1   ({PARTITIONS} tasks" in reader.word(f"topology {APP}")
    assert "<svg" in reader.word(f"topology {APP} -o svg")
    logged = {line.partition(" | ")[0] for line in reader.word(f"logs {APP} --tail 5").splitlines()}
    assert logged == {*workers}
    assert "streams" in reader.word(f"query {STORE} streams --app {APP}")
    file = reader.directory / "report.zip"
    reader.word(f"report {APP} --file {file}")
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        assert archive.read("missing.txt").decode() == "nothing\n"
    for worker in workers:
        assert {f"logs/{worker}.log", f"http/{worker}/tasks.json"} <= names
    with reader.page() as url:
        # Those whose volumes are kept are shown, too.
        assert {*workers} <= set(seen(url, f"{site.namespace}/{APP}")["workers"])


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The workers whose pods are others than before."""
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_an_action_of_each_kind_ends_as_it_should(site: Site, counted: Counted) -> None:
    # The words have created these.
    done = {each["spec"]["type"]: phase(each) for each in site.list("sact")}
    assert done == dict.fromkeys(("Restart", "DrainWorker", "MoveTask"), "Complete")

    worker, kubectl = f"{APP}-w-0", site.kubectl
    has_snapshots = "volumesnapshots" in kubectl("api-resources", "--output=name")
    create(kubectl, SNAPSHOT, type="SnapshotVolume", snapshotVolume={"worker": worker})
    if has_snapshots:
        ended(kubectl, SNAPSHOT, "Complete")
        restored = {"worker": worker, "snapshot": SNAPSHOT}
        act(kubectl, "back", type="RestoreVolume", restoreVolume=restored)
    else:
        missing = {"worker": worker, "snapshot": SNAPSHOT}
        create(kubectl, "back", type="RestoreVolume", restoreVolume=missing)
        for name in (SNAPSHOT, "back"):
            assert ended(kubectl, name, "Failed")["reason"] == "NoVolumeSnapshots"

    counted.begin_anew()
    act(kubectl, "begin-anew", type="Reset", reset={"to": "earliest"})
    counted.until_exact()
    site.until_settled(2)


def phase(action: dict[str, Any]) -> str:
    """How far a StreamAction has come."""
    return str(action["status"]["phase"])
