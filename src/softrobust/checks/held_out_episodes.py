"""Off-policy estimates on episodes that the policy was not learned from.

The episodes are split in two. On the first half the line runs again (posterior, models, a search by
`LocalSearch`); on the second half WIS, PDIS, DR and FQE say what that policy would have earned. The
posterior of the first half made a prediction too: the check asks whether the estimates that can
tell anything agree with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softrobust.checks.check import Check, Verdict, cannot_tell
from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.offpolicy import OffPolicy, episodes_of, off_policy
from softrobust.pipeline.folder import Folder
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.solvers.base import solve
from softrobust.solvers.local_search import LocalSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softrobust.data import TransitionLog

NAME = "off-policy estimates"
FEWEST = 20  # episodes, so that each half has ten
MODEL_TAIL = 0.5  # share of the future that the model supplies above which nothing is tested


def held_out_episodes(folder: Folder, seed: int = 0) -> Check:
    """Learn on half of the episodes, estimate on the other half."""
    log, _ = folder.need_log("Off-policy estimates")
    try:
        episodes = episodes_of(log)
    except InputError as error:
        return cannot_tell(NAME, str(error))
    n = len(episodes)
    if n < FEWEST:
        return cannot_tell(NAME, f"the log has {n} episodes, and a split needs {FEWEST}.")
    order = np.random.default_rng([folder.seed, seed, 1]).permutation(n)
    try:
        problem = _learned(folder, log, order[: n // 2], seed)
    except InputError as error:
        return cannot_tell(NAME, f"half of the log is too little to learn from ({error})")
    policy = solve(problem, LocalSearch(seed=seed)).policy
    rest = episodes.select(order[n // 2 :])
    # Practice as the whole log shows it: π_b is not what is being tested.
    estimates = off_policy(problem, policy, rest, np.asarray(log.behaviour), seed=seed)
    start = np.bincount(rest.s[:, 0], minlength=problem.n_states) / len(rest)
    predicted = policy_return(replace(problem, p0=start), policy)
    return _verdict(estimates, predicted)


def _learned(folder: Folder, log: TransitionLog, half: NDArray[np.int64], seed: int) -> Problem:
    """The problem of the run, learned from some episodes only."""
    assert folder.posterior is not None
    assert log.episode is not None
    numbers = np.unique(log.episode)[half]
    rows = np.isin(log.episode, numbers)
    part = replace(
        log,
        s=log.s[rows],
        a=log.a[rows],
        s_next=log.s_next[rows],
        reward=None if log.reward is None else log.reward[rows],
        episode=log.episode[rows],
    )
    settings = replace(folder.posterior.settings, min_count=0)  # type: ignore[attr-defined]
    fitted = settings.fit(part)
    rng = np.random.default_rng([folder.seed, seed, 2])
    models = fitted.sample(min(folder.problem.n_models, 100), rng)
    old = folder.problem
    allowed = old.allowed & models.available & (np.asarray(part.pair_counts) > 0)
    allowed |= ~allowed.any(axis=1, keepdims=True) & models.available
    rewards = _rewards(old, log, part)
    return Problem(models, rewards, old.p0, old.gamma, old.objective, allowed)


def _rewards(old: Problem, log: TransitionLog, part: TransitionLog) -> Rewards:
    """Rewards as the first half shows them: noisy means of all episodes would tell of the second.

    A pair that the first half lacks cannot be chosen; its mean over all episodes serves DR as a
    baseline, which needs no truth.
    """
    if log.reward is None or part.reward is None or old.rewards.kind != "pair":
        return old.rewards
    S, A = log.shape
    pair = part.s.astype(np.int64) * A + part.a
    n = np.bincount(pair, minlength=S * A)
    total = np.bincount(pair, weights=part.reward, minlength=S * A)
    mean = np.where(n > 0, total / np.maximum(n, 1), old.rewards.pairs.reshape(-1))
    return Rewards.of_pairs(mean.reshape(S, A))


def _verdict(estimates: tuple[OffPolicy, ...], predicted: NDArray[np.float64]) -> Check:
    low, high = (float(q) for q in np.quantile(predicted, [0.025, 0.975]))
    told = [e for e in estimates if e.can_tell]
    text = "; ".join(f"{e.name} {e.words()}" for e in estimates)
    figures = {"predicted": [low, high], "estimates": [e.to_dict() for e in estimates]}
    sentence = (
        "Learned on half of the episodes and estimated on the others: "
        f"{text}. The posterior predicted [{low:.4g}, {high:.4g}]."
    )
    tail = max(e.tail for e in estimates)
    if tail > 0:
        sentence += (
            f" Beyond the last observed step the model's own value stands in: {100 * tail:.0f} % "
            "of the discounted future for WIS and PDIS."
        )
    if tail > MODEL_TAIL:
        sentence += " So much of it is the model's that agreement says little."
        return Check(NAME, Verdict.CANNOT_TELL, f"Cannot tell. {sentence}", figures)
    if not told:
        return Check(NAME, Verdict.CANNOT_TELL, f"Cannot tell. {sentence}", figures)
    apart = [e.name for e in told if not _overlap(e, low, high)]
    if apart:
        sentence += f" Apart from the prediction: {', '.join(apart)}."
    return Check(NAME, Verdict.CAUTION if apart else Verdict.FINE, sentence, figures)


def _overlap(e: OffPolicy, low: float, high: float) -> bool:
    """Whether the estimate's interval meets the predicted one."""
    a = e.estimate.value if e.estimate.low is None else e.estimate.low
    b = e.estimate.value if e.estimate.high is None else e.estimate.high
    return a <= high and b >= low
