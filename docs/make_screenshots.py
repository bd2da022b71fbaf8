"""Pictures of the report for the documentation, made from the bundled example in a real browser.

    python docs/make_screenshots.py

Solves examples/pest_log.csv, runs its checks, writes the full page, and photographs it with
headless Chromium: light, dark, as wide as a phone, and printed. Needs chromium, and pdftoppm
(poppler) for the printed page. Look at the pictures before committing them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from softrobust.cli.main import run as softrobust

ROOT = Path(__file__).resolve().parent
LOG = ROOT.parent / "examples" / "pest_log.csv"
OUT = ROOT / "img"
WIDE, PHONE, TALL = 1000, 380, 5200
# Name → (sections shown, dark?)
SHOTS = {
    "report-answer": (("answer",), False),
    "report-returns": (("returns",), False),
    "report-frontier": (("caution",), False),
    "report-policy": (("policy",), False),
    "report-why": (("why",), False),
    "report-data": (("data",), False),
    "report-trust": (("certificate", "trust"), False),
    "report-dark": (("answer", "returns"), True),
}


def main() -> int:
    """Make all pictures; 0 if they were made."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("Chromium was not found: apt-get install chromium", file=sys.stderr)
        return 1
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        page = make_page(work)
        for shot, (sections, dark) in SHOTS.items():
            part = only(page, sections, work / "part.html")
            photograph(browser, part, work, OUT / f"{shot}.png", dark)
        phone(browser, page, work, OUT / "report-phone.png")
        printed(browser, page, work, OUT / "report-print.png")
    return 0


def make_page(work: Path) -> Path:
    """The full page of the bundled example."""
    run = str(work / "pest")
    for line in (
        ["solve", str(LOG), "--gamma", "0.9", "--out", run, "--quiet"],
        ["check", run, "--json"],
        ["rehearse", run, "--json", "--times", "25"],
        ["report", run, "--quiet"],
    ):
        if softrobust(line) != 0:
            raise SystemExit(f"softrobust {' '.join(line)} failed")
    return work / "pest" / "report.html"


def only(page: Path, sections: tuple[str, ...], to: Path) -> Path:
    """A copy that shows some sections; its content policy would forbid the added style."""
    html = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8")
    )
    shown = ", ".join(f"#{name}" for name in sections)
    style = (
        f"<style>section, footer {{ display: none; }} {shown} {{ display: block !important; }} "
        f"{'#answer' if 'answer' in sections else '#' + sections[0]} {{ margin-top: 0 !important; "
        "padding-top: 0 !important; border: 0 !important; } "
        f"{'' if 'answer' in sections else 'header { display: none; }'}</style>"
    )
    html = html.replace('<details class="fold">', '<details class="fold" open>')
    to.write_text(html.replace("</head>", style + "</head>"), encoding="utf-8")
    return to


def chromium(browser: str, work: Path, page: Path, *flags: str) -> None:
    """Run the browser once, quietly."""
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
        f"--user-data-dir={work / 'profile'}", "--virtual-time-budget=2000", *flags, page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=180)


def photograph(browser: str, page: Path, work: Path, out: Path, dark: bool = False) -> None:
    """The page at desktop width, cut where it ends."""
    scheme = f"--blink-settings=preferredColorScheme={int(not dark)}"
    size = f"--window-size={WIDE},{TALL}"
    chromium(browser, work, page, scheme, size, f"--screenshot={work / 'shot.png'}")
    save(Image.open(work / "shot.png"), out)


def phone(browser: str, page: Path, work: Path, out: Path) -> None:
    """Two screens of a phone side by side: the start, and the policy."""
    screens = []
    for sections in (("answer",), ("policy",)):
        only(page, sections, work / "inner.html")
        outer = work / "outer.html"
        outer.write_text(
            f'<!DOCTYPE html><body style="margin:0"><iframe src="inner.html" width="{PHONE}" '
            'height="820" style="border:0"></iframe>',
            encoding="utf-8",
        )
        flags = ("--window-size=600,820", f"--screenshot={work / 'shot.png'}")
        chromium(browser, work, outer, *flags)
        with Image.open(work / "shot.png") as shot:
            screens.append(shot.convert("RGB").crop((0, 0, PHONE, 820)))
    both = Image.new("RGB", (2 * PHONE + 60, 860), "#d8d9d4")
    for i, screen in enumerate(screens):
        both.paste(screen, (20 + i * (PHONE + 20), 20))
    both.save(out, optimize=True)


def printed(browser: str, page: Path, work: Path, out: Path) -> None:
    """The first three sheets of the printed page."""
    if shutil.which("pdftoppm") is None:
        print("pdftoppm was not found; the printed page was left out", file=sys.stderr)
        return
    pdf = work / "page.pdf"
    chromium(browser, work, page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    subprocess.run(["pdftoppm", "-r", "64", "-l", "3", "-png", pdf, work / "sheet"], check=True)
    sheets = [Image.open(file).convert("RGB") for file in sorted(work.glob("sheet*.png"))]
    width, height = sheets[0].size
    row = Image.new("RGB", (len(sheets) * (width + 20) + 20, height + 40), "#d8d9d4")
    for i, sheet in enumerate(sheets):
        row.paste(sheet, (20 + i * (width + 20), 20))
    row.save(out, optimize=True)


def save(shot: Image.Image, out: Path) -> None:
    """Cut the empty rows below the page."""
    shot = shot.convert("RGB")
    ground = shot.getpixel((2, shot.height - 2))
    plain = Image.new("RGB", shot.size, ground)
    box = ImageChops.difference(shot, plain).getbbox()
    bottom = shot.height if box is None else min(box[3] + 40, shot.height)
    shot.crop((0, 0, shot.width, bottom)).save(out, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
