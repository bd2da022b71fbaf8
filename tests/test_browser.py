"""The report in a real browser: nothing complains, nothing leaves the page, a phone can show it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.report import Report
from softrobust.run.export import find_browser, print_pdf
from softrobust.solvers import LocalSearch
from softrobust.study.checks import Check
from softrobust.study.frontier import frontier
from softrobust.study.value_of_data import DataFound, DataValue
from tests.report.builders import (
    HANDLER,
    HOSTILE,
    first_actions,
    from_log,
    hostile_log,
    make_page,
    ring,
    stock_log,
    uniform,
)
from tests.report.vectors import vector_log, vector_page

pytestmark = pytest.mark.browser

PHONE = 380
# Added to a copy of the page to ask the browser: what was loaded, and how wide did the page become?
PROBE = """<script>
addEventListener("load", () => {
  const kinds = "main, main > section, p, dl, figure, li, h1, h2, pre";
  const wide = [...document.querySelectorAll(kinds)]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1).length;
  const asked = performance.getEntriesByType("resource").length;
  const scroll = document.documentElement.scrollWidth;
  document.body.dataset.probe = [innerWidth, scroll, wide, asked].join(" ");
});
</script>"""

FRAME = f"""<!DOCTYPE html>
<iframe id="phone" width="{PHONE}" height="700" src="inner.html"></iframe>
<script>
addEventListener("load", () => {{
  const page = document.getElementById("phone").contentDocument;
  document.body.dataset.phone = page.body.dataset.probe;
}});
</script>"""


def chromium(page: Path, profile: Path, *flags: str) -> tuple[str, str]:
    """The DOM after loading, and what the console and the browser said."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("Chromium was not found. Run `make test-browser`, or: apt-get install chromium")
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--window-size=1200,2400", "--enable-logging=stderr",
        "--v=0", "--virtual-time-budget=3000", *flags, "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def console(log: str) -> list[str]:
    """What the page itself said on the console."""
    return [line for line in log.splitlines() if "CONSOLE" in line]


def requests(file: Path) -> list[str]:
    """Addresses that a page asked for; the browser's own have no origin."""
    events = json.loads(file.read_text(encoding="utf-8"))["events"]
    found = [event.get("params", {}) for event in events]
    return [p["url"] for p in found if p.get("initiator", "not an origin") != "not an origin"]


def full(problem: Problem, test: ModelSet, **more: Any) -> Report:
    """A page with every section."""
    solution = LocalSearch().solve(problem)
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    values = tuple(DataValue(s, 0, 2.0 - s, 1.0, 3.0, 0.2, 50.0) for s in (0, 1))
    checks = [
        Check.from_dict({"name": HOSTILE, "verdict": verdict, "sentence": f"{HANDLER} (2 rows)."})
        for verdict in ("fine", "caution", "cannot tell")
    ]
    return make_page(
        problem, [solution], test, frontier=made, data=DataFound(10, values), checks=checks,
        policy_csv="policy.csv", **more,
    )  # fmt: skip


def stock() -> Report:
    log = stock_log(60, seed=5)  # three policies on its frontier
    problem, test, posterior = from_log(log)
    return full(problem, test, log=log, posterior=posterior, diagnostics=posterior.diagnostics())


def hostile() -> Report:
    log = hostile_log()
    problem, test, posterior = from_log(log)
    return full(
        problem, test, log=log, posterior=posterior, title=HOSTILE, notes=[HOSTILE],
        settings={HOSTILE: HANDLER}, suppress_small=True,
    )  # fmt: skip


def mixed() -> Report:
    log = stock_log()
    problem, test, posterior = from_log(log)
    return make_page(problem, [uniform(problem, HOSTILE)], test, log, posterior)


def without_caution() -> Report:
    log = stock_log()
    problem, test, posterior = from_log(log, SoftRobust(0.0, 0.9))
    return full(problem, test, log=log, posterior=posterior)


def one_state() -> Report:
    problem = Problem(
        ModelSet.from_dense(np.ones((1, 1, 1, 1))), rewards=np.ones((1, 1)), gamma=0.5
    )
    return make_page(problem, [uniform(problem)])


def equal_returns() -> Report:
    problem = Problem(
        ModelSet.from_dense(np.full((5, 2, 2, 2), 0.5)), rewards=np.full((2, 2), 3.0), gamma=0.5
    )
    return full(problem, problem.models)


def ten_thousand() -> Report:
    problem = ring(10_000)
    return make_page(problem, [first_actions(problem)], problem.models, policy_csv="policy.csv")


def vectors() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return vector_page(Path(folder), vector_log([HOSTILE, HANDLER], ["0", "1", "2"]))


PAGES: dict[str, Callable[[], Report]] = {
    "stock": stock,
    "hostile": hostile,
    "mixed": mixed,
    "λ = 0": without_caution,
    "one state": one_state,
    "equal returns": equal_returns,
    "10 000 states": ten_thousand,
    "vectors": vectors,
}


@pytest.fixture(scope="module")
def pages() -> dict[str, Report]:
    return {name: make() for name, make in PAGES.items()}


def without_policy(html: str) -> str:
    """The page without its content policy: escaping alone must hold."""
    bare, n = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert n == 1
    return bare


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *((name, "light") for name in PAGES),
        ("stock", "dark"),
        ("hostile", "dark"),
        ("vectors", "dark"),
    ],
)
def test_no_word_on_the_console_and_no_request(
    pages: dict[str, Report], name: str, scheme: str, tmp_path: Path
) -> None:
    page = pages[name].save(tmp_path / "report.html")
    flag = f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    dom, log = chromium(page, tmp_path / "profile", flag, f"--log-net-log={tmp_path / 'net.json'}")
    assert console(log) == []
    assert requests(tmp_path / "net.json") == []
    assert '<html lang="en" class="js">' in dom  # our script did run
    assert dom.count("<script") == 1
    assert "<img" not in dom


def test_a_request_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://example.invalid/x.png">', encoding="utf-8")
    chromium(page, tmp_path / "profile", f"--log-net-log={tmp_path / 'net.json'}")
    assert requests(tmp_path / "net.json") == ["http://example.invalid/x.png"]


def test_hostile_labels_do_not_run_even_without_the_content_policy(
    pages: dict[str, Report], tmp_path: Path
) -> None:
    page = tmp_path / "bare.html"
    page.write_text(without_policy(pages["hostile"].html), encoding="utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert console(log) == []
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in dom
    assert dom.count("<script") == 1
    assert dom.count("<img") == 0
    assert "seen 2 times" not in dom  # suppressed


def test_the_content_policy_stops_any_other_script(
    pages: dict[str, Report], tmp_path: Path
) -> None:
    page = tmp_path / "probe.html"
    page.write_text(pages["hostile"].html.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert "data-probe" not in dom
    assert "Content Security Policy" in "".join(console(log))


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_the_page_without_scrolling_sideways(
    pages: dict[str, Report], name: str, tmp_path: Path
) -> None:
    inner = tmp_path / "inner.html"
    inner.write_text(
        without_policy(pages[name].html).replace("</body>", PROBE + "</body>"), "utf-8"
    )
    # A headless window may refuse to be this narrow; a frame is as narrow as it is told to be.
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME, "utf-8")
    dom, log_text = chromium(outer, tmp_path / "profile", "--allow-file-access-from-files")
    assert console(log_text) == []
    found = re.search(r'data-phone="([^"]*)"', dom)
    assert found is not None
    inner_width, scroll_width, too_wide, asked = map(int, found[1].split())
    assert inner_width == PHONE
    assert scroll_width <= PHONE
    assert too_wide == 0
    assert asked == 0


@pytest.mark.parametrize("name", PAGES)
def test_it_prints(pages: dict[str, Report], name: str, tmp_path: Path) -> None:
    page, pdf = pages[name].save(tmp_path / "report.html"), tmp_path / "page.pdf"
    _, log = chromium(page, tmp_path / "profile", f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    assert console(log) == []
    sheets = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    assert 1 <= sheets <= (20 if name == "10 000 states" else 10)
    if shutil.which("pdftotext"):
        done = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, check=True)
        text = " ".join(done.stdout.decode().split())
        assert "To rerun it" in text
        assert "Find a state" not in text  # tools stay on the screen
        if name == "stock":  # what stands closed on the screen is open on paper
            assert text.count("taken here, always") >= 5
            assert "What was assumed" in text


ACT = """<script>
addEventListener("load", () => {
  const one = x => document.querySelector(x), all = x => [...document.querySelectorAll(x)];
  const said = {};
  said.shut = all("details.fold[open]").length;
  const buttons = all(".policy thead button"), last = buttons[buttons.length - 1];
  const rows = () => all(".policy tbody").filter(e => !e.hidden).map(e => e.rows[0]);
  const states = () => rows().map(e => e.cells[0].textContent.trim());
  said.first = states();
  buttons[0].click();
  said.up = states();
  buttons[0].click();
  said.down = states();
  last.click();
  said.times = rows().map(e => Number(e.cells[e.cells.length - 1].dataset.v));
  const find = one(".tools [type=search]"), slider = one("#lambda");
  find.value = "N=1";
  find.dispatchEvent(new Event("input"));
  said.only = states();
  said.start = [slider.value, one(".choose output").textContent];
  slider.value = "0";
  slider.dispatchEvent(new Event("input"));
  said.chosen = one(".choose output").textContent;
  said.marked = all("tr.on, .point.on").map(e => e.dataset.i);
  location.hash = one(".policy tbody a").getAttribute("href");
  setTimeout(() => {
    said.open = one(location.hash).open && one("#why > details").open;
    document.body.dataset.said = JSON.stringify(said);
  }, 50);
});
</script>"""


def test_folding_sorting_finding_and_choosing(pages: dict[str, Report], tmp_path: Path) -> None:
    # Tools appear above eight states; the shelf has seven, and they must work all the same.
    tools = '<div class="tools js-only"><input type="search"><output></output></div>'
    table = '<div class="scroll" tabindex="0" role="region" aria-label="What to do in each state">'
    html = without_policy(pages["stock"].html).replace(table, tools + table)
    page = tmp_path / "act.html"
    page.write_text(html.replace("</body>", ACT + "</body>"), "utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert console(log) == []
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    said = json.loads(unescape(found[1]))
    assert said["shut"] == 0
    states = [f"n={i}" for i in range(7)]
    assert said["first"] == said["up"] == states
    assert said["down"] == states[::-1]
    assert said["times"] == sorted(said["times"], reverse=True)
    assert said["only"] == ["n=1"]
    assert said["start"][0] == "0.5"  # the question's own λ, placed by its value
    assert said["start"][1].endswith(": this policy.")
    assert said["chosen"].startswith("λ 0")
    assert said["marked"] == ["0", "0"]
    assert said["open"] is True


def test_it_reads_without_scripts(pages: dict[str, Report], tmp_path: Path) -> None:
    bare = re.sub(r"<script>.*?</script>", "", pages["stock"].html, flags=re.DOTALL)
    page = tmp_path / "plain.html"
    page.write_text(bare, "utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert console(log) == []
    for words in ("How good, how bad", "What caution costs", "What to do", "acts otherwise"):
        assert words in dom
    assert dom.count('class="density"') == 2


def test_large_pages_stay_small(pages: dict[str, Report]) -> None:
    problem = ring(500, n_actions=30)
    large = make_page(problem, [uniform(problem)], replace(problem.models))
    assert len(large.html.encode()) < 2_000_000
    assert len(pages["10 000 states"].html.encode()) < 2_000_000
    assert '<a href="policy.csv" download>' in pages["10 000 states"].html


def test_the_page_prints_to_a_pdf(tmp_path: Path) -> None:
    problem, *_ = from_log(stock_log())
    out = tmp_path / "page.pdf"
    print_pdf(make_page(problem, first_actions(problem)).html, out, find_browser())
    data = out.read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page[^s]", data)) >= 2
