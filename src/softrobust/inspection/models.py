"""Files that hold models, problems or runs: what is in them, and what they are for."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.data.trajectories_report import Ledger
from softrobust.inspection.convert import solve_line
from softrobust.inspection.result import Inspection, Section, Step, several
from softrobust.models.multi_model import read_models
from softrobust.problem_file import load_problem

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet


def inspect_models(path: Path) -> Inspection:
    """A file of models."""
    models = read_models(path)
    ledger = _findings(models)
    words = list(_facts(models)) + list(models.notes)
    blocked = ""
    if models.rewards is None:
        blocked = (
            f"{path.name} has no rewards, and a policy needs to know what is good. Add a column "
            "'reward' to its rows."
        )
    gamma = None if models.gamma is not None else "0.95"
    if gamma is not None:
        words.append("The discount is not in the file: --gamma is yours to choose.")
    return Inspection(
        source=path.name,
        kind="models",
        headline=(
            f"{path.name} holds {several(models.n_models, 'model')} of "
            f"{several(models.n_states, 'state')} and {several(models.n_actions, 'action')}."
        ),
        sections=[Section("The models", tuple(words))],
        findings=ledger.findings,
        steps=() if blocked else (Step("Choose a policy", solve_line(str(path), gamma=gamma)),),
        blocked=blocked,
        record=_record(models),
    )


def inspect_problem(path: Path) -> Inspection:
    """A saved problem."""
    problem = load_problem(path)
    models, aim = problem.models, problem.objective
    words = [
        *_facts(models),
        f"Discount γ = {problem.gamma:g}; λ = {aim.lam:g}, α = {aim.alpha:g} ({aim.criterion}).",
    ]
    return Inspection(
        source=path.name,
        kind="problem",
        headline=(
            f"{path.name} is a whole problem: {several(models.n_models, 'model')} of "
            f"{several(models.n_states, 'state')} and {several(models.n_actions, 'action')}, with "
            "rewards, start, discount and objective."
        ),
        sections=[Section("The problem", tuple(words))],
        findings=_findings(models).findings,
        steps=(Step("Solve it again", solve_line(str(path), gamma=None)),),
        record=_record(models)
        | {"gamma": problem.gamma, "lam": aim.lam, "alpha": aim.alpha, "criterion": aim.criterion},
    )


def _facts(models: "ModelSet") -> list[str]:
    pairs = int(models.available.sum())
    wide = models.next_states.size / max(pairs, 1)
    out = [
        f"{pairs} of {models.available.size} pairs of state and action are available, with "
        f"{wide:.3g} possible next states each on average."
    ]
    sinks = int(models.sinks.sum())
    if sinks:
        out.append(f"Never left in the data they came from: {several(sinks, 'state')}.")
    if models.n_models > 1:
        out.append(
            f"Two models differ by {_distance(models):.3g} per pair on average (L1 distance; 2 is "
            "the most)."
        )
        if np.ptp(models.f) > 0:
            out.append(f"Weights from {models.f.min():.3g} to {models.f.max():.3g}.")
    return out


def _distance(models: "ModelSet", most: int = 2000) -> float:
    """Mean L1 distance of neighbouring models, over at most `most` pairs (s, a)."""
    pairs = np.flatnonzero(models.available.ravel())
    pairs = pairs[:: max(1, pairs.size // most)]
    total = 0.0
    for k in pairs.tolist():
        _, block = models.block(*divmod(k, models.n_actions))
        total += float(np.abs(np.diff(block, axis=0)).sum(axis=1).mean())
    return total / max(pairs.size, 1)


def _findings(models: "ModelSet") -> Ledger:
    ledger = Ledger()
    if models.n_models == 1:
        ledger.count("one_model", 1, "model only: there is no uncertainty to be robust against")
    elif _distance(models) <= 1e-12:
        ledger.count("equal_models", models.n_models, "models are all equal")
    zero = int((models.f == 0).sum())
    if zero:
        ledger.count(
            "weight_zero", zero, "{model has|models have} weight 0 and {counts|count} for nothing"
        )
    return ledger


def _record(models: "ModelSet") -> dict[str, Any]:
    return {
        "models": models.n_models,
        "states": models.n_states,
        "actions": models.n_actions,
        "pairs_available": int(models.available.sum()),
        "gamma": models.gamma,
        "has_rewards": models.rewards is not None,
    }
