"""Beyond the paper: does it help, and are the promises kept, when the truth is known?

Many pairs (P*, D) are drawn from a prior (`pairs`), every method is run on the log D, and its
policy is put into the true model: return, regret against the true optimum, and whether what the
method promised came true. With the right prior and an exact posterior, a promise of probability p
must hold in a share p of the pairs, within binomial error.

A promise has a level: the probability with which it is said to hold. BCR and RSVF prove theirs (a
union bound over states and actions). Others are read as promises by their users: VaR-Bellman's
value at α; the worst of N models, which one more draw undercuts with probability 1/(N + 1) for a
policy that was not chosen on them; a quantile of the training returns. Some methods give a number
without a level; how often that number is a lower bound is shown all the same.

    own          the method's own value is a lower bound of the true return
    training     the lower quantile (1 − α) of the returns on the training models is one
    held-out     an order statistic of the returns on held-out models is one. The true model is one
                 more draw beside m held-out ones, so the k-th smallest of them is exceeded with
                 probability 1 − k/(m + 1) exactly
    objective    the certificate's 95 % limit is a lower bound of the policy's objective under the
                 posterior (not of the true return)
    baseline     the true return is at least that of whoever collected the log
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.certificate.intervals import held_out
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar, value_at_risk
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings, blocks, catalogue
from softrobust.paper.claims import (
    LEVEL,
    Claim,
    Interval,
    Measured,
    bootstrap_interval,
    claimed,
    mean_interval,
    more,
    share_interval,
    tabled,
    texts,
    told,
    within,
)
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain
from softrobust.paper.methods import Point, curve
from softrobust.paper.pairs import PRIORS, Bench, ListPosterior, Pair
from softrobust.posterior.demand import FittedDemand, demand_models
from softrobust.returns import Returns, optimal_returns, policy_return
from softrobust.run.jobs import task_seed
from softrobust.solvers import SPIBB, SaturationWarning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Worlds = Mapping[str, Mapping[str, Any]]
PART = 1000  # reference draws at a time
QUANTILES = 1000  # of a posterior on a line
SEEN = 3  # times a pair must be seen for SPIBB to trust it
WORST = 0.9  # the worst tenth of the pairs
NEAR = 0.03  # how near an exact probability the share must be, for its promise to count as kept
GREY = "#8a8a8a"
METHODS: dict[str, Any] = catalogue()["truth"]["methods"]  # method, its λ if it has one, label
OURS: dict[str, str] = catalogue()["truth"]["ours"]


# -------------------------------------------------------------------- promises
class Promise(NamedTuple):
    """Of which method, of which kind, in words, and with which probability (None: it says none)."""

    method: str
    kind: str
    words: str
    level: float | None  # at least, or exactly for an order statistic of held-out models

    @property
    def key(self) -> str:
        """For files."""
        return f"{self.method}:{self.kind}"


def promises(alpha: float, n_train: int, n_test: int) -> list[Promise]:
    """All promises that are put to the test."""
    levels = {"alpha": alpha, "one more": 1 - 1 / (n_train + 1), "limit": 0.95}
    levels["rank"] = 1 - order(alpha, n_test) / (n_test + 1)
    return [
        Promise(of, kind, words, levels.get(level))
        for of, kind, words, level in texts()["truth"]["said"]
    ]


def order(alpha: float, n_test: int) -> int:
    """The rank k of the held-out order statistic: 1 − k/(m + 1) ≥ α, as tight as it goes."""
    return max(int(np.floor((1 - alpha) * (n_test + 1) + 1e-9)), 1)


def static_claims(
    bench: Bench, policy: Policy, goal: SoftRobust, true: float, objective: float
) -> dict[str, tuple[float, float]]:
    """(claimed, target) of the promises about a static policy, by kind."""
    train, test = (Returns(policy_return(p, policy), p.models.f) for p in (bench.train, bench.test))
    limit = held_out(train, test, goal).lower_bound
    out = {
        "training": (value_at_risk(train.x, train.f, goal.alpha), true),
        "held-out": (float(np.sort(test.x)[order(goal.alpha, test.x.size) - 1]), true),
    }
    if limit is not None and limit.low is not None:
        out["objective"] = (limit.low, objective)
    return out


# -------------------------------------------------------------------- tasks
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
        pair = PRIORS[world].pair(np.random.default_rng(task_seed(seed, "pair", family, i)))
        bench = pair.bench(task_seed(seed, "draws", world, i), n_train, n_test, alpha)
        best, true, claims = _run(pair, bench, nodes, n_reference)
        out["best"].append(best)
        for name, value in true.items():
            out["true"].setdefault(name, []).append(value)
        for key in keys:
            for word, value in zip(("claimed", "target"), claims[key], strict=True):
                out[word][key].append(value)
    return out


def _run(
    pair: Pair, bench: Bench, nodes: int, n_reference: int
) -> tuple[float, dict[str, float], dict[str, tuple[float, float]]]:
    """The optimum, true returns by method, and (claimed, target) by promise."""
    truth = bench.train.with_models(replace(pair.truth, rewards=None, p0=None, gamma=None))
    points = _points(bench, nodes)
    true = {name: float(policy_return(truth, p.policy)[0]) for name, p in points.items()}
    claims = {f"{name}:own": (p.own, true[name]) for name, p in points.items()}
    goals = {f"static@{lam:g}": SoftRobust(lam, bench.train.objective.alpha) for lam in (0.5, 1.0)}
    values = _objectives(pair, bench, {g: points[n].policy for n, g in goals.items()}, n_reference)
    for name, goal in goals.items():
        found = static_claims(bench, points[name].policy, goal, true[name], values[goal])
        claims |= {f"{name}:{kind}": both for kind, both in found.items()}
    log_policy = Policy(pair.behaviour, bench.train.models.states, bench.train.models.actions)
    claims["spibb:baseline"] = (float(policy_return(truth, log_policy)[0]), true["spibb"])
    return float(optimal_returns(truth).V[0] @ truth.p0), true, claims


def _points(bench: Bench, nodes: int) -> dict[str, Point]:
    """Every method's policy on this log."""
    lams, out = [0.0, 0.5, 1.0], {}
    with warnings.catch_warnings():
        # The weighted list of the pest world is the posterior itself, not a sample of it.
        warnings.simplefilter("ignore", SaturationWarning)
        static = dict(zip(lams, curve("static", bench, lams, nodes), strict=True))
        for name, about in METHODS.items():
            method, lam = about["method"], about.get("lam")
            if method == "static":
                out[name] = static[lam]
            elif method == "spibb":
                made = SPIBB(bench.log, min_count=SEEN).solve(bench.train)
                out[name] = Point(None, made.policy, made.static_value, str(made.status))
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

    name = "truth"

    def groups(self, settings: Settings) -> Groups:
        """Blocks of pairs, world by world."""
        return {
            world: blocks(total, settings["block"], "truth", world, digits=4, world=world)
            for world, total in settings["pairs"].items()
        }

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Distributions over pairs, and shares of kept promises."""
        worlds = {
            world: joined(self.finished(settings, results, world, least=1))
            for world in settings["pairs"]
        }
        made = {key: settings[key] for key in ("alpha", "n_train", "n_test")}
        said = promises(**made)
        numbers = {**made, "worlds": {name: _stored(w) for name, w in worlds.items()}}
        return Findings(numbers, tables(worlds, said), claims(worlds, said), remarks(worlds, said))

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Regrets above, promises below, a column for each world."""
        worlds = numbers["worlds"]
        said = promises(numbers["alpha"], numbers["n_train"], numbers["n_test"])
        strict = strict_level(worlds)
        figure = new_figure(3.0 + 2.1 * len(worlds), 9.4)
        heights = [len(METHODS), len(said)]
        panels = figure.subplots(2, len(worlds), squeeze=False, height_ratios=heights)
        lanes = ([about["label"] for about in METHODS.values()], [p.words for p in said])
        for j, (name, world) in enumerate(worlds.items()):
            _regrets(panels[0, j], world)
            _promises(panels[1, j], world, said, strict)
            panels[0, j].set_title(f"{PRIORS[name].words}\n{len(world['best'])} pairs", fontsize=10)
            for axes, labels in zip(panels[:, j], lanes, strict=True):
                lane_labels(axes, labels if j == 0 else [""] * len(labels))
                plain(axes, "both")
                axes.tick_params(axis="y", length=0, labelsize=8.5)
        return figure


# -------------------------------------------------------------------- findings
def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Blocks of pairs as one: lists by method; by promise, text of 0 and 1 for every pair."""
    out: dict[str, Any] = {"best": [x for b in parts for x in b["best"]], "kept": {}, "short": {}}
    out["true"] = {name: [x for b in parts for x in b["true"][name]] for name in parts[0]["true"]}
    for key in parts[0]["claimed"]:
        claimed, target = (
            np.array([x for b in parts for x in b[word][key]], dtype=np.float64)
            for word in ("claimed", "target")
        )
        # A promise that ties but for rounding is kept: some policies leave no choice.
        slack = 1e-9 * np.maximum(np.abs(claimed), np.abs(target))
        out["kept"][key] = "".join("01"[int(x)] for x in claimed <= target + slack)
        out["short"][key] = float(np.mean(target - claimed))
    return out


def _stored(world: Mapping[str, Any]) -> dict[str, Any]:
    """Regrets to three digits: every pair, in little room."""
    best = np.asarray(world["best"])
    regret = {
        name: [float(f"{x:.3g}") for x in np.maximum(best - np.asarray(true), 0.0)]
        for name, true in world["true"].items()
    }
    return {
        "best": [float(f"{x:.4g}") for x in best],
        "regret": regret,
        "kept": world["kept"],
        "target_less_claimed": dict(world["short"]),
    }


def worst_interval(regret: FloatArray) -> Interval:
    """The average of the largest tenth, with a bootstrap over pairs."""
    return bootstrap_interval(regret, lambda x: -cvar(-x, None, WORST))


def coverage(world: Mapping[str, Any], promise: Promise, level: float = LEVEL) -> Interval:
    """How often a promise came true."""
    bits = world["kept"][promise.key]
    return share_interval(bits.count("1"), len(bits), level)


def strict_level(worlds: Iterable[str]) -> float:
    """Level of an interval that contradicts a promise: in any of the exact worlds (Bonferroni)."""
    return 1 - (1 - LEVEL) / max(sum(PRIORS[name].exact for name in worlds), 1)


def tables(worlds: Worlds, said: Sequence[Promise]) -> list[dict[str, Any]]:
    """For each world, what the methods earn; and for all worlds, which promises are kept."""
    out = []
    for name, world in worlds.items():
        best = np.asarray(world["best"])
        base = best - np.asarray(world["true"]["nominal"])
        rows = []
        for method, about in METHODS.items():
            true = np.asarray(world["true"][method])
            regret = best - true
            less = None if method == "nominal" else mean_interval(base - regret)
            rows.append([
                about["label"], float(true.mean()), cvar(true, None, WORST), mean_interval(regret),
                worst_interval(regret), less,
            ])  # fmt: skip
        facts = {"world": PRIORS[name].words, "n": best.size, "best": best.mean()}
        out.append(tabled("truth", "returns", rows, **facts))
    levels = [None if promise.level is None else round(promise.level, 4) for promise in said]
    rows = [
        [promise.words, level, *(coverage(world, promise) for world in worlds.values())]
        for promise, level in zip(said, levels, strict=True)
    ]
    columns = ["promise", "promised", *(PRIORS[name].words for name in worlds)]
    return [*out, tabled("truth", "promises", rows, columns)]


def claims(worlds: Worlds, said: Sequence[Promise]) -> list[Claim]:
    """Promises kept in every world with an exact posterior; returns and regret against nominal."""
    exact = {PRIORS[name].words: w for name, w in worlds.items() if PRIORS[name].exact}
    out = []
    for promise in said:
        level = promise.level
        if level is None:
            continue
        shares = {words: coverage(world, promise) for words, world in exact.items()}
        if promise.kind == "held-out":
            parts = [
                within(f"share less promised, {w}", i.less(level), NEAR) for w, i in shares.items()
            ]
        else:
            parts = [more(f"share, {words}", i, level) for words, i in shares.items()]
        key, facts = "exact" if promise.kind == "held-out" else "kept", {"words": promise.words}
        out.append(claimed("truth", key, "true", *parts, level=level, near=NEAR, **facts))
    for method, words in OURS.items():
        for does, what in (("earns more", "more earned"), ("regrets less", "regret saved")):
            parts = [
                _in_the_worst_tenth(world, method, f"{what} in the worst tenth, {name}")
                for name, world in exact.items()
            ]
            out.append(claimed("truth", "tenth", "true", *parts, words=words, does=does))
    return out


def _in_the_worst_tenth(world: Mapping[str, Any], method: str, what: str) -> Measured:
    """A method less nominal, each in its own worst tenth of the pairs: true return, or −regret."""
    base = np.asarray(world["best"]) if what.startswith("regret") else 0.0
    both = np.column_stack([np.asarray(world["true"][m]) - base for m in (method, "nominal")])
    i = bootstrap_interval(both, lambda x: cvar(x[:, 0], None, WORST) - cvar(x[:, 1], None, WORST))
    return more(what, i)


def remarks(worlds: Worlds, said: Sequence[Promise]) -> list[str]:
    """Where the posterior is not exact, and which bounds are kept but say little."""
    out = []
    strict = strict_level(worlds)
    for name, world in worlds.items():
        if PRIORS[name].exact:
            continue
        broken = [
            p.words for p in said
            if p.level is not None and coverage(world, p, strict).high < p.level
        ]  # fmt: skip
        words = "; ".join(broken) if broken else "none, within binomial error"
        out.append(told("truth", "inexact", world=PRIORS[name].words, broken=words))
    far = []
    for p in said:
        if p.kind == "own" and p.level is not None:
            units = [w["short"][p.key] / _nominal_regret(w) for w in worlds.values()]
            far.append(f"{p.method} {np.mean(units):.2g}")
    return [*out, told("truth", "far", far=", ".join(far))]


def _nominal_regret(world: Mapping[str, Any]) -> float:
    regret = np.asarray(world["best"]) - np.asarray(world["true"]["nominal"])
    return max(float(regret.mean()), 1e-9)


# -------------------------------------------------------------------- picture
def _regrets(axes: Axes, world: Mapping[str, Any]) -> None:
    for y, method in enumerate(METHODS):
        regret = np.asarray(world["regret"][method])
        colour = COLOURS[1] if method.startswith("static") else COLOURS[0]
        bar(axes, mean_interval(regret), y - 0.14, colour)
        bar(axes, worst_interval(regret), y + 0.14, colour, markerfacecolor="white")
    # Roots keep both the small regrets and the large ones in sight, and 0 on the axis.
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=3)
    axes.set_xlabel("regret: average ●, worst tenth ○", fontsize=9)


def _promises(axes: Axes, world: Mapping[str, Any], said: Sequence[Promise], strict: float) -> None:
    for y, promise in enumerate(said):
        i = coverage(world, promise)
        if promise.level is None:
            bar(axes, i, y, GREY)
            continue
        broken = coverage(world, promise, strict).high < promise.level
        axes.plot([promise.level] * 2, [y - 0.36, y + 0.36], color=INK, linewidth=2)
        bar(axes, i, y, COLOURS[1] if broken else COLOURS[2])
    axes.set_xlim(0, 1.03)
    axes.set_xticks([0, 0.5, 0.9], ["0", "½", "0.9"])
    axes.set_xlabel("share of pairs", fontsize=9)
