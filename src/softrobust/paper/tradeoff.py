"""Pest control, inventory, riverswim (figures 4, 6, 7): average return against the bad case.

Every data seed gives a log, a posterior, training and held-out models; every method a curve over λ.
Points are averages over logs. The logs of one domain differ far more than the methods do, so
intervals are those of the difference to the nominal policy on the same log.

Curves are compared by one number, their height: for a weight w of the bad case the score of a curve
is (1 − w)·mean + w·CVaR at the λ that scores best on the training models, and the height is the
average over w = 0, ¼, ½, ¾, 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings, catalogue
from softrobust.paper.claims import Claim, Interval, mean_interval, tabled, told
from softrobust.paper.figures import grouped, new_figure, place, plain, short
from softrobust.paper.methods import FAR, LOOKS, MEASURES, MODELS, NEAR, Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.9, 4.3)
CLOSER = "closer, "
BCRS = {name for name in LOOKS if name.startswith("bcr")}
CLOSE = 0.25  # of the width: curves that take less get a closer look
Row = tuple[str, dict[str, Any], dict[str, Any]]  # title, curves, curves that set the limits


@final
class Tradeoff(Experiment):
    """A figure of curves (4, 6 or 7, by its name); the variants of a domain are its rows."""

    def groups(self, settings: Settings) -> Groups:
        """A task for each data seed, by variant."""
        return {
            label: [
                ((self.name, f"variant{i}", f"seed{seed:03d}"),
                 {"domain": self.words("domain"), "domain_settings": dict(given), "seed": seed})
                for seed in settings["seeds"]
            ]
            for i, (label, given) in enumerate(settings["variants"].items())
        }  # fmt: skip

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Averages, tables and verdicts of every variant."""
        words = SoftRobust(1.0, settings["alpha"]).words
        numbers: dict[str, Any] = {"tail_words": words, "variants": {}}
        out = Findings(numbers, [], [], [])
        for label in settings["variants"]:
            logs = self.finished(settings, results, label)
            curves = Curves.of(logs)
            points = _points(curves)
            found = {"scale": curves.scales, "points": points, **curves.numbers()}
            numbers["variants"][label] = found
            where = f" ({label})" if label else ""
            out.tables.extend([_table(points, len(logs), where, words), _heights(curves, where)])
            out.claims.extend(self.claims(curves, label))
            out.remarks.extend(self.remarks(label, logs))
        return out

    def claims(self, curves: Curves, label: str) -> list[Claim]:
        """What the paper says of this figure, on training and on held-out models."""
        listed, where = catalogue()[self.name]["claims"], self.words("where")
        out = []
        for group, models, claim in product((0, 1), MODELS, listed):
            if claim.get("group", 0) == group:
                parts = [getattr(curves, how)(*of, models) for how, *of in claim["parts"]]
                flat = [m for part in parts for m in (part if isinstance(part, list) else [part])]
                place = f"{where} ({label})" if label else where
                rule = told("rules", claim.get("rule", "more"), near=100 * NEAR, far=100 * FAR)
                out.append(Claim(claim["text"], place, models, rule, tuple(flat)))
        return out

    def remarks(self, label: str, logs: Sequence[Mapping[str, Any]]) -> list[str]:
        """How far the static optimum was proven: the gap as a share of what is to be gained."""
        static = [(log["curves"]["static"], log["scale"]["training"]) for log in logs]
        gaps = sorted(
            gap * abs(own) / scale
            for curve, scale in static
            for gap, own in zip(curve["gap"], curve["own"], strict=True)
            if gap is not None
        )
        if not gaps:
            return []
        where, median = f"{label}: " if label else "", 100 * gaps[len(gaps) // 2]
        return [told("tradeoff", "proof", where=where, most=100 * gaps[-1], median=median)]

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """A row of panels (training, held-out) for each variant, and a closer look where needed."""
        rows = []
        for label, variant in numbers["variants"].items():  # the tables have the hidden ones, too
            seen = {name: c for name, c in variant["points"].items() if not LOOKS[name].hidden}
            rows += _rows(label, seen)
        figure = new_figure(2 * PANEL[0], PANEL[1] * len(rows) + 0.7)
        panels = figure.subplots(len(rows), 2, squeeze=False)
        shown: dict[str, Any] = {}
        for line, (title, points, near) in zip(panels, rows, strict=True):
            for axes, models in zip(line, MODELS, strict=True):
                shown |= _panel(axes, points, models, numbers["tail_words"], near)
                axes.set_title(f"{title}{models} models", fontsize=10)
        names = [name for name in LOOKS if name in shown]
        figure.legend(
            [shown[name] for name in names], [LOOKS[name].label for name in names],
            loc="outside upper center", ncols=3, frameon=False, fontsize=8.5,
        )  # fmt: skip
        figure.canvas.draw()  # the layout must be final before labels are placed in pixels
        figure.set_layout_engine("none")
        for i, line in enumerate(panels):
            # A closer look below has the labels of the others.
            closer = i + 1 < len(rows) and CLOSER in rows[i + 1][0]
            for axes, models in zip(line, MODELS, strict=True):
                _label(axes, rows[i][1], models, BCRS if closer else set(LOOKS))
        return figure


def _points(curves: Curves) -> dict[str, list[dict[str, Any]]]:
    """Averages with intervals, and paired differences to the nominal policy, by method and λ."""

    def measured(name: str, lam: float | None, models: str, key: str) -> dict[str, Any]:
        x = curves.at(name, lam, models, key)
        less = mean_interval(x - curves.at("nominal", None, models, key))
        return {**mean_interval(x).as_dict(), "less_nominal": less.as_dict()}

    return {
        name: [
            {"lam": lam, **{m: {k: measured(name, lam, m, k) for k in MEASURES} for m in MODELS}}
            for lam in lams
        ]
        for name, lams in curves.lams.items()
    }


def _table(points: Mapping[str, Any], n_logs: int, where: str, words: str) -> dict[str, Any]:
    names = ["nominal", *(name for name in points if name != "nominal")]
    rows = []
    for name in names:
        shown = "value" if name == "nominal" else "less_nominal"
        for p in points[name]:
            lam = "–" if p["lam"] is None else short(p["lam"])
            cells = [p[models][key][shown] for models, key in product(MODELS, MEASURES)]
            rows.append([LOOKS[name].label, lam, *cells])
    return tabled("tradeoff", "points", rows, where=where, n=n_logs, tail=words)


def _heights(curves: Curves, where: str) -> dict[str, Any]:
    rows = [
        [LOOKS[name].label]
        + [mean_interval(curves.height(name, m) - curves.height("nominal", m)) for m in MODELS]
        for name in curves.lams
        if name != "nominal"
    ]
    return tabled("tradeoff", "heights", rows, where=where)


def _rows(label: str, points: dict[str, Any]) -> list[Row]:
    """All curves; and, where BCR's alone make the others a dot, a closer look at those."""
    title = f"{label}: " if label else ""
    near = {name: curve for name, curve in points.items() if not name.startswith("bcr")}
    if all(_range(near, m) > CLOSE * _range(points, m) for m in MODELS):
        return [(title, points, points)]
    return [(title, points, points), (f"{title}{CLOSER}", points, near)]


def _range(points: Mapping[str, Any], models: str) -> float:
    at = [p[models]["cvar"]["value"] for curve in points.values() for p in curve]
    return float(max(at) - min(at))


def _panel(
    axes: Axes, points: Mapping[str, Any], models: str, tail_words: str, near: Mapping[str, Any]
) -> dict[str, Any]:
    shown = {}
    for i, (name, curve) in enumerate(points.items()):
        look = LOOKS[name]
        x = [p[models]["cvar"]["value"] for p in curve]
        y = [p[models]["mean"]["value"] for p in curve]
        _crosses(axes, [p[models] for p in curve], look.colour)
        (shown[name],) = axes.plot(
            x, y, color=look.colour, marker=look.marker, markersize=6.5, linewidth=1.3,
            markeredgecolor="white", markeredgewidth=0.6, zorder=3 if name != "nominal" else 4 + i,
        )  # fmt: skip
    axes.set_xlabel(f"average return over {tail_words}")
    axes.set_ylabel("average return over all models")
    _limits(axes, near, models)
    axes.locator_params(nbins=6)
    plain(axes)
    return shown


def _limits(axes: Axes, points: Mapping[str, Any], models: str) -> None:
    """Room for the points and their labels; a long interval may leave the picture."""
    for key, put in (("cvar", axes.set_xlim), ("mean", axes.set_ylim)):
        at = [p[models][key]["value"] for curve in points.values() for p in curve]
        room = 0.16 * max(max(at) - min(at), 1e-3 * max(abs(a) for a in at), 1e-9)
        put(min(at) - room, max(at) + room)


def _crosses(axes: Axes, points: list[Mapping[str, Any]], colour: str) -> None:
    """Intervals of the paired difference to the nominal policy, drawn about the average."""
    from matplotlib.collections import LineCollection

    lines = []
    for p in points:
        x, y = p["cvar"]["value"], p["mean"]["value"]
        i, j = (Interval.from_dict(p[key]["less_nominal"]) for key in ("cvar", "mean"))
        if i.n > 1:
            lines.append([(x + i.low - i.value, y), (x + i.high - i.value, y)])
            lines.append([(x, y + j.low - j.value), (x, y + j.high - j.value)])
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.9, alpha=0.4), autolim=False
    )


def _label(axes: Axes, points: Mapping[str, Any], models: str, names: set[str]) -> None:
    labels, avoid = [], []
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    for name, curve in points.items():
        x = [p[models]["cvar"]["value"] for p in curve]
        y = [p[models]["mean"]["value"] for p in curve]
        avoid += list(zip(x, y, strict=True))
        if curve[0]["lam"] is not None and name in names:
            made = grouped(axes, x, y, [p["lam"] for p in curve], LOOKS[name].colour)
            labels += [a for a in made if x0 <= a.x <= x1 and y0 <= a.y <= y1]
    place(axes, labels, np.array(avoid))
