"""`softrobust reproduce worlds`: do the promises come true in worlds that are known?

The rules, written down before the run. All are about the default method on the *judging* worlds
(the tuning worlds are shown beside, and are what its settings were chosen on), on all their sizes,
each log counting alike, gains in units of optimum − practice (see `worlds_zoo`). A figure is held
against its limit as it is; its 95 % interval stands beside it and decides nothing.

    kept            held if the 90 % limit is kept in 87 … 97 % of all logs
    kept, each      held if it is kept in ≥ 80 % of the logs of every world at every size
    chance          held if |mean stated chance − share truly better| ≤ 0.03
    gain            held if mean stated gain − mean true gain ≤ 0.05
    worse           held if ≤ 3 % of all logs are truly worse than practice
    worst tenth     held if the mean true gain of the worst tenth of all logs is ≥ 0
    half            held if the mean true gain is ≥ 0.5
    round one       held if it is above that of the default of round one, on the same logs
    Wet Chicken     held if, at every size, mean and worst tenth of the true return are at least
    random MDPs     those of every published method of the same run (Wet Chicken is a tuning world)
    shuffled        held if the stated chance is ≥ 95 % on at most 5 % of the shuffled logs
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.files import atomic_write
from softrobust.domains.zoo import JUDGING, TUNING, make_world
from softrobust.errors import SolverError
from softrobust.objective import cvar
from softrobust.paper.base import Experiment, Findings, Results
from softrobust.paper.claims import (
    Claim,
    Interval,
    Measured,
    Verdict,
    bootstrap_interval,
    mean_interval,
    share_interval,
)
from softrobust.paper.reproduce import read_results, results_of, write_all
from softrobust.paper.tables import Table, interval_of
from softrobust.paper.worlds_zoo import (
    METHODS,
    NOTHING,
    OURS,
    PUBLISHED,
    SURE,
    Row,
    measures,
    read_rows,
)
from softrobust.run.jobs import Task, task_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cells = Mapping[tuple[str, int, str], Sequence[Row]]
WHERE = "worlds"
LABELS = {
    OURS: "default",
    "practice": "practice",
    "nominal": "nominal (mean model)",
    "empirical": "empirical",
    "spibb": "Πb-SPIBB, N∧ = 7",
    "spibb-at-most": "Π≤b-SPIBB, N∧ = 7",
    "soft-spibb": "Lower-Approx-Soft-SPIBB, ε = ½",
    "ramdp": "RaMDP, κ = half the range of rewards",
    "duipi": "DUIPI, ξ = 0.1",
    "round-one": "default of round one",
}


@final
class Worlds(Experiment):
    """The zoo: five measures at three sizes of log, for the default and its rivals."""

    __slots__ = ()
    name: ClassVar[str] = "worlds"
    figure: ClassVar[str] = "beyond the paper"
    title: ClassVar[str] = "Promises in worlds with a known truth"
    about: ClassVar[str] = (
        "Logs are drawn from worlds that are known exactly, at three sizes each; every method sees "
        "the log alone, and its policy is put into the world. Half of the worlds were set aside "
        "for judging before any result was seen. What rivals and practice are said to promise is "
        "what the Dirichlet posterior of round one says of their policies on 300 draws that they "
        "were not chosen on. The default of round one is the local search's best policy on 100 "
        "draws (λ = ½, α = 0.9), without a proof. Where a policy has the log's own shares, or says "
        "nothing, practice goes on."
    )
    caption: ClassVar[str] = (
        "A row for each world and size (rows of the log at most). Left: how often the 90 % limit "
        "was kept by the default (●) and in round one (×); the band is 87–97 %. Middle: true gain "
        "in units of optimum − practice, mean (●) and worst tenth (○) of the default, and the mean "
        "of the best published method (|). Right: stated (○) and true (●) chance to be better."
    )

    def settings(self, quick: bool) -> dict[str, Any]:
        """200 logs of every world and size; a glance with --quick."""
        quick_worlds = ("pest", "machine", "fishery", "crossings")
        return {
            "worlds": list(quick_worlds if quick else (*TUNING, *JUDGING)),
            "sizes": [0] if quick else [0, 1, 2],
            "logs": 4 if quick else 200,
            "block": 4,
            "methods": list(METHODS),
        }

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """Blocks of logs: the default, its shuffled logs, and all rivals together."""
        rivals = [m for m in settings["methods"] if m != OURS]
        kinds: list[tuple[str, list[str], bool]] = [("rivals", rivals, False)] if rivals else []
        if OURS in settings["methods"]:
            kinds += [("default", [OURS], False), ("shuffled", [OURS], True)]
        return [
            Task(
                task_key("worlds", world, f"size{size}", kind, f"{first:04d}"),
                "softrobust.paper.worlds_zoo:task",
                {
                    "world": world, "size": size, "methods": methods, "first": first,
                    "count": min(settings["block"], settings["logs"] - first),
                    "shuffled": shuffled,
                },
            )
            for world in settings["worlds"]
            for size in settings["sizes"]
            for kind, methods, shuffled in kinds
            for first in range(0, settings["logs"], settings["block"])
        ]  # fmt: skip

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Measures of all cells, and verdicts where the default was run."""
        rows = [row for result in results.values() for row in result["rows"]]
        return findings(rows, settings)

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Three panels, a row for each world and size."""
        return draw(numbers)


def findings(rows: Sequence[Row], settings: Mapping[str, Any]) -> Findings:
    """From rows, wherever they were made."""
    cells: dict[tuple[str, int, str], list[Row]] = {}
    for r in sorted((r for r in rows if not r["shuffled"]), key=lambda r: int(r["seed"])):
        cells.setdefault((r["world"], r["size"], r["method"]), []).append(r)
    if not cells:
        raise SolverError("No log of any world came to an end. See the reasons in tasks/failures.")
    order = [
        (w, k, m)
        for w in settings["worlds"]
        for k in settings["sizes"]
        for m in settings["methods"]
        if (w, k, m) in cells
    ]
    ordered = {key: cells[key] for key in order}
    shuffled = [r for r in rows if r["shuffled"]]
    numbers = {
        "cells": [
            {"world": w, "size": k, "rows": _rows(w, k), "method": m, **_cell(c)}
            for (w, k, m), c in ordered.items()
        ],
        "shuffled": _shuffled(shuffled),
    }  # fmt: skip
    return Findings(numbers, tables(ordered), claims(ordered, shuffled), remarks(settings))


def _rows(world: str, size: int) -> int:
    return make_world(world).sizes[size].most_rows


def _cell(rows: Sequence[Row]) -> dict[str, Any]:
    found = measures(rows)
    del found["seconds"]
    low = [i.as_dict() for i in (mean_interval(gains(rows)), _tenth(gains(rows)))]
    return {**found, "gain_interval": low[0], "tenth_interval": low[1]}


def _shuffled(rows: Sequence[Row]) -> list[dict[str, Any]]:
    cells: dict[tuple[str, int], list[Row]] = {}
    for r in rows:
        cells.setdefault((r["world"], r["size"]), []).append(r)
    return [
        {"world": w, "size": k, "logs": len(c), "sure": sum(r["chance"] >= SURE for r in c)}
        for (w, k), c in sorted(cells.items())
    ]


def gains(rows: Sequence[Row]) -> FloatArray:
    """True gains over practice in units of optimum − practice; less than 1e-9 is none."""
    x = np.array([(r["true"] - r["practice"]) / (r["optimum"] - r["practice"]) for r in rows])
    return np.where(np.abs(x) <= NOTHING, 0.0, x)


def _worst(x: FloatArray) -> float:
    return cvar(x, None, 0.9)


def _tenth(x: FloatArray) -> Interval:
    return bootstrap_interval(x, _worst)


# -------------------------------------------------------------------- tables
def tables(cells: Cells) -> list[Table]:
    """Over all worlds of a half, then world by world."""
    halves = {"judging worlds": JUDGING, "tuning worlds": TUNING}
    out = [_half(name, worlds, cells) for name, worlds in halves.items()]
    names = list(dict.fromkeys(w for w, _, _ in cells))
    return [t for t in out if t.rows] + [_world(w, cells) for w in names]


COLUMNS = ["method", "kept", "chance said", "true", "gain said", "true gain", "worse",
           "worst tenth"]  # fmt: skip


def _line(rows: Sequence[Row]) -> list[Any]:
    m = measures(rows)
    keys = ("kept", "chance_said", "chance_true", "gain_said", "gain_true", "worse", "tenth")
    return [None if m[k] is None else float(f"{m[k]:.3g}") for k in keys]


def _half(name: str, worlds: Sequence[str], cells: Cells) -> Table:
    rows = []
    for method in METHODS:
        some = [r for (w, _, m), c in cells.items() if m == method and w in worlds for r in c]
        if some:
            rows.append([LABELS[method], *_line(some)])
    return Table.of(
        f"All {name}",
        f"Over the logs of {', '.join(w for w in worlds)}; gains in units of optimum − practice.",
        COLUMNS,
        rows,
    )


def _world(world: str, cells: Cells) -> Table:
    place = make_world(world)
    rows = []
    for (w, k, m), c in cells.items():
        if w == world:
            x = np.array([r["true"] for r in c])
            rows.append(
                [place.sizes[k].most_rows, LABELS[m], *_line(c), float(x.mean()), _worst(x)]
            )
    half = "judging" if world in JUDGING else "tuning"
    family = (
        "; every log has a world of its own, figures are of the first"
        if "family" in place.kinds
        else ""
    )
    return Table.of(
        f"{world} ({half}: {', '.join(place.kinds)})",
        f"{place.about} {place.n_states} states, {place.n_actions} actions, γ = {place.gamma:g}; "
        f"practice earns {place.practice_return:.4g}, the optimum {place.optimum:.4g}{family}.",
        ["rows", *COLUMNS, "true return", "its worst tenth"],
        rows,
    )  # fmt: skip


def remarks(settings: Mapping[str, Any]) -> list[str]:
    """What was run, in words."""
    return [
        f"{settings['logs']} logs of each world and size.",
        f"Tuning worlds: {', '.join(TUNING)}. Judging worlds: {', '.join(JUDGING)}. The split was "
        "made before any result. Of the benchmarks of the literature Wet Chicken is for tuning, "
        "random MDPs are for judging.",
        "Rivals run at one setting everywhere, the one that is best on Wet Chicken or usual in the "
        "literature, and read practice from the log as the default does.",
    ]


# -------------------------------------------------------------------- verdicts
def claims(cells: Cells, shuffled: Sequence[Row]) -> list[Claim]:
    """One claim for each rule at the top of this module; none without the default."""
    judged = {key: c for key, c in cells.items() if key[0] in JUDGING}
    ours = {(w, k): c for (w, k, m), c in judged.items() if m == OURS}
    out: list[Claim] = []
    if ours:
        every = [r for c in ours.values() for r in c]
        out += [*_promises(every, ours), *_gained(every, judged)]
    for world, words in (("wet-chicken", "Wet Chicken"), ("random-mdp", "random MDPs")):
        out += _published(world, words, cells)
    noise = [r for r in shuffled if r["world"] in JUDGING]
    if noise:
        i = share_interval(sum(r["chance"] >= SURE for r in noise), len(noise))
        out.append(
            _claim(
                "Logs whose actions were shuffled hardly ever make it sure of a gain.",
                "share with a stated chance of 95 % or more ≤ 0.05",
                [_at_most("share", i, 0.05)],
            )
        )
    return out


def _promises(every: Sequence[Row], ours: Mapping[tuple[str, int], Sequence[Row]]) -> list[Claim]:
    x = gains(every)
    unit = np.array([r["optimum"] - r["practice"] for r in every])
    kept = _kept(every)
    inside = Verdict.HELD if 0.87 <= kept.value <= 0.97 else Verdict.NOT_HELD
    chance = mean_interval([r["chance"] - float(g > 0) for r, g in zip(every, x, strict=True)])
    close = Verdict.HELD if abs(chance.value) <= 0.03 else Verdict.NOT_HELD
    more = mean_interval(np.array([r["gain"] for r in every]) / unit - x)
    worse = share_interval(int((x < 0).sum()), x.size)
    return [
        _claim("The 90 % limit of the return is kept as often as it says.",
               "share of all logs within 0.87 … 0.97", [Measured("share", kept, 0.9, inside)]),
        _claim("It is kept in every world at every size.", "share of the logs of a cell ≥ 0.80",
               [_at_least(f"{w}, size {k}", _kept(c), 0.8) for (w, k), c in ours.items()]),
        _claim("The stated chance to be better than practice is true on average.",
               "|stated − true| ≤ 0.03", [Measured("stated − true", chance, 0.03, close)]),
        _claim("The stated gain is not more than comes true.", "stated − true ≤ 0.05 units",
               [_at_most("stated − true", more, 0.05)]),
        _claim("The policy is hardly ever worse than practice.", "share of all logs ≤ 0.03",
               [_at_most("share", worse, 0.03)]),
        _claim("Even the worst tenth of the logs gains.",
               "mean true gain of the worst tenth of all logs ≥ 0",
               [_at_least("worst tenth", _tenth(x), 0.0)]),
    ]  # fmt: skip


def _gained(every: Sequence[Row], judged: Cells) -> list[Claim]:
    x = gains(every)
    out = [
        _claim("Half of what there is to gain is gained.", "mean true gain ≥ 0.5 units",
               [_at_least("mean true gain", mean_interval(x), 0.5)])
    ]  # fmt: skip
    first = {(r["world"], r["size"], r["seed"]): r
             for (_, _, m), c in judged.items() if m == "round-one" for r in c}  # fmt: skip
    both = [(r, first[key]) for r in every if (key := (r["world"], r["size"], r["seed"])) in first]
    if both:
        more = gains([a for a, _ in both]) - gains([b for _, b in both])
        i = mean_interval(more)
        held = Verdict.HELD if i.value > 0 else Verdict.NOT_HELD
        out.append(
            _claim("It gains more than the default of round one.",
                   "mean difference of true gains on the same logs > 0",
                   [Measured("difference", i, 0.0, held)])
        )  # fmt: skip
    return out


def _published(world: str, words: str, cells: Cells) -> list[Claim]:
    """Mean and worst tenth of the default less those of each published method, size by size."""
    parts = []
    for (w, k, m), c in cells.items():
        ours = cells.get((world, k, OURS))
        if w != world or m not in PUBLISHED or ours is None:
            continue
        theirs = {r["seed"]: r for r in c}
        both = [(r, theirs[r["seed"]]) for r in ours if r["seed"] in theirs]
        a, b = gains([x for x, _ in both]), gains([y for _, y in both])
        pair = np.column_stack([a, b])
        tail = bootstrap_interval(pair, lambda x: _worst(x[:, 0]) - _worst(x[:, 1]))
        parts += [
            _at_least(f"mean over {LABELS[m]}, size {k}", mean_interval(a - b), 0.0),
            _at_least(f"worst tenth over {LABELS[m]}, size {k}", tail, 0.0),
        ]
    if not parts:
        return []
    text = f"On {words} no published method is better, in the mean or in the worst tenth."
    return [_claim(text, "difference of true gains ≥ 0 at every size", parts)]


def _kept(rows: Sequence[Row]) -> Interval:
    hits = sum(r["true"] >= r["low"] - NOTHING * (r["optimum"] - r["practice"]) for r in rows)
    return share_interval(hits, len(rows))


def _claim(text: str, rule: str, parts: Sequence[Measured]) -> Claim:
    return Claim(text, WHERE, "true", rule, tuple(parts))


def _at_least(what: str, i: Interval, limit: float) -> Measured:
    return Measured(what, i, limit, Verdict.HELD if i.value >= limit else Verdict.NOT_HELD)


def _at_most(what: str, i: Interval, limit: float) -> Measured:
    return Measured(what, i, limit, Verdict.HELD if i.value <= limit else Verdict.NOT_HELD)


# -------------------------------------------------------------------- picture
def draw(numbers: Mapping[str, Any]) -> Figure:
    """Kept promises, gains, chances."""
    from softrobust.paper.figures import COLOURS, INK, lane_labels, new_figure, plain

    cells = {(c["world"], c["size"], c["method"]): c for c in numbers["cells"]}
    lanes = list(dict.fromkeys((c["world"], c["size"], c["rows"]) for c in numbers["cells"]))
    figure = new_figure(11.0, 1.2 + 0.19 * len(lanes))
    kept, gain, chance = figure.subplots(1, 3, sharey=True)
    kept.axvspan(0.87, 0.97, color="#e8f1e8", zorder=0)
    gain.axvline(0.0, color=INK, linewidth=0.8)
    for y, (world, size, _) in enumerate(lanes):
        ours, old = (cells.get((world, size, m)) for m in (OURS, "round-one"))
        if old is not None and old["kept"] is not None:
            kept.plot(old["kept"], y, "x", color=COLOURS[1], markersize=4)
        best = [cells[key]["gain_true"] for m in PUBLISHED if (key := (world, size, m)) in cells]
        if best:
            gain.plot(max(best), y, "|", color=COLOURS[1], markersize=7)
        if ours is not None:
            kept.plot(ours["kept"], y, "o", color=COLOURS[0], markersize=4)
            gain.plot(ours["gain_true"], y, "o", color=COLOURS[0], markersize=4)
            gain.plot(ours["tenth"], y, "o", color=COLOURS[0], markersize=4, fillstyle="none")
            chance.plot(ours["chance_said"], y, "o", color=COLOURS[0], fillstyle="none")
            chance.plot(ours["chance_true"], y, "o", color=COLOURS[0], markersize=4)
    for axes, words in (
        (kept, "90 % limit kept"),
        (gain, "true gain"),
        (chance, "chance to be better"),
    ):
        plain(axes, "both")
        axes.set_xlabel(words, fontsize=9)
        axes.tick_params(axis="y", length=0, labelsize=7)
    kept.set_xlim(0, 1.03)
    chance.set_xlim(-0.03, 1.03)
    gain.set_xlim(left=max(gain.get_xlim()[0], -1.5))
    lane_labels(kept, [f"{w}, {rows}" for w, _, rows in lanes])
    return figure


# -------------------------------------------------------------------- page
INTRO = """# Worlds

Does what is promised come true? Where the truth is known it can be counted. This page is written
from the results of `softrobust reproduce worlds`; misses are on it like everything else.

{about}

{remarks}

## The rules, and what came of them

The rules were written down before the run. A figure is held against its limit as it is; the 95 %
interval in brackets decides nothing. Of a claim with several parts, those that missed are shown.

| what is claimed | rule | measured | verdict |
| :--- | :--- | :--- | :--- |
"""
FILES = ("results.json", "run.json", "table.csv", "figure.svg", "figure.png")


def page(results: Mapping[str, Any]) -> str:
    """The text of docs/worlds.md: every verdict with its rule, then every table."""
    remarks = "\n".join(f"- {x}" for x in results["remarks"])
    lines = [INTRO.format(about=results["about"], remarks=remarks).rstrip("\n")]
    for d in results["claims"]:
        claim = Claim.from_dict(d)
        shown = [m for m in claim.measured if m.verdict is not Verdict.HELD] or claim.measured[:1]
        some = "<br>".join(f"{m.what}: {interval_of(m.interval)}" for m in shown)
        held = sum(m.verdict is Verdict.HELD for m in claim.measured)
        count = f" ({held} of {len(claim.measured)})" if len(claim.measured) > 1 else ""
        lines.append(f"| {claim.text} | {claim.rule} | {some} | **{claim.verdict}**{count} |")
    lines += ["", f"![{results['title']}](worlds/figure.svg)", "", results["caption"]]
    for d in results["tables"]:
        table = Table.from_dict(d)
        lines += ["", f"## {table.title}", "", *table.markdown().splitlines()[2:]]
    return "\n".join(lines) + "\n"


def publish(folder: Path, docs: Path) -> None:
    """Copy the files of a finished run into docs/worlds, and write docs/worlds.md from them."""
    target = docs / "worlds"
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (folder / name).resolve() != (target / name).resolve():
            shutil.copyfile(folder / name, target / name)
    with atomic_write(docs / "worlds.md") as out:
        out.write(page(read_results(target / "results.json")))


def write_results(paths: Sequence[Path], out: Path) -> None:
    """The files of a run from rows that were made elsewhere (`worlds_zoo --rows`)."""
    made = [r for path in paths for r in read_rows(path)]
    rows = list({(r["world"], r["size"], r["method"], r["seed"], r["shuffled"]): r
                 for r in made}.values())  # fmt: skip
    experiment = Worlds()
    settings = experiment.settings(False) | {
        "worlds": [w for w in (*TUNING, *JUDGING) if any(r["world"] == w for r in rows)],
        "logs": 1 + max(int(r["seed"]) for r in rows),
        "methods": [m for m in METHODS if any(r["method"] == m for r in rows)],
    }
    seconds = round(sum(r["seconds"] for r in rows), 1)
    run = {"machine": "rows made elsewhere", "workers": None, "wall_seconds": seconds,
           "task_seconds": seconds, "tasks": len(rows), "failed": {}}  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_all(experiment, results_of(experiment, settings, False, findings(rows, settings)),
              run, out)  # fmt: skip


def main() -> None:
    """`python -m softrobust.paper.zoo_report ROWS… FOLDER` or `… FOLDER DOCS`."""
    *given, last = map(Path, sys.argv[1:])
    if given and all(path.suffix == ".jsonl" for path in given):
        write_results(given, last)
    elif len(given) == 1:
        publish(given[0], last)
    else:
        sys.exit("usage: python -m softrobust.paper.zoo_report ROWS.jsonl… FOLDER, or\n"
                 "       python -m softrobust.paper.zoo_report FOLDER DOCS")  # fmt: skip


if __name__ == "__main__":
    main()
