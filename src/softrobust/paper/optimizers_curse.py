"""Figure 1, the optimizer's curse: is the return that a method announces the return one gets?

Surprise = true return − announced return, averaged over pairs (P*, D): P* drawn from the prior
(uniform Dirichlets, 5 states, 3 actions), D of 100 transitions of a random agent. Each policy is
shown with three estimates of its return (erratum 7):

    own       what the method itself announces (its model's optimal value)
    training  the average over the N posterior draws it was computed on
    fresh     the average over other posterior draws

The paper's theorem 3.3 is about the exact posterior. With N draws the static method has picked
the policy that N draws like best, and some optimism returns; it shrinks as N grows. On fresh draws
every policy, however it was found, has an expected surprise of 0: E[ρ(π, P*) | D] is the average
over the posterior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from softrobust.domains import random_mdp
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Results, finished
from softrobust.paper.claims import Claim, Interval, mean_interval, more, within
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain
from softrobust.paper.tables import Table
from softrobust.problem import Problem
from softrobust.returns import policy_return, static_return
from softrobust.run.jobs import Task, task_key, task_seed
from softrobust.solvers import Empirical, Exact, Nominal, Solution, SRect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POLICIES = {
    "empirical": "empirical model",
    "dynamic": "dynamic, λ = 0 (mean model)",
    "static": "static, λ = 0",
    "dynamic-robust": "dynamic (S-rectangular), λ = ½",
    "static-robust": "static, λ = ½",
}
ESTIMATES = {
    "own": "the method's own value",
    "training": "value on its training draws",
    "fresh": "value on fresh draws",
}
SECTION = "section 3, figure 1"
NEAR = 0.1  # "eliminated": within this share of the empirical method's surprise


def repetitions(
    first: int, count: int, sizes: list[int], main: int, fresh: int, lam: float, alpha: float,
    gamma: float, steps: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Task: `count` pairs (P*, D) from number `first` on; surprises of all policies."""
    rows = [
        _one(i, sizes, main, fresh, SoftRobust(lam, alpha), gamma, steps, seed)
        for i in range(first, first + count)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _one(
    i: int, sizes: list[int], main: int, fresh: int, robust: SoftRobust, gamma: float, steps: int,
    seed: int,
) -> dict[str, float]:  # fmt: skip
    """Surprises of one pair, by "policy/estimate", and of the static policy by "N=…"."""
    world = random_mdp(
        "dirichlet", 5, 3, gamma=gamma, steps=steps, seed=task_seed(seed, "world", i) % 2**32
    )
    log = world.collect(task_seed(seed, "log", i))
    fitted = world.posterior().fit(log)
    draws = fitted.sample(max(*sizes, main), task_seed(seed, "training", i))
    other = fitted.sample(fresh, task_seed(seed, "fresh", i))
    frame = world.frame()
    whole = Problem(draws, frame.rewards, frame.p0, gamma, SoftRobust(0.0, robust.alpha))
    # Rows only: rewards, start and discount are the problem's.
    rows = replace(world.true_model(), rewards=None, p0=None, gamma=None)
    truth = replace(whole, models=rows)
    train = whole.with_models(_first(draws, main))
    test = whole.with_models(other)
    cautious = replace(train, objective=robust)
    solutions = {
        "empirical": Empirical(log).solve(train),
        "dynamic": Nominal().solve(train),
        "static": Exact().solve(train),
        "dynamic-robust": SRect().solve(cautious),
        "static-robust": Exact().solve(cautious),
    }
    out: dict[str, float] = {}
    for name, solution in solutions.items():
        out |= _surprises(name, solution, truth, test)
    for n in sizes:
        best = Exact().solve(whole.with_models(_first(draws, n)))
        true = float(policy_return(truth, best.policy)[0])
        out[f"N={n}"] = true - best.static_value
        out[f"N={n}/fresh"] = static_return(test, best.policy) - best.static_value
    return out


def _surprises(name: str, found: Solution, truth: Problem, test: Problem) -> dict[str, float]:
    """True return less each estimate."""
    true = float(policy_return(truth, found.policy)[0])
    fresh = static_return(replace(test, objective=found.objective), found.policy)
    own = found.static_value if found.model_value is None else found.model_value
    return {
        f"{name}/own": true - own,
        f"{name}/training": true - found.static_value,
        f"{name}/fresh": true - fresh,
    }


def _first(models: ModelSet, n: int) -> ModelSet:
    return models if n == models.n_models else models.split(n)[0]


@final
class OptimizersCurse(Experiment):
    """Post-decision surprise, policy × estimate."""

    __slots__ = ()
    name: ClassVar[str] = "optimizers-curse"
    figure: ClassVar[str] = "figure 1"
    title: ClassVar[str] = "The optimizer's curse"
    about: ClassVar[str] = (
        "Pairs of a true model (5 states, 3 actions, drawn from the uniform Dirichlet prior) and a "
        "log of 100 transitions of a random agent. Surprise is the true return of a policy less "
        "the return that was announced for it: below 0, the announcement was too good. The paper "
        "gives neither rewards nor discount: rewards r(s, a) are standard normal, γ = 0.9."
    )
    caption: ClassVar[str] = (
        "Average surprise with 95 % intervals. Left: every policy with three estimates of its "
        "return. Right: the static policy's surprise on its own training draws, by their number."
    )

    def settings(self, quick: bool) -> dict[str, Any]:
        """1000 pairs or more in full."""
        return {
            "repetitions": 300 if quick else 5000, "block": 50,
            "sizes": [10, 25, 100, 400], "main": 100, "fresh": 400,
            "lam": 0.5, "alpha": 0.9, "gamma": 0.9, "steps": 100, "seed": 1,
        }  # fmt: skip

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """Blocks of repetitions."""
        passed = {k: v for k, v in settings.items() if k not in ("repetitions", "block")}
        total, block = settings["repetitions"], settings["block"]
        return [
            Task(
                task_key("curse", f"{first:05d}"),
                "softrobust.paper.optimizers_curse:repetitions",
                {"first": first, "count": min(block, total - first), **passed},
            )
            for first in range(0, total, block)
        ]

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Averages of all surprises."""
        parts = finished(self.tasks(settings), results, least=1)
        surprise = {name: [x for part in parts for x in part[name]] for name in parts[0]}
        means = {name: mean_interval(x).as_dict() for name, x in surprise.items()}
        blocks = {name: [float(np.mean(part[name])) for part in parts] for name in surprise}
        # One average per block of repetitions; the single ones are in the files of the tasks.
        numbers = {"sizes": settings["sizes"], "main": settings["main"], "average": means,
                   "block_averages": blocks}  # fmt: skip
        return Findings(
            numbers, _tables(surprise, settings), _claims(surprise, settings), _remarks(surprise)
        )

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Two panels."""
        figure = new_figure(9.6, 4.0)
        left, right = figure.subplots(1, 2, width_ratios=[2.1, 1])
        means = {name: Interval.from_dict(d) for name, d in numbers["average"].items()}
        _policies(left, means, numbers["main"])
        _sizes(right, means, numbers["sizes"])
        return figure


def _tables(surprise: dict[str, list[float]], settings: Mapping[str, Any]) -> list[Table]:
    rows = [
        [label, *(mean_interval(surprise[f"{name}/{e}"]) for e in ESTIMATES)]
        for name, label in POLICIES.items()
    ]
    by_size = [
        [n, mean_interval(surprise[f"N={n}"]), mean_interval(surprise[f"N={n}/fresh"])]
        for n in settings["sizes"]
    ]
    return [
        Table.of(
            "Average surprise of each policy under each estimate of its return",
            f"Below 0: too good an announcement. {len(rows and surprise['static/own'])} pairs; "
            f"N = {settings['main']} training draws, {settings['fresh']} fresh ones; for λ = ½ the "
            "estimate is the soft-robust value (half the mean, half the worst 10 % of models).",
            ["policy", *ESTIMATES.values()],
            rows,
        ),
        Table.of(
            "The static policy (λ = 0) on its own training draws, by their number N",
            "Second column: the same surprise with the true return replaced by the average over "
            "fresh draws, which has the same expectation and less noise.",
            ["N", "true return − training value", "fresh value − training value"],
            by_size,
        ),
    ]


def _remarks(surprise: dict[str, list[float]]) -> list[str]:
    fresh = [
        mean_interval(surprise[f"{name}/fresh"]) for name in ("empirical", "dynamic", "static")
    ]
    inside = sum(i.low <= 0 <= i.high for i in fresh)
    return [
        f"On fresh draws {inside} of the 3 policies of λ = 0 have an interval that holds 0, "
        "whichever method found them: freedom from the curse is a property of the estimate, not "
        "of the policy (erratum 7)."
    ]


def _claims(surprise: dict[str, list[float]], settings: Mapping[str, Any]) -> list[Claim]:
    own = {name: np.asarray(surprise[f"{name}/own"]) for name in POLICIES}
    curse = mean_interval(-own["empirical"])
    near = NEAR * abs(curse.value)
    largest = max(settings["sizes"])
    last = np.asarray(surprise[f"N={largest}"])
    rule = "the interval of the average lies above 0"
    zero = f"the interval of the average lies within ± {100 * NEAR:g} % of the empirical surprise"
    return [
        Claim("The empirical method announces too much: its average surprise is negative.",
              SECTION, "true", rule, (more("minus the surprise, empirical", curse),)),
        Claim("The dynamic method's surprise is smaller than the empirical one, but negative.",
              SECTION, "true", rule + ", for both",
              (more("surprise, dynamic less empirical",
                    mean_interval(own["dynamic"] - own["empirical"])),
               more("minus the surprise, dynamic", mean_interval(-own["dynamic"])))),
        Claim(f"The static method's surprise is eliminated (N = {settings['main']} draws).",
              SECTION, "true", zero,
              (within("surprise, static", mean_interval(own["static"]), near),)),
        Claim(f"The same with N = {largest} draws, closer to the theorem's exact posterior.",
              SECTION, "true", zero,
              (within(f"surprise, static, N = {largest}", mean_interval(last), near),)),
        Claim("For λ > 0 the static method's expected surprise is not negative.",
              "theorem 3.3", "true", "the interval of the average does not reach below 0",
              (more("surprise, static, λ = ½", mean_interval(own["static-robust"]),
                    -1e-9 * abs(curse.value)),)),
    ]  # fmt: skip


def _policies(axes: Axes, means: Mapping[str, Any], main: int) -> None:
    lane_labels(axes, list(POLICIES.values()))
    marks = zip(ESTIMATES, COLOURS, ("o", "s", "D"), (-0.22, 0.0, 0.22), strict=False)
    for estimate, colour, marker, shift in marks:
        for y, name in enumerate(POLICIES):
            bar(axes, means[f"{name}/{estimate}"], y + shift, colour, marker)
        axes.plot([], [], marker=marker, linestyle="", color=colour, label=ESTIMATES[estimate])
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("average surprise: true return − announced return")
    axes.set_title(f"three estimates of each policy's return (N = {main})", fontsize=10)
    axes.legend(
        frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=3
    )
    plain(axes, "x")


def _sizes(axes: Axes, means: Mapping[str, Any], sizes: list[int]) -> None:
    for key, colour, label in (
        ("N={}", COLOURS[6], "true return"),
        ("N={}/fresh", COLOURS[2], "fresh value"),
    ):
        found = [means[key.format(n)] for n in sizes]
        shift = 1.0 if key == "N={}" else 1.08
        x = [n * shift for n in sizes]
        y = [i.value for i in found]
        axes.errorbar(
            x, y, yerr=[[i.value - i.low for i in found], [i.high - i.value for i in found]],
            color=colour, marker="o", markersize=5, linewidth=1.4, label=f"{label} − training",
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training draws N")
    axes.set_title("static policy, λ = 0, by N", fontsize=10)
    axes.legend(frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.07))
    plain(axes)
