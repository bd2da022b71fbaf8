"""The gallery, run: every page's commands, with what they print written back; and its pictures.

    python docs/gallery/make_gallery.py

A page has one block of Python, which writes the raw file, and blocks of commands. Pictures need
chromium. Look at pages and pictures before committing them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from softrobust.cli.main import run as softrobust

HERE = Path(__file__).resolve().parent
PAGES = ("respiratory", "pbc", "migraine", "rice")
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
REST = "\nWhat it rests on"  # a summary is quoted up to here


def outputs(page: str, work: Path) -> Iterator[tuple[str, str]]:
    """Run a page in a folder: (command, what it printed), one after another."""
    before = Path.cwd()
    os.chdir(work)
    try:
        for kind, text in BLOCK.findall((HERE / f"{page}.md").read_text(encoding="utf-8")):
            if kind == "python":
                exec(compile(text, page, "exec"), {})
                continue
            for line in text.splitlines():
                if line.startswith("$ "):
                    yield line, _said(line[2:])
    finally:
        os.chdir(before)


def _said(line: str) -> str:
    words = shlex.split(line)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = softrobust(words[1:])
    if code != 0:
        raise SystemExit(f"{line} ended with {code}")
    return said.getvalue().split(REST)[0].strip("\n")


def rewritten(page: str, work: Path) -> str:
    """The page with the outputs of today."""
    said = iter(list(outputs(page, work)))

    def block(found: re.Match[str]) -> str:
        if found[1] == "python":
            return found[0]
        lines = []
        for line in found[2].splitlines():
            if line.startswith("$ "):
                lines += [line, *next(said)[1].splitlines()]
        return "```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, (HERE / f"{page}.md").read_text(encoding="utf-8"))


def main() -> int:
    """Write pages and pictures; 0 if all were made."""
    sys.path.insert(0, str(HERE.parent))
    from make_screenshots import only, photograph

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    os.environ["COLUMNS"] = "100"
    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            text = rewritten(page, work)
            (HERE / f"{page}.md").write_text(text, encoding="utf-8")
            if browser is not None:
                part = only(work / "run" / "report.html", ("answer",), work / "part.html")
                photograph(browser, part, work, HERE / "img" / f"{page}.png")
        print(f"{page}: done")
    if browser is None:
        print("Chromium was not found: no pictures", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
