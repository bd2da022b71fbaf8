"""Policies that keep to practice where the log cannot tell, and their problem in composite actions.

With practice β and a set of free pairs (those seen often enough) the class is

    Π = { π : π(a|s) ≤ β(a|s) on pairs that are not free;  π(·|s) = β(·|s) in states without any }

(Π_≤b of Laroche et al. 2019). In a state it is a polytope. Its vertices are: some of the rare
actions at β, the others at 0, the rest of the probability on one free action. Taken as actions of
their own, with rows and rewards mixed accordingly, they make a problem in which *every* policy is
one of Π, and the other way round: solvers, bounds and certificates work there unchanged, `lift`
brings a policy back, and returns are equal. β itself is composite action 0 in every state.

A state with many rare actions would have too many vertices: beyond `MOST_RARE` the ones that
practice takes least are kept or left together, as one. The class is then the convex hull of those
vertices, which still holds β; bounds are named so (`Covers.PRACTICE_GROUPS`), and are none of Π.

`solve_within` takes any solver that reads the problem alone. What it proves, it proves of the
corners of the class where it is for deterministic policies, else of the whole class.

Returns can be counted from a reference: x_ω is subtracted from every return of model ω by taking
x_ω/Σ_t γ^t from each reward, so that any objective becomes one of the gain over the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, Sealed, frozen
from softrobust.bounds import Bound, Covers, bound_of
from softrobust.bounds.reduction import EPS, reach
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import Reference
from softrobust.problem import Problem
from softrobust.returns import reference_returns
from softrobust.solvers.base import Solution, Solver, finish, solve

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

P = TypeVar("P", Policy, TimedPolicy)
MOST_RARE = 4  # rare actions of a state that are kept or left one by one
TOLERANCE = 1e-9  # by which a policy may miss the class


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PracticeClass(Sealed):
    """Π of a practice and the pairs that are free.

    Parameters
    ----------
    practice : (n_states, n_actions)
        β; rows sum to 1.
    free : (n_states, n_actions) bool
        Pairs that may get more probability than practice gives them.
    clear : bool
        Whether these are the pairs whose gain is clear (`cautious`), not merely seen often enough.
    """

    practice: FloatArray
    free: BoolArray
    clear: bool = False

    def __post_init__(self) -> None:
        practice = np.asarray(self.practice, dtype=np.float64)
        free = np.asarray(self.free, dtype=bool)
        if practice.ndim != 2 or practice.shape != free.shape:
            raise InputError(
                "practice and free must both have shape (n_states, n_actions); they have "
                f"{practice.shape} and {free.shape}."
            )
        off = np.abs(practice.sum(axis=1) - 1.0)
        if not ((practice >= 0).all() and (off <= 1e-9).all()):
            raise InputError(
                "The shares of practice must be at least 0 and sum to 1 in every state: state "
                f"{int(np.argmax(off))} sums to {float(practice[int(np.argmax(off))].sum()):g}."
            )
        object.__setattr__(self, "practice", frozen(practice, np.float64))
        object.__setattr__(self, "free", frozen(free, np.bool_))

    @classmethod
    def of(cls, log: TransitionLog, practice: FloatArray, min_count: int) -> PracticeClass:
        """Free are the pairs that the log has `min_count` times or more."""
        return cls(practice, np.asarray(log.pair_counts) >= max(min_count, 1))

    @property
    def open(self) -> BoolArray:
        """(n_states,): states in which anything but practice is possible."""
        others = self.practice > 0
        return np.asarray(self.free.any(axis=1) & ((self.free | others).sum(axis=1) > 1))

    @property
    def grouped(self) -> bool:
        """Whether some state has so many rare actions that the vertices span less than Π."""
        rare = (~self.free & (self.practice > 0)).sum(axis=1)
        return bool((rare[self.open] > MOST_RARE).any())

    def reaches(self, probs: FloatArray) -> bool:
        """Whether the vertices are known to span a policy of Π: they span Π, or it is one."""
        return not self.grouped or all(
            float(np.abs(self.vertices(s) - row).max(axis=1).min()) <= TOLERANCE
            for s, row in enumerate(probs)
        )

    def contains(self, probs: FloatArray) -> bool:
        """Whether a policy is in Π."""
        over = probs - self.practice
        rare = ~self.free | ~self.free.any(axis=1, keepdims=True)
        return bool((over[rare] <= TOLERANCE).all())

    def greedy(self, q: FloatArray) -> FloatArray:
        """The policy of Π with the largest Σ_a π(a|s)·q(s, a); −∞ marks pairs without a model."""
        rows = np.arange(q.shape[0])
        among = np.where(self.free, q, -np.inf)
        best = among.argmax(axis=1)
        top = among[rows, best]
        kept = np.where(~self.free & (q > top[:, None]), self.practice, 0.0)
        out = kept
        out[rows, best] += 1.0 - kept.sum(axis=1)
        return np.where(np.isfinite(top)[:, None], out, self.practice)

    def vertices(self, s: int) -> FloatArray:
        """(n_composites, n_actions): practice first, then the vertices in state s."""
        beta, free = self.practice[s], self.free[s]
        if not self.open[s]:
            return np.array(beta[None])
        rare = np.flatnonzero(~free & (beta > 0))
        rare = rare[np.argsort(-beta[rare], kind="stable")]
        groups = [[int(a)] for a in rare[: MOST_RARE - 1]]
        if rare.size >= MOST_RARE:
            groups.append([int(a) for a in rare[MOST_RARE - 1 :]])
        out = [beta]
        for kept in product((False, True), repeat=len(groups)):
            for a in np.flatnonzero(free):
                row = np.zeros_like(beta)
                for group, keep in zip(groups, kept, strict=True):
                    row[group] = beta[group] if keep else 0.0
                row[a] = 1.0 - row.sum()
                out.append(row)
        return np.array(out)

    def composite(self, problem: Problem) -> Composite:
        """The problem in composite actions, against the same reference."""
        return Composite.of(self, problem)

    def named(self, problem: Problem, bound: Bound) -> Bound:
        """A bound of the composite problem as one of the class, or of its corners."""
        covers = Covers.PRACTICE_CLASS
        if self.grouped:
            covers = Covers.PRACTICE_GROUPS
        elif self.clear:
            covers = Covers.CLEAR_CHANGES
        elif bound.covers is Covers.DETERMINISTIC:
            covers = Covers.PRACTICE_CORNERS
        # The composite problem takes what the reference earns for exact, and mixtures for exact,
        # whose rewards and rows were rounded at the size of the original ones.
        value = bound.value + _mixing_error(problem)
        return bound_of(problem, value, covers, bound.method)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Composite:
    """A problem whose actions are the vertices of a class.

    Attributes
    ----------
    problem : Problem
        In composite actions; sinks of the original are plain states there.
    mixtures : (n_states, n_composites, n_actions)
        What a composite action is; zeros where a state has fewer.
    original : Problem
    """

    problem: Problem
    mixtures: FloatArray
    original: Problem

    @classmethod
    def of(cls, policies: PracticeClass, problem: Problem) -> Composite:
        """Mix rows and rewards of the problem."""
        models = problem.models
        if policies.practice.shape != (models.n_states, models.n_actions):
            raise InputError(
                f"The class is for {policies.practice.shape} states and actions, the problem has "
                f"{(models.n_states, models.n_actions)}."
            )
        stray = np.argwhere((policies.practice > 0) & ~models.available)
        if stray.size:
            s, a = (int(i) for i in stray[0])
            raise InputError(
                f"Practice takes action '{models.actions[a]}' in state '{models.states[s]}', and "
                f"no model knows what follows ({len(stray)} such pairs). Keep such pairs in the "
                "posterior (min_count)."
            )
        if ((policies.practice > 0) & ~problem.allowed).any():
            raise InputError(
                "Some of what practice does is not allowed here, so that no policy can keep to it. "
                "Leave out the least count, or allow what the log shows.",
                arguments=("min_count", "allowed"),
            )
        free = policies.free & problem.allowed & ~models.sinks[:, None]
        inner = PracticeClass(policies.practice, free)
        rows = [inner.vertices(s) for s in range(models.n_states)]
        mixtures = np.zeros((models.n_states, max(map(len, rows)), models.n_actions))
        for s, vertices in enumerate(rows):
            mixtures[s, : len(vertices)] = vertices
        return cls(mixed_problem(problem, mixtures), mixtures, problem)

    def lift(self, policy: P) -> P:
        """A policy of composite actions as one of the original actions."""
        probs = np.einsum("...sj,sja->...sa", policy.probs, self.mixtures)
        m = self.original.models
        probs /= probs.sum(axis=-1, keepdims=True)
        return type(policy)(probs, m.states, m.actions, self.original.decided)

    def corner(self, policy: Policy) -> Policy | None:
        """The policy in composite actions, one in each state; None where it is no corner."""
        off = np.abs(self.mixtures - policy.probs[:, None, :]).max(axis=2)
        rule = off.argmin(axis=1)
        m = self.problem.models
        if (off[np.arange(rule.size), rule] > TOLERANCE).any():
            return None
        return Policy.from_decision(rule, m.states, m.actions)

    def practice(self) -> Policy:
        """Practice, in composite actions."""
        m = self.problem.models
        return Policy.from_decision(np.zeros(m.n_states), m.states, m.actions)


def solve_within(problem: Problem, solver: Solver, policies: PracticeClass) -> Solution:
    """The best policy of a class that a solver finds, with its bound for the class."""
    check_within(solver)
    composite = policies.composite(problem)
    if isinstance(start := getattr(solver, "start", None), Policy):  # in composite actions, too
        changed: Any = solver
        solver = replace(changed, start=composite.corner(start))
    found = solve(composite.problem, solver)
    return finish(
        problem, solver=found.solver, policy=composite.lift(found.policy), status=found.status,
        v=found.v, model_value=found.model_value, stats=found.stats,
        bound=None if found.bound is None else policies.named(problem, found.bound),
    )  # fmt: skip


def check_within(solver: Solver) -> None:
    """Refuse a solver that reads more than the problem."""
    if {"log", "draws"} & {f.name for f in fields(solver)}:  # type: ignore[arg-type]
        raise InputError(
            f"The solver '{solver.name}' reads the log or the posterior by itself, and cannot keep "
            "to practice where the log has too few rows. Leave out the least count, or choose "
            "another solver, such as exact.",
            arguments=("min_count",),
        )


def _mixing_error(problem: Problem) -> float:
    """By how much a return of the mixed problem may miss that of the original, by rounding."""
    far = float(reach(problem).max())
    most = float(np.abs(problem.R[problem.allowed]).max(initial=0.0)) * far
    return float(EPS * (problem.models.n_actions + 4) * most * (1.0 + far))


def mixed_problem(problem: Problem, mixtures: FloatArray) -> Problem:
    """The problem in which action j of state s is the mixture mixtures[s, j]; zeros are none."""
    m, N = problem.models, problem.n_models
    R = full_rewards(problem)
    columns: list[NDArray[np.int32]] = []
    blocks: list[FloatArray] = []
    rewards: list[FloatArray] = []
    widths = np.zeros((m.n_states, mixtures.shape[1]), dtype=np.int64)
    for s in range(m.n_states):
        own = [m.block(s, a) for a in range(m.n_actions)]
        for j in np.flatnonzero(mixtures[s].any(axis=1)):
            used = np.flatnonzero(mixtures[s, j] > 0)
            to = np.unique(np.concatenate([own[a][0] for a in used]))
            block = np.zeros((N, to.size))
            for a in used:
                block[:, np.searchsorted(to, own[a][0])] += mixtures[s, j, a] * own[a][1]
            widths[s, j] = to.size
            columns.append(to)
            blocks.append(block.reshape(-1))
            worth = mixtures[s, j, used] @ R[s, used] / block.sum(axis=1)  # is summed over the row
            rewards.append(np.repeat(worth, to.size))
    models = ModelSet(
        indptr=np.concatenate([[0], np.cumsum(widths.reshape(-1))]),
        next_states=np.concatenate(columns),
        prob=np.concatenate(blocks),
        f=m.f,
        states=m.states,
        actions=Labels.range(mixtures.shape[1], "action"),
    )  # rows that miss 1 are mixed as they are: what is proven is proven of the original
    paid = Rewards.of_models(np.concatenate(rewards), m.n_states, mixtures.shape[1])
    goal = problem.objective
    if goal.reference is not None:  # its actions are the original ones: its returns are enough
        known = Reference(goal.reference.name, returns=reference_returns(problem))
        goal = goal.measured_against(known)
    return Problem(models, paid, problem.p0, problem.gamma, goal, horizon=problem.horizon)


def full_rewards(problem: Problem) -> FloatArray:
    """R[s, a, ω] of every pair that has a model, also of those that are not allowed."""
    if np.array_equal(problem.allowed, problem.models.available):
        return problem.R
    models = problem.models
    needed = models.available & ~models.sinks[:, None]
    return problem.paid.expected(
        models.indptr, models.next_states, models.prob, models.n_models, needed, models.states,
        models.actions,
    )  # fmt: skip
