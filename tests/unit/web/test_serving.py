"""The page by HTTP: what it sends, whom it refuses, what it says of what it cannot do."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.support.made_up import Applications, snapshot
from tests.support.page_events import events

from headwater.errors import ConfigError, EnvironmentProblemError
from headwater_operator.web.admission import is_own_host, is_same_origin, is_token
from headwater_operator.web.routes import _SHEETS, STATIC, Page
from headwater_operator.web.serving import Server, address_of
from headwater_operator.web.starting import TOKEN_VARIABLE, WebOptions, server_of, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPResponse
    from pathlib import Path

    from tests.support.made_up import Seen

TOKEN = "0123456789abcdef"


@pytest.fixture
def source() -> Applications:
    return Applications(snapshot("orders"), snapshot("payments"))


@pytest.fixture
def server(source: Applications) -> Iterator[Server]:
    with Server(Page(source, token=TOKEN), "127.0.0.1", 0) as running:
        yield running


def call(
    server: Server, path: str, *, data: bytes | None = None, **headers: str
) -> tuple[int, str, HTTPResponse | urllib.error.HTTPError]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data, named)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error


def test_the_stream_begins_with_all_and_goes_on_with_changes(
    server: Server, source: Applications
) -> None:
    stream = events(server.url, "orders")
    kind, first = next(stream)
    while kind != "whole" or not first["document"]:
        kind, first = next(stream)

    source.seen["orders"].change(reason="1 task restores")
    found = next(news for kind, news in stream if "change" in news)
    stream.close()

    assert first["apps"] == ["orders", "payments"]
    assert first["document"]["app"]["reason"] == "all tasks run"
    assert [event["text"] for event in first["events"]] == ["RUNNING: all tasks run"]
    assert found["change"]["app"] == {"reason": "1 task restores"}


def test_what_was_seen_stays_while_looking_fails_and_the_reason_is_told(
    server: Server, source: Applications
) -> None:
    stream = events(server.url, "orders")
    next(news for kind, news in stream if "at" in news)

    source.seen["orders"].trouble = EnvironmentProblemError("the API server does not answer")
    troubled = next(news for kind, news in stream if news.get("trouble"))
    source.seen["orders"].trouble = None
    well = next(news for kind, news in stream if news.get("trouble") == "")
    stream.close()

    assert troubled == {"trouble": "the API server does not answer"}
    assert "at" in well


def test_an_application_that_is_not_there_is_named(server: Server) -> None:
    assert call(server, "/api/apps/nobody/events")[:2] == (
        404,
        '{"error":"there is no application \'nobody\'"}',
    )
    assert "there is no dashboard 'x'" in call(server, "/api/apps/orders/history/x")[1]
    assert call(server, "/api/apps/orders/history/state?since=x")[0] == 400


def test_history_has_the_panels_of_a_dashboard(server: Server) -> None:
    status, text, _ = call(server, "/api/apps/orders/history/application")

    document = json.loads(text)
    assert status == 200
    assert "Records consumed" in [panel["title"] for panel in document["panels"]]
    assert set(document) == {"panels", "t", "v"}


def test_an_action_takes_the_token_and_no_other_page_can_ask_for_it(
    server: Server, source: Applications
) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}

    assert call(server, "/api/apps/orders/pause", data=b"{}")[0] == 401
    wrong = call(server, "/api/apps/orders/pause", data=b"{}", Authorization="Bearer x" + TOKEN)
    other = call(server, "/api/apps/orders/pause", data=b"{}", Origin="http://evil.test", **right)
    assert source.done == []
    done = call(server, "/api/apps/orders/scale", data=b'{"replicas": 3}', **right)
    no_such = call(server, "/api/apps/orders/explode", data=b"{}", **right)
    broken = call(server, "/api/apps/orders/pause", data=b"[1]", **right)

    assert wrong[0] == 401
    assert "the token is wrong, or the page was started anew" in wrong[1]
    assert other[0] == 403
    assert done[:2] == (200, '{"message":"orders: scale"}')
    assert source.done == [("orders", "scale", {"replicas": 3})]
    assert no_such[:2] == (409, '{"error":"there is no action \'explode\'"}')
    assert broken[0] == 400


def test_a_body_that_is_nested_too_deep_is_refused(server: Server) -> None:
    path, right = "/api/apps/orders/pause", {"Authorization": f"Bearer {TOKEN}"}

    status, text, _ = call(server, path, data=b'{"a":' + b"[" * 9_000, **right)

    assert (status, text) == (400, '{"error":"the body is no JSON object"}')


def test_what_a_journey_answers_may_have_half_of_a_surrogate_pair(
    server: Server, source: Applications
) -> None:
    source.journey = lambda *_: {"warnings": ["bad \udcff"]}  # type: ignore[method-assign]
    json_ = {"Content-Type": "application/json"}

    status, text, _ = call(server, "/api/apps/orders/journey", data=b"{}", **json_)

    assert (status, json.loads(text)["warnings"]) == (200, ["bad \udcff"])


def test_journeys_that_hang_leave_the_page_as_it_is(source: Applications) -> None:
    may_answer, asked = threading.Event(), threading.Semaphore(0)
    running: list[int] = []

    def hang(app: str, record: Mapping[str, object]) -> dict[str, object]:
        running.append(1)
        asked.release()
        assert may_answer.wait(300)
        running.pop()
        return {"most": len(running)}

    source.journey = hang  # type: ignore[method-assign]
    path, json_ = "/api/apps/orders/journey", {"Content-Type": "application/json"}
    with Server(Page(source), "127.0.0.1", 0) as serving, ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(call, serving, path, data=b"{}", **json_) for _ in range(50)]
        try:
            for _ in range(2):
                assert asked.acquire(timeout=60)
            healthy = call(serving, "/healthz")[0]
            listed = call(serving, "/api/apps")[0]
        finally:
            may_answer.set()
        most = [json.loads(answer.result()[1])["most"] for answer in answers]

    assert (healthy, listed) == (200, 200)
    assert max(most) <= 1


def test_one_application_too_many_is_refused_with_the_way_out(source: Applications) -> None:
    with server_of(source, WebOptions("127.0.0.1:0", most=1)) as small:
        stream = events(small.url, "orders")
        next(stream)

        refused = call(small, "/api/apps/payments/events")
        history = call(small, "/api/apps/payments/history/state")
        stream.close()

    said = '{"error":"1 applications are open already; close one of them"}'
    assert (refused[:2], history[:2]) == ((503, said), (503, said))


def test_a_source_that_carries_out_nothing_has_no_buttons_and_says_what_it_cannot_list(
    source: Applications,
) -> None:
    source.acts, source.missing = False, "namespace shop cannot be listed"

    with Server(Page(source, token=TOKEN), "127.0.0.1", 0) as reading:
        about = json.loads(call(reading, "/api/apps")[1])

    assert (about["may"], about["refused"]) == (False, "namespace shop cannot be listed")


def test_a_stream_of_what_cannot_be_opened_says_why_before_it_ends(
    server: Server, source: Applications
) -> None:
    def fail(app: str) -> Seen:
        del app
        raise EnvironmentProblemError("it is locked")

    source.open = fail  # type: ignore[method-assign]

    assert [news["trouble"] for _, news in events(server.url, "orders")] == ["it is locked"]


def test_a_journey_is_asked_for_by_the_page_itself(server: Server) -> None:
    record, path = b'{"topic": "in"}', "/api/apps/orders/journey"
    json_ = {"Content-Type": "application/json"}

    assert call(server, path, data=record)[0] == 403
    assert call(server, path, data=record, Origin="http://evil.test", **json_)[0] == 403
    status, text, _ = call(server, path, data=record, **json_)

    assert (status, json.loads(text)["stores"]) == (200, ["counts"])


def test_without_a_token_nothing_can_be_changed(source: Applications) -> None:
    with Server(Page(source), "127.0.0.1", 0) as reading:
        status, text, _ = call(
            reading, "/api/apps/orders/pause", data=b"{}", Authorization="Bearer "
        )

    assert status == 403
    assert "--web-token-file" in text
    assert source.done == []


def test_a_name_of_somebody_else_that_points_here_is_refused(server: Server) -> None:
    status, text, answer = call(server, "/", Host="evil.test")

    assert status == 421
    assert "--web-host-name" in text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_the_page_has_no_script_or_style_of_its_own_within_and_all_its_files_are_there(
    server: Server,
) -> None:
    status, page, answer = call(server, "/")

    assert status == 200
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert re.findall(r"<script(?![^>]*\ssrc=)[^>]*>|<style|\sstyle=|\son\w+=", page) == []
    assert call(server, "/", If_None_Match=answer.headers["ETag"])[0] == 304
    assert call(server, "/static/../routes.py")[0] == 404
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(named) > 10
    assert [path for path in named if call_bytes(server, path) == b""] == []
    modules = {path.name for path in (STATIC / "js").glob("*.js")}
    imported = {
        name
        for path in (STATIC / "js").glob("*.js")
        for name in re.findall(r'from "\./([\w.]+)"', path.read_text())
    }
    assert modules == imported | {"main.js", "early.js"}
    sheets = {path.name for path in (STATIC / "css").glob("*.css")}
    assert sheets == {f"{name}.css" for name in _SHEETS}
    assert call(server, "/static/css/all.css")[1].startswith("/* Colours, type and spacing.")


def call_bytes(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
        return bytes(answer.read())


def test_a_port_in_use_is_named_with_the_way_out(source: Applications) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port} .*in use.*--web HOST:PORT"):
            Server(Page(source), "127.0.0.1", port)


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from headwater.cli.main import main\n"
        "sys.exit(main(['web', '--home', sys.argv[1]]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == EnvironmentProblemError.exit_code
    assert "the page needs starlette: pip install 'headwater[web]'" in done.stderr


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost:8780", True),
        ("127.0.0.1:8780", True),
        ("[::1]:8780", True),
        ("10.1.2.3", True),
        ("app.localhost", True),
        ("page.example:443", True),
        ("evil.test:8780", False),
        ("localhost.evil.test", False),
        ("127.0.0.1.evil.test", False),
        ("", False),
    ],
)
def test_hosts_are_addresses_or_names_that_were_given(host: str, *, is_own: bool) -> None:
    assert is_own_host(host, {"page.example"}) is is_own


def test_origins_and_tokens_are_compared_as_a_whole() -> None:
    assert is_same_origin(None, "localhost:1")
    assert is_same_origin("http://localhost:1", "localhost:1")
    assert not is_same_origin("http://localhost:2", "localhost:1")
    assert not is_same_origin("null", "null")
    assert is_token("Bearer abc", "abc")
    assert not is_token("Bearer ab", "abc")
    assert not is_token("Bearer ", "")
    assert not is_token("Basic abc", "abc")
    assert not is_token("Bearer \udcff", "abc")


def test_addresses_are_read_with_and_without_a_host() -> None:
    assert address_of("") == ("127.0.0.1", 8780)
    assert address_of("9000") == ("127.0.0.1", 9000)
    assert address_of("[::1]:9000") == ("::1", 9000)
    for wrong in ("localhost", "a:b", ":99999"):
        with pytest.raises(ConfigError, match="give HOST:PORT or PORT"):
            address_of(wrong)


def test_a_token_comes_from_a_file_or_the_environment_and_is_long_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert token_of(None) == ""
    with pytest.raises(ConfigError, match="cannot be read"):
        token_of(file)
    for text, said in (("", "is empty"), ("short\n", "fewer than 16")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            token_of(file)
    file.write_text(f"{TOKEN}\n")
    assert token_of(file) == TOKEN
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN * 2)
    assert token_of(None) == TOKEN * 2
