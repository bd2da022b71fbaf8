"""Any policy, scored as a solved one would be: the same certificate, the same comparison.

The policy comes from a table (`state, action[, probability]`): a guideline, the habit of a ward,
the answer of another tool. In states that it does not list, current practice goes on, and the notes
say how many those are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.certificate import certify, draw_heldout
from softrobust.errors import InputError
from softrobust.models.policy import read_policy
from softrobust.report import save_frontier_csv, save_frontier_plot
from softrobust.report.compare import Compared, compare
from softrobust.report.policy import time_share
from softrobust.run.line import Run
from softrobust.run.setup import Setup
from softrobust.solvers.base import Solution, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy, given, unmasked
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.registry import DEFAULT_SOLVER, make_solver
from softrobust.study.frontier import frontier

if TYPE_CHECKING:
    from softrobust.bounds import Bound
    from softrobust.certificate import Certificate, HeldOut
    from softrobust.problem import Problem
    from softrobust.run.folder import Folder
    from softrobust.study.frontier import Frontier


NAME = "given"


def setup_of(folder: Folder) -> Setup:
    """The set-up of a run, from its folder."""
    notes = () if folder.log is None else folder.log.notes
    seed = np.random.SeedSequence(folder.seed).spawn(2)[1]
    return Setup(
        folder.problem, folder.log, folder.posterior, folder.heldout, notes, seed, folder.path.name
    )


def evaluate_file(setup: Setup, path: Path, seed: int = 0) -> Run:
    """Score the policy in the table `path` on the set-up's problem."""
    problem = unmasked(setup.problem)
    models = problem.models
    practice = None if setup.log is None else behaviour_policy(problem, setup.log)[0]
    rest = problem.uniform_policy() if practice is None else practice
    nowhere = np.zeros(models.n_states, dtype=bool)
    policy = read_policy(path, models.states, models.actions, replace(rest, decided=nowhere))
    silent = np.flatnonzero(problem.decided & ~policy.decided)
    if silent.size and practice is None:
        raise InputError(
            f"A policy must say what to do in every state: {path.name} lacks "
            f"{models.states.shortened(silent)}. Add them; without a log there is no practice to "
            "go on with."
        )
    policy = replace(policy, decided=policy.decided | rest.decided)
    solution = given(problem, policy, NAME)
    heldout = setup.heldout
    if heldout is None and setup.posterior is not None:
        heldout = draw_heldout(setup.posterior, problem, policy, setup.test_seed)
    certificate = certify(problem, policy, heldout, practice=practice)
    notes = list(setup.notes)
    if silent.size:
        notes.append(
            f"{path.name} says nothing about {models.states.shortened(silent)}: current practice "
            "goes on there."
        )
    barred = ((policy.probs > 0) & ~setup.problem.allowed).any(axis=1)
    if barred.any():
        notes.append(
            "The policy takes actions that are not allowed in "
            f"{models.states.shortened(np.flatnonzero(barred))}."
        )
    used = replace(setup, problem=problem)
    return Run(used, solution, solve(problem, Nominal()), heldout, certificate, seed, tuple(notes))


# --------------------------------------------------------------------------------------------------
# Policies side by side: those of several runs, or of several solvers on one run's problem.
#
# The first run brings the question: its models, discount and objective, its held-out models and its
# log. Every policy is evaluated there, exactly, whatever it was found for; nominal and, with a log,
# current practice are always among them. Bounds that solvers proved are shared: the gap of each
# policy is to the tightest one that covers it.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One policy in the comparison.

    Attributes
    ----------
    certificate : Certificate or None
        Value, bound and gap; None for a policy that leaves the mask of allowed actions, which no
        bound covers.
    same : float
        Share of states with a decision where its most probable action is the first policy's.
    same_visits : float
        The same, weighted by the time that the first policy spends there.
    """

    compared: Compared
    certificate: Certificate | None
    same: float
    same_visits: float

    @property
    def heldout(self) -> HeldOut | None:
        """Figures on held-out models."""
        return self.compared.heldout

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        c, made = self.compared, self.certificate
        return {
            "name": c.name,
            "solver": c.solution.solver,
            "status": str(c.solution.status),
            "static": dict(c.static),
            "bound": None if made is None else made.bound.value,
            "bound_covers": None if made is None else str(made.bound.covers),
            "gap_abs": None if made is None else made.gap_abs,
            "gap_share": None if made is None else made.gap_share,
            "heldout": None if c.heldout is None else _heldout(c.heldout),
            "same_action": self.same,
            "same_action_visits": self.same_visits,
        }


@final
@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """The policies, the first one first, and the question they were all asked."""

    problem: Problem
    rows: tuple[Scored, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        p, objective = self.problem, self.problem.objective
        return {
            "gamma": p.gamma,
            "criterion": objective.criterion,
            "lam": objective.lam,
            "alpha": objective.alpha,
            "n_states": p.n_states,
            "n_models": p.n_models,
            "policies": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }


def compare_runs(
    folders: Sequence[Folder],
    solvers: Sequence[str] = (),
    time_limit: float | None = None,
    seed: int = 0,
) -> SideBySide:
    """Evaluate the runs' policies, and those of further solvers, on the first run's problem."""
    if not folders:
        raise InputError("A comparison needs at least one run: softrobust compare RUN RUN2 …")
    first = folders[0]
    problem = first.problem
    solutions = [_named(folder, first) for folder in folders]
    for name in solvers:
        made = make_solver(
            name, log=first.log, time_limit=time_limit, seed=seed, posterior=first.posterior
        )
        solutions.append(solve(problem, made))
    compared = compare(problem, solutions, first.heldout, first.log)
    asked_here = [f.solution for f in folders if same_question(f.problem, problem)]
    proven = [*asked_here, *solutions[len(folders) :]]
    shared = [s.bound for s in proven if s.bound is not None]
    visits = time_share(problem, compared[0].policy)
    rows = tuple(_scored(problem, c, compared[0], shared, visits) for c in compared)
    return SideBySide(problem, rows, tuple(_notes(folders)))


def _named(folder: Folder, first: Folder) -> Solution:
    """The run's solution under the folder's name."""
    models, policy = first.problem.models, folder.solution.policy
    if policy.states != models.states or policy.actions != models.actions:
        raise InputError(
            f"Runs can be compared where they have the same states and actions: '{folder.path}' "
            f"has {len(policy.states)} and {len(policy.actions)}, '{first.path}' has "
            f"{len(models.states)} and {len(models.actions)}, or their labels differ."
        )
    stray = np.argwhere((policy.probs > 0) & ~models.available)
    if stray.size:
        s, a = (int(i) for i in stray[0])
        raise InputError(
            f"The policy of '{folder.path}' takes action '{policy.actions[a]}' in state "
            f"'{policy.states[s]}', of which the models of '{first.path}' know nothing."
        )
    name = f"{folder.path.resolve().name} ({folder.solution.solver})"
    return replace(folder.solution, solver=name)


def same_question(a: Problem, b: Problem) -> bool:
    """Whether a bound proven for one problem holds for the other: all that counts is the same."""
    return (
        a.gamma == b.gamma
        and a.objective == b.objective
        and np.array_equal(a.p0, b.p0)
        and np.array_equal(a.allowed, b.allowed)
        and np.array_equal(a.models.f, b.models.f)
        and np.array_equal(a.models.indptr, b.models.indptr)
        and np.array_equal(a.models.next_states, b.models.next_states)
        and np.array_equal(a.models.prob, b.models.prob)
        and np.array_equal(a.R, b.R)
    )


def _scored(
    problem: Problem, c: Compared, first: Compared, bounds: Sequence[Bound], visits: Any
) -> Scored:
    decided = np.asarray(problem.decided)
    same = (c.policy.decision == first.policy.decision) & decided
    weight = np.where(decided, visits, 0.0)
    inside = not (c.policy.probs[~problem.allowed] > 0).any()
    return Scored(
        compared=c,
        certificate=certify(problem, c.policy, None, bounds, time_limit=0) if inside else None,
        same=float(same.sum() / max(int(decided.sum()), 1)),
        same_visits=float(weight[same].sum() / max(float(weight.sum()), 1e-300)),
    )


def _notes(folders: Sequence[Folder]) -> list[str]:
    first, out = folders[0].problem, []
    for folder in folders[1:]:
        other = folder.problem
        if other.objective != first.objective or other.gamma != first.gamma:
            out.append(
                f"'{folder.path}' was solved for γ = {other.gamma:g}, λ = {other.objective.lam:g}, "
                f"α = {other.objective.alpha:g}; its figures here are for the question of "
                f"'{folders[0].path}'."
            )
    return out


def _heldout(h: HeldOut) -> dict[str, Any]:
    return {
        "n_models": h.n_models,
        **{
            name: {"value": e.value, "low": e.low, "high": e.high}
            for name, e in (("objective", h.objective), ("mean", h.mean), ("cvar", h.cvar))
        },
    }


# --------------------------------------------------------------------------------------------------
# The frontier as the command line makes it: from a set-up to a table and a picture.


def run_frontier(
    setup: Setup,
    lams: Sequence[float],
    alphas: Sequence[float],
    solver: str = DEFAULT_SOLVER,
    time_limit: float | None = None,
    seed: int = 0,
) -> Frontier:
    """Solve the grid; a time limit is shared out over its points."""
    if solver == DEFAULT_SOLVER:
        return frontier(setup.problem, lams, alphas, time_limit=time_limit)
    share = None if time_limit is None else time_limit / max(len(lams) * len(alphas), 1)
    chosen = make_solver(
        solver, log=setup.log, time_limit=share, seed=seed, posterior=setup.posterior
    )
    return frontier(setup.problem, lams, alphas, chosen)


def write_frontier(found: Frontier, out: Path) -> None:
    """Write frontier.csv, frontier.svg and frontier.png, each atomically."""
    out.mkdir(exist_ok=True)
    save_frontier_csv(found, out / "frontier.csv")
    save_frontier_plot(found, out / "frontier.svg", out / "frontier.png")
