"""How many held-out draws are enough, where drawing is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.certificate.intervals import cvar_interval_width
from softrobust.returns import policy_return

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem

PILOT = 500
MOST = 10_000
MOST_BYTES = 256 * 2**20  # the draws are kept in the run folder
MOST_WORK = 1e11  # multiply-adds to evaluate them: some ten seconds


def draw_heldout(
    posterior: FittedPosterior,
    problem: Problem,
    policy: Policy,
    seed: np.random.SeedSequence,
    share: float = 0.01,
) -> ModelSet:
    """As many draws as make the CVaR interval at most `share` of the range of training returns.

    A pilot of 500 draws measures the spread; the interval shrinks as 1/√n. At most 10 000 draws,
    fewer where their storage or evaluation would outgrow a few hundred MB or some ten seconds.
    """
    pilot_seed, main_seed = seed.spawn(2)
    train = policy_return(problem, policy)
    wanted = share * float(train.max() - train.min())
    most = _affordable(problem)
    n = min(PILOT, most)
    pilot = posterior.sample(n, np.random.default_rng(pilot_seed))
    z = policy_return(problem.with_models(pilot), policy)
    width = cvar_interval_width(z, problem.objective.alpha)
    if not np.isfinite(width):
        return posterior.sample(most, np.random.default_rng(main_seed))
    if wanted > 0 and width > wanted:
        n = int(min(most, np.ceil(1.1 * n * (width / wanted) ** 2)))
    return posterior.sample(n, np.random.default_rng(main_seed))


def _affordable(problem: Problem) -> int:
    by_size = MOST_BYTES / (8.0 * max(problem.models.next_states.size, 1))
    by_work = MOST_WORK / (problem.n_states**3 / 3.0)
    return int(np.clip(min(by_size, by_work), 50, MOST))
