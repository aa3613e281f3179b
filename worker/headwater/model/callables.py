"""Which functions a topology may be given: those whose result is there when the call returns."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from headwater.errors import TopologyError
from headwater.model.nodes import TimestampExtractors


def objection(function: Any, *, several: bool = False) -> str | None:
    """Return why ``function`` cannot be used, with the way out; ``None`` if it can.

    A call of an async function or a generator function runs nothing: its result is true as a
    predicate, and is no value.

    Args:
        function: what was given.
        several: all that it gives is read, so a generator function is welcome.
    """
    if not callable(function):
        return f"{function!r:.100} is not a function: pass one"
    if inspect.isclass(function):
        return None
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    # Of an object with __call__, the method is what runs.
    runs = (inner, type(inner).__call__)
    if any(inspect.iscoroutinefunction(run) or inspect.isasyncgenfunction(run) for run in runs):
        return (
            f"{_called(inner)} is an async function, and a topology calls functions without "
            "await: write it with def, or use map_values_async(), process_values_async() or "
            "for_each_async()"
        )
    if not several and any(map(inspect.isgeneratorfunction, runs)):
        return (
            f"{_called(inner)} is a generator function, and one result is wanted: "
            "return it in place of yield"
        )
    return None


def is_async(function: Any) -> bool:
    """Whether a call of ``function`` gives a coroutine, whose result is there once it is awaited.

    Of a ``functools.partial`` the inner function counts, of an object its ``__call__``.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def check_call(place: str, function: object) -> None:
    """Refuse what cannot be called beside other calls: neither a function nor an async function.

    Raises:
        TopologyError: it is no function, or a generator function.
    """
    if is_async(function):
        return
    check_function(place, function)


def check_function(place: str, function: object, *, several: bool = False) -> None:
    """Refuse what :func:`objection` objects to.

    Args:
        place: where it was given, such as ``filter()``.
        function: what was given.
        several: see :func:`objection`.

    Raises:
        TopologyError: it is no function, or an async or generator function.
    """
    if reason := objection(function, several=several):
        raise TopologyError(f"{place}: {reason}")


def check_functions(place: str, *, optional: bool = False, **functions: object) -> None:
    """Refuse each that :func:`objection` objects to.

    Args:
        place: where they were given, such as ``aggregate()``.
        optional: ``None`` stands for one that is not given.
        functions: by the names of the parameters.

    Raises:
        TopologyError: see :func:`check_function`.
    """
    for name, function in functions.items():
        if not (optional and function is None):
            check_function(f"{place}, {name}", function)


def check_extractor(place: str, extractor: object) -> None:
    """Refuse what is no timestamp extractor: a function, a built-in name, ``"module:function"``.

    Raises:
        TopologyError: it is none of these, or an async or generator function.
    """
    if extractor is None:
        return
    if not isinstance(extractor, str):
        check_function(f"{place}, timestamp_extractor", extractor)
    elif extractor not in tuple(TimestampExtractors) and not all(extractor.partition(":")):
        raise TopologyError(
            f"{place}: there is no timestamp extractor {extractor!r}; use one of "
            f'{", ".join(TimestampExtractors)}, "module:function" or a function'
        )


def _called(function: object) -> str:
    return repr(getattr(function, "__qualname__", None) or type(function).__qualname__)
