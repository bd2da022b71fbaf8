"""The verbs `evaluate`, `compare` and `frontier`: any policy scored as a solved one would be.

The policy comes from a table (`state, action[, probability]`): a guideline, the habit of a ward,
the answer of another tool. In states that it does not list, current practice goes on, and the notes
say how many those are.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.limits import time_bound
from softrobust._core.notes import Note, read_notes
from softrobust.bounds import OF_PRACTICE, Bound
from softrobust.certificate import certify
from softrobust.errors import InputError
from softrobust.objective import NONE
from softrobust.problem import Problem
from softrobust.report import picture_frontier
from softrobust.run.folder import Run
from softrobust.run.options import Setup
from softrobust.run.setup import read_whole_policy
from softrobust.run.solve import certified, cut_notes, with_promise
from softrobust.solvers.base import Solution, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy, given, unmasked
from softrobust.solvers.practice_class import check_within
from softrobust.solvers.registry import DEFAULT_SOLVER, make_solver
from softrobust.study.compare import Compared, compare
from softrobust.study.frontier import Frontier, FrontierPoint, frontier, save_frontier_csv
from softrobust.study.solved import time_share

NAME = "given"
LAST_SHARE = 0.3  # of the time of a comparison: where less is left, no other solver begins


def setup_of(run: Run) -> Setup:
    """The set-up of a run that was read back."""
    notes = () if run.log is None else read_notes(run.log.notes)
    seed = np.random.SeedSequence(run.seed).spawn(2)[1]
    return Setup(run.problem, run.log, run.posterior, run.heldout, notes, seed, run.path.name)


def evaluate_file(setup: Setup, path: Path, seed: int = 0) -> Run:
    """Score the policy in the table `path` on the set-up's problem."""
    problem = unmasked(setup.problem)
    models, barred = problem.models, ~setup.problem.allowed
    practice = None if setup.log is None else behaviour_policy(problem, setup.log)[0]
    policy, silent = read_whole_policy(path, models, practice, problem.horizon)
    notes = []
    if silent.size:
        facts = {"file": path.name, "states": models.states.shortened(silent)}
        notes.append(Note("policy_silent", facts=facts))
    taken = policy.probs.reshape(-1, *barred.shape).max(axis=0) > 0
    outside = np.flatnonzero((taken & barred).any(axis=1))
    if outside.size:
        states = models.states.shortened(outside)
        notes.append(Note("policy_forbidden", facts={"states": states}))
    used = replace(setup, problem=problem, notes=(*setup.notes, *notes))
    run = certified(used, given(problem, policy, NAME), seed)
    return run if setup.log is None else with_promise(run)


# --------------------------------------------------------------------------------------------------
# Policies side by side: those of several runs, or of several solvers on one run's problem.
#
# The first run brings the question: its models, discount and objective, its held-out models and its
# log. Every policy is evaluated there, exactly, whatever it was found for; nominal and, with a log,
# current practice are always among them. Bounds that solvers proved are shared: the gap of each
# policy is to the tightest one that covers it.


def compare_runs(
    runs: Sequence[Run], solvers: Sequence[str] = (), time_limit: float | None = None, seed: int = 0
) -> dict[str, Any]:
    """Evaluate the runs' policies, and those of further solvers, on the first run's problem.

    Returns the question and one record a policy, ready for JSON: `same_action` is the share of
    states with a decision where its most probable action is the first policy's, and
    `same_action_visits` weighs them by the time that the first policy spends there. No bound covers
    a policy that leaves the mask of allowed actions.
    """
    if not runs:
        raise InputError("A comparison needs at least one run.")
    first = runs[0]
    problem = first.problem
    solutions = [_named(run, first) for run in runs]
    clock = time_bound()
    for i, name in enumerate(solvers):
        limit = None if time_limit is None else _share(time_limit, len(solvers) - i)
        made = make_solver(
            name, log=first.log, time_limit=limit, seed=seed, posterior=first.posterior
        )
        if i and clock.left < LAST_SHARE * (clock.limit or 0.0):
            clock.note("solvers")
        else:
            solutions.append(solve(problem, made))
    compared = compare(problem, solutions, first.heldout, first.log)
    shared = [s.bound for s in solutions if s.bound and s.bound.covers not in OF_PRACTICE]
    visits = time_share(problem, compared[0].solution.policy)
    goal = {name: getattr(problem.objective, name) for name in ("criterion", "lam", "alpha")}
    return {
        "gamma": problem.gamma,
        **goal,
        "reference": problem.objective.against,
        "n_states": problem.n_states,
        "n_models": problem.n_models,
        "policies": [_scored(problem, c, compared[0], shared, visits) for c in compared],
        "notes": [note.to_dict() for note in (*_notes(runs), *cut_notes())],
    }


def _share(limit: float, parts: int) -> float:
    """Seconds for one of so many parts of the limit, or of what is left: certificates take some."""
    return max(0.6 * min(limit, time_bound().left) / max(parts, 1), 0.1)


def _named(run: Run, first: Run) -> Solution:
    """The run's solution under the folder's name."""
    models, policy = first.problem.models, run.solution.policy
    if policy.states != models.states or policy.actions != models.actions:
        raise InputError(
            f"Runs can be compared where they have the same states and actions: '{run.path}' "
            f"has {len(policy.states)} and {len(policy.actions)}, '{first.path}' has "
            f"{len(models.states)} and {len(models.actions)}, or their labels differ."
        )
    stray = np.argwhere((policy.probs > 0) & ~models.available)
    if stray.size:
        s, a = (int(i) for i in stray[0][-2:])
        raise InputError(
            f"The policy of '{run.path}' takes action '{policy.actions[a]}' in state "
            f"'{policy.states[s]}', of which the models of '{first.path}' know nothing."
        )
    name = f"{run.path.resolve().name} ({run.solution.solver})"
    bound = run.solution.bound if same_question(run.problem, first.problem) else None
    return replace(run.solution, solver=name, bound=bound)


def same_question(a: Problem, b: Problem) -> bool:
    """Whether a bound proven for one problem holds for the other: all that counts is the same."""
    stored = ("f", "indptr", "next_states", "prob")
    return (
        (a.gamma, a.objective, a.horizon) == (b.gamma, b.objective, b.horizon)
        and all(np.array_equal(getattr(a, x), getattr(b, x)) for x in ("p0", "allowed", "R"))
        and all(np.array_equal(getattr(a.models, x), getattr(b.models, x)) for x in stored)
    )


def _scored(
    problem: Problem, c: Compared, first: Compared, bounds: Sequence[Bound], visits: Any
) -> dict[str, Any]:
    decided, held = np.asarray(problem.decided), c.heldout
    same = (c.policy.decision == first.policy.decision) & decided
    weight = np.where(decided, visits, 0.0)
    proven: dict[str, Any] = dict.fromkeys(("bound", "bound_covers", "gap_abs", "gap_share"))
    own = c.solution.policy
    if not ((own.probs > 0) & ~problem.allowed).any():
        if c.solution.bound is not None:
            bounds = [*bounds, c.solution.bound]
        made = certify(problem, own, None, bounds, time_limit=0)
        proven = {name: made.to_dict()[name] for name in proven}
        proven["nothing_better"] = made.nothing_better
    fresh = None if held is None else {"n_models": held.n_models} | {
        name: getattr(held, name).interval for name in ("objective", "mean", "cvar")
    }  # fmt: skip
    return {
        "name": c.name,
        "solver": c.solution.solver,
        "status": str(c.solution.status),
        "static": dict(c.static),
        **proven,
        "heldout": fresh,
        "same_action": float(same.sum() / max(int(decided.sum()), 1)),
        "same_action_visits": float(weight[same].sum() / max(float(weight.sum()), 1e-300)),
    }


def _notes(runs: Sequence[Run]) -> list[Note]:
    first, out = runs[0].problem, []
    for run in runs[1:]:
        own, goal = run.problem, run.problem.objective
        if (goal, own.gamma, own.horizon) != (first.objective, first.gamma, first.horizon):
            facts = {"run": str(run.path), "first": str(runs[0].path), "gamma": own.gamma,
                     "lam": goal.lam, "alpha": goal.alpha,
                     "reference": goal.against or NONE, "horizon": own.horizon or NONE}  # fmt: skip
            out.append(Note("other_question", facts=facts))
    return out


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
    composite = None if setup.policies is None else setup.policies.composite(setup.problem)
    problem = setup.problem if composite is None else composite.problem
    if solver == DEFAULT_SOLVER:
        limit = None if time_limit is None else _share(time_limit, 1)
        found = frontier(problem, lams, alphas, time_limit=limit)
    else:
        share = None if time_limit is None else _share(time_limit, len(lams) * len(alphas))
        chosen = make_solver(
            solver, log=setup.log, time_limit=share, seed=seed, posterior=setup.posterior
        )
        if composite is not None:
            check_within(chosen)
        found = frontier(problem, lams, alphas, chosen)
    if composite is None or setup.policies is None:
        return found
    named = setup.policies.named

    def lifted(point: FrontierPoint) -> FrontierPoint:
        made = replace(point.certificate, bound=named(setup.problem, point.certificate.bound))
        return replace(point, policy=composite.lift(point.policy), certificate=made)

    return replace(found, points=tuple(tuple(map(lifted, row)) for row in found.points))


def write_frontier(found: Frontier, out: Path) -> None:
    """Write frontier.csv, frontier.svg and frontier.png, each atomically."""
    out.mkdir(exist_ok=True)
    save_frontier_csv(found, out / "frontier.csv")
    picture_frontier(found).save(out / "frontier.svg", out / "frontier.png")
