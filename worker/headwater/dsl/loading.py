"""From ``module:function``, or from a module's source text, to a topology."""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
import traceback
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.dsl.builder import StreamsBuilder
from headwater.errors import HeadwaterError, ImportPathError
from headwater.model.callables import objection
from headwater.model.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TEXT_MODULE: Final = "streamapp_topology"
_TEXT_FILE: Final = "<spec.topology>"
"""What tracebacks call the text; it is in no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A topology as a StreamApp carries it.

    Attributes:
        text: of a Python module.
        function: the one in it that builds.
    """

    text: str
    function: str


def load_function(path: str) -> Callable[..., Any]:
    """Import what ``path`` (``module:function``) names.

    Modules in the working directory are found, too.

    Raises:
        ImportPathError: the path has no such form, the module cannot be imported, or has no such
            function.
    """
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise ImportPathError(
            f"{path!r} is not of the form 'module:function', for example 'word_count.app:build'"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise ImportPathError(
                f"There is no module {error.name!r} (needed for {path!r}): run from the directory "
                "that holds it, install it, or set PYTHONPATH"
            ) from error
        raise ImportPathError(
            f"Importing {module_name!r} failed: {_last_line(error)}; install what it needs"
        ) from error
    except (Exception, SystemExit) as error:
        raise ImportPathError(
            f"Importing {module_name!r} failed: {_last_line(error)}; "
            f"try `python -c 'import {module_name}'`"
        ) from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            raise ImportPathError(
                f"Module {module_name!r} has no {attribute!r}; it defines "
                f"{_functions(target) or 'no function'}"
            )
        target = getattr(target, part)
    if not callable(target):
        raise ImportPathError(
            f"{path!r} is a {type(target).__name__}, not a function: name the function that builds"
        )
    function: Callable[..., Any] = target
    return function


def load_topology(path: str, config: Mapping[str, object] | None = None) -> Topology:
    """Return the topology that the function at ``path`` builds; see :func:`build_topology`.

    Raises:
        ImportPathError: the path leads to no function, or the function makes no topology.
        TopologyError: the topology breaks a rule.
    """
    return build_topology(load_function(path), path, config)


def load_text(source: SourceText, config: Mapping[str, object] | None = None) -> Topology:
    """Return the topology that a function in a source text builds; see :func:`build_topology`.

    The text becomes a module without a file; tracebacks show its lines all the same.

    Raises:
        ImportPathError: the text cannot be run or has no such function, or the function makes no
            topology.
        TopologyError: the topology breaks a rule.
    """
    lines = source.text.splitlines(keepends=True)
    linecache.cache[_TEXT_FILE] = (len(source.text), None, lines, _TEXT_FILE)
    # Whoever looks for the module of a function or class in the text is to find it.
    module = sys.modules[_TEXT_MODULE] = types.ModuleType(_TEXT_MODULE)
    try:
        exec(compile(source.text, _TEXT_FILE, "exec"), module.__dict__)  # noqa: S102 - as an import
    except (Exception, SystemExit) as error:
        raise ImportPathError(
            f"The source text of spec.topology failed: {_last_line(error)}; correct it, and "
            "install what it needs in the worker's image"
        ) from error
    function = getattr(module, source.function, None)
    if not callable(function):
        raise ImportPathError(
            f"The source text of spec.topology has no function {source.function!r}; it defines "
            f"{_functions(module) or 'no function'}: name one in spec.topology.function"
        )
    return build_topology(function, f"spec.topology:{source.function}", config)


def build_topology(
    function: Callable[..., Any], path: str = "build", config: Mapping[str, object] | None = None
) -> Topology:
    """Call ``function`` and return the topology it makes.

    It either takes a ``StreamsBuilder`` and draws on it, or takes nothing; it may return a
    ``Topology``, a ``StreamsBuilder`` or, having been given a builder, nothing. ``path`` names it
    in messages. ``config`` is the application's, for its builder.

    Raises:
        ImportPathError: it takes other arguments, raises, or returns something else.
        TopologyError: the topology breaks a rule.
    """
    if reason := objection(function):
        raise ImportPathError(f"{path!r}: {reason}")
    builder = StreamsBuilder(config)
    takes_builder = _takes_builder(function, path)
    try:
        result = function(builder) if takes_builder else function()
    except HeadwaterError:
        raise
    except Exception as error:
        raise ImportPathError(f"{path!r} raised {_last_line(error)}; fix the function") from error
    if result is None and takes_builder:
        result = builder
    if isinstance(result, StreamsBuilder):
        result = result.build()
    if not isinstance(result, Topology):
        raise ImportPathError(
            f"{path!r} returned {type(result).__name__}: draw on the StreamsBuilder it is given, "
            "or return a Topology"
        )
    if not result.nodes:
        raise ImportPathError(
            f"{path!r} made an empty topology: read at least one topic with builder.stream(...)"
        )
    return result.configured(config or {})


def _takes_builder(function: Callable[..., Any], path: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    required = [parameter for parameter in parameters if _is_required(parameter)]
    if len(required) > 1 or any(parameter.kind not in positional for parameter in required):
        names = ", ".join(parameter.name for parameter in required)
        raise ImportPathError(
            f"{path!r} takes ({names}): it may take one StreamsBuilder, or nothing"
        )
    return any(parameter.kind in positional for parameter in parameters)


def _last_line(error: BaseException) -> str:
    """Return what a traceback ends with, and where that was."""
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ") and frame.filename != __file__
    ]
    if not frames or isinstance(error, SyntaxError):
        return said
    return f"{said} ({frames[-1].filename}, line {frames[-1].lineno})"


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def _functions(module: Any) -> str:
    names = (
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == getattr(module, "__name__", None)
    )
    return ", ".join(sorted(names))
