"""Headers that a user gives to a record or a store: what is wrong with them, and the cure."""

from __future__ import annotations

from typing import Any

from headwater.errors import SerializationError


def check_headers(where: str, headers: Any) -> None:
    """See that headers are pairs of name and bytes, as a record of Kafka has them.

    Args:
        where: what messages begin with: the node or the store.
        headers: as given.

    Raises:
        SerializationError: they are not; names the header and says what to give instead.
    """
    problem = _problem(headers)
    if problem is not None:
        raise SerializationError(f"{where}: {problem}")


def _problem(headers: Any) -> str | None:
    if not headers:
        return None
    if isinstance(headers, dict):
        return f"headers {headers!r:.200} are a dict; give pairs: list(headers.items())"
    if not isinstance(headers, list):
        return (
            f"headers {headers!r:.200} are of type {type(headers).__name__}; give a list of "
            "pairs of name and bytes"
        )
    return next(filter(None, map(_problem_of, headers)), None)


def _problem_of(header: Any) -> str | None:
    if not isinstance(header, tuple) or len(header) != 2:
        return f"header {header!r:.200} is no pair; give a tuple of its name and its value as bytes"
    name, value = header
    if not isinstance(name, str):
        return f"header {name!r:.200} has a name of type {type(name).__name__}; give text"
    try:
        name.encode()
    except UnicodeEncodeError as error:
        return f"header {name!r:.200} has a name that is not UTF-8 ({error}); give another"
    if isinstance(value, str):
        return f"header {name!r} has the text {value!r:.200} as its value; give bytes: encode it"
    if value is not None and not isinstance(value, bytes):
        return f"header {name!r} has a value of type {type(value).__name__}; give bytes or None"
    return None
