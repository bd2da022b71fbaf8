"""How many held-out draws are enough, where drawing is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.certificate.intervals import TAIL_DRAWS, cvar_interval_width
from softrobust.returns import policy_return

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem

INTERVAL_SHARE = 0.01  # of the range of the training returns: how well CVaR is to be known
PILOT = 500
MOST = 10_000
MOST_BYTES = 256 * 2**20  # the draws are kept in the run folder
MOST_WORK = 1e11  # multiply-adds to evaluate them: some ten seconds


def draw_heldout(
    posterior: FittedPosterior,
    problem: Problem,
    policy: Policy,
    seed: np.random.SeedSequence,
    share: float = INTERVAL_SHARE,
) -> ModelSet:
    """As many draws as make the CVaR interval at most `share` of the range of training returns.

    A pilot of 500 draws measures the spread; the interval shrinks as 1/√n. At most 10 000 draws,
    fewer where their storage or evaluation would outgrow a few hundred MB or some ten seconds.
    """
    pilot_seed, main_seed = seed.spawn(2)
    train = policy_return(problem, policy)
    spread = float(train.max() - train.min())
    most = _affordable(problem)
    if spread <= 1e-9 * float(np.abs(train).max()):  # all returns equal: nothing to resolve
        return posterior.sample(min(PILOT, most), np.random.default_rng(main_seed))
    tail = max(1.0 - problem.objective.alpha, TAIL_DRAWS / MOST)
    n = min(max(PILOT, int(np.ceil(2 * TAIL_DRAWS / tail))), most)
    pilot = posterior.sample(n, np.random.default_rng(pilot_seed))
    z = policy_return(problem.with_models(pilot), policy)
    width = cvar_interval_width(z, problem.objective.alpha)
    if not np.isfinite(width):
        n = most
    elif width > share * spread:
        n = int(min(most, np.ceil(1.1 * n * (width / (share * spread)) ** 2)))
    return posterior.sample(n, np.random.default_rng(main_seed))


def _affordable(problem: Problem) -> int:
    """Draws whose storage and evaluation stay within `MOST_BYTES` and about `MOST_WORK`."""
    S, stored = problem.n_states, max(problem.models.next_states.size, 1)
    by_size = MOST_BYTES / (8.0 * stored)
    # A factorisation, or some hundred products with the policy's own rows where models are sparse.
    work = min(S**3 / 3.0, 400.0 * (stored / problem.n_actions) + 2e4 * S)
    return int(np.clip(min(by_size, MOST_WORK / work), 50, MOST))
