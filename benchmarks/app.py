"""The app from its address to the downloaded report on the bundled log, in a real browser."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.registry import Figure, case

LOG = Path(__file__).parents[1] / "examples" / "pest_log.csv"
# When the first page was painted, for whoever asks later.
KEEP = (
    "new PerformanceObserver(list => { for (const e of list.getEntriesByName('first-contentful-"
    "paint')) sessionStorage.painted ??= e.startTime; }).observe({type: 'paint', buffered: true})"
)
# From a key on the slider until the figures below it have changed.
LISTEN = (
    "window.took = []; let at = 0; addEventListener('keydown', () => { at = performance.now(); }, "
    "true); new MutationObserver(() => { if (at) { took.push(performance.now() - at); at = 0; } })"
    ".observe(document.querySelector('.strip-box'), {childList: true, subtree: true}); "
    "document.querySelector('.q-slider [tabindex]').focus()"
)


def processor() -> float:
    """Seconds of all processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@case("app")
def app(smoke: bool) -> Iterator[Figure]:
    from tests.app.chromium import WRITTEN, bring, browser, download, program, running

    if smoke or program() is None:  # tests/app runs the same way
        return
    with (
        tempfile.TemporaryDirectory() as profile,
        tempfile.TemporaryDirectory() as name,
        browser(Path(profile)) as chromium,
    ):
        before, began = processor(), time.perf_counter()
        with running(folder := Path(name)) as (address, child):
            tab = chromium.tab()
            tab.send("Page.addScriptToEvaluateOnNewDocument", source=KEEP)
            bring(tab, address, folder, LOG)
            painted = tab.ask("Number(sessionStorage.painted)") / 1000
            tab.ask(LISTEN)
            for key in ["ArrowRight", "ArrowLeft"] * 10:
                tab.press(key)
                time.sleep(0.2)
            took = sorted(tab.ask("took"))
            tab.click("Never worse than now")
            tab.click("Solve")
            tab.see("The answer")
            tab.wait(WRITTEN)
            report = download(tab, "Report (HTML)", folder / "run-pest-log-report.html")
            wall, size = time.perf_counter() - began, report.stat().st_size
            tab.click("Quit")
            child.wait(30)
        spent = processor() - before
    yield Figure("app, first screen painted", "1 second", painted, "of it", "≤ 1")
    median, note = took[len(took) // 2], f"median of {len(took)}; slowest {took[-1]:.0f} ms"
    yield Figure("app, a move of the slider", "0.1 s", median / 100, "of it", "≤ 1", note)
    note = f"{tab.clicks} clicks"
    yield Figure(
        "app, to the downloaded report", "8 clicks", tab.clicks / 8, "of them", "≤ 1", note
    )
    note = f"{spent:.1f} s of processor, {wall:.1f} s on the clock with 4 s of slider"
    yield Figure(
        "app, computing to the downloaded report", "30 s", spent / 30, "of it", "≤ 1", note
    )
    yield Figure("app, report", "300 kB", size / 300_000, "of it", "≤ 1", f"{size / 1000:.0f} kB")
