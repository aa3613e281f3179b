"""The catalogue of user functions for random topologies; its twin is ``Functions.java``.

``FORMAT.md`` says what each means. Every table maps a name to the function; the ``*_TYPES`` tables
say which types come out, so that a generator can pick serdes: ``"k"`` and ``"v"`` mean the type of
the key or value that goes in, otherwise the name of a serde.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headwater import ValueTransformerWithKey, Windowed

if TYPE_CHECKING:
    from collections.abc import Callable

CONCAT_CHARACTERS = 16
APPEND_CHARACTERS = 24


def text(x: Any) -> str:
    if x is None:
        return "null"
    if isinstance(x, str):
        return x
    if isinstance(x, float):
        return str(int(x))
    if isinstance(x, Windowed):
        return f"[{text(x.key)}@{x.window.start_ms}/{x.window.end_ms}]"
    return x.hex() if isinstance(x, bytes) else str(x)


def _words(x: Any) -> list[str]:
    return [] if x is None else [word for word in text(x).split(" ") if word]


def _is_even_length(x: Any) -> bool:
    return len(text(x)) % 2 == 0


def _key_before_m(k: Any, v: Any) -> bool:
    return k is not None and text(k) < "m"


def _first_letter(k: Any, v: Any) -> str | None:
    return None if v is None else text(v)[:1]


def _length(v: Any) -> int | None:
    return None if v is None else len(text(v))


def _or_null(x: Any) -> str | None:
    return None if x is None else text(x)


PREDICATES = {
    "always": lambda k, v: True,
    "never": lambda k, v: False,
    "key_not_null": lambda k, v: k is not None,
    "value_not_null": lambda k, v: v is not None,
    "even_length": lambda k, v: _is_even_length(v),
    "key_before_m": _key_before_m,
    "is_odd": lambda k, v: isinstance(v, int) and v % 2 == 1,
}

VALUE_MAPPERS = {
    "identity": lambda v: v,
    "upper": lambda v: None if v is None else text(v).upper(),
    "reverse": lambda v: None if v is None else text(v)[::-1],
    "to_text": _or_null,
    "length": _length,
    "null_if_even_length": lambda v: None if _is_even_length(v) else v,
}
VALUE_MAPPERS_WITH_KEY = {
    "with_key": lambda k, v: f"{text(k)}:{text(v)}",
    "null_unless_key_before_m": lambda k, v: v if _key_before_m(k, v) else None,
}
VALUE_MAPPER_TYPES = {
    "identity": "v",
    "upper": "string",
    "reverse": "string",
    "to_text": "string",
    "length": "long",
    "null_if_even_length": "v",
    "with_key": "string",
    "null_unless_key_before_m": "v",
}


class Nth(ValueTransformerWithKey[Any, Any, str]):
    """The transformer ``nth``: tells how often it has been called."""

    def __init__(self) -> None:
        self.calls = 0

    def transform(self, key: Any, value: Any) -> str | None:
        self.calls += 1
        return None if value is None else f"{text(value)}#{self.calls}"


class Behind(ValueTransformerWithKey[Any, Any, Any]):
    """A transformer that returns what a mapper with a key returns."""

    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self.mapper = mapper

    def transform(self, key: Any, value: Any) -> Any:
        return self.mapper(key, value)


class Before(ValueTransformerWithKey[Any, Any, str]):
    """A transformer with a store: what it made of the key's value before, and now."""

    def __init__(self, inner: ValueTransformerWithKey[Any, Any, Any], store: str) -> None:
        self.inner, self.store = inner, store

    def transform(self, key: Any, value: Any) -> str | None:
        store = self.context.get_state_store(self.store)
        made = self.inner.transform(key, value)
        told = f"{text(store.get(text(key)))}|{text(made)}"
        store.put(text(key), None if made is None else text(made))
        return None if made is None else told


TRANSFORMERS: dict[str, Callable[[], ValueTransformerWithKey[Any, Any, Any]]] = {
    "nth": Nth,
    **{name: partial(Behind, mapper) for name, mapper in VALUE_MAPPERS_WITH_KEY.items()},
}
TRANSFORMER_TYPES = {"nth": "string", "with_key": "string", "null_unless_key_before_m": "v"}

KEY_MAPPERS = {
    "same_key": lambda k, v: k,
    "value_as_key": lambda k, v: _or_null(v),
    "first_letter": _first_letter,
    "length_key": lambda k, v: _length(v),
    "key_text": lambda k, v: _or_null(k),
}
KEY_MAPPER_TYPES = {
    "same_key": "k",
    "value_as_key": "string",
    "first_letter": "string",
    "length_key": "long",
    "key_text": "string",
}

PAIR_MAPPERS = {
    "identity_pair": lambda k, v: (k, v),
    "swap": lambda k, v: (_or_null(v), _or_null(k)),
    "first_letter_pair": lambda k, v: (_first_letter(k, v), v),
    "length_pair": lambda k, v: (_length(v), _or_null(v)),
}
PAIR_MAPPER_TYPES = {
    "identity_pair": ("k", "v"),
    "swap": ("string", "string"),
    "first_letter_pair": ("string", "v"),
    "length_pair": ("long", "string"),
}

FLAT_PAIR_MAPPERS = {
    "word_pairs": lambda k, v: [(word, len(word)) for word in _words(v)],
    "twice": lambda k, v: [(k, v), (k, v)],
    "none": lambda k, v: [],
    "pair_if_odd_length": lambda k, v: [] if _is_even_length(v) else [(k, v)],
}
FLAT_PAIR_MAPPER_TYPES = {
    "word_pairs": ("string", "long"),
    "twice": ("k", "v"),
    "none": ("k", "v"),
    "pair_if_odd_length": ("k", "v"),
}

FLAT_VALUE_MAPPERS = {
    "words": _words,
    "twice_values": lambda v: [v, v],
    "no_values": lambda v: [],
}
FLAT_VALUE_MAPPERS_WITH_KEY = {"key_and_value": lambda k, v: [text(k), text(v)]}
FLAT_VALUE_MAPPER_TYPES = {
    "words": "string",
    "twice_values": "v",
    "no_values": "v",
    "key_and_value": "string",
}

JOIN_CHARACTERS = 24


def _both(a: Any, b: Any) -> str:
    return f"{text(a)}+{text(b)}"[-JOIN_CHARACTERS:]


JOINERS = {
    "both": _both,
    "left_value": lambda a, b: a,
    "right_value": lambda a, b: b,
    "total_length": lambda a, b: len(text(a)) + len(text(b)),
    "null_if_even_together": lambda a, b: (
        None if (len(text(a)) + len(text(b))) % 2 == 0 else _both(a, b)
    ),
}
JOINERS_WITH_KEY = {"both_with_key": lambda k, a, b: f"{text(k)}={_both(a, b)}"}
# "l" and "r" mean the type of the left and of the right value.
JOINER_TYPES = {
    "both": "string",
    "left_value": "l",
    "right_value": "r",
    "total_length": "long",
    "null_if_even_together": "string",
    "both_with_key": "string",
}

REDUCERS = {
    "concat": lambda a, b: (text(a) + text(b))[-CONCAT_CHARACTERS:],
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "first": lambda a, b: a,
    "last": lambda a, b: b,
    "longer": lambda a, b: b if len(text(b)) > len(text(a)) else a,
    "forget_equal": lambda a, b: None if text(a) == text(b) else b,
    "smallest": min,
    "largest": max,
}
# Which value types a reducer takes; it gives back the same type.
REDUCER_TAKES = {
    "concat": {"string"},
    "add": {"integer", "long"},
    "subtract": {"integer", "long"},
    "first": {"string", "integer", "long", "double", "bytes"},
    "last": {"string", "integer", "long", "double", "bytes"},
    "longer": {"string", "integer", "long", "double", "bytes"},
    "forget_equal": {"string", "integer", "long", "double", "bytes"},
    "smallest": {"string", "integer", "long"},
    "largest": {"string", "integer", "long"},
}
FORGETFUL = {"forget_equal", "count_or_forget"}
"""Reducers and aggregators that may delete what there is."""

INITIALIZERS = {"zero": lambda: 0, "empty": lambda: "", "nothing": lambda: None}
NULLS_FAIL = {"add", "subtract", "smallest", "largest"}
"""Reducers that take no null, which windows hand to them."""
MERGERS = {
    "sum": lambda k, a, b: (a or 0) + (b or 0),
    "join_text": lambda k, a, b: ((a or "") + (b or ""))[-APPEND_CHARACTERS:],
    "join_with_key": lambda k, a, b: ((a or "") + text(k) + (b or ""))[-APPEND_CHARACTERS:],
}
MERGERS_FOR = {"long": ("sum",), "string": ("join_text", "join_with_key")}
AGGREGATORS = {
    "add_length": lambda k, v, agg: (agg or 0) + len(text(v)),
    "subtract_length": lambda k, v, agg: (agg or 0) - len(text(v)),
    "append": lambda k, v, agg: ((agg or "") + text(v))[-APPEND_CHARACTERS:],
    "remove": lambda k, v, agg: (agg or "").replace(text(v), "", 1),
    "count_or_forget": lambda k, v, agg: None if _is_even_length(v) else (agg or 0) + 1,
    "with_key_text": lambda k, v, agg: ((agg or "") + text(k) + text(v))[-APPEND_CHARACTERS:],
}
AGGREGATOR_TYPES = {
    "add_length": "long",
    "subtract_length": "long",
    "append": "string",
    "remove": "string",
    "count_or_forget": "long",
    "with_key_text": "string",
}
INITIALIZERS_FOR = {"long": ("zero", "nothing"), "string": ("empty", "nothing")}


def topic_of(_key: Any, v: Any, _context: Any = None) -> str:
    """The topic extractor ``even_odd``."""
    return "out-even" if _is_even_length(v) else "out-odd"


def place_of(_key: Any, _value: Any, context: Any) -> str:
    """The topic extractor ``place``: where the record was read."""
    return f"out-{context.topic or 'null'}-{context.partition}-{context.offset}"


TOPIC_EXTRACTORS = {"even_odd": topic_of, "place": place_of}


def last_partition(_topic: str, _key: Any, _value: None, partitions: int) -> int:
    """The partitioner of a join by foreign key."""
    return partitions - 1
