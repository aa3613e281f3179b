"""JSON: plain values have the bytes of Python's own ``json``, whoever writes them; typed values."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import subprocess
import sys
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater import ConfigError, Serdes
from headwater.processor.failures import has_wrong_type
from headwater.serde import jsontext

if TYPE_CHECKING:
    from collections.abc import Callable


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Word(StrEnum):
    ONE = "one"


class Text(str):
    __slots__ = ()


class Place(NamedTuple):
    x: float
    y: float


@dataclass
class Item:
    name: str
    price: float


REFERENCE = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)
ODD = st.sampled_from([
    Colour.RED, Size.BIG, Word.ONE, Text("t"), Place(1.0, 2e-9), uuid.UUID(int=5), Decimal("1.5"),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.date(2020, 1, 1), Item("a", 1.0),
    b"bytes", bytearray(b"b"), {1, 2}, frozenset(), 1j, 2**64, -(2**63) - 1, 2**200, math.nan,
    math.inf, 1e-5, -1e-7, 1.5e-05, 5e-324, 1e16, 1e22, 1e300, 0.0001, -0.0, "\ud800", "\x7f",
    "\u2028", "2e-3", ":1e-3", "0.00001", "null", (), (1, (2,)), OrderedDict(b=1, a=2),
    {1: 2}, {None: 1}, {True: 1, "True": 2}, {1.5: 1}, {"\ue000": 1, "\U00010000": 2, "z": 3},
    {"a": {Text("k"): 1}}, {Size.BIG: 1}, {Word.ONE: 1}, [None, math.nan],
])  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.uuids().map(str)
VALUES = st.recursive(
    LEAVES | ODD,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


def outcome(act: Callable[[Any], Any], given: Any) -> Any:
    """What comes out: a result (a number by its text: 1 is not 1.0), or a kind of error."""
    try:
        found = act(given)
    except Exception as error:  # noqa: BLE001 - it is compared
        return [kind for kind in (TypeError, RecursionError, ValueError) if isinstance(error, kind)]
    return found if isinstance(found, bytes) else repr(found)


@given(VALUES)
@example({"a": None, "b": math.nan})
@example([1e-05, "x"])
@settings(max_examples=1_000)
def test_plain_json_has_the_bytes_of_python_s_own(value: Any) -> None:
    expected = outcome(lambda one: REFERENCE.encode(one).encode(), value)

    assert outcome(jsontext._fast_serializer(), value) == expected
    assert outcome(jsontext._serializer(), value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=5_000)
def test_every_number_has_the_same_digits(number: float) -> None:
    assert jsontext._fast_serializer()([number]) == REFERENCE.encode([number]).encode()


TEXTS = st.sampled_from([
    b"", b" ", b"NaN", b"-Infinity", b"[1e400]", b"18446744073709551616", b"1" * 60, b"1" * 5_000,
    b'"\\ud800"', b'"\\ud800\\udc00"', b'"\xff"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf[1]", b"-0",
    b'{"a":1,"a":2}', b"01", b"1.", b"[1,]", b'"\t"', b"1 2", b"nul", "[1]".encode("utf-16"),
    b"1E+5", b"0.1000000000000000055511151231257827", b"9007199254740993", b"[" * 3_000,
])  # fmt: skip


def changed(text: bytes, at: int, other: int) -> bytes:
    at %= len(text)
    return text[:at] + bytes([other]) + text[at + 1 :]


@given(
    TEXTS
    | st.binary(max_size=8)
    | st.from_regex(rb"\A-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?\Z")
    | st.builds(
        changed,
        st.recursive(
            LEAVES, lambda one: st.lists(one) | st.dictionaries(st.text(), one), max_leaves=5
        ).map(lambda one: json.dumps(one).encode()),
        st.integers(0, 1_000),
        st.sampled_from(list(b'0123456789.eE+-,:[]{}"\\ntfu \x00\xff')),
    )
)
@settings(max_examples=2_000)
def test_json_is_read_as_by_python_s_own(text: bytes) -> None:
    assert outcome(jsontext._fast_deserializer(), text) == outcome(json.loads, text)


def test_the_fast_way_is_taken_and_every_day_s_values_stay_on_it() -> None:
    value = {"id": str(uuid.UUID(int=2**127 - 1)), "n": 5, "price": 1.25, "tags": ["3e-4", None]}
    asked: list[Any] = []

    def tell(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == json.encoder.__file__:
            asked.append(frame.f_code.co_name)

    serialize = Serdes.json.serializer("t")
    sys.setprofile(tell)
    try:
        serialize(value)
        taken = list(asked)
        serialize([1e-5])
    finally:
        sys.setprofile(None)

    assert taken == []
    assert "encode" in asked


def test_without_the_extra_plain_json_is_the_same_and_a_type_says_what_it_needs() -> None:
    program = """
import sys
sys.modules.update(msgspec=None, orjson=None)
from headwater import ConfigError, Serdes
assert Serdes.json.serializer("t")({"b": 1e-5, "a": None}) == b'{"a":null,"b":1e-05}'
assert Serdes.json.deserializer("t")(b"[1]") == [1]
try:
    Serdes.json(dict[str, int])
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.startswith("ConfigError JSON of a type needs the extra 'json': pip install")


@dataclass(frozen=True)
class Trade:
    ticker: str
    price: float
    items: list[Item] = field(default_factory=list)


class TradeDict(TypedDict):
    ticker: str
    price: float
    items: list[Item]


class TradeStruct(msgspec.Struct):
    ticker: str
    price: float
    items: list[Item] = []


class Bought(pydantic.BaseModel):
    name: str
    price: float


class TradeModel(pydantic.BaseModel):
    ticker: str
    price: float = pydantic.Field(alias="unitPrice")
    items: list[Bought] = []


ITEMS = [Item("pen", 1.5)]
TYPED: list[Any] = [
    pytest.param(Trade, Trade("KO", 5.0, ITEMS), "price", id="dataclass"),
    pytest.param(
        TradeDict, TradeDict(ticker="KO", price=5.0, items=ITEMS), "price", id="TypedDict"
    ),
    pytest.param(TradeStruct, TradeStruct("KO", 5.0, ITEMS), "price", id="Struct"),
    pytest.param(
        TradeModel,
        TradeModel(ticker="KO", unitPrice=5.0, items=[Bought(name="pen", price=1.5)]),
        "unitPrice",
        id="pydantic",
    ),
]


@pytest.mark.parametrize(("of", "value", "price"), TYPED)
def test_typed_values_are_written_with_sorted_keys_and_read(
    of: type[Any], value: Any, price: str
) -> None:
    serde = Serdes.json(of)
    data = serde.serializer("t")(value)

    plain = {"ticker": "KO", price: 5.0, "items": [{"name": "pen", "price": 1.5}]}
    assert data == Serdes.json.serializer("t")(plain)
    assert serde.deserializer("t")(data) == value
    assert type(serde.deserializer("t")(data)) is type(value)


@pytest.mark.parametrize(("of", "value", "price"), TYPED)
def test_the_path_of_a_wrong_field_is_told(of: type[Any], value: Any, price: str) -> None:
    read = Serdes.json(of).deserializer("t")
    plain: dict[str, Any] = {"ticker": "KO", price: 5.0, "items": [{"name": "pen", "price": "x"}]}

    with pytest.raises(ValueError, match=r"this is no \w+: .* - at `\$\.items\[0\]\.price`"):
        read(json.dumps(plain).encode())
    del plain["ticker"]
    with pytest.raises(ValueError, match=r"`?ticker"):
        read(json.dumps(plain | {"items": []}).encode())
    with pytest.raises(ValueError, match="this is no"):
        read(b"{")


@pytest.mark.parametrize(("of", "value", "price"), TYPED)
@pytest.mark.parametrize("wrong", ["text", 5, {"ticker": 1}, [], Item("a", 1.0)])
def test_values_of_another_type_are_not_written(
    of: type[Any], value: Any, price: str, wrong: Any
) -> None:
    with pytest.raises(Exception, match="no Trade") as caught:
        Serdes.json(of).serializer("t")(wrong)

    assert has_wrong_type(caught.value)


def test_a_wrong_field_is_told_where_it_is_made() -> None:
    broken: Any = "x"
    bought = Bought(name="a", price=1.0)
    bought.name = broken = 5  # pydantic looks only at what a model is made of

    for of, value, path in (
        (Trade, Trade("KO", 1.0, [Item("a", "x")]), r"\$\.items\[0\]\.price"),  # type: ignore[arg-type]
        (TradeStruct, TradeStruct("KO", 1.0, [Item(5, 1.0)]), r"\$\.items\[0\]\.name"),  # type: ignore[arg-type]
        (Bought, bought, "name"),
    ):
        with pytest.raises(TypeError, match=path):
            Serdes.json(of).serializer("t")(value)
    assert broken == 5


@dataclass
class Maybe:
    number: float | None


class MaybeModel(pydantic.BaseModel):
    number: float | None


@pytest.mark.parametrize("value", [Maybe(math.nan), MaybeModel(number=math.nan)])
def test_what_is_not_a_number_never_becomes_null(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant") as caught:
        Serdes.json(type(value)).serializer("t")(value)

    assert not has_wrong_type(caught.value)


def test_types_made_of_types_are_taken() -> None:
    for of, value in (
        (list[Trade], [Trade("KO", 1.0)]),
        (dict[str, list[TradeModel]], {"a": [TradeModel(ticker="KO", unitPrice=1.0)]}),
        (int, 5),
    ):
        serde: Any = Serdes.json(of)  # type: ignore[arg-type]
        assert serde.deserializer("t")(serde.serializer("t")(value)) == value
    with pytest.raises(TypeError, match="list"):
        Serdes.json(list[Trade]).serializer("t")({"a": 1})  # type: ignore[arg-type]


def test_a_type_that_json_cannot_hold_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError):
        Serdes.json(complex | int)  # type: ignore[call-overload]


def test_json_values_may_be_changed_so_stores_keep_their_bytes() -> None:
    assert not Serdes.json.immutable
    assert not Serdes.json(Trade).immutable
    assert Serdes.json() is Serdes.json


def test_a_serde_of_a_type_travels_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(Serdes.json(Item)))

    assert sent.deserializer("t")(b'{"name":"a","price":1}') == Item("a", 1.0)


@dataclass
class Basket:
    of: Bought
    others: list[Bought]


class BasketDict(typing_extensions.TypedDict):
    of: Bought


class BasketStruct(msgspec.Struct):
    of: Bought | None = None


class Chain(msgspec.Struct):
    then: Chain | None = None


@pytest.mark.parametrize(
    ("of", "value", "data"),
    [
        (
            Basket,
            Basket(Bought(name="a", price=1.0), []),
            b'{"of":{"name":"a","price":1.0},"others":[]}',
        ),
        (BasketDict, {"of": Bought(name="a", price=1.0)}, b'{"of":{"name":"a","price":1.0}}'),
        (Chain, Chain(Chain()), b'{"then":{"then":null}}'),
    ],
)
def test_types_may_have_fields_of_pydantic_and_of_themselves(
    of: Any, value: object, data: bytes
) -> None:
    serde = Serdes.json(of)

    assert serde.serializer("t")(value) == data
    assert serde.deserializer("t")(data) == value


def test_the_path_goes_through_fields_of_pydantic() -> None:
    with pytest.raises(ValueError, match=r"no Basket: .* at `\$\.others\[0\]\.name`"):
        Serdes.json(Basket).deserializer("t")(
            b'{"of":{"name":"a","price":1.0},"others":[{"name":5,"price":1.0}]}'
        )


def test_pydantic_within_msgspec_is_refused_where_the_type_is_given() -> None:
    with pytest.raises(ConfigError, match="BasketStruct is a msgspec"):
        Serdes.json(BasketStruct)
