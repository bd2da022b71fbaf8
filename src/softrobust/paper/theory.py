"""Two questions of the paper's theory, answered with numbers.

`bounds`: theorem 5.1, lemma 5.2 and corollary 5.3, as printed and as corrected (errata 1 and 2), in
worlds of known posteriors: how often is each violated, and how loose is it? ρ^D(π) is a minimum of
a curved function: it is known between ρ^R(π) and what descent finds, and a bound counts as violated
only if it is so wherever ρ^D lies between. Small worlds of two models and sixteen policies have no
such doubt: Ξ is a line there, and every deterministic policy is looked at.

    5.1   |ρ^D(π) − ρ^S(π)|      ≤ γ·r_max·ε₁(π)/(1 − γ)           corrected: without the γ
    5.2   ρ^D(π_D) − ρ^D(π_R)    ≤ ε₂/(1 − γ)                      corrected: another ε₂
    5.3   ρ^S(π_S) − ρ^S(π_R)    ≤ (2γ·r_max·ε₁ + ε₂)/(1 − γ)      corrected: both

π_D stands for the best policy at hand by ρ^D, ε₁ for its maximum over these policies.

`learning`: "history-dependent policies may outperform" stationary ones: by how much? A tree of all
histories of a few steps, with beliefs over the models, is solved for models drawn with weights ξ.
Where it ends one is either told the model (clairvoyant leaves): no policy earns more on average
over ξ ∈ Ξ, hence by the objective. Or one goes on with the stationary policy, of a list, that the
belief likes best: that is a finite-state controller, whose return in every model the tree gives
exactly. Descent over ξ makes the first small, and the best of the second on the way is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.bounds.paper_errors import eps1, eps2, reward_radius
from softrobust.data import Rewards
from softrobust.errors import InputError, SolverError
from softrobust.models.files import read_models
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Groups, Results, Settings, blocks
from softrobust.paper.claims import (
    Claim,
    Interval,
    Measured,
    Verdict,
    mean_interval,
    more,
    share_interval,
    table,
)
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain, short
from softrobust.paper.pairs import PRIORS, Bench, bench_of
from softrobust.problem import Problem
from softrobust.returns import optimal_returns, policy_values, static_return
from softrobust.returns.dynamic import dynamic_return
from softrobust.run.jobs import Task, task_key, task_seed
from softrobust.solvers import LocalSearch, Nominal, RandomizedAscent, SRect

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATEMENTS = {
    "5.1": "theorem 5.1",
    "5.2": "lemma 5.2",
    "5.3": "corollary 5.3",
}
FORMS = {"printed": "as printed", "corrected": "as corrected", "half": "with half the range of r"}
LEAST = 0.1  # ratio of bound to error that is drawn
ROUNDING = 1e-7  # of the size of returns
HIV = Path("data") / "hiv" / "training.csv"  # of the CADP authors, who published it
WORLDS = {"riverswim": "riverswim", "pest": "pest control", "hiv": "HIV treatment"}
WORTH = 5.0  # per cent of what is to be gained: less is little
MOST = 6e7  # numbers of a lookahead held at a time


# -------------------------------------------------------------------- the paper's bounds
class Errors(NamedTuple):
    """One statement in one case: the error that it bounds, from below and as found, and bounds."""

    least: float
    found: float
    bounds: dict[str, float]


def check_bounds(
    problem: Problem, policies: Mapping[str, Policy], found: bool = False
) -> dict[str, Any]:
    """Errors and bounds of the three statements; `policies` holds "s-rect", which is π_R.

    For theorem 5.1 the policy whose error uses up most of its bound. With `found`, what descent
    finds is ρ^D: Ξ is a line.
    """
    g = problem.gamma
    known = {n: dynamic_return(problem, p) for n, p in policies.items()}
    static = {n: static_return(problem, p) for n, p in policies.items()}
    first = {n: eps1(problem, p) for n, p in policies.items()}
    R = problem.R[problem.allowed]
    r_max = {"printed": float(np.abs(R).max()), "half": reward_radius(problem)}
    sizes = {"printed": g * r_max["printed"], "corrected": r_max["printed"], "half": r_max["half"]}
    one = {
        n: Errors(
            max(static[n] - d.value, d.lower - static[n], 0.0),
            abs(d.value - static[n]),
            {form: size * first[n] / (1 - g) for form, size in sizes.items()},
        )
        for n, d in known.items()
    }
    tightest = max(one, key=lambda n: one[n].found / max(one[n].bounds["printed"], 1e-300))
    best = max(known, key=lambda n: known[n].value)
    second = {"printed": _eps2_printed(problem, policies[best], known[best].xi),
              "corrected": eps2(problem, policies[best])}  # fmt: skip
    gap = known[best].value - known["s-rect"].value
    two = Errors(max(known[best].lower - known["s-rect"].value, 0.0), max(gap, 0.0),
                 {form: e / (1 - g) for form, e in second.items()})  # fmt: skip
    loss, most = max(static.values()) - static["s-rect"], max(first.values())
    three = Errors(loss, loss, {
        form: (2 * size * most + second["printed" if form == "printed" else "corrected"]) / (1 - g)
        for form, size in sizes.items()
    })  # fmt: skip
    every = {"5.1": one[tightest], "5.2": two, "5.3": three}
    if found:
        every = {k: e._replace(least=e.found) for k, e in every.items()}
    return {
        "scale": float(np.abs(list(static.values())).max()),
        **{k: e._asdict() for k, e in every.items()},
    }


def _eps2_printed(problem: Problem, policy: Policy, xi: FloatArray) -> float:
    """max over s, a of min over ξ of δ(s, a, ξ), as lemma 5.2 has it."""
    v = policy_values(problem.mean_problem(xi), policy)[0]
    f, m, most = problem.models.f, problem.models, -np.inf
    for s, a in np.argwhere(problem.allowed):
        columns, block = m.block(int(s), int(a))
        z = problem.R[s, a] + problem.gamma * (block @ v[columns])
        most = max(most, problem.objective.value(z, f) - float(v[s]))
    return float(most)


def bound_cases(
    world: str, first: int, count: int, lam: float, alpha: float, n_train: int, seed: int
) -> dict[str, Any]:
    """Task: `count` cases of one world from number `first` on."""
    goal = SoftRobust(lam, alpha)
    out = []
    for i in range(first, first + count):
        rng = np.random.default_rng(task_seed(seed, "bounds", world, i))
        if world.startswith("small"):
            problem = _small(rng, world.endswith("next"), goal)
            rules = product(range(2), repeat=problem.n_states)
            m = problem.models
            policies = {str(r): Policy.from_decision(r, m.states, m.actions) for r in rules}
        else:
            pair = PRIORS[world].pair(rng)
            seeds = np.random.SeedSequence(task_seed(seed, "draws", world, i)).spawn(2)
            bench = Bench.of(pair.domain, pair.log, pair.posterior, seeds, n_train, 1, alpha)
            problem = bench.at(lam)
            policies = {
                "nominal": Nominal().solve(problem).policy,
                "static": LocalSearch().solve(problem).policy,
                "uniform": problem.uniform_policy(),
            }
        policies["s-rect"] = SRect().solve(problem).policy
        out.append(check_bounds(problem, policies, world.startswith("small")))
    return {"cases": out}


def _small(rng: np.random.Generator, by_next: bool, goal: SoftRobust) -> Problem:
    """4 states, 2 actions, two models; a discount down to 0.05, where the γ matters."""
    P = rng.dirichlet(np.full(4, 0.5), size=(2, 4, 2))
    gamma = float(rng.choice([0.05, 0.5, 0.9]))
    r = rng.normal(size=(4, 2, 4)) if by_next else np.repeat(rng.normal(size=(4, 2, 1)), 4, axis=2)
    models = ModelSet.from_dense(P, rewards=Rewards.of_transitions(r), gamma=gamma)
    return Problem(models, p0=rng.dirichlet(np.ones(4)), objective=goal)


@final
class Bounds(Experiment):
    """How often the paper's bounds are violated, and how loose they are."""

    __slots__ = ()
    name: ClassVar[str] = "bounds"

    def groups(self, settings: Settings) -> Groups:
        """Blocks of cases, world by world."""
        return {
            world: [((world, f"{b['first']:05d}"), {"world": world, **b})
                    for b in blocks(total, settings["block"])]
            for world, total in settings["cases"].items()
        }  # fmt: skip

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Shares of violations and ratios of bound to error."""
        numbers: dict[str, Any] = {"worlds": {}}
        for world in settings["cases"]:
            parts = self.finished(settings, results, world, least=1)
            numbers["worlds"][world] = _judge([case for p in parts for case in p["cases"]])
        rows = [
            [STATEMENTS[k], FORMS[form], world, Interval.from_dict(d["violated"]), d["loose"],
             f"{100 * d['vacuous']:.0f} %"]
            for k, form, world, d in _each(numbers)
        ]  # fmt: skip
        shown = table(
            "Violations and looseness",
            "Share of cases with exact binomial 95 % intervals in which the bound is surely "
            "violated; the median of bound over error, where there is an error; and the share of "
            "cases in which the bound is larger than all returns.",
            ["statement", "form", "world", "violated", "bound over error", "says nothing"],
            rows,
        )
        return Findings(numbers, [shown], _bound_claims(numbers), [])

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Shares of violations, and ratios."""
        lanes = [f"{STATEMENTS[k]}, {FORMS[form]}" for k, form in _statements(numbers)]
        figure = new_figure(9.6, 0.6 + 0.42 * len(lanes))
        left, right = figure.subplots(1, 2)
        for j, (world, found) in enumerate(numbers["worlds"].items()):
            colour, shift = COLOURS[j % len(COLOURS)], 0.11 * (j - len(numbers["worlds"]) / 2)
            for y, (k, form) in enumerate(_statements(numbers)):
                d = found[k][form]
                bar(left, Interval.from_dict(d["violated"]), y + shift, colour)
                if d["loose"] is not None:
                    at = max(d["loose"], LEAST)
                    mark = "o" if at > LEAST else "<"
                    right.plot(at, y + shift, mark, color=colour, markersize=5)
            left.plot([], [], "o", color=colour, label=world)
        lane_labels(left, lanes)
        lane_labels(right, [""] * len(lanes))
        right.set_xscale("log")
        right.axvline(1, color=INK, linewidth=0.9)
        left.set_xlabel("share of cases in which it is violated")
        right.set_xlabel("bound over error (median)")
        for axes in (left, right):
            plain(axes)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8.5)
        return figure


def _judge(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By statement and form."""
    out: dict[str, Any] = {}
    for k in STATEMENTS:
        out[k] = {}
        for form in cases[0][k]["bounds"]:
            least, found = (np.array([c[k][w] for c in cases]) for w in ("least", "found"))
            bound = np.array([c[k]["bounds"][form] for c in cases])
            scale = np.array([c["scale"] for c in cases])
            broken = least > bound + ROUNDING * scale
            seen = found > 1e-6 * scale
            ratio = float(np.median(bound[seen] / found[seen])) if seen.any() else None
            out[k][form] = {
                "violated": share_interval(int(broken.sum()), broken.size).as_dict(),
                "loose": ratio,
                "vacuous": float(np.mean(bound > 2 * scale)),
            }
    return out


def _statements(numbers: Mapping[str, Any]) -> list[tuple[str, str]]:
    first = next(iter(numbers["worlds"].values()))
    return [(k, form) for k in STATEMENTS for form in first[k]]


def _each(numbers: Mapping[str, Any]) -> list[tuple[str, str, str, Any]]:
    return [
        (k, form, world, found[k][form])
        for k, form in _statements(numbers)
        for world, found in numbers["worlds"].items()
    ]


def _bound_claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """A bound holds if no case violates it; one that does settles it."""
    rule = "no case of any world violates it (one that does contradicts it, whatever the interval)"
    out = []
    for k, form in _statements(numbers):
        parts = []
        for world, found in numbers["worlds"].items():
            i = Interval.from_dict(found[k][form]["violated"])
            kept = Interval(1 - i.value, 1 - i.high, 1 - i.low, i.n)
            verdict = Verdict.HELD if i.value == 0 else Verdict.NOT_HELD
            parts.append(Measured(f"share kept, {world}", kept, 1.0, verdict))
        text = f"{STATEMENTS[k].capitalize()} holds {FORMS[form]}."
        out.append(Claim(text, "section 5", "training", rule, tuple(parts)))
    return out


# -------------------------------------------------------------------- policies that learn
def lookahead(problem: Problem, xi: FloatArray, depth: int, leaves: FloatArray) -> FloatArray:
    """(n_models,) returns of the best tree of `depth` steps for models drawn with weights ξ.

    Where it ends, the tree takes the best of `leaves` (n_leaves, n_states, n_models): values of
    every state in every model. Histories of one length that end in one state are rows of one array,
    with the probability of each in every model.
    """
    m, gamma = problem.models, problem.gamma
    starts = np.flatnonzero(problem.p0 > 0)
    levels = [{int(s): np.full((1, xi.size), problem.p0[s]) for s in starts}]
    steps: dict[tuple[int, int], list[tuple[int, FloatArray]]] = {}
    for s, a in np.argwhere(problem.allowed).tolist():
        columns, block = m.block(s, a)
        steps[s, a] = [(int(t), block[:, j]) for j, t in enumerate(columns) if block[:, j].any()]
    for _ in range(depth):
        parts: dict[int, list[FloatArray]] = {}
        for s, L in levels[-1].items():
            for a in np.flatnonzero(problem.allowed[s]).tolist():
                for to, chance in steps[s, a]:
                    parts.setdefault(to, []).append(L * chance)
        if sum(L.size for found in parts.values() for L in found) > MOST:
            raise InputError(f"A lookahead of {depth} steps does not fit: set a smaller depth.")
        levels.append({s: np.concatenate(found) for s, found in parts.items()})
    worth = {}
    for s, L in levels[-1].items():
        best = np.argmax((L * xi) @ leaves[:, s].T, axis=1)
        worth[s] = L * leaves[best, s]
    for level in reversed(levels[:-1]):
        taken = dict.fromkeys(worth, 0)  # rows are met again in the order in which they were made
        before = {}
        for s, L in level.items():
            chosen, most = np.zeros_like(L), np.full(len(L), -np.inf)
            for a in np.flatnonzero(problem.allowed[s]).tolist():
                total = L * problem.R[s, a]
                for to, _ in steps[s, a]:
                    at = taken[to]
                    taken[to] = at + len(L)
                    total += gamma * worth[to][at : at + len(L)]
                sums = total @ xi
                better = sums > most
                chosen[better], most[better] = total[better], sums[better]
            before[s] = chosen
        worth = before
    return np.asarray(np.sum([x.sum(axis=0) for x in worth.values()], axis=0))


def bracket(
    problem: Problem, policies: Sequence[Policy], depth: int, steps: int
) -> tuple[float, float]:
    """What a controller of `depth` steps and these policies earns, and what no policy exceeds."""
    f, goal = problem.models.f, problem.objective
    V = optimal_returns(problem).V.T[None]
    own = np.array([policy_values(problem, policy).T for policy in policies])
    low, high = -np.inf, np.inf
    for leaves in (V, own):
        xi = goal.worst_case(V[0].T @ problem.p0, f)
        for k in range(steps):
            x = lookahead(problem, xi, depth, leaves)
            if leaves is V:
                high = min(high, float(xi @ x))
            else:
                low = max(low, goal.value(x, f))
            xi = xi + (goal.worst_case(x, f) - xi) / (k + 2)
    return low, high


def learning_case(
    world: str, seed: int, lams: list[float], alpha: float, n_train: int, depth: int, steps: int,
    starts: int, hiv: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Task: the bracket of one world for every λ."""
    base = _learning_problem(world, seed, n_train, alpha, hiv)
    optima, m = optimal_returns(base), base.models
    best = optima.V @ base.p0
    own = [
        Policy.from_decision(d, m.states, m.actions) for d in np.unique(optima.decisions, axis=0)
    ]
    out: dict[str, Any] = {"world": world, "seed": seed, "cases": []}
    for lam in lams:
        problem = replace(base, objective=SoftRobust(lam, alpha))
        found = [LocalSearch(starts=starts).solve(problem), RandomizedAscent().solve(problem)]
        values = [solution.static_value for solution in found]
        low, high = bracket(problem, [*(x.policy for x in found), *own], depth, steps)
        out["cases"].append({
            "lam": lam, "stationary": max(values), "deterministic": values[0],
            "controller": max(low, *values), "upper": high,
            "clairvoyant": problem.objective.value(best, m.f),
            "random": static_return(problem, problem.uniform_policy()),
        })  # fmt: skip
    return out


def _learning_problem(
    world: str, seed: int, n_train: int, alpha: float, hiv: str | Path | None
) -> Problem:
    if world == "hiv":
        assert hiv is not None
        return Problem(read_models(hiv), objective=SoftRobust(0.0, alpha))
    if world == "pest":
        pair = PRIORS["pest"].pair(np.random.default_rng(task_seed(seed, "learning")))
        seeds = np.random.SeedSequence(task_seed(seed, "draws")).spawn(2)
        return Bench.of(pair.domain, pair.log, pair.posterior, seeds, n_train, 1, alpha).train
    given = {"variant": "craam", "prior": "tied"}
    return bench_of("riverswim", given, seed, n_train, 1, alpha).train


@final
class Learning(Experiment):
    """A bracket of what policies that learn as they go could add."""

    __slots__ = ()
    name: ClassVar[str] = "learning"

    def tasks(self, settings: Settings) -> list[Task]:
        """A task for each world and seed; hiv only where its file is."""
        shared = {k: settings[k] for k in ("lams", "alpha", "n_train", "steps", "starts")}
        return [
            Task(task_key(world, f"seed{seed:03d}"), "softrobust.paper.theory:learning_case",
                 {"world": world, "seed": seed, **own, **shared},
                 {"hiv": HIV} if world == "hiv" else {})
            for world, (own, seeds) in _learning_worlds(settings).items() for seed in seeds
        ]  # fmt: skip

    def gather(self, settings: Settings, results: Results) -> Findings:
        """The bracket in shares of what is to be gained."""
        numbers: dict[str, Any] = {"worlds": {}}
        rows, claims = [], []
        for world, (_, seeds) in _learning_worlds(settings).items():
            keys = [task_key(world, f"seed{seed:03d}") for seed in seeds]
            found = [results[key]["cases"] for key in keys if key in results]
            if not found:
                raise SolverError(f"No task of '{world}' came to an end: see tasks/failures.")
            for i, lam in enumerate(settings["lams"]):
                cases = [c[i] for c in found]
                gain = {
                    word: np.array([(c[word] - c["stationary"]) / (c["clairvoyant"] - c["random"])
                                    for c in cases])
                    for word in ("controller", "upper", "clairvoyant")
                }  # fmt: skip
                own = {w: 100 * x for w, x in gain.items()}
                numbers["worlds"].setdefault(world, {})[f"{lam:g}"] = {
                    "cases": cases, **{w: mean_interval(x).as_dict() for w, x in own.items()},
                }  # fmt: skip
                rows.append([WORLDS[world], short(lam), *(mean_interval(x) for x in own.values())])
                i_upper = mean_interval(-own["upper"])
                claims.append((world, lam, i_upper))
        shown = table(
            "What history could add",
            "In per cent of what is to be gained (clairvoyant less random policy, by the "
            "objective), over the best stationary policy found, deterministic or randomized. At "
            "least: a controller with a finite memory. At most: no policy whatever gains more. "
            "Told the model: the plain clairvoyant bound.",
            ["world", "λ", "at least", "at most", "told the model"],
            rows,
        )
        worlds = {w: [i for x, _, i in claims if x == w] for w in numbers["worlds"]}
        rule = f"the 95 % interval of what history could add at most lies below {WORTH:g} %"
        judged = [
            Claim(f"Learning as one goes adds little (under {WORTH:g} %): {WORLDS[w]}.",
                  "section 3 (“may outperform”)", "training", rule,
                  tuple(more(f"less than, λ = {lam:g}", i, -WORTH)
                        for lam, i in zip(settings["lams"], found, strict=True)))
            for w, found in worlds.items()
        ]  # fmt: skip
        return Findings(numbers, [shown], judged, [])

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Brackets by world and λ."""
        lanes = [(w, lam) for w, found in numbers["worlds"].items() for lam in found]
        figure = new_figure(7.6, 0.8 + 0.34 * len(lanes))
        axes = figure.subplots()
        for y, (w, lam) in enumerate(lanes):
            d = numbers["worlds"][w][lam]
            low, high, told = (d[k]["value"] for k in ("controller", "upper", "clairvoyant"))
            axes.plot([low, high], [y, y], color=COLOURS[0], linewidth=3, solid_capstyle="butt")
            axes.plot([told], [y], "|", color=INK, markersize=9)
        lane_labels(axes, [f"{WORLDS[w]}, λ = {lam}" for w, lam in lanes])
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_xlabel(
            "gain over stationary policies, % of what is to be gained (|: told the model)"
        )
        plain(axes, "x")
        return figure


def _learning_worlds(settings: Settings) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """Settings and seeds by world; that of the public file is left out where it is not."""
    return {
        world: ({"depth": own["depth"]}, own["seeds"])
        for world, own in settings["worlds"].items()
        if world != "hiv" or HIV.exists()
    }
