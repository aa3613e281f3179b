"""Its stores are asked, it is changed while it runs, and a new version takes over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.e2e.site import SIZE
from tests.e2e.tools import (
    COMPARE,
    NEW,
    OLD,
    PAUSE,
    QUERY,
    RESET,
    STORE,
    TOTALS,
    TWICE,
    Versions,
    answer_for,
    missing_rights,
    worker_answers,
)

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.settings import Settings
    from tests.e2e.site import Site
    from tests.e2e.tools import Reader

GROWN = "2Gi"
PATCH = ("patch", "sapp", "--type=merge")


def test_its_stores_are_asked_through_the_api_server(
    site: Site, counted: Counted, reader: Reader
) -> None:
    site.scale(2)
    site.until_settled(2)
    counted.until_exact()
    one, _ = QUERY

    assert f" {counted.sent['streams']} " in reader.run(one)
    of_all = one.replace(" streams", " --range '' ''")
    told = reader.run(f"{of_all} --limit 1000 -o json")
    rows = {row["key"]: row for row in json.loads(told)["rows"]}
    assert {key: row["value"] for key, row in rows.items()} == dict(counted.sent)
    for key in keys_of_each_worker(site, rows):
        told = answer_for(site, key)
        assert {name: told[name] for name in rows[key]} == rows[key]
    assert "has no 'nothing'" in reader.run(one.replace("streams", "nothing"), code=1)
    assert "no-such-store" in reader.run(one.replace(STORE, "no-such-store"), code=2)
    missing_rights(site, reader)

    site.patch(assignment={"standbyReplicas": 1})
    site.until(lambda: site.conditions("StandbysReady")[0][:2] == ("True", "CaughtUp"), "standbys")
    task = f"1_{rows['streams']['partition']}"
    [standby] = [
        sw["metadata"]["name"] for sw in site.list("sw") if task in sw["spec"].get("standby", ())
    ]
    path = f"/state/{STORE}/keys/streams"
    status, answer = worker_answers(site, standby, path)
    assert (status, answer["value"]) == (200, counted.sent["streams"])
    status, answer = worker_answers(site, standby, f"{path}?requireActive=true")
    assert (status, answer["error"]) == (503, "NOT_ACTIVE")
    assert f" {counted.sent['streams']} " in reader.run(f"{one} --stale")
    site.patch(assignment={"standbyReplicas": 0})


def keys_of_each_worker(site: Site, rows: dict[str, Any]) -> list[str]:
    """One key of each worker's tasks."""
    found = {
        sw["metadata"]["name"]: key
        for sw in site.list("sw")
        for key, row in rows.items()
        if f"1_{row['partition']}" in sw["spec"].get("active", ())
    }
    assert len(found) == 2
    return sorted(found.values())


def test_it_pauses_and_changes_threads_and_volumes_without_another_pod(
    site: Site, counted: Counted, reader: Reader
) -> None:
    pause, until_paused, more_threads, resume = PAUSE
    site.scale(2)
    site.until_settled(2)
    before = site.uids()
    site.patch(state={"size": GROWN})
    reader.run(pause)
    reader.run(until_paused)
    paused_at = counted.until_exact()
    with counted.under_load():
        reader.run(more_threads)
        site.until(lambda: site.threads() == dict.fromkeys(before, 2), "two threads in each")
        assert counted.read() == paused_at
        reader.run(resume)
        counted.until_more()
    counted.until_exact()
    claims = {f"{name}-state" for name in before}
    if site.lets_claims_grow(min(claims)):
        site.until(lambda: site.sizes(claims) == {GROWN}, f"volumes of {GROWN}")
    else:
        site.until(lambda: site.names_too_small(claims), "claims that cannot grow to be named")
        site.patch(state={"size": SIZE})
    site.until_settled(2)
    assert site.uids() == before


def test_a_new_version_is_compared_and_promoted_and_reset(
    site: Site, settings: Settings, reader: Reader
) -> None:
    save, diff, promote = COMPARE
    [reset] = RESET
    with Versions(site, settings.bootstrap) as versions:
        versions.apply()
        site.kubectl(*PATCH, NEW, '--patch={"spec":{"paused":true}}')
        versions.wait(NEW, "Paused")
        versions.feed()
        versions.until_written(OLD, TOTALS[OLD])
        at_once = promote.replace("--wait 300", "")
        assert f"{NEW} is paused, with 6 records to read" in reader.run(at_once, code=3)
        assert (versions.written(NEW), versions.spec(OLD).get("suspend", False)) == ({}, False)
        site.kubectl(*PATCH, NEW, '--patch={"spec":{"paused":false}}')

        reader.run(save)
        assert "different   'bob': 2 -> 3" in reader.run(diff, code=1)
        assert f"{OLD} is suspended" in reader.run(promote)
        assert versions.has_read_everything(OLD)
        versions.feed()
        versions.until_written(NEW, TWICE)
        assert versions.written(OLD) == TOTALS[OLD]

        count = versions.records(NEW)
        with versions.stranger(NEW):
            process = reader.start(reset)
            site.until(lambda: versions.fails_for(NEW) == "GroupInUseError", "it to be named")
            assert versions.records(NEW) == count
        assert f"{NEW} is reset, and begins at these offsets" in reader.finish(process)
        versions.wait(NEW, "Ready")
        site.until(lambda: versions.has_read_everything(NEW), "the orders to be read again")
        assert versions.written(NEW) == TWICE
        assert versions.records(NEW) >= count + len(TWICE)
