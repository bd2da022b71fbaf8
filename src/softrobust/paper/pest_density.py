"""Figure 3: pest control, how the return of three policies is spread over the models.

The static soft-robust policy (λ = ½, the worst 30 % of models), the robust BCR policy (full sets)
and the nominal one, which is optimal for E[P̂].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.objective import cvar
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings
from softrobust.paper.claims import Claim, Measured, claimed, mean_interval, more, tabled
from softrobust.paper.figures import new_figure, plain
from softrobust.paper.methods import LOOKS, MODELS, NOISE, curve
from softrobust.paper.pairs import bench_of
from softrobust.report.plots import Curve, x_range
from softrobust.returns import policy_return

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "pest-density"
POLICIES = {"static": 0.5, "bcr": 1.0, "bcr-paper": 1.0, "nominal": None}  # and the λ of each
BCRS = {"bcr": "BCR", "bcr-paper": "BCR from training draws"}
LOSS = -5000.0  # dollars: "a loss over $5,000"
OFTEN = 0.05  # "a significant probability"
LINES = {"static": "-", "bcr": (0, (5, 2)), "nominal": (0, (1.5, 1.5))}
WORDS = {
    "static": "static soft-robust, λ = ½",
    "bcr": "BCR, full sets",
    "nominal": "nominal (mean model)",
}


def one_log(
    seed: int, nuts: dict[str, Any], alpha: float, n_train: int, n_test: int, nodes: int
) -> dict[str, Any]:
    """Task: returns of the three policies on training and held-out models of one log."""
    bench = bench_of("pest-control", nuts, seed, n_train, n_test, alpha)
    out: dict[str, Any] = {"seed": seed, "scale": bench.scales(), "returns": {}}
    for name, lam in POLICIES.items():
        point = curve(name, bench, [] if lam is None else [lam], nodes)[0]
        out["returns"][name] = {
            word: policy_return(problem, point.policy).round(2).tolist()
            for word, problem in bench.problems().items()
        }
    return out


@final
class PestDensity(Experiment):
    """Densities of the return."""

    name = NAME

    def groups(self, settings: Settings) -> Groups:
        """A task for each data seed."""
        seeds = settings["seeds"]
        return {"": [((self.name, f"seed{seed:03d}"), {"seed": seed}) for seed in seeds]}

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Means, bad cases and chances of a large loss, log by log."""
        logs = self.finished(settings, results)
        out = Findings(
            {"alpha": settings["alpha"], "logs": [dict(log) for log in logs]}, [], [], []
        )
        for models in MODELS:
            figures = {name: _figures(logs, name, models, settings["alpha"]) for name in POLICIES}
            scale = float(np.mean([log["scale"][models] for log in logs]))
            out.tables.append(_table(figures, models, len(logs)))
            out.claims.extend(_claims(figures, models, scale))
        return out

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """One log as in the paper, and all logs together on held-out models."""
        figure = new_figure(9.6, 4.0)
        left, right = figure.subplots(1, 2)
        logs, alpha = numbers["logs"], numbers["alpha"]
        first = {name: np.array(logs[0]["returns"][name]["training"]) for name in WORDS}
        held_out = {name: [log["returns"][name]["held-out"] for log in logs] for name in WORDS}
        pooled = {name: np.concatenate(returns) for name, returns in held_out.items()}
        _panel(left, first, alpha, f"data seed {logs[0]['seed']}, training models")
        _panel(right, pooled, alpha, f"{len(logs)} logs, held-out models")
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False,
            fontsize=9,
        )  # fmt: skip
        return figure


Figures = dict[str, dict[str, FloatArray]]  # (n_logs,) by policy and measure


def _figures(
    logs: Sequence[Mapping[str, Any]], name: str, models: str, alpha: float
) -> dict[str, FloatArray]:
    """(n_logs,) arrays of mean, bad case, and the share of models with a loss beyond 5 000."""
    z = [np.asarray(log["returns"][name][models]) for log in logs]
    return {
        "mean": np.array([x.mean() for x in z]),
        "cvar": np.array([cvar(x, None, alpha) for x in z]),
        "loss": np.array([np.mean(x < LOSS) for x in z]),
    }


def _table(figures: Figures, models: str, n: int) -> dict[str, Any]:
    rows = []
    base = figures["nominal"]
    for name, lam in POLICIES.items():
        own = figures[name]
        label = LOOKS[name].label.split(" (")[0] + ("" if lam is None else f", λ = {lam:g}")
        less = [None, None] if name == "nominal" else [
            mean_interval(own[key] - base[key]) for key in ("mean", "cvar")
        ]  # fmt: skip
        rows.append([label, float(own["mean"].mean()), float(own["cvar"].mean()),
                     *less, mean_interval(own["loss"])])  # fmt: skip
    return tabled(NAME, "policies", rows, models=models, n=n)


def _claims(figures: Figures, models: str, scale: float) -> list[Claim]:
    static, nominal = figures["static"], figures["nominal"]
    bcrs = {words: figures[name] for name, words in BCRS.items()}
    margin = NOISE * scale

    def less(words: str, a: FloatArray, b: FloatArray) -> Measured:
        return more(words, mean_interval(a - b), margin, scale)

    costs = (less(f"mean, nominal less {words}", nominal["mean"], bcr["mean"])
             for words, bcr in bcrs.items())  # fmt: skip
    first = less("mean, nominal less static", nominal["mean"], static["mean"])
    lost = more("share of models", mean_interval(nominal["loss"]), OFTEN)
    out = [
        claimed(NAME, "highest", models, first, *costs),
        claimed(NAME, "loses", models, lost, often=OFTEN),
    ]
    for words, bcr in bcrs.items():
        parts = {
            "more-robust": [less(f"bad case, {words} less nominal", bcr["cvar"], nominal["cvar"])],
            "fat-tail": [less(f"bad case, static less {words}", static["cvar"], bcr["cvar"])],
            "degrades": [less(f"mean, nominal less {words}", nominal["mean"], bcr["mean"]),
                         less(f"mean, static less {words}", static["mean"], bcr["mean"])],
        }  # fmt: skip
        out += [claimed(NAME, key, models, *some, bcr=words) for key, some in parts.items()]
    return out


def _panel(axes: Axes, returns: Mapping[str, Any], alpha: float, title: str) -> None:
    curves = {name: Curve(z, np.full(z.size, 1 / z.size)) for name, z in returns.items()}
    limits = x_range(list(curves.values()))
    x = np.linspace(*limits, 500)
    shapes = {name: c.density(x) for name, c in curves.items()}
    top = max(float(y.max()) for y in shapes.values())
    for i, (name, y) in enumerate(shapes.items()):
        colour = LOOKS[name].colour
        axes.plot(x, y / top, color=colour, linestyle=LINES[name], linewidth=2, label=WORDS[name])
        lane = -0.08 * (i + 1)
        low, mean = cvar(returns[name], None, alpha), float(np.mean(returns[name]))
        axes.plot([low, mean], [lane, lane], color=colour, linewidth=1.2)
        axes.plot([low], [lane], "D", color=colour, markersize=6)
        axes.plot([mean], [lane], "o", color=colour, markersize=6.5)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.set_ylim(-0.08 * (len(shapes) + 1), 1.05)
    axes.set_yticks([])
    axes.set_xlabel("return (dollars, discounted)")
    axes.set_title(title, fontsize=10)
    plain(axes, "x")
    axes.spines["left"].set_visible(False)
