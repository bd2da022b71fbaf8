"""Small problems where floating point is at its worst, and a referee in exact fractions.

Discounts up to .9999, rewards of 1e-3 to 1e6 on offsets up to 1e9, weights of 0 and 1e-12, α at its
ends and within 1e-9 of them (and of sums of weights), rows of nearly nothing but staying, actions
that are copies of each other but for the last bit. `wrong_certificate` tries every solver that
proves something, and every bound, against all deterministic rules, and bounds of policies that mix
actions against the best mixtures that a search finds; with a horizon, against all plans of a rule
for each step too, and against mixtures in every step; and what keeps to practice in some states.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.bounds import Bound, Covers, best_bound, clairvoyant_bound, potential
from softrobust.bounds.best import CLASSES
from softrobust.bounds.reduction import pair_sums, reduce
from softrobust.data import Rewards
from softrobust.kernels.s_game import solve_games
from softrobust.kernels.sweeps import SA_GAME
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import EDGE, Objective, Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.returns import reference_returns
from softrobust.returns.rectangular_sweeps import Sweeps
from softrobust.returns.reference import unmasked
from softrobust.solvers.base import Deadline, Solution, Status
from softrobust.solvers.exact import branch_and_bound, exact
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP, write_milp
from softrobust.solvers.exact.milp_program import condition
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.practice_class import PracticeClass, solve_within
from softrobust.solvers.rectangular.rectangular import Rectangular, iterate, nominal_start
from tests.agree.static_instances import FloatArray, all_decisions, all_returns
from tests.solvers.exact_fractions import exact_objective, exact_returns

NEAR = 1e-9  # of the largest return: below this, fractions decide
RULES = 100
PLANS = 1_000
MIXING = frozenset(
    {Covers.PRACTICE_GROUPS, Covers.PRACTICE_CLASS, Covers.STATIONARY, Covers.TIMED, Covers.ALL}
)


def adversary(rng: np.random.Generator, percentile: bool | None = None) -> Problem:
    """A problem with few rules; one in three by the percentile criterion unless told."""
    S, A, N = (int(rng.integers(*some)) for some in ((1, 5), (2, 4), (1, 6)))
    while A**S > RULES:
        A -= 1
    P = _rows(rng, S, A, N)
    r = rng.normal(size=(N if rng.random() < 0.5 else 1, S, A))  # models may pay differently
    r = np.round(r, 2) * float(rng.choice([1.0, 50.0, 1e-3, 1e6]))
    if rng.random() < 0.3:  # copies, or copies but for the last bit
        r[..., 1] = r[..., 0] * (1 + rng.choice([0.0, 1e-15]))
        P[:, :, 1] = P[:, :, 0]
    offset = float(rng.choice([0.0, 0.0, 0.0, 1.0, 1e3, 1e6, -1e6, 1e9]))
    allowed = rng.random((S, A)) < 0.9
    allowed[np.arange(S), rng.integers(A, size=S)] = True
    f = _weights(rng, N)
    p0 = rng.dirichlet(np.ones(S)) if rng.random() < 0.7 else np.eye(S)[rng.integers(S)]
    taken = rng.integers(0, 4, size=(S, A))
    models = ModelSet.from_dense(P, f, taken=taken)
    return Problem(
        models,
        rewards=_paid(models, r + offset),
        p0=p0,
        gamma=float(rng.choice([0.5, 0.9, 0.99, 0.999, 0.9999, 0.9999])),
        allowed=allowed,
        objective=_objective(rng, models, percentile),
    )


def hedging_adversary(rng: np.random.Generator) -> Problem:
    """The same where no model likes the action that another likes: mixtures may be best."""
    problem = adversary(rng)
    S, A, N = problem.R.shape
    r = rng.normal(size=(1, S, A)) + 3.0 * rng.integers(-1, 2, size=(N, S, A))
    r = np.round(r, 2) * float(rng.choice([1.0, 1e6]))
    models = replace(problem.models, rewards=None)
    rewards = _paid(models, np.asarray(r + float(rng.choice([0.0, 0.0, 1e6]))))
    return replace(problem, models=models, rewards=rewards, objective=problem.objective.anew())


def _paid(models: ModelSet, r: FloatArray) -> Rewards:
    """Rewards (n_models or 1, n_states, n_actions) of what the models follow with."""
    N, S, A = models.n_models, models.n_states, models.n_actions
    paid = np.broadcast_to(r, (N, S, A)).reshape(N, -1).T.reshape(-1)  # model fastest
    return Rewards.of_models(np.repeat(paid, np.repeat(np.diff(models.indptr), N)), S, A)


def rectangular_adversary(rng: np.random.Generator) -> Problem:
    """The same for rectangular solvers: of the return itself, and α = 1 where it counts as that."""
    problem = adversary(rng, percentile=False)
    lam, alpha = problem.objective.lam, problem.objective.alpha
    objective = SoftRobust(lam, 1.0 if 1 - alpha <= EDGE else alpha)
    return replace(problem, objective=objective)


def horizon_adversary(rng: np.random.Generator) -> Problem:
    """The same with an end after a few steps, undiscounted or not: few rules, and few plans."""
    while True:
        problem = adversary(rng)
        H = int(rng.integers(1, 5))
        if float(problem.allowed.sum(axis=1).prod()) ** H <= PLANS:
            gamma = float(rng.choice([problem.gamma, 1.0]))
            return replace(problem, horizon=H, gamma=gamma, objective=problem.objective.anew())


def _rows(rng: np.random.Generator, S: int, A: int, N: int) -> FloatArray:
    P = rng.dirichlet(
        np.full(S, float(rng.choice([0.03, 0.1, 0.1, 0.3, 1.0, 10.0]))), size=(N, S, A)
    )
    kind = rng.random()
    if kind < 0.25:  # nearly nothing but staying
        leave = 10.0 ** rng.uniform(-12, -1, size=(N, S, A, 1))
        P = (1 - leave) * np.eye(S)[:, None] + leave * P
    elif kind < 0.4:  # stay for ever, or go to one state
        P[:] = 0.0
        P[..., rng.integers(S)] = 1.0
        P[:, :, 0] = np.eye(S)
    elif kind < 0.55:  # models that hardly differ
        P = P[:1] + 1e-9 * P
    P = np.where(P < 1e-300, 0.0, P)
    P /= P.sum(axis=-1, keepdims=True)
    return np.asarray(P * (1 + rng.choice([0.0, 0.0, 9e-9, -9e-9])))


def _weights(rng: np.random.Generator, N: int) -> FloatArray:
    f = rng.dirichlet(np.ones(N)) if rng.random() < 0.6 else np.full(N, 1.0 / N)
    if N > 1:
        small = rng.choice([0.0, 1e-12, 1e-9, 1.0], size=N)
        f = np.where(small < 1, small, f)
        if f.max() < 0.1:
            f[rng.integers(N)] = 1.0
    return np.asarray(f / f.sum())


def _objective(rng: np.random.Generator, models: ModelSet, percentile: bool | None) -> Objective:
    f, reference = models.f, rng.choice(["none", "none", "practice", "optimum", "policy"])
    against: Any = str(reference)
    if reference == "policy":
        probs = rng.dirichlet(np.full(models.n_actions, 0.3), size=models.n_states)
        against = Policy(probs, models.states, models.actions)
    edge = float(rng.choice([0.0, 1.0, 0.5, 0.9, 1 - np.cumsum(rng.permutation(f))[0]]))
    step = float(rng.choice([0.0, 0.0, 1e-9, -1e-9, 1e-12, -1e-12]))
    alpha = float(np.clip(edge + step, 0.0, 1.0))
    if rng.random() < 1 / 3 if percentile is None else percentile:
        return Percentile(alpha, against)
    lam = float(rng.choice([0.0, 1.0, 0.5, 0.3, 1e-9, 1 - 1e-9]))
    return SoftRobust(lam, alpha, against)


def exact_value(problem: Problem, x: list[Fraction], edge_met: float = EDGE) -> Fraction:
    """The objective in fractions, as documented: an edge missed by less than `EDGE` is met.

    What the reference earns is a constant of the problem, and taken as it is (`reference_is_true`).
    """
    objective = problem.objective
    x = [y - Fraction(float(c)) for y, c in zip(x, reference_returns(problem), strict=True)]
    if isinstance(objective, SoftRobust):
        if 1 - objective.alpha <= EDGE:
            problem = _at_alpha_one(problem)
        return exact_objective(problem, x)
    f = [Fraction(float(w)) for w in problem.models.f]
    live = sorted((y, w) for y, w in zip(x, f, strict=True) if w > 0)
    edge = (1 - Fraction(objective.alpha) + Fraction(edge_met)) * sum(f)
    below = Fraction(0)
    for y, w in live:
        below += w
        if below > edge:
            return y
    return live[-1][0]


def _at_alpha_one(problem: Problem) -> Problem:
    return replace(problem, objective=problem.objective.at(problem.objective.lam, 1.0))


class Referee:
    """The best of all rules: in extended precision, and where it matters in fractions.

    With `timed`, of all plans of a rule for each step; `within` a class that keeps to practice, of
    its corners.
    """

    def __init__(
        self, problem: Problem, timed: bool = False, within: PracticeClass | None = None
    ) -> None:
        self.problem, self.within = problem, within
        self.decisions: Any = all_decisions(problem) if within is None else _corners(within)
        if timed:
            plans = itertools.product(self.decisions, repeat=problem.horizon or 1)
            self.decisions = np.array(list(plans))
        make = _returns if within is None else _mixed_returns
        returns = make(problem, self.decisions)
        f, c = problem.models.f, reference_returns(problem)
        self.size = float(np.abs(returns).max()) + float(np.abs(c).max())
        returns = returns - c
        self.values = np.array([problem.objective.value(x, f) for x in returns])
        # A tie at an edge may be read in two ways; fractions decide among all that may be best.
        self.most = np.array([problem.objective.most(x, f) for x in returns])
        self.near = np.flatnonzero(self.most >= self.values.max() - NEAR * self.size)
        self._optimum: Fraction | None = None
        self._mixture: Fraction | None = None
        self.earns: dict[bytes, list[Fraction]] = {}  # by rule

    @property
    def optimum(self) -> Fraction:
        """The best value, exactly."""
        if self._optimum is None:
            p = self.problem
            best = [exact_value(p, exact_returns(p, self.decisions[i])) for i in self.near[:8]]
            self._optimum = max(best)
        return self._optimum

    def breaks(self, bound: Bound) -> Fraction | None:
        """What some policy earns, where it is more than the bound allows."""
        if bound.value <= float(self.values.max()) + NEAR * self.size and (
            Fraction(bound.value) < self.optimum
        ):
            return self.optimum
        if bound.covers in MIXING and bound.value <= self.mixed[0] + NEAR * self.size:
            if self._mixture is None:
                self._mixture = exact_value(
                    self.problem, exact_returns(self.problem, self.mixed[1])
                )
            if Fraction(bound.value) < self._mixture:
                return self._mixture
        return None

    @cached_property
    def mixed(self) -> tuple[float, FloatArray]:
        """What the best mixture of actions earns that is found, and its shares of actions."""
        order = np.argsort(-self.values, kind="stable")[:4]
        if self.within is None:
            starts = np.eye(self.problem.models.n_actions)[self.decisions[order]]
            return best_mixture(self.problem, starts)
        inside = self.within.composite(self.problem)  # its actions are the class's corners
        off = self.decisions[order][:, :, None] - inside.mixtures
        starts = np.eye(inside.problem.models.n_actions)[np.abs(off).sum(axis=-1).argmin(axis=-1)]
        value, probs = best_mixture(inside.problem, starts)
        return value, np.einsum("sj,sja->sa", probs, inside.mixtures)

    def misjudged(self, solution: Solution) -> bool:
        """Whether the policy earns something else than it is said to, beyond rounding."""
        probs = np.asarray(solution.policy.probs)
        if probs.tobytes() not in self.earns:
            x = exact_returns(self.problem, probs)
            # Sums of weights may round either way where an edge is missed by `EDGE` to the bit.
            edges = (EDGE, EDGE - 1e-15, EDGE + 1e-15)
            self.earns[probs.tobytes()] = [exact_value(self.problem, x, edge) for edge in edges]
        said = Fraction(solution.static_value)
        return min(float(abs(said - x)) for x in self.earns[probs.tobytes()]) > 1e-7 * self.size


def _corners(within: PracticeClass) -> FloatArray:
    """(n_rules, n_states, n_actions): a corner of the class in every state, or practice.

    Made anew here, of all subsets of the rare actions, unless the class groups them.
    """
    S, A = within.practice.shape
    rows: list[Any] = []
    for s in range(S):
        beta, free = within.practice[s], np.flatnonzero(within.free[s])
        rare = [a for a in range(A) if not within.free[s, a] and beta[a] > 0]
        made = [beta]
        kept = [c for n in range(len(rare) + 1) for c in itertools.combinations(rare, n)]
        for some, a in itertools.product(kept, free):
            row = np.where(np.isin(np.arange(A), some), beta, 0.0)
            row[a] = 1.0 - row.sum()
            made.append(row)
        rows.append(within.vertices(s) if within.grouped else made)
    return np.array(list(itertools.product(*rows)))


def practice_class(rng: np.random.Generator, problem: Problem) -> PracticeClass:
    """Some practice of what is allowed, and some pairs that are free; few corners."""
    while True:
        practice = rng.dirichlet(np.full(problem.models.n_actions, 0.5), size=problem.n_states)
        practice = np.where(problem.allowed & (practice > 0.02), practice, 0.0)
        idle = practice.sum(axis=1) == 0
        practice[idle] = problem.allowed[idle]
        practice /= practice.sum(axis=1, keepdims=True)
        free = problem.allowed & (rng.random(problem.allowed.shape) < 0.5)
        within = PracticeClass(practice, free)
        if np.prod([len(within.vertices(s)) for s in range(problem.n_states)]) <= PLANS:
            return within


def wrong_within_practice(problem: Problem, rng: np.random.Generator) -> str | None:
    """None if bounds of policies that keep to practice hold for them; else which does not."""
    within = practice_class(rng, problem)
    inside = within.composite(problem).problem
    referee = Referee(problem, within=within)
    claims = [("corners", within.named(problem, best_bound(inside, Covers.DETERMINISTIC)))]
    if problem.horizon is None:
        solution = solve_within(problem, Exact(gap=1e-9), within)
        if referee.misjudged(solution):
            return f"{solution.policy!r} does not earn {solution.static_value!r}"
        assert solution.bound is not None
        claims.append(("exact", solution.bound))
    claims.append(("class", within.named(problem, best_bound(inside, Covers.STATIONARY))))
    for name, bound in claims:
        if (bound.covers is Covers.PRACTICE_GROUPS) != within.grouped:
            return f"within practice, {name}: the bound is called one of {bound.covers}"
        if (more := referee.breaks(bound)) is not None:
            return f"within practice, {name}: bound {bound.value!r} below {float(more)!r}"
    return None


STEPS = (0.02, 0.1, 0.3, 0.6, 1.0)  # of the way towards one action in one state
ROUNDS = 12


def best_mixture(problem: Problem, starts: FloatArray) -> tuple[float, FloatArray]:
    """The best policy (.., n_states, n_actions) of a search over shares of actions, and its value.

    From every start, and from between them, one row at a time goes some way to one action, as long
    as that pays.
    """
    c, shape = reference_returns(problem), starts.shape[1:]
    A, rows = shape[-1], int(np.prod(shape[:-1]))
    allowed = np.broadcast_to(problem.allowed, shape).reshape(rows, A)
    pairs = np.argwhere(allowed)
    even = np.broadcast_to(allowed / allowed.sum(axis=1, keepdims=True), (1, rows, A))
    points = np.concatenate([starts.reshape(-1, rows, A), even])
    points = np.concatenate([points, (points + points[:1]) / 2])

    def worth(some: FloatArray) -> FloatArray:
        x = _mixed_returns(problem, some.reshape(-1, *shape)) - c
        return _values(problem, x)

    known, steps = worth(points), np.array(STEPS)
    for _ in range(ROUNDS):
        moved = np.repeat(points[:, None, None], pairs.shape[0], axis=1)
        moved = np.repeat(moved, steps.size, axis=2)  # points, pairs, steps, rows, actions
        for k, (row, a) in enumerate(pairs):
            moved[:, k, :, row] *= 1 - steps[:, None]
            moved[:, k, :, row, a] += steps
        moved = moved.reshape(points.shape[0], -1, rows, A)
        tried = worth(moved.reshape(-1, rows, A)).reshape(points.shape[0], -1)
        best = tried.argmax(axis=1)
        better = tried.max(axis=1) > known
        if not better.any():
            break
        points = np.where(better[:, None, None], moved[np.arange(best.size), best], points)
        known = np.maximum(known, tried.max(axis=1))
        steps = steps / 2
    top = int(known.argmax())
    return float(known[top]), points[top].reshape(shape)


def _mixed_returns(problem: Problem, probs: FloatArray) -> FloatArray:
    """(n_policies, n_models) of shares of actions, for all steps or for each."""
    P, R, g = np.asarray(problem.models.P), problem.R, problem.gamma
    R = np.where(problem.allowed[:, :, None], R, 0.0)
    if problem.horizon is None:
        M = np.eye(problem.n_states) - g * np.einsum("ksa,nsaj->knsj", probs, P)
        return np.asarray(
            np.linalg.solve(M, np.einsum("ksa,san->kns", probs, R)[..., None])[..., 0] @ problem.p0
        )
    v = np.zeros((probs.shape[0], problem.n_models, problem.n_states))
    for t in range(problem.horizon - 1, -1, -1):
        now = probs[:, t] if probs.ndim == 4 else probs
        ahead = np.einsum("nsaj,knj->knsa", P, v)
        v = np.einsum("ksa,knsa->kns", now, R.transpose(2, 0, 1)[None] + g * ahead)
    return np.asarray(v @ problem.p0)


def _values(problem: Problem, X: FloatArray) -> FloatArray:
    """(n_policies,): the objective of every row of returns."""
    objective, f = problem.objective, problem.models.f
    if isinstance(objective, Percentile):
        return objective.values(X, f)
    order = np.argsort(X, axis=1, kind="stable")
    x, w = np.take_along_axis(X, order, axis=1), (f / f.sum())[order]
    tail = 1.0 - objective.alpha
    if tail <= EDGE:
        cvar = np.where(w > 0, x, np.inf).min(axis=1)
    else:
        before = np.cumsum(w, axis=1) - w
        cvar = (np.clip(tail - before, 0.0, w) * x).sum(axis=1) / tail
    return np.asarray((1 - objective.lam) * (X @ f) + objective.lam * cvar)


def _returns(problem: Problem, decisions: Any) -> FloatArray:
    """(n_rules, n_models) of rules or of plans (n_rules, horizon, n_states)."""
    if problem.horizon is None:
        return all_returns(problem, decisions)
    P, s = np.asarray(problem.models.P, dtype=np.longdouble), np.arange(problem.n_states)
    v = np.zeros((len(decisions), problem.n_models, problem.n_states), np.longdouble)
    for t in range(problem.horizon - 1, -1, -1):
        rule = decisions[:, t] if decisions.ndim == 3 else decisions
        ahead = (P[:, s, rule].transpose(1, 0, 2, 3) @ v[..., None])[..., 0]
        v = problem.R[s, rule].transpose(0, 2, 1) + np.longdouble(problem.gamma) * ahead
    return np.asarray((v @ problem.p0.astype(np.longdouble)).astype(np.float64))


def wrong_with_a_horizon(problem: Problem) -> str | None:
    """None if every bound holds for its class, and the searches earn what they say."""
    classes = ((Covers.DETERMINISTIC, Covers.STATIONARY), (Covers.TIMED, Covers.ALL))
    for timed, named in enumerate(classes):
        referee = Referee(problem, bool(timed))
        solution = LocalSearch(starts=3, stationary=not timed).solve(problem)
        if referee.misjudged(solution):
            return f"{solution.policy!r} does not earn {solution.static_value!r}"
        claims = [(covers.value, best_bound(problem, covers)) for covers in named]
        claims.append(("clairvoyant", clairvoyant_bound(problem)))
        for name, bound in claims:
            if (more := referee.breaks(bound)) is not None:
                return f"{name}: bound {bound.value!r} below {float(more)!r}"
    c, reference = reference_returns(problem), problem.objective.reference
    if reference is None or reference.policy is None:
        own = 0.0 * c if reference is None else _returns(problem, referee.decisions).max(axis=0)
        if (c < own - 1e-15 * np.abs(own)).any() or (
            c > own + 1e-8 * referee.size + optimum_slack(problem)
        ).any():
            return f"the optima {own} are taken for {c}"
    return None


def reference_is_true(problem: Problem) -> bool:
    """Whether what the reference earns is what it is said to be, beyond rounding."""
    reference, c = problem.objective.reference, reference_returns(problem)
    if reference is None:
        return not c.any()
    if (
        reference.policy is None
    ):  # no rule of a model is better than its optimum, and one attains it
        own = all_returns(problem, all_decisions(problem)).max(axis=0)
        truth, above = own, bool((c >= own - 1e-15 * np.abs(own)).all())
    else:
        truth, above = np.zeros(problem.n_models), True
        S, P, d = problem.n_states, np.asarray(problem.models.P), reference.policy.probs
        R = unmasked(problem).R
        for omega in range(problem.n_models):
            M = np.eye(S) - problem.gamma * np.einsum("sa,saj->sj", d, P[omega])
            truth[omega] = problem.p0 @ np.linalg.solve(M, (d * R[:, :, omega]).sum(axis=1))
    size = max(float(np.abs(truth).max()), float(np.abs(c).max()))
    return above and bool((np.abs(c - truth) <= 1e-8 * size + optimum_slack(problem)).all())


def optimum_slack(problem: Problem) -> float:
    """By how much a model's optimum may be overstated, however much of it cancels from p₀.

    Values are proven to within 1e-11 of the largest, from both sides; and rounding at the size of
    what is summed is put on once for every step to come.
    """
    S, largest = problem.n_states, float(np.abs(problem.R).max())
    steps = problem.horizon or 1 / (1 - problem.gamma * float(pair_sums(problem).max()))
    return steps * largest * (2e-11 + 32 * (S + 1) * 2.0**-52 * steps)


def wrong_certificate(problem: Problem, rng: np.random.Generator) -> str | None:
    """None if everything that is claimed of the problem holds; else what does not."""
    if not reference_is_true(problem):
        return "the reference does not earn what is taken off"
    referee = Referee(problem)
    claims: list[tuple[str, Bound | None]] = [("clairvoyant", clairvoyant_bound(problem))]
    claims += [(covers.value, best_bound(problem, covers)) for covers in CLASSES]
    solutions: list[tuple[str, Solution]] = [("exact", Exact(gap=1e-9).solve(problem))]
    with _OnlyBranching():
        dual = rng.random() < 0.7
        solution = Exact(gap=1e-9, dual=dual, node_limit=500).solve(problem)
        solutions.append((f"branching, dual={dual}", solution))
    printed = isinstance(problem.objective, SoftRobust) and rng.random() < 0.3
    form: Any = "paper" if printed else "strengthened"
    if find_spec("highspy") and rng.random() < 0.1:  # it takes four times what all others take
        solutions.append((f"milp, {form}", MILP(formulation=form, gap=1e-9).solve(problem)))
    if isinstance(problem.objective, SoftRobust) and rng.random() < 0.05:
        solutions.append(("randomized", RandomizedAscent(starts=1, steps=5).solve(problem)))
    for name, solution in solutions:
        claims.append((name, solution.bound))
        if referee.misjudged(solution):
            return f"{name}: its policy does not earn {solution.static_value!r}"
        if solution.gap_abs is None or solution.gap_abs < 0:
            return f"{name}: a gap of {solution.gap_abs}"
        proven = solution.status in (Status.OPTIMAL, Status.TOLERANCE_REACHED)
        if proven and solution.gap_abs > 1e-6 * referee.size + solution.rounding:
            return f"{name}: {solution.status.value} with a gap of {solution.gap_abs}"
    for name, bound in claims:
        if bound is not None and (more := referee.breaks(bound)) is not None:
            return f"{name}: bound {bound.value!r} below {float(more)!r}"
    return None


def wrong_program(problem: Problem, path: Path) -> str | None:
    """None if HiGHS finds the optimum in the file of the program; else what it finds.

    With its own settings, to within the gap at which it stops (1e-4 of the objective); with those
    that the file beside names, to within 1e-8 of it. In both to within what a constraint may be
    missed by (1e-6): 1e-5 of what the largest reward for ever would bring, once moved.
    """
    import highspy

    write_milp(problem, path)
    how = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="utf-8"))
    referee, unit, reduced = Referee(problem), how["unit"], reduce(problem)
    best, most = float(referee.values.max()), float(referee.most.max())
    terms = condition(reduced.problem, reduced.allowed)
    largest = float(np.abs(terms.R[reduced.allowed]).max())
    room = 1e-5 * unit * largest / (1 - problem.gamma) + 1e-10 * referee.size + terms.error
    for beside, gap in ((False, 1e-4), (True, 1e-8)):
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        for name, value in how["highs"].items() if beside else ():
            highs.setOptionValue(name, value)
        highs.readModel(str(path))
        highs.run()
        said = highs.modelStatusToString(highs.getModelStatus())
        if said != "Optimal":
            return f"{'as told beside' if beside else 'stock'}: {said}"
        pi = np.where(problem.allowed, -1.0, -2.0)  # an action that is left out is another's copy
        for i, value in enumerate(highs.getSolution().col_value):
            name = highs.getColName(i)[1].split("_")
            if name[0] == "pi":
                pi[int(name[1]), int(name[2])] = value
        rule = (referee.decisions == pi.argmax(axis=1)).all(axis=1)
        earned = float(referee.most[rule][0])  # a tie at an edge may be read in either way
        told = unit * highs.getInfo().objective_function_value + how["shift"]
        ok = room + gap * abs(best - how["shift"])
        if best - earned > ok or not best - ok <= told <= most + ok:
            name = "as told beside" if beside else "stock"
            return f"{name}: {told!r} by a rule that earns {earned!r}; the best earns {best!r}"
    return None


class _OnlyBranching:
    """No rule is enumerated, so that nodes are bounded, by potentials too, and branched on."""

    WORK = ((branch_and_bound, "LEAF_WORK"), (branch_and_bound, "LEAST_LEAF"),
            (branch_and_bound, "NODE_WORK"), (exact, "ENUMERATION_WORK"),
            (branch_and_bound, "LOOK_WORK"), (potential, "LOOKS"))  # fmt: skip

    def __enter__(self) -> None:
        self.kept = [getattr(module, name) for module, name in self.WORK]
        for module, name in self.WORK:
            setattr(module, name, 10 if name == "LOOKS" else 0.0)

    def __exit__(self, *_: object) -> None:
        for (module, name), value in zip(self.WORK, self.kept, strict=True):
            setattr(module, name, value)


def wrong_rectangle(problem: Problem, solver: Rectangular) -> str | None:
    """None if a rectangular solve ends within its tolerance and its bounds hold in every state.

    With T monotone and a contraction, T(lower) ≥ lower and T(upper) ≤ upper prove the bounds. T is
    evaluated in fractions; of the game of a state, one side with the solver's own decision and the
    other with the ξ of nature's answer, each of which bounds its value.
    """
    sweeps = Sweeps(problem)
    found, status = iterate(
        sweeps, solver.kind, nominal_start(sweeps), solver.tol, Deadline(None), solver.max_rounds
    )
    if status is not Status.TOLERANCE_REACHED:
        return f"{solver.name}: {status.value} at {found.tol:.2g}"
    single = solver.kind == SA_GAME
    low = [Fraction(float(x)) for x in found.lower]
    high = [Fraction(float(x)) for x in found.upper]
    size = float(np.abs(problem.R).max() + np.abs(found.v).max())
    room = Fraction(64 * 2.0**-52 * (problem.n_models + problem.n_states) * size)
    zero, models = Fraction(0), range(problem.n_models)
    xi = None if single else _natures_xi(problem, found.v)
    for s in range(problem.n_states):
        below, above = _state_values(problem, s, low), _state_values(problem, s, high)
        if single:
            least = max(exact_objective(problem, z) for z in below.values())
            most = max(exact_objective(problem, z) for z in above.values())
        else:
            d = {a: Fraction(float(found.decision[s, a])) for a in below}
            total = sum(d.values(), zero)
            mixed = [sum((d[a] * below[a][w] for a in d), zero) / total for w in models]
            least = exact_objective(problem, mixed)
            assert xi is not None
            most = max(sum((xi[s][w] * z[w] for w in models), zero) for z in above.values())
        if least < low[s] - room:
            return f"{solver.name}: state {s} is worth less than its lower bound {float(low[s])!r}"
        if most > high[s] + room:
            return f"{solver.name}: state {s} is worth more than its upper bound {float(high[s])!r}"
    return None


def _state_values(problem: Problem, s: int, v: list[Fraction]) -> dict[int, list[Fraction]]:
    """R + γPᵀv of every allowed action of s: one for each model."""
    gamma, P = Fraction(problem.gamma), np.asarray(problem.models.P)
    return {
        int(a): [
            Fraction(float(problem.R[s, a, w]))
            + gamma * sum(Fraction(float(p)) * x for p, x in zip(P[w, s, a], v, strict=True))
            for w in range(problem.n_models)
        ]
        for a in np.flatnonzero(problem.allowed[s])
    }


def _natures_xi(problem: Problem, v: FloatArray) -> list[list[Fraction]]:
    """Nature's ξ of every state's game at v, scaled to sum to 1."""
    objective, f = problem.objective, problem.models.f
    assert isinstance(objective, SoftRobust)
    Z = problem.R + problem.gamma * np.einsum("nsaj,j->san", problem.models.P, v)
    q = solve_games(Z, f, objective.q_bounds(f), objective.lam, problem.allowed).q
    xi = (1 - objective.lam) * f + objective.lam * q
    rows = [[Fraction(float(x)) for x in row] for row in xi]
    return [[x / sum(row) for x in row] for row in rows]
