"""A real browser, driven over its own protocol: what a person would do, and what it asked for."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-port=0", "--hide-scrollbars", "--force-prefers-reduced-motion",
)  # fmt: skip
PATIENCE = 90.0
WRITTEN = "!document.body.innerText.includes('is being written')"
# Of every visible text the contrast with the nearest ground that is not transparent.
FAINT = """(() => {
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => c.slice(0, 3).map(x => (x /= 255) <= .03928 ? x / 12.92 :
    ((x + .055) / 1.055) ** 2.4).reduce((s, x, i) => s + x * [.2126, .7152, .0722][i], 0);
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.data.trim();
    const style = getComputedStyle(e);
    if (!text || !e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) ||
        e.closest('.hidden, script, style, [disabled], .q-icon, title, desc')) continue;
    let ground = e;
    while (ground && [0, undefined].includes(rgb(getComputedStyle(ground).backgroundColor)[3] ?? 1))
      ground = ground.parentElement;
    const svg = e.closest('svg') && style.fill !== 'none' ? style.fill : style.color;
    const [a, b] = [light(rgb(svg)), light(rgb(ground ? getComputedStyle(ground).backgroundColor :
      'rgb(255,255,255)'))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) found.push(text.slice(0, 60) + ' ' + svg);
  }
  return found;
})()"""


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Tab:
    """One tab: its console and its requests are kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.number = 0
        self.clicks = 0
        self.asked: list[str] = []
        self.console: list[str] = []
        self.sockets: list[str] = []
        for domain in ("Page", "Runtime", "Network", "DOM", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE))
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._hear(message)

    def _hear(self, message: Any) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.sockets.append(params["url"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.console.append(str([a.get("value") for a in params["args"]]))
            case "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.console.append(params["entry"]["text"] + str(params["entry"].get("url")))

    def ask(self, script: str) -> Any:
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def go(self, address: str) -> None:
        self.send("Page.navigate", url=address)

    def wait(self, script: str, patience: float = PATIENCE) -> Any:
        """Until the script gives something true."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            try:
                if found := self.ask(script):
                    return found
            except AssertionError:
                pass  # the page is just changing
            time.sleep(0.05)
        raise AssertionError(f"never: {script}\n{self.text()[:3000]}")

    def see(self, words: str, patience: float = PATIENCE) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(words)})", patience)

    def text(self) -> str:
        return str(self.ask("document.body.innerText"))

    def click(self, words: str) -> None:
        """Click on what is called so, with a real pointer."""
        find = (
            "(() => { const all = [...document.querySelectorAll('button, a, label, summary, "
            "[role=radio], [role=option], .q-item')]; const one = all.find(e => e.innerText.trim()"
            f".includes({json.dumps(words)}) && e.getClientRects().length); "
            "if (!one || document.fonts.status != 'loaded') return null; "
            "one.scrollIntoView({block: 'center'}); const r = one.getBoundingClientRect(); return "
            "[r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        x, y = before = self.wait(find)
        while (now := self.wait(find)) != before:  # the page is still finding its shape
            x, y = before = now
        self.clicks += 1
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39,
                                             "ArrowLeft": 37, " ": 32}[key])  # fmt: skip

    def give(self, file: Path) -> None:
        """Choose a file, as the dialog of the browser does."""
        self.wait("document.querySelector('input[type=file]') && true")
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def size(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def media(self, scheme: str = "light", media: str = "") -> None:
        """Light or dark; on the screen or printed."""
        found = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=found)

    def unnamed(self) -> list[str]:
        """What a screen reader could not name of all that can be used."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        used = {"button", "link", "textbox", "combobox", "radio", "slider", "checkbox", "Iframe",
                "image", "region"}  # fmt: skip
        return [
            n["role"]["value"]
            for n in nodes
            if not n["ignored"]
            and n["role"]["value"] in used
            and not n.get("name", {}).get("value")
        ]

    def faint(self) -> list[str]:
        """Texts whose contrast with what lies behind them is less than 4.5."""
        return list(self.ask(FAINT))

    def shoot(self, clip: dict[str, float]) -> bytes:
        """A part of the page as PNG."""
        shot = self.send(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(shot["data"])


class Browser:
    """A browser of its own, with nothing stored."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port, self.stack = port, stack

    def tab(self) -> Tab:
        ask = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT"
        )
        with urllib.request.urlopen(ask, timeout=30) as answer:
            found = json.load(answer)
        return Tab(self.stack.enter_context(connect(found["webSocketDebuggerUrl"], max_size=2**28)))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium, and end it in any case."""
    found = program()
    assert found is not None, "Chromium was not found: apt-get install chromium"
    child = subprocess.Popen(
        [found, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        file, end = profile / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not file.exists() or not file.read_text().strip():
            assert child.poll() is None, "Chromium ended at once"
            assert time.monotonic() < end
            time.sleep(0.05)
        with ExitStack() as stack:
            yield Browser(int(file.read_text().split()[0]), stack)
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def running(folder: Path, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`softrobust app` in a folder: its address, and the process."""
    code = "from softrobust.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "app", "--no-open", "--json", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        said = ""
        while "}" not in said:
            line = child.stdout.readline()
            if not line:
                raise AssertionError(child.stderr.read() if child.stderr else "")
            said += line
        yield json.loads(said)["address"], child
    finally:
        if child.poll() is None:
            child.terminate()
        child.wait(30)
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def bring(tab: Tab, address: str, folder: Path, file: Path) -> None:
    """From the printed address to a file whose frontier is there; downloads go to the folder."""
    tab.size(1200, 900)
    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    tab.go(address)
    tab.see("Bring a file")
    tab.clicks = 1  # "Choose a file", whose dialog a script cannot open
    tab.give(file)
    tab.see("in the bad case.")


def download(tab: Tab, words: str, file: Path) -> Path:
    """Click on a file of the answer, and wait until it is there."""
    tab.click(words)
    return arrived(file)


def arrived(file: Path) -> Path:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < end, file
        time.sleep(0.02)
    return file
