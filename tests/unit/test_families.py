"""Every operator has its room on every floor: a module of its family's name."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.golden.test_describe import CASES, load_request
from tests.oracle.generate import generate
from tests.oracle.translate import Drawing

from headwater.dsl import writing
from headwater.dsl.rewrite import self_joins
from headwater.model.nodes import ProcessorNode
from headwater.model.operators import FAMILIES
from headwater.model.operators.base import OldValues, Operator, TableOperator
from headwater.model.operators.join import TableJoinSide
from headwater.model.operators.stateless import DropNullKey
from headwater.model.operators.stream_join import StreamSelfJoin
from headwater.model.operators.user import UserFixedKeyProcessor, UserProcessor
from headwater.processor import pipeline as _pipeline  # noqa: F401 - loads the compilers
from headwater.processor.compiling import compile_operator
from headwater.processor.getters import derived_getter
from headwater.spark.frames import choose as _choose  # noqa: F401 - loads the rules
from headwater.spark.frames.flow import computed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from headwater.model.topology import Topology


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
    # A repartition brings its filter along when it is written, and a join of tables its sides;
    # an optimization makes a join of a stream with itself of any other.
    brought_along = {DropNullKey: writing, TableJoinSide: writing, StreamSelfJoin: self_joins}
    draws = brought_along.get(operator) or module("dsl", family)

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
def test_an_operator_is_compiled_in_the_module_of_its_family(
    family: str, operator: type[Operator]
) -> None:
    compiler = compile_operator.dispatch(operator)

    assert compiler.__module__ == module("processor.operators", family).__name__


@cache
def described() -> frozenset[type[Operator]]:
    """The operators of all topologies whose description was recorded from Java."""
    return operators_of(Drawing(load_request(case)).topology() for case in CASES)


@cache
def generated() -> frozenset[type[Operator]]:
    """The operators of random topologies, whose records are compared with Java's."""
    return operators_of(Drawing(generate(Random(f"{n}"))).topology() for n in range(120))


def operators_of(topologies: Iterable[Topology]) -> frozenset[type[Operator]]:
    return frozenset(
        type(node.operator)
        for topology in topologies
        for node in topology.nodes.values()
        if isinstance(node, ProcessorNode)
    )


OUR_OWN = ("asynchronous",)
"""Families that Kafka Streams does not have; ``tests/unit/processor`` compares them with others."""


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_an_operator_is_compared_with_java_s(family: str, operator: type[Operator]) -> None:
    if family in OUR_OWN:
        assert operator not in described() | generated()
        return

    assert operator in described()
    # What processors of users may do is compared case by case, in tests/oracle/test_processors.py.
    assert operator in generated() | {UserProcessor, UserFixedKeyProcessor}


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_the_values_of_a_table_that_may_lack_a_store_can_be_found(
    family: str, operator: type[Operator]
) -> None:
    if not issubclass(operator, TableOperator):
        return
    getter = derived_getter.dispatch(operator)

    if operator.old_values is OldValues.FROM_STORE_OR_PARENT:
        assert getter.__module__ == module("processor.operators", family).__name__


@pytest.mark.parametrize(("family", "operator"), EVERY)
def test_spark_has_a_rule_for_an_operator_in_the_module_of_its_family(
    family: str, operator: type[Operator]
) -> None:
    assert computed.dispatch(operator) is not computed.dispatch(object)
    assert vars(module("spark.frames.rules", family)).get(operator.__name__) is operator


def test_an_operator_without_a_room_is_noticed() -> None:
    class Unknown(Operator):
        """Of no family."""

    assert computed.dispatch(Unknown) is computed.dispatch(object)
    assert compile_operator.dispatch(Unknown) is compile_operator.dispatch(object)
    assert Unknown not in described() | generated()
