"""Pages of results: numbers, tables and verdicts are those of results.json, and no others.

What an experiment is about, and what stands above all of them, are words of the catalogue.

    python -m softrobust.paper.page results docs

copies the files of every experiment in results/ into docs/results/ and writes docs/results.md, and
docs/worlds.md for `worlds`, which has a page of its own.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softrobust._core.files import atomic_write
from softrobust._core.schema import read_json
from softrobust.errors import InputError
from softrobust.paper.base import EXPERIMENTS, catalogue
from softrobust.paper.claims import LEVEL, Interval, figure_of, interval_of, markdown
from softrobust.report.words import two_digits

FORMAT, FORMAT_VERSION = "softrobust-results", 1
FILES = ("results.json", "run.json", "table.md", "table.csv", "figure.svg", "figure.png")
ALONE = "worlds"  # the experiment with a page of its own
LONG = 16  # rows above which a table is folded
MANY = 12  # comparisons of a claim above which only those that missed are shown
POWER = 0.9  # chance that as many logs as are named decide, if the figure stays
MILLIONS = 1e6  # logs that nobody will run


def page(folder: Path) -> str:
    """The text of results.md for a folder of experiments."""
    found = [read_results(folder / n / "results.json") for n in names_in(folder) if n != ALONE]
    lines = ["| figure | claim | models | verdict |", "| :--- | :--- | :--- | :--- |"]
    for results in found:
        where = f"[{results['figure']}](#{results['name']})"
        for d in results["claims"]:
            each = [m["verdict"] for m in d["measured"]]
            some = f" ({each.count('held')} of {len(each)} comparisons held)"
            verdict = f"**{d['verdict']}**" + (some if len(set(each)) > 1 else "")
            lines.append(f"| {where} | {_named(d)} | {d['models']} | {verdict} |")
    short = "## In two minutes\n\n" + catalogue()["pages"]["short"] + _counts(found)
    sections = [section(r, _run_of(folder / r["name"]), f"results/{r['name']}/") for r in found]
    head, _, rules = catalogue()["pages"]["results"].partition("\n\n")
    parts = [f"{head}\n", short, "## How to read it\n", rules, "## All claims\n"]
    return "\n".join([*parts, "\n".join(lines) + "\n", *sections])


def _counts(found: list[dict[str, Any]]) -> str:
    """How many claims came out how, by figure."""
    verdicts = ("held", "not held", "cannot tell")
    lines = ["\n| figure | held | not held | cannot tell |", "| :--- | ---: | ---: | ---: |"]
    for results in found:
        each = [d["verdict"] for d in results["claims"]]
        counts = " | ".join(str(each.count(v)) for v in verdicts)
        lines.append(
            f"| [{results['title']}](#{results['name']}) ({results['figure']}) | {counts} |"
        )
    return "\n".join(lines) + "\n"


def names_in(folder: Path) -> list[str]:
    """The experiments of a folder, in the order of the paper."""
    there = sorted(p.parent.name for p in folder.glob("*/results.json"))
    if not there:
        raise InputError(f"'{folder}' holds no results: run softrobust reproduce first.")
    known = [name for name in EXPERIMENTS if name in there]
    return known + [name for name in there if name not in EXPERIMENTS]


def read_results(path: Path) -> dict[str, Any]:
    """Read a results.json, or say why it is none."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(f"{path} does not hold the results of an experiment.")
    if found["format_version"] > FORMAT_VERSION:
        raise InputError(f"{path} was written by a newer softrobust. Upgrade to read it.")
    return found


def publish(folders: Mapping[str, Path], docs: Path) -> None:
    """Copy the files of these experiments into docs/results, and write the pages they are on."""
    target = docs / "results"
    for name, folder in folders.items():
        (target / name).mkdir(parents=True, exist_ok=True)
        for file in FILES:
            if (folder / file).resolve() != (target / name / file).resolve():
                shutil.copyfile(folder / file, target / name / file)
    pages = {}
    if folders.keys() - {ALONE}:
        pages["results.md"] = page(target)
    if ALONE in folders:
        results = read_results(target / ALONE / "results.json")
        pages["worlds.md"] = section(results, _run_of(target / ALONE), f"results/{ALONE}/")
    for name, text in pages.items():
        with atomic_write(docs / name) as out:
            out.write(text)


def _run_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(folder / "run.json")
    return found


def _named(d: Mapping[str, Any]) -> str:
    """The claim, with the reading of the text that it is judged in."""
    start = d["where"].find("(")
    reading = f" *{d['where'][start:]}*" if start >= 0 else ""
    return f"{d['claim']}{reading}"


def section(results: Mapping[str, Any], run: Mapping[str, Any], home: str = "") -> str:
    """All of one experiment, whose files are in `home`."""
    name, title, v = results["name"], results["title"], results["versions"]
    words = dict(results) | catalogue().get(name, {})
    about, caption = (" ".join(words[key].split()) for key in ("about", "caption"))
    quick = " --quick" if results["quick"] else ""
    tables = [markdown(t) for t in results["tables"]]
    folded = [
        f"<details><summary>{t['title']}</summary>\n\n{text}\n</details>\n"
        if len(t["rows"]) > LONG else text
        for t, text in zip(results["tables"], tables, strict=True)
    ]  # fmt: skip
    failed = f", {len(run['failed'])} of which failed" if run["failed"] else ""
    workers, load = run["workers"], run.get("load_at_start")
    busy = "" if load is None else f" (load {load:g} at the start)"
    work, wall = run["task_seconds"], run["wall_seconds"]
    resumed = isinstance(workers, int) and work > 1.05 * max(workers, 1) * wall
    took = (
        ", partly in earlier calls, on other machines perhaps"
        if resumed
        else f" in {figure_of(float(round(wall)))} s"
    )
    how = f"{workers} workers" if isinstance(workers, int) else f"workers: {workers or 'all cores'}"
    made = _earlier(results) + (
        f"Computed on {run['machine']} ({how}), {run['tasks']} tasks{failed}: "
        f"{figure_of(float(round(work)))} s of work{took}{busy}; "
        f"softrobust {v['softrobust']}, Python {v['python']}, numpy {v['numpy']}. Every number is "
        f"in [results.json]({home}results.json), the tables in [table.csv]({home}table.csv).\n"
    )
    lines = [
        *([catalogue()["pages"][ALONE]] if name == ALONE else []), f'<a id="{name}"></a>', "",
        f"## {title} ({results['figure']})", "", about, "",
        f"    softrobust reproduce {name}{quick} --out results", "",
        f"![{title}]({home}figure.svg)", "", caption, "",
        *[f"- {text}" for text in results["remarks"]], *([""] if results["remarks"] else []),
        "| claim | models | measured | verdict |", "| :--- | :--- | :--- | :--- |",
        *(_judged(d, results, run) for d in results["claims"]), "", *folded, made,
    ]  # fmt: skip
    return "\n".join(lines)


def _earlier(results: Mapping[str, Any]) -> str:
    """Says so where a run was made with other settings than today's."""
    known = catalogue().get(results["name"], {})
    full = known.get("settings", {}) | (known.get("quick", {}) if results["quick"] else {})
    other = sorted(k for k in full if full[k] != results["settings"].get(k))
    return f"Settings that are others today: {', '.join(other)}.\n\n" if other else ""


def needed(m: Mapping[str, Any], k: int, near: bool) -> float:
    """How many logs would decide a comparison, one of k, if its figure stays as it is.

    `near`: whether it must lie within ± the margin. The interval is to miss the margin with a
    chance of 90 %: n·((z + z₉₀)·se/distance)², z that of 95 %, or of 1 − 0.05/k where it fails.
    """
    from scipy.stats import norm, t

    if m["n"] < 2:
        return math.nan
    over = m["margin"] - abs(m["value"]) if near else m["value"] - m["margin"]
    se = (m["high"] - m["low"]) / 2 / t.ppf((1 + LEVEL) / 2, m["n"] - 1)
    limit = norm.ppf((1 + LEVEL) / 2) if over > 0 else norm.ppf(1 - (1 - LEVEL) / 2 / k)
    return math.inf if over == 0 else float(m["n"] * ((limit + norm.ppf(POWER)) * se / over) ** 2)


def _deciding(n: float, results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """In words, with the hours of one core that so many take, where all tasks are of one kind."""
    if math.isnan(n):
        return ""
    known = catalogue().get(results["name"], {})
    unit = known.get("unit", "logs")
    if n > MILLIONS:
        return f" (over a million {unit} would)"
    shown = figure_of(float(f"{n:.2g}"))
    kinds = results["settings"].get("pairs") or results["settings"].get("variants", {})
    if "task" not in known or not run["task_seconds"] or len(kinds) > 1:
        return f" ({shown} {unit} would)"
    each = run["task_seconds"] / run["tasks"] / results["settings"].get("block", 1)
    return f" ({shown} {unit} would, {figure_of(float(f'{n * each / 3600:.1g}'))} h)"


def _judged(d: Mapping[str, Any], results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """A claim with its rule, what was measured, and the verdict."""
    shown, count = d["measured"], ""
    if len(shown) > MANY:
        missed = [m for m in shown if m["verdict"] != "held"]
        count = f" ({len(shown) - len(missed)} of {len(shown)} held)"
        shown = missed
    parts = []
    for m in shown:
        share = f" ({two_digits(m['value'] / m['scale'])})" if m["scale"] else ""
        more = ""
        if m["verdict"] == "cannot tell":
            more = _deciding(needed(m, len(d["measured"]), "±" in d["rule"]), results, run)
        shares = f"{interval_of(Interval.from_dict(m))}{share}"
        parts.append(f"{m['what']}: {shares}, {m['verdict']}{more}")
    rule = d["rule"].replace("|", "\\|")  # a bar would end the cell
    about = f"{_named(d)}<br><small>{d['where'].split(' (')[0]}; {rule}</small>"
    return f"| {about} | {d['models']} | {'<br>'.join(parts)} | **{d['verdict']}**{count} |"


def main() -> None:
    """`python -m softrobust.paper.page [RESULTS DOCS]`."""
    if len(sys.argv) not in (1, 3):
        sys.exit("usage: python -m softrobust.paper.page [RESULTS DOCS]")
    results, docs = map(Path, sys.argv[1:] or ("docs/results", "docs"))
    publish({name: results / name for name in names_in(results)}, docs)


if __name__ == "__main__":
    main()
