"""What the tests of the data pipeline share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext

from headwater.spark import session as start_session
from headwater.spark.cluster import SparkCluster
from tests.oracle.conftest import oracle
from tests.support.backfills import WordCount
from tests.support.counting import PREFIX_VARIABLE
from tests.support.thread_rig import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["oracle"]


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


@pytest.fixture
def word_count(topics: Topics, unique_name: str, monkeypatch: pytest.MonkeyPatch) -> WordCount:
    """The topics of a word count; processes that are started find them by the environment."""
    monkeypatch.setenv(PREFIX_VARIABLE, unique_name)
    return WordCount(topics, unique_name)


@pytest.fixture(autouse=True)
def only_the_shared_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts Spark in this process does so by ``spark_session``.

    The JVM stays until the end: one that was started otherwise lacks the connector, for every test
    that comes after.
    """
    before = SparkContext._gateway
    yield
    is_shared = "spark_session" in request.fixturenames
    assert is_shared or SparkContext._gateway is before, "take the fixture `spark` or `session`"


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """One Spark on this machine for all tests that need no other."""
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    running = start_session("local[2]", settings, with_connector=True)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def spark(spark_session: SparkSession) -> SparkCluster:
    """The same for tasks."""
    return SparkCluster("local[2]", {})


@pytest.fixture(scope="session")
def session(spark_session: SparkSession) -> Any:
    """The same for DataFrames."""
    return spark_session


@pytest.fixture
def quick(spark_session: SparkSession) -> Iterator[Any]:
    """The same, but it does not translate each plan into Java: for one use that is not worth it."""
    name = "spark.sql.codegen.wholeStage"
    spark_session.conf.set(name, "false")
    yield spark_session
    spark_session.conf.unset(name)
