"""The StreamApp's ``spec.topology``: where the topology comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from headwater.model.fields import Rule, meta
from headwater.model.streamapp_kafka import KEY_MEANING, KEY_PATTERN, NAME_MEANING, NAME_PATTERN

IMPORT_TIMEOUT_MS: Final = 300_000

_MODULE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapSource:
    """A ConfigMap in the StreamApp's namespace that holds the topology's source text.

    Attributes:
        name: the ConfigMap's name.
        key: the key with the source text.
    """

    name: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))
    key: str = field(
        default="topology.py",
        metadata=meta(pattern=KEY_PATTERN, meaning=KEY_MEANING, max_length=253),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySource:
    """Where the topology comes from: exactly one of module, inline and configMapRef.

    Attributes:
        module: an import path, module:function, in the worker's image. The function takes a
            StreamsBuilder, or takes nothing and returns a topology.
        inline: the source text of a Python module.
        config_map_ref: a ConfigMap with the source text of a Python module. An edit of it is rolled
            out; that begins within a minute.
        function: the function in the source text of inline or configMapRef.
        import_timeout_ms: how long importing it may take in a worker; after that the worker ends
            and is started again.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.module), has(self.inline), has(self.configMapRef)].exists_one(x, x)",
            message="give exactly one of module, inline and configMapRef",
            holds=lambda source: (
                [source.module, source.inline, source.config_map_ref].count(None) == 2
            ),
        ),
        Rule(
            cel="!has(self.module) || !has(self.function)",
            message="module names its function already: write module:function",
            field="function",
            holds=lambda source: source.module is None or source.function is None,
        ),
    )

    module: str | None = field(
        default=None,
        metadata=meta(
            pattern=_MODULE, meaning="an import path such as 'examples.word_count.app:build'"
        ),
    )
    inline: str | None = field(default=None, metadata=meta(max_length=200_000))
    config_map_ref: ConfigMapSource | None = field(default=None, metadata=meta(cluster_only=True))
    function: str | None = field(
        default=None,
        metadata=meta(pattern=r"[A-Za-z_]\w*", meaning="the name of a function", max_length=100),
    )
    import_timeout_ms: int = field(
        default=IMPORT_TIMEOUT_MS, metadata=meta(json="importTimeout", duration=True)
    )

    @property
    def function_name(self) -> str:
        """The function in the source text; ``build`` unless said otherwise."""
        return self.function or "build"

    @property
    def described(self) -> str:
        """What messages call the topology: its import path, or where its text is."""
        if self.module is not None:
            return self.module
        if self.config_map_ref is not None:
            return f"{self.config_map_ref.key} of ConfigMap {self.config_map_ref.name}"
        return "spec.topology.inline"
