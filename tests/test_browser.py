"""The report in a real browser: nothing runs, nothing complains, a phone can show it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from softrobust.reporting import Report, report
from tests.reporting.builders import HOSTILE, from_log, hostile_log, stock_log, uniform

pytestmark = pytest.mark.browser

PHONE = 380
# Added to a copy of the page to ask the browser: what ran, and how wide did the page become?
PROBE = """<script>
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("main, main > section, p, dl, figure, li, h1, h2")]
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


def chromium(page: Path, profile: Path, *flags: str, width: int = 1200) -> tuple[str, str]:
    """The DOM after loading, and what the console and the browser said."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("Chromium was not found. Run `make test-browser`, or: apt-get install chromium")
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", f"--window-size={width},2400", "--enable-logging=stderr",
        "--v=0", "--virtual-time-budget=3000", *flags, "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


def console(log: str) -> list[str]:
    """What the page itself said on the console."""
    return [line for line in log.splitlines() if "CONSOLE" in line]


def hostile_page() -> Report:
    log = hostile_log()
    problem, test, posterior = from_log(log)
    return report(
        problem, [uniform(problem, solver=HOSTILE)], test, log, posterior,
        title=HOSTILE, notes=[HOSTILE],
    )  # fmt: skip


def without_policy(html: str) -> str:
    """The page without its content policy: escaping alone must hold."""
    bare, n = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert n == 1
    return bare


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_loads_without_a_word_on_the_console(tmp_path: Path, scheme: str) -> None:
    page = hostile_page().save(tmp_path / "report.html")
    flag = f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    dom, log = chromium(page, tmp_path / "profile", flag)
    assert console(log) == []
    assert "<script" not in dom
    assert "<img" not in dom
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom


def test_hostile_labels_do_not_run_even_without_the_content_policy(tmp_path: Path) -> None:
    page = tmp_path / "bare.html"
    page.write_text(without_policy(hostile_page().html), encoding="utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert console(log) == []
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in dom
    assert "<script" not in dom


def test_the_content_policy_stops_scripts_and_requests(tmp_path: Path) -> None:
    page = tmp_path / "probe.html"
    page.write_text(hostile_page().html.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    dom, log = chromium(page, tmp_path / "profile")
    assert "data-probe" not in dom
    assert "Content Security Policy" in "".join(console(log))


@pytest.mark.parametrize("kind", ["hostile", "stock"])
def test_a_phone_shows_the_page_without_scrolling_sideways(tmp_path: Path, kind: str) -> None:
    if kind == "hostile":
        made = hostile_page()
    else:
        log = stock_log()
        problem, test, posterior = from_log(log)
        made = report(problem, [uniform(problem)], test, log, posterior)
    inner = tmp_path / "inner.html"
    inner.write_text(without_policy(made.html).replace("</body>", PROBE + "</body>"), "utf-8")
    # A headless window may refuse to be this narrow; a frame is as narrow as it is told to be.
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME, "utf-8")
    dom, log_text = chromium(outer, tmp_path / "profile", "--allow-file-access-from-files")
    assert console(log_text) == []
    found = re.search(r'data-phone="([^"]*)"', dom)
    assert found is not None
    inner_width, scroll_width, too_wide, requests = map(int, found[1].split())
    assert inner_width == PHONE
    assert scroll_width <= PHONE
    assert too_wide == 0
    assert requests == 0
