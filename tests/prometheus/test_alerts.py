"""Each alert of the chart fires when it should and only then: promtool says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from tests.golden.alerts import ALERTS
from tests.golden.chart import CHART
from tests.support import pages
from tests.support.prometheus import promtool

from headwater_operator.dashboards import DASHBOARDS
from headwater_operator.dashboards.of_operator import NAMESPACE, SERVICE

if TYPE_CHECKING:
    from pathlib import Path

    from headwater_operator.dashboards.alerts import Alert

pytestmark = pytest.mark.processes

MINUTES: Final = 60
"""How long each series lasts; then the alert is looked at."""
SYSTEM: Final = 'namespace="system", service="metrics"'
APP: Final = 'application_id="orders", namespace="shop"'
ROUNDS: Final = "headwater_operator_reconcile_duration_seconds_count"
PROBLEM: Final = "headwater_operator_streamapp_problem"
IDLE: Final = "0x60"
BUSY: Final = "0+600x60"

Series = dict[str, str]


def problem(app: str, condition: str, reason: str) -> str:
    """The series of a StreamApp that has a problem."""
    return (
        f'{PROBLEM}{{{SYSTEM}, streamapp_namespace="shop", streamapp="{app}", '
        f'condition="{condition}", reason="{reason}"}}'
    )


def not_ready(app: str) -> str:
    """The series of a StreamApp of which workers are not ready."""
    name = "headwater_operator_streamapp_workers_not_ready"
    return f'{name}{{{SYSTEM}, streamapp_namespace="shop", streamapp="{app}"}}'


def autoscaling(app: str, reason: str) -> str:
    """The series of a StreamApp with ``spec.autoscaling``."""
    name = "headwater_operator_streamapp_autoscaling"
    where = f'{SYSTEM}, streamapp_namespace="shop", streamapp="{app}"'
    return f'{name}{{{where}, mode="Auto", reason="{reason}"}}'


FIRES: Final[dict[str, list[Series]]] = {
    "HeadwaterNoOperatorLeads": [
        {},
        {f'headwater_operator_leading{{{SYSTEM}, pod="a"}}': "0x60"},
        {f'headwater_operator_leading{{{SYSTEM}, pod="a"}}': "1x50 0x10"},
        {'headwater_operator_leading{namespace="other", service="metrics"}': "1x60"},
    ],
    "HeadwaterStreamAppDegraded": [
        {problem("orders", "Degraded", "PodRefused"): "_x40 1x20"},
        {
            problem("orders", "Degraded", "PodRefused"): "_x40 1x12",
            problem("orders", "Degraded", "DiskFullError"): "_x52 1x8",
        },
        {
            problem("orders", "Degraded", "PodRefused"): "1x60",
            problem("carts", "Stalled", "DiskFullError"): "1x60",
        },
    ],
    "HeadwaterApplicationHalted": [{problem("orders", "Stalled", "DiskFullError"): "_x50 1x10"}],
    "HeadwaterWorkersNotReady": [{not_ready("orders"): "1x60"}],
    "HeadwaterAutoscalingBlind": [
        {autoscaling("orders", "Right"): "1x40", autoscaling("orders", "LagUnknown"): "_x41 1x19"}
    ],
    "HeadwaterRoundsFail": [{f'{ROUNDS}{{{SYSTEM}, result="error"}}': "0+1x60"}],
    "HeadwaterNamespaceClosed": [
        {f"headwater_operator_closed_namespaces{{{SYSTEM}}}": "0x40 1x20"}
    ],
    "HeadwaterOperatorLate": [{f"headwater_operator_queue_late_seconds{{{SYSTEM}}}": "31x60"}],
    "HeadwaterLagGrows": [
        {f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "0+100x60"},
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "0+100x60",
            f'stream_task_records_lag{{{APP}, task_id="0_1"}}': "3000-40x60",
        },
    ],
    "HeadwaterNothingProcessed": [
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "7x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': "0+60x40 2400x20",
        },
        {f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "7x60"},
    ],
    "HeadwaterRestoreStuck": [
        {
            f'stream_task_restore_remaining_records{{{APP}, task_id="0_0"}}': "9000-200x20 5000x40",
            f'stream_task_restore_total{{{APP}, task_id="0_0"}}': "0+200x20 4000x40",
            f'stream_task_restore_remaining_records{{{APP}, task_id="0_1"}}': "90000-200x60",
            f'stream_task_restore_total{{{APP}, task_id="0_1"}}': "0+200x60",
        }
    ],
    "HeadwaterStandbysBehind": [
        {
            f'stream_state_updater_standby_updating_tasks{{{APP}, client_id="w-0"}}': "3x60",
            f'stream_state_updater_standby_caught_up_tasks{{{APP}, client_id="w-0"}}': "2x60",
        }
    ],
    "HeadwaterDiskNearlyFull": [
        {
            f'stream_state_dir_size_bytes{{{APP}, client_id="w-0"}}': "1e10x60",
            f'stream_state_dir_available_bytes{{{APP}, client_id="w-0"}}': "9e9-1.5e8x60",
            f'stream_state_dir_size_bytes{{{APP}, client_id="w-1"}}': "1e10x60",
            f'stream_state_dir_available_bytes{{{APP}, client_id="w-1"}}': "9e9x60",
        }
    ],
    "HeadwaterDeadLetters": [
        {f'stream_task_dead_letters_total{{{APP}, task_id="0_0"}}': "0x55 1x5"}
    ],
    "HeadwaterRecordsDropped": [
        {
            f'stream_task_dropped_records_total{{{APP}, task_id="0_0"}}': "0+12x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': BUSY,
        }
    ],
    "HeadwaterCommitsFail": [
        {f'stream_thread_failed_commits_total{{{APP}, thread_id="t"}}': "0+1x60"}
    ],
    "HeadwaterStreamThreadsReplaced": [
        {f'stream_failed_stream_threads_total{{{APP}, client_id="w-0"}}': "0+1x60"}
    ],
    "HeadwaterMicroBatchStuck": [{f"headwater_spark_busy_seconds{{{APP}}}": "0+60x60"}],
}
"""By the name of an alert: series by which exactly one of it fires."""
RESTS: Final[dict[str, list[Series]]] = {
    "HeadwaterNoOperatorLeads": [
        {
            f'headwater_operator_leading{{{SYSTEM}, pod="a"}}': "1x57 0x3",
            f'headwater_operator_leading{{{SYSTEM}, pod="b"}}': "0x57 1x3",
        },
        {f'headwater_operator_leading{{{SYSTEM}, pod="a"}}': "1x57 0x3"},
    ],
    "HeadwaterStreamAppDegraded": [
        {problem("orders", "Degraded", "PodRefused"): "_x54 1x6"},
        {problem("orders", "Stalled", "DiskFullError"): "1x60"},
    ],
    "HeadwaterApplicationHalted": [{problem("orders", "Degraded", "TamperedWorker"): "1x60"}],
    "HeadwaterWorkersNotReady": [
        {not_ready("orders"): "_x50 1x10"},
        {not_ready("orders"): "1x50"},
    ],
    "HeadwaterAutoscalingBlind": [
        {autoscaling("orders", "Unsettled"): "1x60"},
        {autoscaling("orders", "LagUnknown"): "_x55 1x5"},
    ],
    "HeadwaterRoundsFail": [
        {
            f'{ROUNDS}{{{SYSTEM}, result="acted"}}': "0+1x60",
            f'{ROUNDS}{{{SYSTEM}, result="error"}}': "0+1x20 20x40",
        }
    ],
    "HeadwaterNamespaceClosed": [{f"headwater_operator_closed_namespaces{{{SYSTEM}}}": "1x50 0x9"}],
    "HeadwaterOperatorLate": [{f"headwater_operator_queue_late_seconds{{{SYSTEM}}}": "29x60"}],
    "HeadwaterLagGrows": [
        {f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "9000-100x60"},
        {f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "0+10x60"},
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "0+100x60",
            f'stream_paused{{{APP}, client_id="w-0"}}': "1x60",
        },
    ],
    "HeadwaterNothingProcessed": [
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "7x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': "0+1x60",
        },
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "0x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': "9x60",
        },
        {
            f'stream_task_records_lag{{{APP}, task_id="0_0"}}': "7x60",
            f'stream_paused{{{APP}, client_id="w-0"}}': "1x60",
        },
    ],
    "HeadwaterRestoreStuck": [
        {
            f'stream_task_restore_remaining_records{{{APP}, task_id="0_0"}}': "90000-200x60",
            f'stream_task_restore_total{{{APP}, task_id="0_0"}}': "0+200x60",
        },
        {f'stream_task_restore_remaining_records{{{APP}, task_id="0_0"}}': "90x50 0x10"},
    ],
    "HeadwaterStandbysBehind": [
        {
            f'stream_state_updater_standby_updating_tasks{{{APP}, client_id="w-0"}}': "2x60",
            f'stream_state_updater_standby_caught_up_tasks{{{APP}, client_id="w-0"}}': "2x60",
        },
        {
            f'stream_state_updater_standby_updating_tasks{{{APP}, client_id="w-0"}}': "0x60",
            f'stream_state_updater_standby_caught_up_tasks{{{APP}, client_id="w-0"}}': "0x60",
        },
        {
            f'stream_state_updater_standby_updating_tasks{{{APP}, client_id="w-0"}}': "2x60",
            f'stream_state_updater_standby_caught_up_tasks{{{APP}, client_id="w-0"}}': "0x50 2x10",
        },
    ],
    "HeadwaterDiskNearlyFull": [
        {
            f'stream_state_dir_size_bytes{{{APP}, client_id="w-0"}}': "1e10x60",
            f'stream_state_dir_available_bytes{{{APP}, client_id="w-0"}}': "1.1e9x60",
        }
    ],
    "HeadwaterDeadLetters": [
        {f'stream_task_dead_letters_total{{{APP}, task_id="0_0"}}': "0x30 1x30"},
        {f'stream_task_dead_letters_total{{{APP}, task_id="0_0"}}': "7x60"},
    ],
    "HeadwaterRecordsDropped": [
        {
            f'stream_task_dropped_records_total{{{APP}, task_id="0_0"}}': "0+5x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': BUSY,
        },
        {
            f'stream_task_dropped_records_total{{{APP}, task_id="0_0"}}': "3x60",
            f'stream_thread_process_total{{{APP}, thread_id="t"}}': IDLE,
        },
    ],
    "HeadwaterCommitsFail": [
        {f'stream_thread_failed_commits_total{{{APP}, thread_id="t"}}': "0x50 2x10"}
    ],
    "HeadwaterStreamThreadsReplaced": [
        {f'stream_failed_stream_threads_total{{{APP}, client_id="w-0"}}': "0x50 1x10"}
    ],
    "HeadwaterMicroBatchStuck": [{f"headwater_spark_busy_seconds{{{APP}}}": "5x60"}],
}
"""Series by which none fires."""


def rules() -> dict[str, Any]:
    """The file of the chart as a release of it has it."""
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    return {
        "groups": [
            {
                "name": name,
                "rules": [
                    {
                        "alert": it["alert"],
                        "expr": it["expr"].replace(NAMESPACE, "system").replace(SERVICE, "metrics"),
                        "for": it["for"],
                        "labels": {"severity": it["severity"]},
                        "annotations": {
                            "summary": it["summary"],
                            "description": it["description"],
                            "runbook_url": f"runbook#{it['section']}",
                            "dashboard_url": it["panel"],
                        },
                    }
                    for it in alerts
                ],
            }
            for name, alerts in groups.items()
        ]
    }


def firing(alert: str, series: Series, count: int) -> dict[str, Any]:
    """A test of promtool: how many of an alert fire in the end."""
    state = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    return {
        "name": f"{alert}: {series}",
        "interval": "1m",
        "input_series": [{"series": it, "values": values} for it, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"count({state}) or vector(0)",
                "eval_time": f"{MINUTES - 1}m",
                "exp_samples": [{"labels": "{}", "value": count}],
            }
        ],
    }


def test_every_alert_has_series_by_which_it_fires_and_by_which_it_does_not() -> None:
    names = [alert.name for alert in ALERTS]

    assert list(FIRES) == list(RESTS) == names


def test_a_summary_names_whatever_the_labels_of_its_alert_name() -> None:
    for alert in ALERTS:
        named = set(re.findall(r"\$labels\.(\w+)", alert.summary))

        assert named == set(alert.when.query.by), alert.name


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules()))
    cases = [(FIRES, 1), (RESTS, 0)]
    told = {
        "rule_files": [str(path)],
        "evaluation_interval": "1m",
        "tests": [
            firing(alert, series, count)
            for of, count in cases
            for alert, given in of.items()
            for series in given
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(told, width=10_000))

    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", "rules", str(path))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yaml"))


def test_a_second_degraded_streamapp_has_an_alert_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules()))
    series = {
        problem("orders", "Degraded", "PodRefused"): "1x60",
        problem("carts", "Degraded", "PodRefused"): "_x40 1x20",
    }
    case = firing("HeadwaterStreamAppDegraded", series, 2)
    told = {"rule_files": [str(path)], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(told))

    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yaml"))


def test_what_people_read_names_the_application_and_the_number(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules()))
    case = firing("HeadwaterDiskNearlyFull", FIRES["HeadwaterDiskNearlyFull"][0], 1)
    case["alert_rule_test"] = [
        {
            "alertname": "HeadwaterDiskNearlyFull",
            "eval_time": "59m",
            "exp_alerts": [
                {
                    "exp_labels": {
                        "severity": "warning",
                        "namespace": "shop",
                        "application_id": "orders",
                        "client_id": "w-0",
                    },
                    "exp_annotations": {
                        "summary": "shop/orders: 1.5% of the disk of worker w-0 are available",
                        "description": "When it is full, the application stops. Raise "
                        "spec.state.size, or add workers.",
                        "runbook_url": "runbook#headwaterdisknearlyfull",
                        "dashboard_url": "/d/headwater-state?viewPanel=10&var-namespace=shop"
                        "&var-application_id=orders&var-client_id=w-0",
                    },
                }
            ],
        }
    ]
    told = {"rule_files": [str(path)], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(told))

    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yaml"))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_leads_to_its_section_and_from_there_to_its_panel(alert: Alert) -> None:
    page = (pages.ROOT / "docs" / "runbook.md").read_text()
    sections = dict(re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^##|\Z)", page))
    panel = f"**{alert.dashboard.title.removeprefix('Headwater / ')} / {alert.panel}**"

    assert alert.dashboard in DASHBOARDS
    assert panel in sections[alert.name]
    for part in ("What it means", "What to do"):
        assert part in sections[alert.name]
