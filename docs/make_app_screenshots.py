"""Pictures of the app's steps for the documentation, at 1200 and 380 pixels, in a real browser.

    PYTHONPATH=. python docs/make_app_screenshots.py

Goes from the first page to a comparison on the bundled log, with one reward spoilt so that there is
something to look at. Needs chromium. Look at the pictures before committing them.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image
from tests.app.chromium import WRITTEN, Tab, browser, running

ROOT = Path(__file__).resolve().parent
LOG = ROOT.parent / "examples" / "pest_log.csv"
WIDTHS = (1200, 380)
MOST = 60_000  # bytes of a picture


def shot(tab: Tab, name: str, part: str = "#content") -> None:
    """One part of the page at both widths, as small files."""
    for width in WIDTHS:
        tab.size(width, 4000)
        time.sleep(0.6)
        box = tab.ask(
            f"(() => {{ const r = document.querySelector({part!r}).getBoundingClientRect(); "
            "return [r.left, r.top + scrollY, r.width, r.height]; })()"
        )
        pad = 0 if part == "#content" else 12
        left, top = max(box[0] - pad, 0), max(box[1] - pad, 0)
        clip = {"x": left, "y": top, "width": min(box[2] + 2 * pad, width),
                "height": box[3] + 2 * pad, "scale": 1}  # fmt: skip
        found = tab.shoot(clip)
        picture = Image.open(io.BytesIO(found)).convert("RGB")
        out = ROOT / "img" / f"app-{name}-{width}.webp"
        for quality in (90, 75, 60, 45, 30):
            picture.save(out, quality=quality, method=6)
            if out.stat().st_size <= MOST:
                break
        print(out.name, picture.size, f"{out.stat().st_size / 1000:.0f} kB")
    tab.size(1200, 900)


def spoilt(folder: Path) -> None:
    """The bundled log with a code for "missing" among its rewards."""
    lines = LOG.read_text(encoding="utf-8").splitlines()
    lines[6] = lines[6].rsplit(",", 1)[0] + ",-999"
    (folder / "field_notes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Walk through the app."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as profile:
        folder = Path(name) / "orchard"
        folder.mkdir()
        spoilt(folder)
        shutil.copy(LOG, folder)
        with running(folder) as (address, _), browser(Path(profile)) as chromium:
            home = address.split("?")[0]
            tab = chromium.tab()
            tab.size(1200, 900)
            tab.go(address)
            tab.see("Bring a file")
            tab.ask("document.querySelector('section p.small').remove()")  # where it lies here
            shot(tab, "start")
            tab.go(f"{home}file/field_notes.csv")
            tab.see("3 · What looks wrong")
            tab.click("The rows")
            shot(tab, "odd", "section[aria-labelledby=h-odd]")
            tab.go(f"{home}file/pest_log.csv")
            tab.see("in the bad case.")
            shot(tab, "columns", "section[aria-labelledby=h-columns]")
            tab.click("Careful")
            tab.see("Caution 1:")
            shot(tab, "goal", "section[aria-labelledby=h-goal]")
            tab.click("Solve")
            tab.see("choosing a policy")
            shot(tab, "solving", "section[aria-labelledby=h-solving]")
            tab.see("The answer")
            tab.go(f"{home}file/pest_log.csv")
            tab.see("in the bad case.")
            tab.click("Never worse than now")
            tab.click("Solve")
            tab.see("The answer")
            tab.wait(WRITTEN)
            shot(tab, "answer")
            tab.go(f"{home}compare/run-pest-log/run-pest-log-2")
            tab.see("Where they differ")
            shot(tab, "compare")


if __name__ == "__main__":
    main()
