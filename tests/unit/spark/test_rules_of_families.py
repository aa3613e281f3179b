"""Every operator has a rule: what it becomes as a DataFrame, or the sentence that refuses it."""

from __future__ import annotations

from importlib import import_module

import pytest

from headwater.model.operators import FAMILIES
from headwater.model.operators.base import Operator
from headwater.spark.frames import choose as _choose  # noqa: F401 - loads the rules
from headwater.spark.frames.flow import computed


def operators(family: str) -> list[type[Operator]]:
    module = import_module(f"headwater.model.operators.{family}")
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Operator) and one.__module__ == module.__name__
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_operator_has_a_rule_in_the_module_of_its_family(family: str) -> None:
    without = computed.dispatch(object)
    rules = {one.__name__: computed.dispatch(one) for one in operators(family)}

    assert rules
    assert [name for name, rule in rules.items() if rule is without] == []
    assert rules.keys() <= vars(import_module(f"headwater.spark.frames.rules.{family}")).keys()


def test_an_operator_without_a_rule_is_found() -> None:
    class Unknown(Operator):
        pass

    assert computed.dispatch(Unknown) is computed.dispatch(object)
