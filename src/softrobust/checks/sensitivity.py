"""What would change the answer: the prior, the goal (λ, α), the number of models, the seed.

Each alternative is solved by `LocalSearch`, and so is the run's own problem, so that differences
come from the alternative and not from the solver. Two figures are kept: the share of states whose
action changes, plain and weighted by how often the policy visits them, and what the other policy
earns by the run's own objective on the held-out models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.checks.check import Check, Verdict
from softrobust.objective import SoftRobust
from softrobust.pipeline.folder import Folder, redraw
from softrobust.returns import occupancies, static_return
from softrobust.solvers.base import solve, solve_grid
from softrobust.solvers.local_search import LocalSearch

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

STRENGTHS = (0.1, 10.0)
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
ALPHAS = (0.5, 0.8, 0.9, 0.95)
MUCH = 0.1  # share of visits whose action changes that deserves a word of caution


def changed(problem: Problem, policy: Policy, other: Policy) -> dict[str, float]:
    """Share of decided states whose most probable action differs: plain, and by visits."""
    apart = (policy.decision != other.decision) & np.asarray(problem.decided)
    visits = problem.models.f @ occupancies(problem, policy)
    visits = np.where(problem.decided, visits, 0.0)
    return {
        "states": float(apart.sum() / max(int(np.sum(problem.decided)), 1)),
        "visits": float(visits[apart].sum() / max(float(visits.sum()), 1e-300)),
    }


def prior_strength(folder: Folder, seed: int = 0) -> Check:
    """Prior mass × 0.1 and × 10."""
    log, posterior = folder.need_log("Sensitivity to the prior")
    settings, problem = posterior.settings, folder.problem  # type: ignore[attr-defined]
    base = solve(problem, LocalSearch(seed=seed)).policy
    rows = []
    for factor in STRENGTHS:
        mass = settings.per_cell
        scaled = (
            replace(settings, strength=settings.strength * factor)
            if mass is None
            else replace(settings, per_cell=mass * factor)
        )
        models = scaled.fit(log).sample(
            problem.n_models, np.random.default_rng([folder.seed, seed, 3])
        )
        other = solve(problem.with_models(models), LocalSearch(seed=seed)).policy
        rows.append({"factor": factor, **_against(folder, base, other)})
    return _verdict("prior strength", "a prior {factor:g} times as strong", rows)


def goal(folder: Folder, seed: int = 0) -> Check:
    """The grid of λ and α."""
    problem = folder.problem
    if not isinstance(problem.objective, SoftRobust):
        return Check("the goal (λ, α)", Verdict.CANNOT_TELL,
                     "Cannot tell: the percentile criterion has no λ to vary.")  # fmt: skip
    base = solve(problem, LocalSearch(seed=seed)).policy
    grid = solve_grid(problem, LocalSearch(starts=3, seed=seed), LAMBDAS, ALPHAS)
    rows = [
        {"lam": lam, "alpha": alpha, **changed(problem, base, solution.policy)}
        for lam, row in zip(LAMBDAS, grid, strict=True)
        for alpha, solution in zip(ALPHAS, row, strict=True)
    ]
    worst = max(rows, key=lambda row: row["visits"])
    same = sum(row["visits"] < 0.01 for row in rows)
    sentence = (
        f"On a grid of {len(rows)} goals (λ from 0 to 1, α from 0.5 to 0.95), {same} "
        f"{'keeps' if same == 1 else 'keep'} at least "
        f"99 % of the actions taken; the most different one (λ = {worst['lam']:g}, α = "
        f"{worst['alpha']:g}) changes {_percent(worst['states'])} of states and "
        f"{_percent(worst['visits'])} of visits. Choose λ and α with care where this is much."
    )
    verdict = Verdict.FINE if worst["visits"] <= MUCH else Verdict.CAUTION
    return Check("the goal (λ, α)", verdict, sentence, {"grid": rows})


def draws(folder: Folder, seed: int = 0) -> Check:
    """Other draws of the same posterior, as many and twice as many."""
    folder.need_log("Sensitivity to the draws")
    problem = folder.problem
    base = solve(problem, LocalSearch(seed=seed)).policy
    rows = []
    for label, n, number in _redraws(problem.n_models):
        models = redraw(folder, n, 100 + number)
        other = solve(problem.with_models(models), LocalSearch(seed=seed)).policy
        rows.append({"draw": label, **_against(folder, base, other)})
    return _verdict("number of models and seed", "{draw}", rows)


def _redraws(n: int) -> Iterator[tuple[str, int, int]]:
    yield "another seed", n, 0
    yield "a third seed", n, 1
    yield "twice as many models", 2 * n, 2
    yield "half as many models", max(n // 2, 2), 3


def _against(folder: Folder, base: Policy, other: Policy) -> dict[str, float]:
    """What changes, and what the other policy earns or loses by the objective, held out."""
    out = changed(folder.problem, base, other)
    if folder.heldout is None:
        return out
    fresh = folder.problem.with_models(folder.heldout)
    return out | {"gain": static_return(fresh, other) - static_return(fresh, base)}


def _verdict(name: str, words: str, rows: list[dict[str, Any]]) -> Check:
    worst = max(rows, key=lambda row: row["visits"])
    parts = [
        f"{words.format(**row)} changes {_percent(row['states'])} of states "
        f"({_percent(row['visits'])} of visits)"
        + (f" and {_gain(row['gain'])}" if "gain" in row else "")
        for row in rows
    ]
    sentence = "; ".join(parts)
    verdict = Verdict.FINE if worst["visits"] <= MUCH else Verdict.CAUTION
    return Check(name, verdict, sentence[0].upper() + sentence[1:] + ".", {"alternatives": rows})


def _gain(gain: float) -> str:
    return f"{'gains' if gain >= 0 else 'loses'} {abs(gain):.3g} by the objective held out"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else f"{100 * share:.2g} %"
