"""Who is let in: the token once, the cookie from then on, nobody else, and nothing too large."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from softrobust.app.pages import Desk
from softrobust.app.server import Guard, listening, serve
from softrobust.app.texts import MOST_BYTES
from softrobust.cli.main import run as softrobust
from softrobust.errors import InputError

BASE = "http://127.0.0.1:8000"


async def inner(scope: Any, receive: Any, send: Any) -> None:
    """A page that says yes to whoever comes."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"yes"})


def ask(script: Callable[[Guard, Callable[[], httpx.AsyncClient]], Awaitable[None]]) -> None:
    guard = Guard(inner, "secret", 8000)

    def client() -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=BASE)

    asyncio.run(script(guard, client))  # type: ignore[arg-type]


def test_the_token_works_once_and_the_cookie_from_then_on() -> None:
    async def script(guard: Guard, client: Callable[[], httpx.AsyncClient]) -> None:
        async with client() as first, client() as second:
            assert (await first.get("/")).status_code == 403
            assert (await first.get("/?token=wrong")).status_code == 403
            assert (await first.post("/?token=secret")).status_code == 403
            entered = await first.get("/file/a%20b.csv?token=secret")
            assert entered.status_code == 303
            assert entered.headers["location"] == "/file/a%20b.csv"
            cookie = entered.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert (await first.get("/")).text == "yes"
            assert (await first.get("/?token=secret")).text == "yes"  # the same browser again
            late = await second.get("/?token=secret")
            assert late.status_code == 403
            assert "works once" in late.text
            other = {"cookie": f"a@b=1; softrobust-8000=; {cookie.partition(';')[0]}; c"}
            assert (await second.get("/", headers=other)).text == "yes"  # beside those of others
            second.cookies.set("softrobust-8000", "guess")
            assert (await second.get("/_nicegui/anything.js")).status_code == 403

    ask(script)


def test_other_hosts_and_origins_are_refused() -> None:
    async def script(guard: Guard, client: Callable[[], httpx.AsyncClient]) -> None:
        async with client() as known:
            await known.get("/?token=secret")
            for name, value in (("host", "evil.example"), ("origin", "http://evil.example"),
                                ("origin", "null"), ("host", "127.0.0.1:9")):  # fmt: skip
                assert (await known.get("/", headers={name: value})).status_code == 403
            assert (await known.get("/", headers={"origin": BASE})).status_code == 200

    ask(script)


def test_a_socket_needs_the_cookie_too() -> None:
    async def script(guard: Guard, client: Callable[[], httpx.AsyncClient]) -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        head = [(b"host", b"127.0.0.1:8000")]
        scope = {"type": "websocket", "path": "/ws", "headers": head, "query_string": b""}
        await guard(scope, None, send)
        assert [m["type"] for m in sent] == ["websocket.close"]

    ask(script)


def test_what_is_sent_is_bounded_and_what_comes_may_ask_for_nothing_elsewhere() -> None:
    async def script(guard: Guard, client: Callable[[], httpx.AsyncClient]) -> None:
        async with client() as known:
            await known.get("/?token=secret")
            large = await known.post("/", headers={"content-length": str(2 * MOST_BYTES)})
            assert large.status_code == 413
            assert "folder" in large.text

            async def drops() -> Any:
                yield b"x"

            assert (await known.post("/", content=drops())).status_code == 411
            policy = (await known.get("/")).headers["content-security-policy"]
            assert policy.startswith("default-src 'self'")
            assert "http" not in policy

    ask(script)


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert taken.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InputError, match="must be free"):
            listening(port)
        assert softrobust(["app", "--no-open", "--port", str(port)]) == 2
        assert f"{port} is not" in capsys.readouterr().err
    with pytest.raises(InputError, match="between 1 and 65535"):
        listening(70_000)


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert softrobust(["app", "--no-open"]) == 1
    assert "softrobust[app]" in capsys.readouterr().err
    monkeypatch.undo()
    with pytest.raises(InputError, match="no file"):
        serve(tmp_path / "none.csv", tmp_path, 0, print, False)


@pytest.mark.parametrize(
    "name", ["..", ".", "../out", "/etc/passwd", ".hidden", "sub/log.csv", "away", "", "a\0b"]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / ".hidden", folder / "sub" / "log.csv", folder / "log.csv"):
        path.write_text("x")
    (folder / "away").symlink_to("/etc")
    desk = Desk(folder.resolve(), tmp_path, None, lambda: None)
    assert desk.inside("log.csv") == folder / "log.csv"
    with pytest.raises(LookupError):
        desk.inside(name)


def test_a_port_is_free_again_at_the_end() -> None:
    with listening(0) as sock:
        port = sock.getsockname()[1]
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))
