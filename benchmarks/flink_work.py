"""Works of Flink SQL through PyFlink, run by the Python of its own virtual environment.

    python flink_work.py HOST:PORT INPUT OUTPUT RECORDS stateless|count JAR

One parallel instance in the mini-cluster of one JVM, without checkpoints; every update of a count
is written, as eight bytes. All work is SQL: no Python runs for a record. JAR is the SQL connector
of Kafka. Time and CPU time run from when the job runs. Prints one line of JSON.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

from peer_clock import Clock

_SOURCE = """
create table lines (k string, v string) with (
    'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'topic' = '{source}',
    'properties.group.id' = 'flink-bench', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset',
    'key.format' = 'raw', 'key.fields' = 'k',
    'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')"""
_KAFKA = """
create table written (k string, v string) with (
    'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'topic' = '{sink}',
    'properties.linger.ms' = '20', 'key.format' = 'raw', 'key.fields' = 'k',
    'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')"""
_UPSERT = """
create table written (k string, n bigint, primary key (k) not enforced) with (
    'connector' = 'upsert-kafka', 'properties.bootstrap.servers' = '{servers}',
    'topic' = '{sink}', 'properties.linger.ms' = '20',
    'key.format' = 'raw', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')"""
_WORKS = {
    "stateless": (
        _KAFKA,
        "insert into written select k, upper(v) from lines where not k like '%0'",
    ),
    "count": (_UPSERT, "insert into written select k, count(*) from lines group by k"),
}
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """CPU time of this process and of all below it, so far."""
    found = 0.0
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        stats[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in stats.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    for pid in ours:
        found += stats[pid][1] / _TICKS
    return found


def _runs(job: Any) -> bool:
    """Whether a job runs, or has run; before, it is planned, and its tasks are not there yet."""
    return job.get_job_status().result().name in ("RUNNING", "FINISHED")


def main(servers: str, source: str, sink: str, records: int, work: str, jar: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = tables.get_config()
    settings.set("pipeline.jars", Path(jar).as_uri())
    settings.set("parallelism.default", "1")
    made, insert = _WORKS[work]
    for text in (_SOURCE, made):
        tables.execute_sql(text.format(servers=servers, source=source, sink=sink))
    clock = Clock(cpu_s)
    submitted = tables.execute_sql(insert)
    job = submitted.get_job_client()
    while not _runs(job):
        time.sleep(0.02)
    clock.start()
    submitted.wait()
    clock.report(records)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), *sys.argv[5:])
