"""Any policy, scored as a solved one would be: the same certificate, the same comparison.

The policy comes from a table (`state, action[, probability]`): a guideline, the habit of a ward,
the answer of another tool. In states that it does not list, current practice goes on, and the notes
say how many those are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softrobust.certificate import certify, draw_heldout
from softrobust.errors import InputError
from softrobust.models.policy_file import read_policy
from softrobust.pipeline.run import Run
from softrobust.pipeline.setup import Setup
from softrobust.solvers.base import solve
from softrobust.solvers.behaviour import behaviour_policy, given, unmasked
from softrobust.solvers.nominal import Nominal

if TYPE_CHECKING:
    from softrobust.pipeline.folder import Folder

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
