"""What a type checker makes of serdes; ``tests/unit/test_typing.py`` has it checked."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, TypedDict, assert_type
from uuid import UUID

import pydantic

from headwater import AvroSerde, KStream, KTable, ProtobufSerde, Serde, Serdes, StreamsBuilder
from headwater.model.windows import Windowed


@dataclass
class Trade:
    ticker: str
    price: float


class Profile(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    name: str


def trade_of(plain: dict[str, Any]) -> Trade:
    return Trade(**plain)


builder = StreamsBuilder()
assert_type(Serdes.short, Serde[int])
assert_type(Serdes.float, Serde[float])
assert_type(Serdes.boolean, Serde[bool])
assert_type(Serdes.uuid, Serde[UUID])
assert_type(Serdes.void, Serde[None])
assert_type(Serdes.string("UTF-16"), Serde[str])
assert_type(Serdes.list(Serdes.long), Serde[list[int]])
assert_type(Serdes.list(Serdes.list(Serdes.uuid)), Serde[list[list[UUID]]])
assert_type(Serdes.time_windowed(Serdes.string, timedelta(minutes=5)), Serde[Windowed[str]])
assert_type(Serdes.session_windowed(Serdes.long), Serde[Windowed[int]])
assert_type(Serdes.json(), Serde[Any])
assert_type(Serdes.json(Trade), Serde[Trade])
assert_type(Serdes.json(Profile), Serde[Profile])
assert_type(Serdes.json(Model), Serde[Model])
assert_type(Serdes.json(list[Trade]), Serde[list[Trade]])

trades = builder.stream("trades", key_serde=Serdes.uuid, value_serde=Serdes.json(Trade))
assert_type(trades, KStream[UUID, Trade])
assert_type(trades.filter(lambda _id, trade: trade.price > 1), KStream[UUID, Trade])
assert_type(builder.table("t", key_serde=Serdes.string, value_serde=Serdes.json), KTable[str, Any])
avro = AvroSerde("{}", to_dict=asdict, from_dict=trade_of)
assert_type(builder.stream("a", key_serde=Serdes.string, value_serde=avro), KStream[str, Trade])
assert_type(ProtobufSerde(Model), ProtobufSerde[Model])

trades.to("out", value_serde=Serdes.json(Profile))  # type: ignore[arg-type]
trades.to("out", value_serde=Serdes.list(Serdes.json(Trade)))  # type: ignore[arg-type]
Serdes.time_windowed(Serdes.string)  # type: ignore[call-arg]
