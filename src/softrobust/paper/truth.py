"""Beyond the paper: does it help, and are the promises kept, when the truth is known?

Many pairs (P*, D) are drawn from a prior (`pairs`), every method is run on the log D, and its
policy is put into the true model: return, regret against the true optimum, and whether what the
method promised came true (`truth_tables`). With the right prior and an exact posterior, a promise
of probability p must hold in a share p of the pairs, within binomial error.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Results, finished
from softrobust.paper.methods import Point, curve
from softrobust.paper.pairs import PRIORS, Bench, ListPosterior, Pair
from softrobust.paper.truth_tables import claims, draw, promises, remarks, static_claims, tables
from softrobust.posterior.demand import FittedDemand, demand_models
from softrobust.returns import optimal_returns, policy_return
from softrobust.run.jobs import Task, task_key, task_seed
from softrobust.solvers import SPIBB, SaturationWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PART = 1000  # reference draws at a time
QUANTILES = 1000  # of a posterior on a line
SEEN = 3  # times a pair must be seen for SPIBB to trust it
# Methods with the λ they are run at; None where a method has no λ.
METHODS: dict[str, tuple[str, float | None]] = {
    "nominal": ("nominal", None),
    "empirical": ("empirical", None),
    "static@0": ("static", 0.0),
    "static@0.5": ("static", 0.5),
    "static@1": ("static", 1.0),
    "s-rect@0.5": ("s-rect", 0.5),
    "s-rect@1": ("s-rect", 1.0),
    "sa-rect@1": ("sa-rect", 1.0),
    "bcr": ("bcr", 1.0),
    "rsvf": ("rsvf", 1.0),
    "rsvf-simple": ("rsvf-simple", 1.0),
    "var": ("var", None),
    "worst-model": ("worst-model", None),
    "spibb": ("spibb", None),
}


def pairs(
    world: str, first: int, count: int, n_train: int, n_test: int, n_reference: int, alpha: float,
    nodes: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Task: `count` pairs from number `first` on."""
    keys = [p.key for p in promises(alpha, n_train, n_test)]
    out: dict[str, Any] = {
        "best": [], "true": {}, "claimed": {k: [] for k in keys}, "target": {k: [] for k in keys},
    }  # fmt: skip
    family = world.split("-")[0]  # two posteriors of one world see the same pairs
    for i in range(first, first + count):
        rng = np.random.default_rng(task_seed(seed, "pair", family, i))
        pair = PRIORS[world].pair(rng)
        bench = _bench(pair, task_seed(seed, "draws", world, i), n_train, n_test, alpha)
        one = _run(pair, bench, nodes, n_reference)
        out["best"].append(one["best"])
        for name, value in one["true"].items():
            out["true"].setdefault(name, []).append(value)
        for key in keys:
            claimed, target = one["claims"][key]
            out["claimed"][key].append(claimed)
            out["target"][key].append(target)
    return out


def _bench(pair: Pair, seed: int, n_train: int, n_test: int, alpha: float) -> Bench:
    draw_seed, own_seed = np.random.SeedSequence(seed).spawn(2)
    drawn = pair.posterior.sample(n_train + n_test, np.random.default_rng(draw_seed))
    return Bench.from_draws(pair.domain, pair.log, pair.posterior, drawn, n_train, alpha, own_seed)


def _run(pair: Pair, bench: Bench, nodes: int, n_reference: int) -> dict[str, Any]:
    """True returns by method, and (claimed, target) by promise."""
    truth = bench.train.with_models(replace(pair.truth, rewards=None, p0=None, gamma=None))
    points = _points(bench, nodes)
    true = {name: float(policy_return(truth, p.policy)[0]) for name, p in points.items()}
    claims = {f"{name}:own": (p.own, true[name]) for name, p in points.items()}
    alpha = bench.train.objective.alpha
    named = {0.5: "static@0.5", 1.0: "static@1"}
    values = _objectives(
        pair, bench, {SoftRobust(lam, alpha): points[n].policy for lam, n in named.items()},
        n_reference,
    )  # fmt: skip
    for lam, name in named.items():
        value = values[SoftRobust(lam, alpha)]
        found = static_claims(bench, points[name].policy, lam, true[name], value)
        claims |= {f"{name}:{kind}": both for kind, both in found.items()}
    log_policy = Policy(pair.behaviour, bench.train.models.states, bench.train.models.actions)
    claims["spibb:baseline"] = (float(policy_return(truth, log_policy)[0]), true["spibb"])
    best = float(optimal_returns(truth).V[0] @ truth.p0)
    return {"best": best, "true": true, "claims": claims}


def _points(bench: Bench, nodes: int) -> dict[str, Point]:
    """Every method's policy on this log."""
    with warnings.catch_warnings():
        # The weighted list of the pest world is the posterior itself, not a sample of it.
        warnings.simplefilter("ignore", SaturationWarning)
        static = dict(
            zip((0.0, 0.5, 1.0), curve("static", bench, [0.0, 0.5, 1.0], nodes), strict=True)
        )
        out: dict[str, Point] = {}
        for name, (method, lam) in METHODS.items():
            if method == "static" and lam is not None:
                out[name] = static[lam]
            elif method == "spibb":
                solution = SPIBB(bench.log, min_count=SEEN).solve(bench.train)
                out[name] = Point(
                    None, solution.policy, solution.static_value, str(solution.status)
                )
            else:
                out[name] = curve(method, bench, [] if lam is None else [lam], nodes)[0]
    return out


def _objectives(
    pair: Pair, bench: Bench, policies: dict[SoftRobust, Policy], n: int
) -> dict[SoftRobust, float]:
    """Objectives under the posterior itself: exact for a list, even quantiles on a line, or draws.

    Draws of the reference must be many more than the held-out ones, whose limit they check: their
    own noise, at n = 5000 against 300, takes half a percent off a coverage of 95 %.
    """
    post = pair.posterior
    if isinstance(post, ListPosterior):
        parts, f = [post.every], post.weights
    elif isinstance(post, FittedDemand) and post.grid is not None:
        even = (np.arange(QUANTILES) + 0.5) / QUANTILES
        mu = np.exp(np.interp(even, post.grid.cdf, post.grid.x))
        parts, f = [demand_models(mu, post.settings.shop)], None
    else:
        seeds = bench.own_seed.spawn(-(-n // PART))
        parts = [post.sample(PART, np.random.default_rng(s)) for s in seeds]
        f = None
    out = {}
    for goal, policy in policies.items():
        x = [policy_return(bench.train.with_models(models), policy) for models in parts]
        out[goal] = goal.value(np.concatenate(x), f)
    return out


@final
class Truth(Experiment):
    """True return, regret and kept promises over pairs of a true model and a log."""

    __slots__ = ()
    name: ClassVar[str] = "truth"
    figure: ClassVar[str] = "beyond the paper"
    title: ClassVar[str] = "The truth: regret and kept promises"
    about: ClassVar[str] = (
        "Pairs of a true model and a log of it, drawn from a prior that the methods know; 100 "
        "posterior draws to train on, α = 0.9. Five worlds: random (8 states, 3 actions, 100 steps "
        "of a random agent), riverswim (the group's rewards, 15 steps), the same with a posterior "
        "that leaves out the rows at the ends, an inventory of 20 places (10 steps), and pest "
        "control (20 steps of random treatment; growth laws from a list of 1500, which makes the "
        "posterior exact, where NUTS would take minutes and its likelihood is not the world's). "
        "Logs are short, so that there is something to be unsure of, and collected by agents that "
        "do not know the true model: the actions of one who does would tell more than the "
        "posterior hears. The static policies are those of the local search, without a proof. "
        "SPIBB trusts pairs that were seen three times."
    )
    caption: ClassVar[str] = (
        "Above: regret, the true optimum less the true return, on average (●) and in the worst "
        "tenth of the pairs (○), with 95 % intervals, on a root scale. Below: how often each "
        "promise came true, with exact binomial intervals; the bar is what was promised. In grey: "
        "numbers that come without a promise."
    )

    def settings(self, quick: bool) -> dict[str, Any]:
        """Some hundred pairs of each world in full."""
        river = {"riverswim": 400, "riverswim-inner": 400}
        full = {"random": 600, **river, "inventory": 250, "pest": 120}
        few = {"random": 20, "riverswim": 20, "riverswim-inner": 20, "inventory": 6, "pest": 6}
        return {
            "pairs": few if quick else full,
            "block": 10,
            "n_train": 100,
            "n_test": 300,
            "n_reference": 1000 if quick else 5000,
            "alpha": 0.9,
            "nodes": 0,
            "seed": 7,
        }

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """Blocks of pairs, world by world."""
        return [task for world in settings["pairs"] for task in self._of(settings, world)]

    def _of(self, settings: Mapping[str, Any], world: str) -> list[Task]:
        total, block = settings["pairs"][world], settings["block"]
        passed = ("n_train", "n_test", "n_reference", "alpha", "nodes", "seed")
        return [
            Task(
                task_key("truth", world, f"{first:04d}"),
                "softrobust.paper.truth:pairs",
                {
                    "world": world,
                    "first": first,
                    "count": min(block, total - first),
                    **{name: settings[name] for name in passed},
                },
            )
            for first in range(0, total, block)
        ]

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Distributions over pairs, and shares of kept promises."""
        worlds: dict[str, dict[str, Any]] = {}
        for world in settings["pairs"]:
            blocks = finished(self._of(settings, world), results, least=1)
            worlds[world] = joined(blocks)
        made = {
            "alpha": settings["alpha"],
            "n_train": settings["n_train"],
            "n_test": settings["n_test"],
        }
        numbers = {**made, "worlds": {name: _stored(w) for name, w in worlds.items()}}
        return Findings(numbers, tables(worlds, made), claims(worlds, made), remarks(worlds, made))

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Regrets above, promises below, a column for each world."""
        return draw(numbers)


def joined(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Blocks of pairs as one: lists by method, and by promise."""
    out: dict[str, Any] = {"best": [x for b in blocks for x in b["best"]], "true": {}, "kept": {}}
    out["short"] = {}
    for name in blocks[0]["true"]:
        out["true"][name] = [x for b in blocks for x in b["true"][name]]
    for key in blocks[0]["claimed"]:
        claimed = np.array([x for b in blocks for x in b["claimed"][key]], dtype=np.float64)
        target = np.array([x for b in blocks for x in b["target"][key]], dtype=np.float64)
        # A promise that ties but for rounding is kept: some policies leave no choice.
        slack = 1e-9 * np.maximum(np.abs(claimed), np.abs(target))
        out["kept"][key] = [int(x) for x in claimed <= target + slack]
        out["short"][key] = float(np.mean(target - claimed))
    return out


def _stored(world: Mapping[str, Any]) -> dict[str, Any]:
    """Regrets to four digits and promises as text of 0 and 1: every pair, in little room."""
    best = np.asarray(world["best"])
    regret = {
        name: [float(f"{x:.4g}") for x in np.maximum(best - np.asarray(true), 0.0)]
        for name, true in world["true"].items()
    }
    kept = {key: "".join(map(str, bits)) for key, bits in world["kept"].items()}
    return {
        "best": [float(f"{x:.6g}") for x in best],
        "regret": regret,
        "kept": kept,
        "target_less_claimed": dict(world["short"]),
    }
