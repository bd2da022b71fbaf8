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
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.domains import random_mdp
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings, blocks, catalogue
from softrobust.paper.claims import (
    Claim,
    Interval,
    claimed,
    mean_interval,
    more,
    tabled,
    told,
    within,
)
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain
from softrobust.problem import Problem
from softrobust.returns import policy_return, static_return
from softrobust.run.jobs import task_seed
from softrobust.solvers import Empirical, Exact, Nominal, SRect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POLICIES: dict[str, str] = catalogue()["optimizers-curse"]["policies"]
ESTIMATES: dict[str, str] = catalogue()["optimizers-curse"]["estimates"]
PLAIN = ("empirical", "dynamic", "static")  # the policies of λ = 0
NAME = "optimizers-curse"
BY_SIZE = {  # of the right panel
    "N={}": ("static: true − training", COLOURS[6]),
    "N={}/fresh": ("static: fresh − training", COLOURS[2]),
    "dynamic": ("dynamic: fresh − its own value", COLOURS[0]),
}
NEAR = 0.1  # "eliminated": within this share of the empirical method's surprise


def repetitions(
    first: int, count: int, sizes: list[int], main: int, fresh: int, lam: float, alpha: float,
    gamma: float, steps: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Task: `count` pairs (P*, D) from number `first` on.

    Surprises by "policy/estimate", and of the static policy by "N=…".
    """
    out: dict[str, list[float]] = {}
    for i in range(first, first + count):
        world = random_mdp(
            "dirichlet", 5, 3, gamma=gamma, steps=steps, seed=task_seed(seed, "world", i) % 2**32
        )
        log = world.collect(task_seed(seed, "log", i))
        fitted = world.posterior().fit(log)
        draws = fitted.sample(max(*sizes, main), task_seed(seed, "training", i))
        whole = world.problem_on(draws, SoftRobust(0.0, alpha))
        # Rows only: rewards, start and discount are the problem's.
        rows = replace(world.true_model(), rewards=None, p0=None, gamma=None)
        truth = whole.with_models(rows)
        test = whole.with_models(fitted.sample(fresh, task_seed(seed, "fresh", i)))
        train = _first(whole, main)
        cautious = replace(train, objective=SoftRobust(lam, alpha))
        solutions = {
            "empirical": Empirical(log).solve(train),
            "dynamic": Nominal().solve(train),
            "static": Exact().solve(train),
            "dynamic-robust": SRect().solve(cautious),
            "static-robust": Exact().solve(cautious),
        }
        for name, found in solutions.items():
            true = float(policy_return(truth, found.policy)[0])
            announced = {
                "own": found.static_value if found.model_value is None else found.model_value,
                "training": found.static_value,
                "fresh": static_return(replace(test, objective=found.objective), found.policy),
            }
            for estimate, value in announced.items():
                out.setdefault(f"{name}/{estimate}", []).append(true - value)
        for n in sizes:
            best = Exact().solve(_first(whole, n))
            later = {
                f"N={n}": float(policy_return(truth, best.policy)[0]),
                f"N={n}/fresh": static_return(test, best.policy),
            }
            for key, value in later.items():
                out.setdefault(key, []).append(value - best.static_value)
    return out


def _first(problem: Problem, n: int) -> Problem:
    """The problem on the first `n` models."""
    models = problem.models
    return problem if n == models.n_models else problem.with_models(models.split(n)[0])


@final
class OptimizersCurse(Experiment):
    """Post-decision surprise, policy × estimate."""

    name = NAME

    def groups(self, settings: Settings) -> Groups:
        """Blocks of repetitions."""
        return {"": blocks(settings["repetitions"], settings["block"], "curse")}

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Averages of all surprises."""
        parts = self.finished(settings, results, least=1)
        surprise = {name: [x for part in parts for x in part[name]] for name in parts[0]}
        means = {name: mean_interval(x) for name, x in surprise.items()}
        numbers = {
            "sizes": settings["sizes"],
            "dynamic": mean_interval(_own_less_fresh(surprise, "dynamic")).as_dict(),
            "main": settings["main"],
            "average": {name: i.as_dict() for name, i in means.items()},
            # One average per block of repetitions; the single ones are in the files of the tasks.
            "block_averages": {n: [float(np.mean(part[n])) for part in parts] for n in surprise},
        }
        fresh = [means[f"{name}/fresh"] for name in PLAIN]
        remark = told(NAME, "remark", held=sum(i.low <= 0 <= i.high for i in fresh))
        return Findings(numbers, _tables(means, settings), _claims(surprise, settings), [remark])

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Two panels."""
        figure = new_figure(9.6, 4.0)
        left, right = figure.subplots(1, 2, width_ratios=[2.1, 1])
        means = {name: Interval.from_dict(d) for name, d in numbers["average"].items()}
        _policies(left, means, numbers["main"])
        dynamic = {numbers["main"]: Interval.from_dict(numbers["dynamic"])}
        sizes = {k: {n: means[k.format(n)] for n in numbers["sizes"]} for k in list(BY_SIZE)[:2]}
        _sizes(right, {**sizes, "dynamic": dynamic})
        return figure


def _own_less_fresh(surprise: Mapping[str, list[float]], name: str) -> FloatArray:
    """Surprises at what a method announces, less those at the value on fresh draws."""
    own, fresh = (np.asarray(surprise[f"{name}/{estimate}"]) for estimate in ("own", "fresh"))
    return np.asarray(own - fresh)


def _tables(means: Mapping[str, Interval], settings: Settings) -> list[dict[str, Any]]:
    by_policy = [
        [label, *(means[f"{name}/{e}"] for e in ESTIMATES)] for name, label in POLICIES.items()
    ]
    by_size = [[n, means[f"N={n}"], means[f"N={n}/fresh"]] for n in settings["sizes"]]
    named, n = ["policy", *ESTIMATES.values()], means["static/own"].n
    return [
        tabled(NAME, "average", by_policy, named, n=n, **settings),
        tabled(NAME, "sizes", by_size),
    ]


def _claims(surprise: dict[str, list[float]], settings: Settings) -> list[Claim]:
    """Surprises with the true return replaced by the value on fresh draws, where λ = 0.

    Given the log, the true model is one more draw from the posterior: both have the same
    expectation, and the average over draws has less noise.
    """
    fresh = {name: _own_less_fresh(surprise, name) for name in PLAIN}
    curse = mean_interval(-fresh["empirical"])
    near = NEAR * abs(curse.value)
    largest = max(settings["sizes"])
    last = np.asarray(surprise[f"N={largest}/fresh"])
    facts = {"near": 100 * NEAR, "main": settings["main"], "largest": largest}
    less = mean_interval(fresh["dynamic"] - fresh["empirical"])
    static, robust = mean_interval(fresh["static"]), mean_interval(surprise["static-robust/own"])
    tiny, most = -1e-9 * abs(curse.value), f"surprise, static, N = {largest}"
    parts = {
        "empirical": [more("minus the surprise, empirical", curse)],
        "dynamic": [more("surprise, dynamic less empirical", less),
                    more("minus the surprise, dynamic", mean_interval(-fresh["dynamic"]))],
        "static": [within("surprise, static", static, near)],
        "largest": [within(most, mean_interval(last), near)],
        "robust": [more("surprise, static, λ = ½", robust, tiny)],
    }  # fmt: skip
    return [claimed(NAME, key, "true", *measured, **facts) for key, measured in parts.items()]


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


def _sizes(axes: Axes, found: Mapping[str, Mapping[int, Interval]]) -> None:
    """By number of draws; the series stand beside each other."""
    sizes = list(found[next(iter(BY_SIZE))])
    for (key, (label, colour)), shift in zip(BY_SIZE.items(), (1.0, 1.08, 0.92), strict=True):
        y = [i.value for i in found[key].values()]
        ends = [[i.value - i.low for i in found[key].values()],
                [i.high - i.value for i in found[key].values()]]  # fmt: skip
        axes.errorbar(
            [n * shift for n in found[key]], y, yerr=ends, color=colour, marker="o", markersize=5,
            linewidth=1.4, label=label,
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training draws N")
    axes.set_title("closer: λ = 0, by N", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.4, 1.07))
    plain(axes)
