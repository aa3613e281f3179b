"""Every operator has its room on every floor: a module of its family's name."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from headwater.dsl import writing
from headwater.model.operators import FAMILIES
from headwater.model.operators.base import OldValues, Operator, TableOperator
from headwater.model.operators.join import TableJoinSide
from headwater.model.operators.stateless import DropNullKey
from headwater.spark.frames import choose as _choose  # noqa: F401 - loads the rules
from headwater.spark.frames.flow import computed

if TYPE_CHECKING:
    from types import ModuleType


def module(package: str, family: str) -> ModuleType:
    return importlib.import_module(f"headwater.{package}.{family}")


def operators(family: str) -> list[type[Operator]]:
    """All operators of a family."""
    defined = module("model.operators", family)
    return [
        found
        for found in vars(defined).values()
        if inspect.isclass(found)
        and issubclass(found, Operator)
        and found.__module__ == defined.__name__
    ]


EVERY = [
    pytest.param(family, operator, id=f"{family}-{operator.__name__}")
    for family in FAMILIES
    for operator in operators(family)
]


def test_every_family_has_operators() -> None:
    assert [family for family in FAMILIES if not operators(family)] == []


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_the_dsl_draws_an_operator_in_the_module_of_its_family(
    family: str, operator: type[Operator]
) -> None:
    # A repartition brings its filter along when it is written, and a join of tables its sides.
    draws = writing if operator in {DropNullKey, TableJoinSide} else module("dsl", family)

    # What a module imports it uses, or the linter objects.
    assert vars(draws).get(operator.__name__) is operator


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_what_has_old_values_says_where_they_come_from(
    family: str, operator: type[Operator]
) -> None:
    sends = "send_old" in {field.name for field in fields(operator)}  # type: ignore[arg-type]

    assert issubclass(operator, TableOperator) == sends
    assert not sends or operator.old_values in OldValues


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_spark_has_a_rule_for_an_operator_in_the_module_of_its_family(
    family: str, operator: type[Operator]
) -> None:
    assert computed.dispatch(operator) is not computed.dispatch(object)
    assert vars(module("spark.frames.rules", family)).get(operator.__name__) is operator


def test_an_operator_that_spark_has_no_rule_for_is_noticed() -> None:
    class Unknown(Operator):
        """Of no family."""

    assert computed.dispatch(Unknown) is computed.dispatch(object)
