"""``headwater diff OLD NEW``: compares what two versions of an application have written."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.cli import localapps, options, streamapps
from headwater.errors import DiffError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headwater.config import StreamsConfig
    from headwater.kafka.access import Access
    from headwater.model.diffing import Difference, Example
    from headwater.model.nodes import SinkNode
    from headwater.serde import Serde

_POLL_S: Final = 1.0
_WIDTH: Final = 60


def register(subparsers: Any) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "diff",
        help="compare what two versions of an application have written",
        description="Compare the output topics of two applications of `headwater up` key by key: "
        "the last value of each. Both must have read all their input. Those of a cluster are "
        "named by their files. The exit code is 1 if the outputs differ.",
    )
    parser.add_argument("old", metavar="OLD", help="the version that is in use")
    parser.add_argument("new", metavar="NEW", help="the version that is to replace it")
    parser.add_argument(
        "--topics",
        metavar="OLD_TOPIC=NEW_TOPIC",
        action="append",
        default=[],
        help="outputs to compare; may be repeated (default: those of the sinks, in their order)",
    )
    parser.add_argument(
        "--counts", action="store_true", help="a key that was written more often differs, too"
    )
    parser.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="for both to have read everything"
    )
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="of each kind")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="instead of the StreamApps'")
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file with StreamApps, instead of those of `headwater up`; may be repeated",
    )
    options.add_import_path(parser)
    options.add_home(parser)
    parser.set_defaults(run=run)


class _Side:
    """One of the two versions."""

    def __init__(self, app: localapps.LocalApp, address: str | None) -> None:
        from headwater.kafka.access import Access  # noqa: PLC0415 - keeps help fast
        from headwater.model.nodes import SinkNode  # noqa: PLC0415

        self.name = app.name
        self.config: StreamsConfig = app.config(address)
        topology = app.topology(address)
        self.report = topology.report(self.config.application_id)
        self.access: Access = Access.of(self.config, client_id=f"{self.config.application_id}-diff")
        internal = {
            topic.name
            for subtopology in self.report.subtopologies
            for topic in subtopology.repartition_sources
        }
        prefix = f"{self.config.application_id}-"
        self.sinks: dict[str, SinkNode] = {
            node.topic: node
            for group in topology.subtopologies
            for node in group.nodes
            if isinstance(node, SinkNode)
            and isinstance(node.topic, str)
            and not {node.topic, prefix + node.topic} & internal
        }

    def serdes(self, topic: str) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Return what writes keys and values of an output."""
        from headwater.processor.resolving import find_serde, resolve_serde  # noqa: PLC0415

        sink = self.sinks[topic]
        key = resolve_serde("key_serde", sink.key_serde)
        value = resolve_serde("value_serde", sink.value_serde)
        return find_serde(self.config, "key", key), find_serde(self.config, "value", value)

    def behind(self) -> int:
        """Return how many records it has yet to read."""
        from headwater.kafka.lags import lags_of  # noqa: PLC0415 - keeps help fast
        from headwater.model.lags import total_of  # noqa: PLC0415

        return total_of(lags_of(self.access, self.config.application_id, self.report))


def run(arguments: argparse.Namespace) -> int:
    """Compare and return the exit code.

    Raises:
        DiffError: the outputs cannot be compared, or a version has not read everything.
        SpecError: there is no such application, or a file cannot be read.
        ConfigError: a value of a configuration is wrong.
        ImportPathError: a topology cannot be imported.
        TopologyError: a topology breaks a rule.
        TopicError: an output is missing, or topics do not fit the topology.
        LocalKafkaError: the private Kafka cannot be started.
        KafkaUnavailableError: nobody answered.
        KafkaAuthError: the broker refuses the credentials or the operation.
        OSError: the picture cannot be written.
    """
    from headwater.cli.diffsvg import picture  # noqa: PLC0415 - keeps help fast
    from headwater.model import diffing  # noqa: PLC0415

    root = streamapps.home_of(arguments.home)
    if arguments.old == arguments.new:
        raise DiffError(f"{arguments.old} is named twice: name two versions of an application")
    names = (arguments.old, arguments.new)
    if arguments.file:
        apps = localapps.of_files(arguments.file, names, arguments.import_path, arguments.bootstrap)
    else:
        apps = {name: localapps.named(root, name) for name in names}
    with localapps.broker_of(root, apps, arguments.bootstrap) as address:
        old, new = (_Side(app, address) for app in apps.values())
        pairs = diffing.paired(list(old.sinks), list(new.sinks), arguments.topics)
        for first, second in pairs:
            _check_serdes(old, first, new, second)
        _await((old, new), arguments.wait)
        found = [_compared(old, new, pair, arguments) for pair in pairs]
    shows = [_shower(old, first) for first, _ in pairs]
    if arguments.output == "json":
        both = zip(found, shows, strict=True)
        print(json.dumps([diffing.document(*one) for one in both], indent=2, default=repr))
    else:
        print("\n".join(diffing.table(found)))
        for difference, show in zip(found, shows, strict=True):
            for line in map(_line, difference.examples, map(show, difference.examples)):
                print(line)
    if arguments.svg is not None:
        arguments.svg.write_text(picture(f"{old.name} and {new.name}", found), encoding="utf-8")
    return 0 if all(one.is_same for one in found) else 1


def _compared(
    old: _Side, new: _Side, topics: tuple[str, str], arguments: argparse.Namespace
) -> Difference:
    from headwater.kafka.contents import contents_of  # noqa: PLC0415 - keeps help fast
    from headwater.model.diffing import check_not_empty, compared  # noqa: PLC0415

    both = contents_of(old.access, topics[0]), contents_of(new.access, topics[1])
    check_not_empty(dict(zip(topics, both, strict=True)))
    decoders = [_decoder(side.serdes(t)[1], t) for side, t in zip((old, new), topics, strict=True)]

    def is_same(first: bytes, second: bytes) -> bool:
        return bool(decoders[0](first) == decoders[1](second))

    return compared(
        topics,
        *both,
        is_same=is_same,
        counts=arguments.counts,
        examples=arguments.examples,
    )


def _check_serdes(old: _Side, first: str, new: _Side, second: str) -> None:
    """Refuse outputs of other types: their bytes would differ on every key.

    Raises:
        DiffError: they have other serdes.
    """
    for half, one, other in zip(
        ("keys", "values"), old.serdes(first), new.serdes(second), strict=True
    ):
        if _kind(one) != _kind(other):
            raise DiffError(
                f"{old.name} writes the {half} of {first} with {_kind(one)}, {new.name} those of "
                f"{second} with {_kind(other)}: they cannot be compared; give both the same serde, "
                "or name other topics with --topics OLD_TOPIC=NEW_TOPIC"
            )


def _kind(serde: Serde[Any] | None) -> str:
    if serde is None:
        return "no serde"
    inner = getattr(serde, "inner", None)
    size = getattr(serde, "size_ms", None)
    about = ", ".join(
        filter(None, [_kind(inner) if inner else "", f"{size} ms" if size is not None else ""])
    )
    return f"{type(serde).__name__}({about})" if about else type(serde).__name__


def _await(sides: tuple[_Side, _Side], wait_s: float) -> None:
    """Return once both have read everything.

    Raises:
        DiffError: one is still behind.
    """
    deadline = time.monotonic() + wait_s
    for side in sides:
        while (behind := side.behind()) > 0:
            if time.monotonic() >= deadline:
                raise DiffError(
                    f"{side.name} still has {behind:,} record{'s' if behind != 1 else ''} to read, "
                    "so the outputs cannot be compared yet: see `headwater lag "
                    f"{side.name}`, and wait with --wait SECONDS"
                )
            sys.stderr.write(f"{side.name}: {behind:,} to read\n")
            time.sleep(_POLL_S)


def _decoder(serde: Serde[Any] | None, topic: str) -> Callable[[bytes], Any]:
    """Return what decodes; bytes that it cannot decode stay bytes."""
    if serde is None:
        return bytes
    decode = serde.deserializer(topic)

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except Exception:  # noqa: BLE001 - whatever a user's serde raises
            return data

    return decoded


def _shower(side: _Side, topic: str) -> Callable[[Example], dict[str, Any]]:
    key_serde, value_serde = side.serdes(topic)
    key_of, value_of = _decoder(key_serde, topic), _decoder(value_serde, topic)

    def show(example: Example) -> dict[str, Any]:
        key = example.identity[0]
        return {
            "key": None if key is None else key_of(key),
            "old": None if example.old is None else value_of(example.old),
            "new": None if example.new is None else value_of(example.new),
        }

    return show


def _line(example: Example, shown: dict[str, Any]) -> str:
    texts = {name: f"{value!r:.{_WIDTH}}" for name, value in shown.items()}
    if example.kind == "different":
        return f"different   {texts['key']}: {texts['old']} -> {texts['new']}"
    side = "old" if example.kind == "missing" else "new"
    return f"{example.kind:<9}   {texts['key']}: {texts[side]}"
