"""Who may see the page: one address on this machine, one token, one folder.

The server listens on 127.0.0.1 alone and answers only requests that name it so (a page of another
site that has its name point here is refused), and that carry the cookie for which the token of the
printed address is exchanged, once. What it sends forbids the browser any request elsewhere.
"""

import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, final
from urllib.parse import parse_qs

from softrobust.app.texts import MOST_BYTES, size_words, text
from softrobust.errors import InputError, MissingExtraError

HOST = "127.0.0.1"
SLACK = 2**16  # what a form adds to its file
# Scripts of NiceGUI stand in its pages and compile templates; none comes from elsewhere.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' "
    "ws://{host}; frame-ancestors 'self'; form-action 'self'; base-uri 'self'; object-src 'none'"
)


@final
class Guard:
    """Lets in who has the token, once, and from then on who has the cookie."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self.app, self.token, self.used = app, token, False
        self.secret, self.cookie = secrets.token_urlsafe(32), f"softrobust-{port}"
        self.hosts = {f"{HOST}:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host, origin = given.get("host", ""), given.get("origin")
        if host not in self.hosts or (origin and origin.partition("://")[2] != host):
            await _refuse(scope, send, 403, text("no_host"))
        elif self._known(given.get("cookie", "")):
            await self._pass(scope, receive, send, given, host)
        elif self._enters(scope):
            self.used = True
            cookie = f"{self.cookie}={self.secret}; Path=/; HttpOnly; SameSite=Strict"
            head = [(b"location", scope["raw_path"]), (b"set-cookie", cookie.encode())]
            await _answer(send, 303, b"", head)
        else:
            await _refuse(scope, send, 403, text("no_token"))

    def _known(self, cookies: str) -> bool:
        # Cookies of other servers on this machine come along, whatever they are called.
        given = (part.strip().partition("=") for part in cookies.split(";"))
        found = [value for name, _, value in given if name == self.cookie]
        return any(secrets.compare_digest(x.encode(), self.secret.encode()) for x in found)

    def _enters(self, scope: Any) -> bool:
        if self.used or scope["type"] != "http" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return secrets.compare_digest(given.encode(), self.token.encode())

    async def _pass(self, scope: Any, receive: Any, send: Any, given: Any, host: str) -> None:
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            length = given.get("content-length", "")
            if not (length.isascii() and length.isdigit()):
                await _refuse(scope, send, 411, text("no_length"))
                return
            if int(length) > MOST_BYTES + SLACK:
                await _refuse(scope, send, 413, text("too_long", most=size_words(MOST_BYTES)))
                return

        async def with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = {
                    b"content-security-policy": POLICY.format(host=host).encode(),
                    b"referrer-policy": b"no-referrer",
                    b"x-content-type-options": b"nosniff",
                }
                fresh = [(name, value) for name, value in more.items() if name not in own]
                message = {**message, "headers": [*message["headers"], *fresh]}
            await send(message)

        await self.app(scope, receive, with_policy)


async def _refuse(scope: Any, send: Any, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _answer(send, status, words.encode(), [(b"content-type", b"text/plain; charset=utf-8")])


async def _answer(send: Any, status: int, body: bytes, head: list[tuple[bytes, bytes]]) -> None:
    head = [*head, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def listening(port: int) -> socket.socket:
    """A socket on this machine; port 0 takes a free one."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise InputError(
            f"The port must be free and between 1 and 65535: {port} is not ({error}). Choose "
            "another, or none: then a free one is taken.",
            arguments={"port": "8765"},
        ) from None
    return made


def serve(
    file: Path | None, folder: Path, port: int, ready: Callable[[str], None], show: bool
) -> None:
    """Serve the page until it is closed; `ready` is told its address.

    Parameters
    ----------
    file : Path, optional
        A table that the page begins with; it may lie elsewhere.
    folder : Path
        The one folder whose files and runs are seen, and into which runs are written.
    """
    try:
        import uvicorn
        from fastapi import FastAPI
        from nicegui import ui
    except ImportError:
        raise MissingExtraError("nicegui", "app", "The page to work in") from None
    from softrobust.app.pages import Desk, build
    from softrobust.app.work import stop_all

    if file is not None and not file.is_file():
        raise InputError(f"There is no file '{file}'. Name a table, or none.")
    with listening(port) as sock, tempfile.TemporaryDirectory() as scratch:
        port, token = sock.getsockname()[1], secrets.token_urlsafe(24)
        site = FastAPI(openapi_url=None)
        config = uvicorn.Config(
            site, log_level="error", access_log=False, timeout_graceful_shutdown=1, lifespan="on"
        )
        server = uvicorn.Server(config)

        def close() -> None:
            server.should_exit = True

        first = build(Desk(folder.resolve(), Path(scratch), file, close))
        ui.run_with(
            site, title=text("title"), dark=None, language="en-US", tailwind=False,
            show_welcome_message=False, reconnect_timeout=10.0, favicon="🌱",
        )  # fmt: skip
        site.add_middleware(Guard, token=token, port=port)
        address = f"http://{HOST}:{port}{first}?token={token}"
        sock.listen(64)  # whoever comes before the server runs waits for it
        ready(address)
        if show:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            server.run(sockets=[sock])
        except KeyboardInterrupt:  # it has closed in order, and hands the signal on
            pass
        finally:
            stop_all()
