"""The example of docs/goal.md: `python docs/make_goal.py` prints its table, writes img/goal.png.

Pest control at the paper's size: the posterior of one log, 100 models to choose on and 1 000 held
out, λ = 1, α = 0.7. One policy is sought for the return, one for the gain over the practice that
made the log, one for the regret; each is then measured all three ways.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from softrobust.domains import PestControl
from softrobust.objective import Reference, SoftRobust, cvar
from softrobust.report.plots import Curve
from softrobust.returns import returns_of
from softrobust.solvers import LocalSearch, behaviour_policy, solve

OUT = Path(__file__).resolve().parent / "img" / "goal.png"
ALPHA, SEED = 0.7, 0
NAMES = {"return": "return", "practice": "gain over practice", "optimum": "regret"}
INK = {"return": "#0b5f9a", "practice": "#b3541e", "optimum": "#4d7c3a"}


def main() -> None:
    """Solve three times, measure nine times."""
    domain = PestControl()
    rng = np.random.default_rng(np.random.SeedSequence(SEED).spawn(2)[0])
    log = domain.collect(rng)
    problem, test = domain.split_problem(SEED, 100, 1000, fitted=domain.posterior().fit(log))
    practice = Reference("practice", behaviour_policy(problem, log)[0])
    goals = {
        name: replace(problem, objective=SoftRobust(1.0, ALPHA, reference))
        for name, reference in (("return", None), ("practice", practice), ("optimum", "optimum"))
    }
    found = {name: solve(goal, LocalSearch()).policy for name, goal in goals.items()}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for (measured, goal), ax in zip(goals.items(), axes, strict=True):
        for name, policy in found.items():
            x = returns_of(goal, policy, test).x
            bad, curve = cvar(x, None, ALPHA), Curve(x, np.full(x.size, 1.0 / x.size))
            at = np.linspace(*np.quantile(x, [0.002, 0.998]), 300)
            better = float((x > 0).mean())
            print(f"{NAMES[measured]}, sought for the {NAMES[name]}: mean {x.mean():.0f}, "
                  f"worst 30 % {bad:.0f}, above 0 in {100 * better:.1f} %")  # fmt: skip
            own = name == measured
            ax.plot(at, curve.density(at), color=INK[name], linewidth=2.2 if own else 1.1,
                    label=f"sought for the {NAMES[name]}")  # fmt: skip
            ax.plot([bad], [0], "D", color=INK[name], markersize=7 if own else 5, clip_on=False)
        ax.set_title(NAMES[measured], loc="left", fontsize=11)
        ax.axvline(0, color="#999999", linewidth=0.8, linestyle=":")
        ax.set_yticks([])
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right", "left"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, ncols=3, loc="outside lower center")
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
