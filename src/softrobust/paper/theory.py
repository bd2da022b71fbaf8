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
histories of some steps, with beliefs over the models, is solved for models drawn with weights ξ.
Where it ends one is either told the model (clairvoyant leaves): no policy earns more on average
over ξ ∈ Ξ, hence by the objective. Or one goes on with the stationary policy, of a list, that the
belief likes best: that is a finite-state controller, whose return in every model the tree gives
exactly. Cutting planes over ξ make the first small, and mix the second: min over ξ of the best of
x₁, x₂, … is a linear program, whose dual is a coin that chooses among them at the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.bounds.best import into_xi
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
    claimed,
    mean_interval,
    more,
    share_interval,
    tabled,
)
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain, short
from softrobust.paper.pairs import PRIORS, bench_of
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
ENDS = ("controller", "upper", "clairvoyant")
WORTH = 5.0  # per cent of what is to be gained: less is little
MOST = 6e7  # numbers of a lookahead held at a time
SAME = 1e-12  # the largest difference of two beliefs that count as one
ENOUGH = 0.02  # of the bracket: what a better ξ could still take off it


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
            problem = pair.bench(task_seed(seed, "draws", world, i), n_train, 1, alpha).at(lam)
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

    name = "bounds"

    def groups(self, settings: Settings) -> Groups:
        """Blocks of cases, world by world."""
        return {
            world: blocks(total, settings["block"], world, world=world)
            for world, total in settings["cases"].items()
        }

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
        shown = tabled("bounds", "violations", rows)
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
        figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=8.5)
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
    out = []
    for k, form in _statements(numbers):
        parts = []
        for world, found in numbers["worlds"].items():
            i = Interval.from_dict(found[k][form]["violated"])
            kept = Interval(1 - i.value, 1 - i.high, 1 - i.low, i.n)
            verdict = Verdict.HELD if i.value == 0 else Verdict.NOT_HELD
            parts.append(Measured(f"share kept, {world}", kept, 1.0, verdict))
        facts = {"statement": STATEMENTS[k].capitalize(), "form": FORMS[form]}
        out.append(claimed("bounds", "holds", "training", *parts, **facts))
    return out


# -------------------------------------------------------------------- policies that learn
class _Level(NamedTuple):
    """Histories of one length by the state they end in: a row for each belief.

    `chance` (n_rows, n_models) is the probability of a row's histories in every model. The parts of
    a row are steps from rows of the level before, in the order in which they are taken there: part
    i goes into row `into[i]` and is the share `share[i]` of it.
    """

    chance: FloatArray
    into: IntArray
    share: FloatArray


@final
class Histories:
    """All histories of `depth` steps, those that leave the same belief in the same state as one.

    What follows a history depends on its state and the belief alone, and is worth in proportion to
    its chance. Beliefs count as the same if they differ by 1e-12 at most: returns of the tree err
    by no more than `slack` times the largest value of a leaf. A state that is never left, whatever
    is done and with the same reward, needs no tree.
    """

    def __init__(self, problem: Problem, depth: int) -> None:
        m, self.problem = problem.models, problem
        self.slack = depth * m.n_models * SAME
        self.actions = [np.flatnonzero(row).tolist() for row in problem.allowed]
        self.steps: dict[tuple[int, int], list[tuple[int, FloatArray]]] = {}
        for s, a in np.argwhere(problem.allowed).tolist():
            columns, block = m.block(s, a)
            to = [(int(t), block[:, j]) for j, t in enumerate(columns) if block[:, j].any()]
            self.steps[s, a] = to
        self.over = {s for s, acts in enumerate(self.actions) if self._is_over(s, acts)}
        starts = np.flatnonzero(problem.p0 > 0)
        nothing = np.zeros(0, dtype=np.int64)
        self.levels = [
            {int(s): _Level(np.full((1, m.n_models), problem.p0[s]), nothing, np.zeros(0))
             for s in starts}
        ]  # fmt: skip
        for _ in range(depth):
            parts: dict[int, list[FloatArray]] = {}
            for s, level in self.levels[-1].items():
                for a in [] if s in self.over else self.actions[s]:
                    for t, chance in self.steps[s, a]:
                        parts.setdefault(t, []).append(level.chance * chance)
            if sum(L.size for found in parts.values() for L in found) > MOST:
                raise InputError(f"A lookahead of {depth} steps does not fit: set a smaller depth.")
            self.levels.append({s: _merged(np.concatenate(found)) for s, found in parts.items()})

    def _is_over(self, s: int, actions: Sequence[int]) -> bool:
        r = [self.problem.R[s, a] for a in actions]
        return all(
            [t for t, _ in self.steps[s, a]] == [s] and np.array_equal(r[0], x)
            for a, x in zip(actions, r, strict=True)
        )

    def returns(self, xi: FloatArray, leaves: FloatArray) -> FloatArray:
        """(n_models,) returns of the best tree for models drawn with weights ξ.

        Where it ends, the tree takes the best of `leaves` (n_leaves, n_states, n_models): values of
        every state in every model.
        """

        def ended(s: int, L: FloatArray) -> FloatArray:
            return np.asarray(L * leaves[np.argmax((L * xi) @ leaves[:, s].T, axis=1), s])

        worth = {s: ended(s, level.chance) for s, level in self.levels[-1].items()}
        for here, after in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            taken = dict.fromkeys(after, 0)
            before = {}
            for s, (L, _, _) in here.items():
                if s in self.over:
                    before[s] = ended(s, L)
                    continue
                chosen, most = np.zeros_like(L), np.full(len(L), -np.inf)
                for a in self.actions[s]:
                    total = L * self.problem.R[s, a]
                    for t, _ in self.steps[s, a]:
                        at = slice(taken[t], taken[t] + len(L))
                        taken[t] = at.stop
                        own = worth[t][after[t].into[at]]
                        total += self.problem.gamma * after[t].share[at, None] * own
                    sums = total @ xi
                    better = sums > most
                    chosen[better], most[better] = total[better], sums[better]
                before[s] = chosen
            worth = before
        return np.asarray(np.sum([x.sum(axis=0) for x in worth.values()], axis=0))


def _merged(parts: FloatArray) -> _Level:
    """Rows in proportion to each other as one; likely ones by a random sum, and then looked at."""
    mass = parts.sum(axis=1)
    belief = parts / mass[:, None]
    key = belief @ np.random.default_rng(0).random(parts.shape[1])
    order = np.argsort(key, kind="stable")
    new = np.diff(key[order], prepend=-1.0) > SAME / 100
    into = np.empty(mass.size, dtype=np.int64)
    into[order] = np.cumsum(new) - 1
    first = order[new]
    apart = np.flatnonzero(np.abs(belief - belief[first[into]]).max(axis=1) > SAME)
    into[apart] = first.size + np.arange(apart.size)
    first = np.concatenate([first, apart])
    total = np.bincount(into, mass)
    return _Level(belief[first] * total[:, None], into, mass / total[into])


def bracket(
    problem: Problem, policies: Sequence[Policy], tree: Histories, steps: int
) -> tuple[float, float]:
    """What a controller of a tree and these policies earns, and what no policy exceeds.

    From below, trees for ever worse ξ are mixed by a coin that is tossed at the start; from above,
    ξ is that of the mixture of the trees so far, halfway to the best one. `steps` at most of each.
    """
    f, goal = problem.models.f, problem.objective
    assert isinstance(goal, SoftRobust)
    V = optimal_returns(problem).V.T[None]
    own = np.array([policy_values(problem, policy).T for policy in policies])
    found = [values.T @ problem.p0 for values in own]
    xi, mixed = _mixture(goal, f, found)
    for _ in range(steps):
        x = tree.returns(xi, own)
        if xi @ x <= goal.value(mixed, f) + ROUNDING * np.abs(x).max():
            break
        found.append(x)
        xi, mixed = _mixture(goal, f, found)
    low, high = goal.value(mixed, f), np.inf
    best = xi = goal.worst_case(V[0].T @ problem.p0, f)
    found = []
    for _ in range(steps):
        found.append(tree.returns(xi, V))
        if xi @ found[-1] < high:
            high, best = float(xi @ found[-1]), xi
        worst, mixed = _mixture(goal, f, found)
        if high - goal.value(mixed, f) <= ENOUGH * (high - low):
            break
        xi = into_xi((worst + best) / 2, *goal.xi_bounds(f))
    return low, high + tree.slack * float(np.abs(V).max())


def _mixture(
    goal: SoftRobust, f: FloatArray, found: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The ξ ∈ Ξ against which the best of these returns is least, and the best mixture of them."""
    from scipy.optimize import linprog

    X, program = np.array(found), cast(Any, linprog)
    size = max(float(np.abs(X).max()), 1e-300)
    lower, upper = goal.xi_bounds(f)
    last = np.eye(1, f.size + 1, f.size)
    solved = program(
        last[0], A_ub=np.column_stack([X / size, -np.ones(len(X))]), b_ub=np.zeros(len(X)),
        A_eq=1.0 - last, b_eq=[1.0],
        bounds=np.vstack([np.column_stack([lower, upper]), [[-np.inf, np.inf]]]),
    )  # fmt: skip
    if solved.x is None:
        raise SolverError(f"The mixture of {len(X)} policies was not found: {solved.message}")
    weights = np.maximum(-solved.ineqlin.marginals, 0.0)
    return into_xi(solved.x[:-1], lower, upper), np.asarray(weights / weights.sum() @ X)


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
    tree = Histories(base, depth)
    for lam in lams:
        problem = replace(base, objective=SoftRobust(lam, alpha))
        found = [LocalSearch(starts=starts).solve(problem), RandomizedAscent().solve(problem)]
        values = [solution.static_value for solution in found]
        low, high = bracket(problem, [*(x.policy for x in found), *own], tree, steps)
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
        return pair.bench(task_seed(seed, "draws"), n_train, 1, alpha).train
    given = {"variant": "craam", "prior": "tied"}
    return bench_of("riverswim", given, seed, n_train, 1, alpha).train


@final
class Learning(Experiment):
    """A bracket of what policies that learn as they go could add."""

    name = "learning"

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
        rows, judged = [], []
        for world, (_, seeds) in _learning_worlds(settings).items():
            keys = [task_key(world, f"seed{seed:03d}") for seed in seeds]
            found = [results[key]["cases"] for key in keys if key in results]
            if not found:
                raise SolverError(f"No task of '{world}' came to an end: see tasks/failures.")
            parts, numbers["worlds"][world] = [], {}
            for lam, cases in zip(settings["lams"], zip(*found, strict=True), strict=True):
                gains = {word: _gain(cases, word, world) for word in ENDS}
                stored = {word: i.as_dict() for word, i in gains.items()}
                numbers["worlds"][world][f"{lam:g}"] = {"cases": list(cases), **stored}
                rows.append([WORLDS[world], short(lam), *gains.values()])
                minus = _gain(cases, "upper", world, -100.0)
                parts.append(more(f"less than, λ = {lam:g}", minus, -WORTH))
            facts = {"worth": WORTH, "world": WORLDS[world]}
            judged.append(claimed("learning", "little", "training", *parts, **facts))
        return Findings(numbers, [tabled("learning", "brackets", rows)], judged, [])

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Brackets by world and λ."""
        lanes = [(w, lam) for w, found in numbers["worlds"].items() for lam in found]
        figure = new_figure(7.6, 0.8 + 0.34 * len(lanes))
        axes = figure.subplots()
        for y, (w, lam) in enumerate(lanes):
            d = numbers["worlds"][w][lam]
            low, high, told = (d[k]["value"] for k in ("controller", "upper", "clairvoyant"))
            axes.plot([low, high], [y, y], "o-", color=COLOURS[0], linewidth=3, markersize=5)
            axes.plot([told], [y], "|", color=INK, markersize=9)
        lane_labels(axes, [f"{WORLDS[w]}, λ = {lam}" for w, lam in lanes])
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_xlabel(
            "gain over stationary policies, % of what is to be gained (|: told the model)"
        )
        plain(axes, "x")
        return figure


def _gain(
    cases: Sequence[Mapping[str, float]], word: str, world: str, unit: float = 100.0
) -> Interval:
    """Over the best stationary policy, in `unit`s of what is to be gained.

    The public file is one posterior, not one of many: its figure is what it is.
    """
    x = [unit * (c[word] - c["stationary"]) / (c["clairvoyant"] - c["random"]) for c in cases]
    return Interval(x[0], x[0], x[0], 1) if world == "hiv" else mean_interval(x)


def _learning_worlds(settings: Settings) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """Settings and seeds by world; that of the public file is left out where it is not."""
    return {
        world: ({"depth": own["depth"]}, list(range(own["posteriors"])))
        for world, own in settings["worlds"].items()
        if world != "hiv" or HIV.exists()
    }
