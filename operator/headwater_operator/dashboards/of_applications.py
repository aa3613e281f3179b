"""Alerts about applications, from what their workers and Spark's drivers tell."""

from __future__ import annotations

from typing import Final

from headwater.model import metrics
from headwater_operator.dashboards.alerts import Alert, Condition, Severity
from headwater_operator.dashboards.application import APPLICATION
from headwater_operator.dashboards.choosing import APP, CLIENT, INCREASE, MAX, MIN, TASK, shown
from headwater_operator.dashboards.fleet import FLEET
from headwater_operator.dashboards.panels import Function, Quotient
from headwater_operator.dashboards.spark import SPARK
from headwater_operator.dashboards.state import STATE

_WHICH: Final = "{{ $labels.namespace }}/{{ $labels.application_id }}"
"""Namespaces may have applications of one id."""
_LAG: Final = shown(metrics.RECORDS_LAG, APP)
_PROCESSED: Final = shown(metrics.THREAD_PROCESS, APP)
_IS_PAUSED: Final = Condition(query=shown(metrics.PAUSED, APP, MAX), above=0)

OF_APPLICATIONS: Final = (
    Alert(
        name="HeadwaterLagGrows",
        when=Condition(query=_LAG, above=1_000),
        also=(Condition(query=shown(metrics.RECORDS_LAG, APP, function=Function.DERIV), above=0),),
        unless=(_IS_PAUSED,),
        lasting="15m",
        window="15m",
        summary=f"{_WHICH} is {{{{ $value | humanize }}}} records behind, and falls behind further",
        description="More is written to its inputs than it processes.",
        dashboard=APPLICATION,
        panel="Input records not yet processed",
    ),
    Alert(
        name="HeadwaterNothingProcessed",
        when=Condition(query=_LAG, above=0),
        unless=(Condition(query=_PROCESSED, above=0), _IS_PAUSED),
        lasting="10m",
        window="5m",
        severity=Severity.CRITICAL,
        summary=f"{_WHICH} processes nothing, with {{{{ $value | humanize }}}} records waiting",
        description="Its workers run and do not get on: a function that does not return, or a "
        "broker that does not answer.",
        dashboard=FLEET,
        panel="Records processed",
    ),
    Alert(
        name="HeadwaterRestoreStuck",
        when=Condition(query=shown(metrics.RESTORE_REMAINING_RECORDS, TASK), above=0),
        unless=(Condition(query=shown(metrics.TASK_RESTORED, TASK), above=0),),
        lasting="10m",
        window="5m",
        severity=Severity.CRITICAL,
        summary=f"{_WHICH}: the restore of task {{{{ $labels.task_id }}}} does not progress",
        description="{{ $value | humanize }} changelog records are left, and none is applied. The "
        "task processes nothing meanwhile.",
        dashboard=STATE,
        panel="Records still to restore",
    ),
    Alert(
        name="HeadwaterStandbysBehind",
        when=Condition(
            query=Quotient(
                numerator=shown(metrics.STANDBY_CAUGHT_UP_TASKS, APP),
                denominator=shown(metrics.STANDBY_UPDATING_TASKS, APP),
            ),
            below=1,
        ),
        lasting="30m",
        summary=f"{_WHICH}: {{{{ $value | humanizePercentage }}}} of the standbys have caught up",
        description="If a worker is lost now, tasks whose standby is behind are restored before "
        "they go on.",
        dashboard=STATE,
        panel="Records a copy is behind",
    ),
    Alert(
        name="HeadwaterDiskNearlyFull",
        when=Condition(
            query=Quotient(
                numerator=shown(metrics.STATE_DIR_AVAILABLE, CLIENT, MIN),
                denominator=shown(metrics.STATE_DIR_SIZE, CLIENT, MAX),
            ),
            below=0.1,
        ),
        lasting="5m",
        summary=f"{_WHICH}: {{{{ $value | humanizePercentage }}}} of the disk of worker "
        "{{ $labels.client_id }} are available",
        description="When it is full, the application stops. Raise spec.state.size, or add "
        "workers.",
        dashboard=STATE,
        panel="Disk still available",
    ),
    Alert(
        name="HeadwaterDeadLetters",
        when=Condition(query=shown(metrics.DEAD_LETTERS, APP, function=INCREASE), above=0),
        lasting="1m",
        summary=f"{_WHICH} has sent {{{{ $value | humanize }}}} records to its dead-letter topic",
        description="An exception handler sent them; their headers name the error, the topic, the "
        "partition and the offset.",
        dashboard=APPLICATION,
        panel="Dead letters",
    ),
    Alert(
        name="HeadwaterRecordsDropped",
        when=Condition(
            query=Quotient(numerator=shown(metrics.DROPPED_RECORDS, APP), denominator=_PROCESSED),
            above=0.01,
        ),
        lasting="15m",
        window="15m",
        summary=f"{_WHICH} drops {{{{ $value | humanizePercentage }}}} of its records",
        description="They have no key, come later than their windows allow, or a handler lets "
        "them go. The worker's log names them.",
        dashboard=APPLICATION,
        panel="Records dropped",
    ),
    Alert(
        name="HeadwaterCommitsFail",
        when=Condition(query=shown(metrics.FAILED_COMMITS, APP, function=INCREASE), above=3),
        lasting="5m",
        summary=f"{_WHICH}: {{{{ $value | humanize }}}} commits have failed in ten minutes",
        description="Its tasks went back to their last commit each time, and process the same "
        "records again.",
        dashboard=APPLICATION,
        panel="Commits that failed",
    ),
    Alert(
        name="HeadwaterStreamThreadsReplaced",
        when=Condition(query=shown(metrics.FAILED_STREAM_THREADS, APP, function=INCREASE), above=3),
        lasting="5m",
        summary=f"{_WHICH}: {{{{ $value | humanize }}}} StreamThreads were replaced in ten minutes",
        description="Their processes ended: an error, a kill for want of memory, a function that "
        "did not return.",
        dashboard=FLEET,
        panel="StreamThreads replaced",
    ),
    Alert(
        name="HeadwaterMicroBatchStuck",
        when=Condition(query=shown(metrics.SPARK_BUSY_SECONDS, APP, MAX), above=600),
        lasting="5m",
        severity=Severity.CRITICAL,
        summary=f"{_WHICH}: a micro-batch takes {{{{ $value | humanizeDuration }}}} so far",
        description="Spark does not get on with it. Look at the driver's log and at its executors.",
        dashboard=SPARK,
        panel="Age of the micro-batch under way",
    ),
)
"""By what their labels name: an application, a task of it, or one of its workers."""
