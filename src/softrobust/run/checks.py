"""What a check says: fine, caution, or that it cannot tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust import __version__
from softrobust._core.files import atomic_write
from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import occupancies, policy_return, static_return
from softrobust.returns.simulation import roll_out
from softrobust.run.folder import Folder, redraw
from softrobust.solvers.base import solve, solve_grid
from softrobust.solvers.baselines.behaviour import RARE, behaviour_policy, rare_share, unmasked
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.study.confounding import tipping_point
from softrobust.study.off_policy import OffPolicy, episodes_of, off_policy

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from softrobust.data import TransitionLog
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem


class Verdict(StrEnum):
    """How a check ended."""

    FINE = "fine"
    CAUTION = "caution"
    CANNOT_TELL = "cannot tell"


@final
@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
        What was asked, in a few words.
    verdict : Verdict
    sentence : str
        The finding in plain words, with its figures and what it does not cover.
    figures : mapping
        The same figures as plain values, ready for JSON.
    """

    name: str
    verdict: Verdict
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "figures": dict(self.figures),
        }


def cannot_tell(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, Verdict.CANNOT_TELL, f"Cannot tell: {why}")


# --------------------------------------------------------------------------------------------------
# Behaviour replay: if the posterior were right, would the log look as it does?
#
# For each of M posterior draws, current practice is simulated for the episodes of the log: the same
# first states, the same lengths. Where the mean observed return falls outside the central 95 % of
# the simulated means, the model (states, rewards, or the Markov assumption) does not fit what
# happened. Posterior draws know the log, so that a fit is expected and a misfit is telling.

REPLAY = "behaviour replay"
DRAWS = 400
FEWEST_REPLAYED = 5  # episodes below which a mean says little
INSIDE = (0.025, 0.975)


def replay(folder: Folder, seed: int = 0) -> Check:
    """Compare observed episode returns with simulated ones."""
    log, _ = folder.need_log("Behaviour replay")
    try:
        episodes = episodes_of(log)
    except InputError as error:
        return cannot_tell(REPLAY, str(error))
    n = len(episodes)
    if n < FEWEST_REPLAYED:
        return cannot_tell(
            REPLAY, f"the log has {n} episodes, and a replay needs at least {FEWEST_REPLAYED}."
        )
    problem = unmasked(folder.problem.with_models(redraw(folder, DRAWS, seed)))
    policy, _ = behaviour_policy(problem, log)
    gamma = problem.gamma
    observed = float(episodes.returns(gamma).mean())
    omega = np.repeat(np.arange(DRAWS), n)
    start = np.tile(episodes.s[:, 0], DRAWS)
    length = np.tile(episodes.lengths, DRAWS)
    world = roll_out(problem, policy, start, length, omega, seed)
    pair = world.s * problem.n_actions + world.a
    reward, known = problem.rewards.lookup(pair.reshape(-1), world.s_next.reshape(-1))
    if not known.reshape(pair.shape)[world.live].all():
        return cannot_tell(REPLAY, "some rewards of simulated transitions are not known.")
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
    return Check(REPLAY, Verdict.FINE if fits and spread else Verdict.CAUTION, sentence, figures)


# --------------------------------------------------------------------------------------------------
# What would change the answer: the prior, the goal (λ, α), the number of models, the seed.
#
# Each alternative is solved by `LocalSearch`, and so is the run's own problem, so that differences
# come from the alternative and not from the solver. Two figures are kept: the share of states whose
# action changes, plain and weighted by how often the policy visits them, and what the other policy
# earns by the run's own objective on the held-out models.

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
    return _verdict_sensitivity("prior strength", "a prior {factor:g} times as strong", rows)


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
    return _verdict_sensitivity("number of models and seed", "{draw}", rows)


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


def _verdict_sensitivity(name: str, words: str, rows: list[dict[str, Any]]) -> Check:
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


# --------------------------------------------------------------------------------------------------
# Off-policy estimates on episodes that the policy was not learned from.
#
# The episodes are split in two. On the first half the line runs again (posterior, models, a search
# by `LocalSearch`); on the second half WIS, PDIS, DR and FQE say what that policy would have
# earned. The posterior of the first half made a prediction too: the check asks whether the
# estimates that can tell anything agree with it.

OFF_POLICY = "off-policy estimates"
FEWEST_EPISODES = 20  # episodes, so that each half has ten
MODEL_TAIL = 0.5  # share of the future that the model supplies above which nothing is tested


def held_out_episodes(folder: Folder, seed: int = 0) -> Check:
    """Learn on half of the episodes, estimate on the other half."""
    log, _ = folder.need_log("Off-policy estimates")
    try:
        episodes = episodes_of(log)
    except InputError as error:
        return cannot_tell(OFF_POLICY, str(error))
    n = len(episodes)
    if n < FEWEST_EPISODES:
        return cannot_tell(
            OFF_POLICY, f"the log has {n} episodes, and a split needs {FEWEST_EPISODES}."
        )
    order = np.random.default_rng([folder.seed, seed, 1]).permutation(n)
    try:
        problem = _learned(folder, log, order[: n // 2], seed)
    except InputError as error:
        return cannot_tell(OFF_POLICY, f"half of the log is too little to learn from ({error})")
    policy = solve(problem, LocalSearch(seed=seed)).policy
    rest = episodes.select(order[n // 2 :])
    # Practice as the whole log shows it: π_b is not what is being tested.
    estimates = off_policy(problem, policy, rest, np.asarray(log.behaviour), seed=seed)
    start = np.bincount(rest.s[:, 0], minlength=problem.n_states) / len(rest)
    predicted = policy_return(replace(problem, p0=start), policy)
    return _verdict_held_out_episodes(estimates, predicted)


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


def _verdict_held_out_episodes(
    estimates: tuple[OffPolicy, ...], predicted: NDArray[np.float64]
) -> Check:
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
        return Check(OFF_POLICY, Verdict.CANNOT_TELL, f"Cannot tell. {sentence}", figures)
    if not told:
        return Check(OFF_POLICY, Verdict.CANNOT_TELL, f"Cannot tell. {sentence}", figures)
    apart = [e.name for e in told if not _overlap(e, low, high)]
    if apart:
        sentence += f" Apart from the prediction: {', '.join(apart)}."
    return Check(OFF_POLICY, Verdict.CAUTION if apart else Verdict.FINE, sentence, figures)


def _overlap(e: OffPolicy, low: float, high: float) -> bool:
    """Whether the estimate's interval meets the predicted one."""
    a = e.estimate.value if e.estimate.low is None else e.estimate.low
    b = e.estimate.value if e.estimate.high is None else e.estimate.high
    return a <= high and b >= low


# --------------------------------------------------------------------------------------------------
# All checks of a run folder, in the order in which a sceptic would ask.

WEAK = 1.5  # odds that a hidden cause could plausibly shift


def rare_pairs(folder: Folder) -> Check:
    """Share of discounted visits of the policy to pairs seen fewer than five times."""
    name = "rarely seen pairs"
    log, _ = folder.need_log("Coverage")
    share, (s, a) = rare_share(folder.problem, folder.solution.policy, log)
    sentence = (
        f"{100 * share:.1f} % of the policy's discounted decisions fall on pairs seen fewer than "
        f"{RARE} times"
    )
    if share > 0:
        sentence += (
            f", most of all '{log.actions[a]}' in '{log.states[s]}' "
            f"(seen {int(log.pair_counts[s, a])} times)"
        )
    verdict = Verdict.FINE if share <= MUCH else Verdict.CAUTION
    return Check(name, verdict, f"{sentence}.", {"share": share, "fewer_than": RARE})


def confounding(folder: Folder) -> Check:
    """How much hidden confounding would overturn the choice."""
    name = "hidden confounding"
    log, _ = folder.need_log("The check for confounding")
    problem = unmasked(folder.problem)
    practice, _ = behaviour_policy(problem, log)
    found = tipping_point(problem, folder.solution.policy, practice, np.asarray(log.behaviour), log)
    weak = found.tipping is not None and found.tipping < WEAK
    return Check(name, Verdict.CAUTION if weak else Verdict.FINE, found.words(), found.to_dict())


CHECKS: dict[str, Callable[[Folder, int], Check]] = {
    "behaviour replay": replay,
    "off-policy estimates": held_out_episodes,
    "rarely seen pairs": lambda folder, _: rare_pairs(folder),
    "prior strength": prior_strength,
    "the goal (λ, α)": goal,
    "number of models and seed": draws,
    "hidden confounding": lambda folder, _: confounding(folder),
}


def check_run(folder: Folder, seed: int = 0) -> Iterator[Check]:
    """Every check in turn; one that cannot be made says why."""
    for name, check in CHECKS.items():
        try:
            yield check(folder, seed)
        except InputError as error:
            yield cannot_tell(name, str(error))


def checks_record(folder: Folder, checks: list[Check], seed: int) -> dict[str, Any]:
    """What `checks.json` holds."""
    return {
        "format_version": 1,
        "version": __version__,
        "seed": seed,
        "data_hash": None if folder.log is None else folder.log.data_hash,
        "checks": [check.to_dict() for check in checks],
    }


def save_checks(path: Path, record: dict[str, Any]) -> None:
    """Write `checks.json`, atomically."""
    with atomic_write(path) as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
