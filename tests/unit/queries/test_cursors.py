"""A cursor goes on where it was made, and nowhere else."""

from __future__ import annotations

import base64

import pytest

from headwater.errors import CursorExpiredError, InvalidCursorError
from headwater.native.queries.cursors import VALID_S, Cursor, decode, digest_of, encode

NOW = 1_700_000_000.5
OF = digest_of("counts", "keys", "Range()", None)


@pytest.mark.parametrize("cursor", [Cursor(3, b"\x00\xffkey"), Cursor(0, None), Cursor(1, b"")])
def test_a_cursor_is_read_as_it_was_made(cursor: Cursor) -> None:
    text = encode(cursor, OF, NOW)
    assert text.isascii()
    assert not set(text) & set("=&?/+")
    assert decode(text, OF, NOW + VALID_S - 1) == cursor


def test_a_cursor_of_yesterday_says_how_old_it_is_and_what_to_do() -> None:
    text = encode(Cursor(0, b"a"), OF, NOW)
    with pytest.raises(CursorExpiredError, match=r"1440 minutes old.*begin the range again"):
        decode(text, OF, NOW + 86_400)


def test_a_cursor_of_another_question_is_refused() -> None:
    text = encode(Cursor(0, b"a"), OF, NOW)
    with pytest.raises(InvalidCursorError, match="another question"):
        decode(text, digest_of("counts", "keys", "Range(low=b'a')", None), NOW)


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "",
        "\N{SNOWMAN}",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
        base64.urlsafe_b64encode(b'[2, 1, "x", 0, null]').decode(),
        base64.urlsafe_b64encode(b'[1, 1, "x", "0", null]').decode(),
        base64.urlsafe_b64encode(b'[1, 1, "x", 0, "%%"]').decode(),
        base64.urlsafe_b64encode(b"[1, 1, 2, 0, 5]").decode(),
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError, match="is no cursor"):
        decode(text, OF, NOW)
