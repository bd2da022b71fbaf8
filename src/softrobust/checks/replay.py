"""Behaviour replay: if the posterior were right, would the log look as it does?

For each of M posterior draws, current practice is simulated for the episodes of the log: the same
first states, the same lengths. Where the mean observed return falls outside the central 95 % of the
simulated means, the model (states, rewards, or the Markov assumption) does not fit what happened.
Posterior draws know the log, so that a fit is expected and a misfit is telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.checks.check import Check, Verdict, cannot_tell
from softrobust.errors import InputError
from softrobust.offpolicy import episodes_of
from softrobust.pipeline.folder import Folder, redraw
from softrobust.returns.rollout import simulate
from softrobust.solvers.behaviour import behaviour_policy, unmasked

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "behaviour replay"
DRAWS = 400
FEWEST = 5  # episodes below which a mean says little
INSIDE = (0.025, 0.975)


def replay(folder: Folder, seed: int = 0) -> Check:
    """Compare observed episode returns with simulated ones."""
    log, _ = folder.need_log("Behaviour replay")
    try:
        episodes = episodes_of(log)
    except InputError as error:
        return cannot_tell(NAME, str(error))
    n = len(episodes)
    if n < FEWEST:
        return cannot_tell(NAME, f"the log has {n} episodes, and a replay needs at least {FEWEST}.")
    problem = unmasked(folder.problem.with_models(redraw(folder, DRAWS, seed)))
    policy, _ = behaviour_policy(problem, log)
    gamma = problem.gamma
    observed = float(episodes.returns(gamma).mean())
    omega = np.repeat(np.arange(DRAWS), n)
    start = np.tile(episodes.s[:, 0], DRAWS)
    length = np.tile(episodes.lengths, DRAWS)
    world = simulate(problem, policy, start, length, omega, seed)
    pair = world.s * problem.n_actions + world.a
    reward, known = problem.rewards.lookup(pair.reshape(-1), world.s_next.reshape(-1))
    if not known.reshape(pair.shape)[world.live].all():
        return cannot_tell(NAME, "some rewards of simulated transitions are not known.")
    reward = np.where(world.live, reward.reshape(pair.shape), 0.0)
    each = (reward @ gamma ** np.arange(pair.shape[1])).reshape(DRAWS, n)
    return _verdict(observed, episodes.returns(gamma), each)


def _verdict(observed: float, returns: NDArray[np.float64], each: NDArray[np.float64]) -> Check:
    from scipy.stats import binom

    means = each.mean(axis=1)
    low, high = (float(q) for q in np.quantile(means, INSIDE))
    rank = float(np.mean(means < observed))
    ends = np.quantile(each, [0.05, 0.95], axis=0)
    share = float(np.mean((returns >= ends[0]) & (returns <= ends[1])))
    fits = low <= observed <= high
    spread = share * returns.size >= binom.ppf(0.01, returns.size, 0.9)
    where = "inside" if fits else "outside"
    sentence = (
        f"The {returns.size} observed episodes earned {observed:.4g} on average, {where} the range "
        f"[{low:.4g}, {high:.4g}] that the posterior predicts for current practice; "
        f"{100 * share:.0f} % of single episodes lie in their 90 % ranges."
    )
    if fits and not spread:
        sentence += (
            " Single episodes vary more than the model says: rewards are noisier than their means, "
            "or patients and sites differ in ways that the states do not show."
        )
    if not fits:
        sentence += " The model does not reproduce what happened: look at states and rewards first."
    figures = {"observed": observed, "low": low, "high": high, "rank": rank, "share_inside": share}
    return Check(NAME, Verdict.FINE if fits and spread else Verdict.CAUTION, sentence, figures)
