"""Schemas for tests with a schema registry, and an application that uses all three kinds."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

from headwater import AvroSerde, JsonSchemaSerde, ProtobufSerde, Serdes
from tests.support.counting import PREFIX_VARIABLE

if TYPE_CHECKING:
    from headwater import StreamsBuilder

TRADE = json.dumps({
    "type": "record", "name": "Trade", "namespace": "tests",
    "fields": [{"name": "ticker", "type": "string"}, {"name": "price", "type": "double"}],
})  # fmt: skip
TRADE_LATER = json.dumps({
    "type": "record", "name": "Trade", "namespace": "tests",
    "fields": [
        {"name": "ticker", "type": "string"}, {"name": "price", "type": "double"},
        {"name": "size", "type": "int", "default": 1},
    ],
})  # fmt: skip
TRADE_BROKEN = TRADE_LATER.replace(', "default": 1', "")
QUOTE = json.dumps({
    "title": "Quote", "type": "object", "required": ["ticker"],
    "properties": {"ticker": {"type": "string"}, "bid": {"type": "number"}},
})  # fmt: skip
TICKER = json.dumps({
    "type": "record", "name": "Ticker", "namespace": "tests",
    "fields": [{"name": "of", "type": "string"}],
})  # fmt: skip


@cache
def measured() -> type[Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="measured.proto", package="tests", syntax="proto3"
    )
    message = file.message_type.add(name="Measured")
    message.field.add(name="sensor", number=1, type=9, label=1)
    message.field.add(name="value", number=2, type=18, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.Measured"))
    return found


def dearer(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the trade with the higher price."""
    return max(one, other, key=lambda trade: trade["price"])


def build(builder: StreamsBuilder) -> None:
    """Keep the dearest trade of each ticker, and tell it as Avro, JSON Schema and Protobuf."""
    prefix = os.environ[PREFIX_VARIABLE]
    trades, tickers = AvroSerde[Any](TRADE), AvroSerde[Any](TICKER)
    dearest = (
        builder.stream(f"{prefix}-in", key_serde=Serdes.string, value_serde=trades)
        .group_by(
            lambda _key, trade: {"of": trade["ticker"]}, key_serde=tickers, value_serde=trades
        )
        .reduce(dearer, store="dearest", key_serde=tickers, value_serde=trades)
        .to_stream()
    )
    dearest.to(f"{prefix}-out", key_serde=tickers, value_serde=trades)
    named = dearest.select_key(lambda key, _trade: key["of"])
    named.map_values(lambda trade: {"ticker": trade["ticker"], "bid": trade["price"]}).to(
        f"{prefix}-quotes", key_serde=Serdes.string, value_serde=JsonSchemaSerde[Any](QUOTE)
    )
    of = measured()
    named.map_values(lambda trade: of(sensor=trade["ticker"], value=int(trade["price"]))).to(
        f"{prefix}-measured", key_serde=Serdes.string, value_serde=ProtobufSerde(of)
    )
