"""Options of metrics: what they may be, and what is said of what they may not be."""

from __future__ import annotations

import pytest

from headwater.config import StreamsConfig
from headwater.errors import ConfigError
from headwater.metrics_settings import MetricsSettings, RecordingLevel


def parse(**options: object) -> MetricsSettings:
    return StreamsConfig.parse({"application.id": "app", **options}).metrics


def test_the_defaults_are_kafka_streams() -> None:
    assert parse() == MetricsSettings(
        level=RecordingLevel.INFO, samples=2, window_ms=30_000, otlp_endpoint=""
    )


def test_options_are_read_however_they_are_spelt() -> None:
    found = StreamsConfig.parse(
        {
            "application.id": "app",
            "metrics.recording.level": "debug",
            "metrics_num_samples": "3",
            "metrics.sample.window.ms": 1_000,
            "metrics.otlp.endpoint": "http://collector:4318/",
            "metrics.otlp.interval.ms": 5_000,
        }
    ).metrics

    assert found == MetricsSettings(
        level=RecordingLevel.DEBUG,
        samples=3,
        window_ms=1_000,
        otlp_endpoint="http://collector:4318",
        otlp_interval_ms=5_000,
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("metrics.recording.level", "DEBG", "expected OFF, INFO, DEBUG, TRACE; did you mean DEBUG"),
        ("metrics.recording.level", 1, "expected OFF, INFO"),
        ("metrics.num.samples", 0, "at least 1"),
        ("metrics.sample.window.ms", "soon", "at least 1"),
        ("metrics.otlp.endpoint", "collector:4318", "such as http://collector:4318"),
        ("metrics.otlp.endpoint", "http://", "such as http://collector:4318"),
        ("metrics.otlp.interval.ms", 1, "at least 100"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        parse(**{name: value})

    assert said in str(refused.value)


def test_an_option_given_twice_or_misspelt_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        parse(**{"metrics.recording.level": "INFO", "metrics_recording_level": "INFO"})
    with pytest.raises(ConfigError, match=r"did you mean metrics\.recording\.level"):
        parse(**{"metrics.recordng.level": "INFO"})


def test_a_level_records_what_lies_below_it() -> None:
    levels = list(RecordingLevel)

    assert [[a.records(b) for b in levels[1:]] for a in levels] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize("name", ["metric.reporters", "enable.metrics.push"])
def test_what_java_has_to_push_metrics_is_refused_with_what_takes_its_place(name: str) -> None:
    with pytest.raises(ConfigError, match=r"has no effect here.*metrics\.otlp\.endpoint"):
        parse(**{name: "x"})
