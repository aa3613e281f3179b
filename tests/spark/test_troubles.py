"""What an error of py4j says of the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from headwater.spark.troubles import is_gone, troubles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_error_out_of_a_living_jvm_does_not_say_that_it_is_gone(session: SparkSession) -> None:
    nothing = session.sparkContext._jvm.java.util.Optional.empty()

    with pytest.raises(troubles()) as raised:
        nothing.get()

    assert isinstance(raised.value, Py4JJavaError)
    assert not is_gone(raised.value)


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError()])
def test_a_connection_that_breaks_says_that_it_is_gone(error: Exception) -> None:
    assert is_gone(error)
