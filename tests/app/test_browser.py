"""The app in a real browser, from the printed address to the downloaded report."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app.chromium import (
    PATIENCE,
    WRITTEN,
    Browser,
    Tab,
    arrived,
    bring,
    browser,
    download,
    program,
    running,
)

LOG = Path(__file__).resolve().parents[2] / "examples" / "pest_log.csv"
HOSTILE = ["<script>alert(1)</script>", "\"quoted\" 'label'", "\u202ertl\u202d שלום", "x" * 10_000,
           "<img src=x onerror=alert(2)>", "=cmd()", "{{7*7}} ${1}", "a`b\\c"]  # fmt: skip
WIDE = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("Chromium is not installed; `make test-browser` installs it")
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def hostile_log(path: Path) -> None:
    """A log whose every label is out to do harm."""
    rng = random.Random(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["state", "action", "next_state", "reward", "<b>bold</b>", "y" * 10_000])
        for i in range(200):
            s, n = rng.choice(HOSTILE), rng.choice(HOSTILE)
            reward = "99999" if i == 7 else f"{rng.random():.3f}"
            rows.writerow([s, rng.choice(HOSTILE[:3]), n, reward, HOSTILE[0], ""])


def only_itself(tab: Tab, address: str) -> None:
    """Nothing was asked for elsewhere, and nothing complained."""
    own = f"{urlsplit(address).scheme}://{urlsplit(address).netloc}/"
    elsewhere = [url for url in tab.asked if not url.startswith((own, "data:", "blob:", "about:"))]
    assert elsewhere == []
    assert all(url.startswith(own.replace("http", "ws")) for url in tab.sockets)
    assert tab.console == []


def closed(address: str) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", urlsplit(address).port or 0)) != 0


def test_hostile_labels_are_text_and_quit_closes_it(chromium: Browser, tmp_path: Path) -> None:
    source = tmp_path / "other" / "hostile <b>.csv"
    source.parent.mkdir()
    hostile_log(source)
    folder = tmp_path / "work"
    folder.mkdir()
    with running(folder) as (address, child):
        tab = chromium.tab()
        tab.size(380, 800)
        tab.go(address)
        tab.see("Bring a file")
        tab.give(source)
        tab.see("4 · What you want")
        assert (folder / "hostile b.csv").exists()
        tab.see("99999")  # what looks wrong
        for part in tab.ask("[...document.querySelectorAll('summary')].map(e => e.innerText)"):
            tab.click(part)
        tab.see("<script>alert(1)</script>")
        tab.wait("document.querySelector('.alarm, .figures') && true")
        assert (
            tab.ask("document.querySelectorAll('section script, section img, section b b').length")
            == 0
        )
        assert tab.ask(WIDE) <= 380
        assert max(len(line) for line in tab.text().splitlines()) < 2000
        other = chromium.tab()
        other.go(f"{urlsplit(address).scheme}://{urlsplit(address).netloc}/")
        other.see("Files in this folder")  # a second tab of the same browser
        only_itself(tab, address)
        tab.click("Quit")
        tab.see("softrobust is closed")
        assert child.wait(20) == 0
        assert closed(address)


@pytest.mark.browser
def test_from_the_address_to_the_report(chromium: Browser, tmp_path: Path) -> None:
    with running(tmp_path) as (address, child):
        tab = chromium.tab()
        bring(tab, address, tmp_path, LOG)
        tab.click("Careful")
        tab.see("Caution 1:")
        tab.click("Never worse than now")
        tab.click("Solve")
        tab.see("5 · Solving")
        tab.see("choosing a policy")
        tab.send("Page.reload")  # in mid-solve
        second = chromium.tab()
        second.go(tab.ask("location.href"))
        tab.see("A change pays")
        second.see("A change pays")
        tab.wait(WRITTEN)
        report = download(tab, "Report (HTML)", tmp_path / "run-pest-log-report.html")
        assert tab.clicks <= 8
        assert report.read_bytes() == (tmp_path / "run-pest-log" / "report.html").read_bytes()
        assert report.stat().st_size <= 300_000
        assert "What caution costs" in report.read_text(encoding="utf-8")
        download(tab, "Policy (CSV)", tmp_path / "run-pest-log-policy.csv")
        download(tab, "Workbook (Excel)", tmp_path / "run-pest-log-run.xlsx")
        only_itself(tab, address)
        only_itself(second, address)
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 0
        assert closed(address)


@pytest.mark.browser
def test_stop_keep_reopen_and_compare(chromium: Browser, tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path)
    with running(tmp_path, "pest_log.csv") as (address, _):
        tab = chromium.tab()
        tab.size(380, 800)
        for goal in ("Best on average", "Careful"):
            tab.go(address)
            tab.see("4 · What you want")
            tab.click(goal)
            tab.click("Solve")
            tab.click("Stop and keep the best so far")
            tab.see("The answer")
            assert tab.ask(WIDE) <= 380
        tab.click("softrobust")
        tab.see("Compare two runs")
        assert tab.ask(WIDE) <= 380
        tab.click("Compare")
        tab.see("Where they differ")
        assert tab.ask(WIDE) <= 380
        only_itself(tab, address)
    records = [json.loads(p.read_text()) for p in tmp_path.glob("run-*/solution.json")]
    assert [r["solver"] for r in records] == ["exact", "exact"]
    assert {r["lam"] for r in records} == {0.0, 1.0}


@pytest.mark.browser
def test_a_killed_server_loses_nothing(chromium: Browser, tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path)
    with running(tmp_path, "pest_log.csv") as (address, child):
        tab = chromium.tab()
        tab.go(address)
        tab.click("Solve")
        tab.see("5 · Solving")
        tab.see("reading the file")
        child.kill()
    with running(tmp_path) as (address, _):
        tab.go(address)
        tab.see("run-pest-log")
        tab.click("run-pest-log")
        tab.see("A change pays")


def fit_to_use(tab: Tab) -> None:
    """Names for a screen reader, contrast in light and dark, nothing wider than a phone."""
    assert tab.unnamed() == []
    for scheme in ("dark", "light"):
        tab.media(scheme)
        assert tab.faint() == [], scheme
    tab.size(380, 800)
    assert tab.ask(WIDE) <= 380
    tab.size(1200, 900)


def tab_to(tab: Tab, words: str, most: int = 80) -> list[str]:
    """Press the tabulator until something called so has the focus; what was passed."""
    seen: list[str] = []
    while len(seen) < most:
        tab.press("Tab")
        seen.append(tab.ask(
            "(e => (e.innerText || '') + '|' + (e.ariaLabel || ''))(document.activeElement)"
        ))  # fmt: skip
        if seen[-1].startswith(words):
            return seen
    raise AssertionError(f"{words}: not among {seen}")


@pytest.mark.browser
def test_the_keyboard_is_enough(chromium: Browser, tmp_path: Path) -> None:
    """From the first page to the downloaded report without a pointer; every page fit to use."""
    shutil.copy(LOG, tmp_path)
    with running(tmp_path) as (address, _):
        tab = chromium.tab()
        tab.size(1200, 900)
        tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.go(address)
        tab.see("pest_log.csv")
        fit_to_use(tab)
        passed = tab_to(tab, "pest_log.csv")
        assert passed[0].startswith("Skip to the content")
        assert any(words.startswith("Choose a file") for words in passed)
        tab.press("Enter")
        tab.see("in the bad case.")
        fit_to_use(tab)
        before = tab.text()
        for _ in range(80):
            tab.press("Tab")
            if tab.ask("document.activeElement.closest('.q-slider') && true"):
                break
        tab.press("ArrowRight")
        tab.wait(f"document.body.innerText !== {json.dumps(before)}")
        tab_to(tab, "Solve")
        tab.press("Enter")
        tab.see("5 · Solving")
        assert tab.ask("getComputedStyle(document.querySelector('.busy')).animationName") == "none"
        fit_to_use(tab)
        tab.see("The answer")
        tab.wait(WRITTEN)
        fit_to_use(tab)
        tab.media(media="print")
        shown = "getComputedStyle(document.querySelector('{}')).display"
        assert tab.ask(shown.format("header.top")) == tab.ask(shown.format("iframe")) == "none"
        assert tab.ask(shown.format("section")) != "none"
        tab.media()
        tab_to(tab, "Report (HTML)")
        tab.press("Enter")
        arrived(tmp_path / "run-pest-log-report.html")
        tab_to(tab, "Check it")
        tab.press("Enter")
        tab.see("Still at work")
        tab.wait(WRITTEN, 4 * PATIENCE)
    page = (tmp_path / "run-pest-log" / "report.html").read_text(encoding="utf-8")
    for drawing in ("strip", "gain", "map", "frontier"):  # the last: promised and true gain
        assert f'class="{drawing}"' in page
    assert "Promised and true gain" in page
