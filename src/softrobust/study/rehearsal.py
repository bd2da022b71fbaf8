"""Rehearsal: how the whole line does in worlds that are known because we drew them.

A world P* is drawn, a log D′ like the real one is simulated in it (current practice, the same
episodes' starts and lengths), the line runs on D′, and its policy is evaluated in P*. Repeated,
this says how often the claimed lower bounds hold, and what the policy gains or loses against
current practice and against the nominal policy *in truth*.

    claim at level β:  the (1 − β)-quantile of the policy's return over fresh posterior draws
    it holds if        ρ(π, P*) is at least that

Where rewards vary within a pair, a world has true means of its own (the log's, give or take their
standard errors) and the simulated log records noisy rewards, from which the line estimates again.

With worlds drawn from the prior, the posterior given D′ is exactly right and claims hold with
probability β (Bayes; the policy is a function of D′ alone): a test of the machinery. With worlds
drawn from the posterior of the real log (the default), the worlds are the plausible ones; the prior
then pulls D′ away from a world that the real log is known to favour, so coverage may differ a
little from β, and the figure tells by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, entry_keys, found_at
from softrobust.data import Rewards, TransitionLog
from softrobust.data.log import reward_noise
from softrobust.models import ModelSet, Policy
from softrobust.objective import value_at_risk
from softrobust.posterior import FittedDirichlet, FittedPosterior
from softrobust.posterior.base import CHECKING, CHOOSING, FRESH
from softrobust.posterior.dirichlet import dirichlet_blocks
from softrobust.problem import Problem
from softrobust.returns import optimal_returns, policy_return
from softrobust.returns.evaluation import AnyPolicy
from softrobust.returns.simulation import simulate_table
from softrobust.solvers import Nominal, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy, unmasked
from softrobust.solvers.registry import make_solver
from softrobust.study.checks import Verdict
from softrobust.study.off_policy import episodes_of, pair_means

WORLDS = ("posterior", "prior")
LEVEL = 0.95
WIDE = 0.3  # an interval of a share that says nothing
Interval = tuple[float, float, float]  # value, low, high


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What every repetition shares: problem, log, and posterior.

    `prior` is what a Dirichlet posterior had before the counts of the log.
    """

    problem: Problem
    log: TransitionLog
    fitted: FittedPosterior
    prior: FloatArray | None
    practice: Policy
    noise: float

    @classmethod
    def of(cls, problem: Problem, log: TransitionLog, fitted: FittedPosterior) -> Stage:
        """Set the stage for a problem and the posterior that it was drawn from."""
        practice, _ = behaviour_policy(problem, log)
        prior = None
        if isinstance(fitted, FittedDirichlet):
            prior = fitted.concentration - _counts(fitted, log)
        return cls(problem, log, fitted, prior, practice, reward_noise(problem.rewards, log))

    def world(self, kind: str, rng: np.random.Generator) -> ModelSet:
        """One model: the truth of this repetition."""
        if kind == "posterior" or self.prior is None:
            return unpaid(self.fitted.share(FRESH).sample(1, rng))
        assert isinstance(self.fitted, FittedDirichlet)  # it alone has a prior here
        prob = dirichlet_blocks(self.fitted.indptr, self.prior, 1, rng)
        return self.fitted.storage(prob, 1)

    def simulated(self, world: ModelSet, rng: np.random.Generator) -> TransitionLog:
        """A log of the same size in that world: the same starts and lengths of episodes."""
        start, length = _shape(self.log)
        truth = unmasked(self.problem.with_models(world))
        steps = simulate_table(truth, self.practice, start, length, np.zeros(start.size), rng)
        live = steps.live
        return replace(
            self.log,
            s=steps.s[live].astype(np.int32),
            a=steps.a[live].astype(np.int32),
            s_next=steps.s_next[live].astype(np.int32),
            reward=None,
            episode=np.repeat(np.arange(start.size, dtype=np.int32), steps.length),
        )

    def learned(self, log: TransitionLog) -> FittedPosterior:
        """The posterior of a simulated log: the same prior, on the same support."""
        if not isinstance(self.fitted, FittedDirichlet) or self.prior is None:
            found: FittedPosterior = self.fitted.again(log)
            return found
        return replace(self.fitted, log=log, concentration=self.prior + _counts(self.fitted, log))

    def seen(self, log: TransitionLog) -> NDArray[np.bool_]:
        """What the line may choose: pairs seen often enough; all, in states where none was."""
        least = getattr(getattr(self.fitted, "settings", None), "min_count", 0)
        kept = self.problem.allowed & (np.asarray(log.pair_counts) >= least)
        return np.asarray(kept | (~kept.any(axis=1, keepdims=True) & self.problem.allowed))


def unpaid(models: ModelSet) -> ModelSet:
    """The models without rewards of their domain: those of the problem are the same ones."""
    return models if models.rewards is None else replace(models, rewards=None)


def _counts(fitted: FittedDirichlet, log: TransitionLog) -> FloatArray:
    """n(s,a,s′) at the posterior's stored entries."""
    pair, s_next, n = log.counts()
    stored = entry_keys(fitted.indptr, fitted.next_states, log.n_states)
    at, hit = found_at(stored, pair * log.n_states + s_next)  # below min_count there is no entry
    return np.bincount(at[hit], weights=n[hit], minlength=stored.size).astype(np.float64)


def _shape(log: TransitionLog) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and lengths of episodes; without episodes, a new one wherever rows do not chain."""
    if log.episode is not None:
        found = episodes_of(replace(log, reward=np.zeros(log.n_rows)))
        return found.s[:, 0], found.lengths
    breaks = np.flatnonzero(np.concatenate([[True], log.s[1:] != log.s_next[:-1]]))
    return log.s[breaks].astype(np.int64), np.diff(np.append(breaks, log.n_rows))


def _going_on(policy: AnyPolicy, practice: Policy) -> AnyPolicy:
    """The policy, and practice in states that the log of its world never showed."""
    decided = np.asarray(policy.decided)[:, None]
    return replace(policy, probs=np.where(decided, policy.probs, practice.probs))


def repetition(
    stage: Stage, number: int, world: str, solver: str, models: int, draws: int, seed: int
) -> dict[str, Any]:
    """Draw a world, learn from a log of it, and compare what is claimed with what is true."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
    truth, known = stage.world(world, rng), stage.problem.rewards
    if stage.noise == 0:
        batch, rewards = stage.simulated(truth, rng), known
        believed = known
    else:  # noisy means are known up to their standard errors, and estimated anew from the log
        n = np.maximum(np.asarray(stage.log.pair_counts), 1)
        error = stage.noise / np.sqrt(n) * rng.standard_normal(n.shape)
        rewards = Rewards.of_pairs(known.pairs + error, known.known)
        batch = stage.simulated(truth, rng)
        noise = stage.noise * rng.standard_normal(batch.n_rows)
        batch = replace(batch, reward=rewards.pairs[batch.s, batch.a] + noise)
        believed = Rewards.of_pairs(pair_means(batch, known.pairs), known.known)
    fitted = stage.learned(batch)
    drawn = unpaid(fitted.share(CHOOSING).sample(models, rng))
    line = replace(
        stage.problem.with_models(drawn),
        allowed=stage.seen(batch) & drawn.available,
        rewards=believed,
    )
    chosen = make_solver(solver, log=batch, seed=number)
    policy, nominal = solve(line, chosen).policy, solve(line, Nominal()).policy
    there, usual = (_going_on(x, stage.practice) for x in (policy, nominal))
    held = fitted.share(CHECKING)
    draws = draws if held.pool is None else min(draws, held.pool)
    fresh = policy_return(line.with_models(unpaid(held.sample(draws, rng))), policy)
    real = replace(unmasked(stage.problem.with_models(truth)), rewards=rewards)
    masked = replace(stage.problem.with_models(truth), rewards=rewards)
    levels, f = (stage.problem.objective.alpha, 0.5, LEVEL), np.full(fresh.size, 1 / fresh.size)
    return {
        "return": float(policy_return(real, there)[0]),
        "nominal": float(policy_return(real, usual)[0]),
        "practice": float(policy_return(real, stage.practice)[0]),
        "best": float(optimal_returns(masked).upper[0]),
        "claims": {str(level): value_at_risk(fresh, f, level) for level in levels},
        "rows": batch.n_rows,
    }


@final
@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the repetitions say."""

    times: int
    world: str
    # level → (share of repetitions in which the claim held, low, high), with a 95 % interval
    coverage: dict[float, Interval]
    # rival → (mean, low, high, share of worlds in which the policy beats it), in true returns
    gains: dict[str, tuple[float, float, float, float]]
    regret: float  # mean shortfall of the true return against the best policy of the world
    failed: int

    @property
    def verdict(self) -> Verdict:
        """Caution where a claim held less often than it says, fine where all are known to hold."""
        if any(high < level for level, (_, _, high) in self.coverage.items()):
            return Verdict.CAUTION
        wide = any(high - low > WIDE for _, low, high in self.coverage.values())
        return Verdict.CANNOT_TELL if wide else Verdict.FINE

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {name: getattr(self, name) for name in ("times", "world", "failed", "regret")} | {
            "coverage": {str(level): list(v) for level, v in self.coverage.items()},
            # One world leaves the interval open, and JSON has no infinity.
            "gains": {
                rival: [x if np.isfinite(x) else None for x in v] for rival, v in self.gains.items()
            },
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        coverage = {float(level): tuple(v) for level, v in record["coverage"].items()}
        gains: dict[str, tuple[float, float, float, float]] = {}
        for rival, (mean, low, high, share) in record["gains"].items():
            low, high = -np.inf if low is None else low, np.inf if high is None else high
            gains[rival] = (float(mean), float(low), float(high), float(share))
        times, world, regret, failed = (record[k] for k in ("times", "world", "regret", "failed"))
        return cls(times, world, coverage, gains, regret, failed)


def summary(results: Sequence[dict[str, Any]], world: str, failed: int = 0) -> Rehearsal:
    """Coverage, gains and regret of the repetitions."""
    true = np.array([r["return"] for r in results])
    n = true.size
    coverage = {}
    for level in results[0]["claims"]:
        claims = np.array([r["claims"][level] for r in results])
        held = int(np.sum(true >= claims - 1e-9 * np.maximum(np.abs(claims), np.abs(true))))
        coverage[float(level)] = binomial(held, n)
    gains = {}
    for rival, name in (("practice", "current practice"), ("nominal", "the nominal policy")):
        difference = true - np.array([r[rival] for r in results])
        half = 1.96 * float(difference.std(ddof=1)) / np.sqrt(n) if n > 1 else float("inf")
        mean = float(difference.mean())
        share = float(np.mean(difference > 1e-9 * np.abs(true)))
        gains[name] = (mean, mean - half, mean + half, share)
    lost = np.array([r["best"] for r in results]) - true
    regret = float(np.mean(np.where(np.abs(lost) > 1e-9 * np.abs(true), lost, 0.0)))
    return Rehearsal(n, world, coverage, gains, max(regret, 0.0), failed)


def binomial(k: int, n: int) -> Interval:
    """A share with Clopper and Pearson's 95 % interval."""
    from scipy.stats import beta

    low = 0.0 if k == 0 else float(beta.ppf(0.025, k, n - k + 1))
    return k / n, low, 1.0 if k == n else float(beta.ppf(0.975, k + 1, n - k))
