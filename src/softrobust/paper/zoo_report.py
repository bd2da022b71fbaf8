"""`softrobust reproduce worlds`: do the promises come true in worlds that are known?

The rules were written down before the run and stand in words.toml. All are about the default method
on the *judging* worlds (the tuning worlds are shown beside, and are what its settings were chosen
on), on all their sizes, each log counting alike, gains in units of optimum − practice (see
`worlds_zoo`). A figure is held against its limit as it is; its 95 % interval stands beside it and
decides nothing.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.files import atomic_write
from softrobust.domains.zoo import JUDGING, TUNING, make_world
from softrobust.errors import SolverError
from softrobust.objective import cvar
from softrobust.paper import worlds_zoo as zoo
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings, blocks, catalogue
from softrobust.paper.claims import (
    Claim,
    Interval,
    Measured,
    Verdict,
    bootstrap_interval,
    claimed,
    mean_interval,
    share_interval,
    tabled,
    told,
)
from softrobust.paper.figures import COLOURS, INK, lane_labels, new_figure, plain
from softrobust.paper.page import publish
from softrobust.paper.reproduce import versions_here, write_all
from softrobust.solvers.promise import CLEAR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cells = Mapping[tuple[str, int, str], Sequence[zoo.Row]]
ABOVE_0 = float(np.nextafter(0.0, 1.0))
THRESHOLDS = (CLEAR, 0.8, 0.85, 0.9, 0.95, 0.97)  # chances below which practice stays
LABELS: dict[str, str] = catalogue()["worlds"]["labels"]


@final
class Worlds(Experiment):
    """The zoo: five measures at three sizes of log, for the default and its rivals."""

    name = "worlds"

    def settings(self, quick: bool) -> dict[str, Any]:
        """200 logs of every world and size; a glance with --quick."""
        quick_worlds = ("pest", "machine", "fishery", "crossings")
        return {
            "worlds": list(quick_worlds if quick else (*TUNING, *JUDGING)),
            "sizes": [0] if quick else [0, 1, 2],
            "logs": 2 if quick else 200,
            "block": 1 if quick else 4,
            "methods": list(zoo.METHODS),
        }

    def groups(self, settings: Settings) -> Groups:
        """Blocks of logs: the default, its shuffled logs, and all rivals together."""
        rivals = [m for m in settings["methods"] if m != zoo.OURS]
        kinds: list[tuple[str, list[str], bool]] = [("rivals", rivals, False)] if rivals else []
        if zoo.OURS in settings["methods"]:
            kinds += [("default", [zoo.OURS], False), ("shuffled", [zoo.OURS], True)]
        return {"": [
            task
            for world in settings["worlds"]
            for size in settings["sizes"]
            for kind, methods, shuffled in kinds
            for task in blocks(
                settings["logs"], settings["block"], "worlds", world, f"size{size}", kind, digits=4,
                world=world, size=size, methods=methods, shuffled=shuffled,
            )
        ]}  # fmt: skip

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Measures of all cells, and verdicts where the default was run."""
        return findings([row for result in results.values() for row in result["rows"]], settings)

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Kept promises, gains and chances: a row for each world and size."""
        cells = {(c["world"], c["size"], c["method"]): c for c in numbers["cells"]}
        lanes = list(dict.fromkeys((c["world"], c["size"], c["rows"]) for c in numbers["cells"]))
        figure = new_figure(11.0, 1.2 + 0.19 * len(lanes))
        kept, gain, chance = figure.subplots(1, 3, sharey=True)
        kept.axvspan(0.87, 0.97, color="#e8f1e8", zorder=0)
        gain.axvline(0.0, color=INK, linewidth=0.8)
        for y, (world, size, _) in enumerate(lanes):
            ours, old = (cells.get((world, size, m)) for m in (zoo.OURS, "round-one"))
            if old is not None and old["kept"] is not None:
                kept.plot(old["kept"], y, "x", color=COLOURS[1], markersize=4)
            best = [
                cells[key]["gain_true"] for m in zoo.PUBLISHED if (key := (world, size, m)) in cells
            ]
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


def findings(rows: Sequence[zoo.Row], settings: Settings) -> Findings:
    """From rows, wherever they were made."""
    by_seed = sorted((r for r in rows if not r["shuffled"]), key=lambda r: int(r["seed"]))
    cells = zoo.by_cell(by_seed, "world", "size", "method")
    if not cells:
        raise SolverError("No log of any world came to an end. See the reasons in tasks/failures.")
    ordered: dict[tuple[str, int, str], list[zoo.Row]] = {
        (w, k, m): cells[w, k, m]
        for w in settings["worlds"]
        for k in settings["sizes"]
        for m in settings["methods"]
        if (w, k, m) in cells
    }
    shuffled = [r for r in rows if r["shuffled"]]
    numbers: dict[str, Any] = {"cells": [], "shuffled": []}
    for (w, k, m), c in ordered.items():
        x, found = zoo.gains(c), zoo.measures(c)
        del found["seconds"]
        numbers["cells"].append({
            "world": w, "size": k, "rows": make_world(w).sizes[k].most_rows, "method": m, **found,
            "gain_interval": mean_interval(x).as_dict(), "tenth_interval": _tenth(x).as_dict(),
        })  # fmt: skip
    for (w, k), c in sorted(zoo.by_cell(shuffled, "world", "size").items()):
        numbers["shuffled"].append(
            {"world": w, "size": k, "logs": len(c), "sure": sum(map(zoo.sure, c))}
        )
    return Findings(numbers, tables(ordered), claims(ordered, shuffled), remarks(rows))


def _worst(x: FloatArray) -> float:
    return cvar(x, None, 0.9)


def _tenth(x: FloatArray) -> Interval:
    return bootstrap_interval(x, _worst)


# -------------------------------------------------------------------- tables
def tables(cells: Cells) -> list[dict[str, Any]]:
    """Over all worlds of a half, then world by world."""
    out = []
    for name, worlds in (("judging worlds", JUDGING), ("tuning worlds", TUNING)):
        every = {m: [r for (w, _, n), c in cells.items() if n == m and w in worlds for r in c]
                 for m in zoo.METHODS}  # fmt: skip
        rows = [_line(m, some) for m, some in every.items() if some]
        facts = {"half": name, "worlds": ", ".join(worlds)}
        out += [tabled("worlds", "half", rows, **facts)] if rows else []
        stricter = _stricter(every[zoo.OURS], every["round-one"])
        out += [tabled("worlds", "stricter", stricter, **facts)] if stricter else []
    for world in dict.fromkeys(w for w, _, _ in cells):
        place, half = make_world(world), "judging" if world in JUDGING else "tuning"
        own = "; every log has a world of its own, figures are of the first"
        rows = []
        for (w, k, m), c in cells.items():
            if w == world:
                x = np.array([r["true"] for r in c])
                rows.append([place.sizes[k].most_rows, *_line(m, c), float(x.mean()), _worst(x)])
        said: dict[str, Any] = {"name": world, "half": half, "kinds": ", ".join(place.kinds)}
        said |= {"place": place, "own": own if "family" in place.kinds else ""}
        out.append(tabled("worlds", "world", rows, **said))
    return out


def _line(method: str, rows: Sequence[zoo.Row]) -> list[Any]:
    m = zoo.measures(rows)
    keys = ("kept", "chance_said", "chance_true", "gain_said", "gain_true", "worse", "tenth")
    return [LABELS[method], *(None if m[k] is None else float(f"{m[k]:.3g}") for k in keys)]


def _stricter(ours: Sequence[zoo.Row], first: Sequence[zoo.Row]) -> list[list[Any]]:
    """What had become of the same logs, had a change asked for a larger chance."""
    out = []
    for least in THRESHOLDS if ours else ():
        rows = [r if r["chance"] >= least else r | {"true": r["practice"]} for r in ours]
        x, pairs = zoo.gains(rows), _paired(rows, first)
        over = float((pairs[0] - pairs[1]).mean()) if pairs[0].size else None
        changed = np.mean([r["chance"] >= least for r in ours])
        figures = (changed, x.mean(), over, (x < 0).sum() / x.size, _worst(x))
        out.append([least, *(None if y is None else float(f"{y:.3g}") for y in figures)])
    return out


def _per_cell(rows: Sequence[zoo.Row]) -> str:
    """How many logs a world has at a size: the fewest and the most."""
    cells: dict[tuple[str, int], set[int]] = {}
    for r in rows:
        cells.setdefault((r["world"], r["size"]), set()).add(int(r["seed"]))
    few, most = min(map(len, cells.values())), max(map(len, cells.values()))
    return str(most) if few == most else f"{few} to {most}"


def remarks(rows: Sequence[zoo.Row]) -> list[str]:
    """What was run, in words."""
    parts = {
        "of judging worlds": [r for r in rows if r["world"] in JUDGING],
        "of tuning worlds": [r for r in rows if r["world"] in TUNING],
    }
    logs = {name: [r for r in part if r["method"] == zoo.OURS and not r["shuffled"]]
            for name, part in parts.items()}  # fmt: skip
    logs["for rivals"] = [r for r in rows if r["method"] != zoo.OURS]
    logs["shuffled"] = [r for r in rows if r["shuffled"]]
    said = (f"{_per_cell(part)} {name}" for name, part in logs.items() if part)
    halves = {"tuning": ", ".join(TUNING), "judging": ", ".join(JUDGING)}
    how = [told("worlds", key) for key in ("constants", "tried", "signs", "rivals")]
    return [told("worlds", "logs", logs=", ".join(said)), told("worlds", "split", **halves), *how]


# -------------------------------------------------------------------- verdicts
def _claim(
    key: str, parts: Iterable[tuple[str, Interval]], low: float = -np.inf, high: float = np.inf,
    margin: float | None = None, words: str = "",
) -> Claim:  # fmt: skip
    """Held if every figure lies within low … high; `margin` is what stands beside it."""
    limit = margin if margin is not None else low if np.isfinite(low) else high
    measured = (
        Measured(what, i, limit, Verdict.HELD if low <= i.value <= high else Verdict.NOT_HELD)
        for what, i in parts
    )
    return claimed("worlds", key, "true", *measured, words=words)


def claims(cells: Cells, shuffled: Sequence[zoo.Row]) -> list[Claim]:
    """One claim for each rule; none without the default."""
    judged = {key: c for key, c in cells.items() if key[0] in JUDGING}
    ours = {(w, k): c for (w, k, m), c in judged.items() if m == zoo.OURS}
    out = _promises([r for c in ours.values() for r in c], ours) if ours else []
    rows = {m: [r for (_, _, n), c in judged.items() if n == m for r in c]
            for m in (zoo.OURS, "round-one")}  # fmt: skip
    a, b = _paired(rows[zoo.OURS], rows["round-one"])
    noise = [r for r in shuffled if r["world"] in JUDGING]
    i = share_interval(sum(map(zoo.sure, noise)), len(noise)) if noise else None
    both = (("wet-chicken", "Wet Chicken"), ("random-mdp", "random MDPs"))
    more = [("difference", mean_interval(a - b))] if a.size else []
    out += [
        _claim("round-one", more, ABOVE_0, margin=0.0),
        *(_claim("published", _published(world, cells), 0.0, words=words) for world, words in both),
        _claim("shuffled", [] if i is None else [("share", i)], high=0.05),
    ]
    return [claim for claim in out if claim.measured]


def _promises(
    every: Sequence[zoo.Row], ours: Mapping[tuple[str, int], Sequence[zoo.Row]]
) -> list[Claim]:
    x = zoo.gains(every)
    unit = np.array([r["optimum"] - r["practice"] for r in every])
    chance = mean_interval([r["chance"] - float(g > 0) for r, g in zip(every, x, strict=True)])
    more = mean_interval(np.array([r["gain"] for r in every]) / unit - x)
    worse = share_interval(int((x < 0).sum()), x.size)
    cells = [(f"{w}, size {k}", _kept(c)) for (w, k), c in ours.items()]
    return [
        _claim("limit", [("share", _kept(every))], 0.87, 0.97, 0.9),
        _claim("each", cells, 0.8),
        _claim("chance", [("stated − true", chance)], -0.03, 0.03, 0.03),
        _claim("gain", [("stated − true", more)], high=0.05),
        _claim("worse", [("share", worse)], high=0.03),
        _claim("tenth", [("worst tenth", _tenth(x))], 0.0),
        _claim("enough", [("mean true gain", mean_interval(x))], 0.5),
    ]


def _kept(rows: Sequence[zoo.Row]) -> Interval:
    return share_interval(sum(map(zoo.kept, rows)), len(rows))


def _paired(ours: Iterable[zoo.Row], theirs: Iterable[zoo.Row]) -> tuple[FloatArray, FloatArray]:
    """True gains of two methods on the logs that both have seen."""
    other = {(r["world"], r["size"], r["seed"]): r for r in theirs}
    both = [(r, other[key]) for r in ours if (key := (r["world"], r["size"], r["seed"])) in other]
    return zoo.gains([a for a, _ in both]), zoo.gains([b for _, b in both])


def _published(world: str, cells: Cells) -> list[tuple[str, Interval]]:
    """Mean and worst tenth of the default less those of each published method, size by size."""
    parts = []
    for (w, k, m), c in cells.items():
        if w != world or m not in zoo.PUBLISHED or (world, k, zoo.OURS) not in cells:
            continue
        a, b = _paired(cells[world, k, zoo.OURS], c)
        pair = np.column_stack([a, b])
        tail = bootstrap_interval(pair, lambda x: _worst(x[:, 0]) - _worst(x[:, 1]))
        parts += [
            (f"mean over {LABELS[m]}, size {k}", mean_interval(a - b)),
            (f"worst tenth over {LABELS[m]}, size {k}", tail),
        ]
    return parts


# -------------------------------------------------------------------- files
def write_results(paths: Sequence[Path], out: Path) -> None:
    """The files of a run, and the rows that they are made of (`worlds_zoo --rows`)."""
    rows = list({zoo.key_of(r): r for path in paths for r in zoo.read_rows(path)}.values())
    experiment = Worlds()
    settings = experiment.settings(False) | {
        "worlds": [w for w in (*TUNING, *JUDGING) if any(r["world"] == w for r in rows)],
        "logs": 1 + max(int(r["seed"]) for r in rows),
        "methods": [m for m in zoo.METHODS if any(r["method"] == m for r in rows)],
    }
    seconds = round(sum(r["seconds"] for r in rows), 1)
    run = {"machine": "rows made elsewhere", "workers": None, "wall_seconds": seconds,
           "task_seconds": seconds, "tasks": len(rows), "failed": {},
           "versions": versions_here()}  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_all(experiment, settings, False, findings(rows, settings), run, out)
    lines = "".join(json.dumps(r) + "\n" for r in sorted(rows, key=zoo.key_of))
    with atomic_write(out / "rows.jsonl.xz", "wb") as file:
        file.write(lzma.compress(lines.encode("utf-8")))


def main() -> None:
    """`python -m softrobust.paper.zoo_report ROWS… FOLDER` or `… FOLDER DOCS`."""
    *given, last = map(Path, sys.argv[1:])
    if given and all(".jsonl" in path.suffixes for path in given):
        write_results(given, last)
    elif len(given) == 1:
        publish({"worlds": given[0]}, last)
    else:
        sys.exit("usage: python -m softrobust.paper.zoo_report ROWS.jsonl… FOLDER, or\n"
                 "       python -m softrobust.paper.zoo_report FOLDER DOCS")  # fmt: skip


if __name__ == "__main__":
    main()
