"""Pairs (P*, D): a true model drawn from a prior, a log of it, and the posterior given that log.

If the prior is the one that worlds are drawn from, and the posterior is exact, then P* is one more
draw from the posterior: whatever a method promises with probability p over the posterior must come
true in a share p of the pairs. Two things would spoil this and are kept out: a likelihood that is
not the world's own, and a log collected by an agent that knows the true model (the actions would
tell what the posterior does not hear).

- random      rows ~ uniform Dirichlets; a random agent.
- riverswim   one law of (left, stay, right) ~ Dirichlet(1, 1, 1); a random swimmer from the first
              state. A "stay" there may be a cut-off move left: it counts as 1 − q_right, and the
              posterior remains explicit: q_right ~ Beta, and left against stay ~ Beta.
- riverswim, inner rows   the same pairs with the posterior of `TiedPosterior`, which leaves out the
              rows at the ends: not exact, since how long one stays there tells of q_right.
- inventory   mean demand ~ Gamma, demand truncated in world and likelihood alike.
- pest        growth laws ~ a list of 1500, all equally likely: the posterior weighs the list.

A `Bench` is what methods are run on and measured by: one log, its posterior, training and held-out
models. Seeds are split as `TabularDomain.split_problem` splits them: the log and the draws of one
data seed share no random numbers; a third stream serves methods that draw for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.data import TransitionLog
from softrobust.domains import (
    Inventory,
    PestControl,
    RiverSwim,
    TabularDomain,
    make_domain,
    random_mdp,
)
from softrobust.domains.riverswim import DRIFT
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar, mean
from softrobust.posterior import DemandPosterior, FittedPosterior, Shop, TiedPosterior
from softrobust.posterior.demand import demand_models
from softrobust.posterior.population import drawn_growth, pest_frame, pest_rows
from softrobust.posterior.tied import LEFT_STAY_RIGHT, FittedTied, move_blocks
from softrobust.problem import Problem
from softrobust.returns import optimal_returns, policy_return

CANDIDATES = 1500
NO_WEIGHT = 1e-12
# Mean and sd of μ, μ₀, μ₁, μ₂ that an independent sampler found on the example log.
GROWTH_MEAN, GROWTH_SPREAD = (1.90, 0.99, -0.044, 0.00109), (0.27, 0.40, 0.034, 0.00086)


class Pair(NamedTuple):
    """A true model (a set of one), a log of it, the posterior, and who collected the log."""

    domain: TabularDomain
    truth: ModelSet
    log: TransitionLog
    posterior: FittedPosterior
    behaviour: FloatArray

    def bench(self, seed: int, n_train: int, n_test: int, alpha: float) -> Bench:
        """What methods are run on, with models of this seed."""
        seeds = np.random.SeedSequence(seed).spawn(2)
        return Bench.of(self.domain, self.log, self.posterior, seeds, n_train, n_test, alpha)


class Prior(NamedTuple):
    """A prior over worlds: in words, one draw of (P*, D), and whether its posterior is exact."""

    words: str
    pair: Callable[[np.random.Generator], Pair]
    exact: bool = True


def logged(
    domain: TabularDomain, truth: ModelSet, behaviour: FloatArray, start: int, steps: int,
    rng: np.random.Generator,
) -> TransitionLog:  # fmt: skip
    """One episode in the rows of the true model."""

    def step(s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        k = int(s[0]) * truth.n_actions + int(a[0])
        lo, hi = truth.indptr[k], truth.indptr[k + 1]
        below = np.cumsum(truth.prob[lo:hi])
        j = int(np.searchsorted(below, rng.random() * below[-1], side="right"))
        return truth.next_states[[lo + min(j, hi - lo - 1)]].astype(np.int64)

    return domain.roll_out(behaviour, start, steps, rng, step)


def random_pair(rng: np.random.Generator) -> Pair:
    """A new world of uniform Dirichlet rows with its own rewards, 100 steps of a random agent."""
    seed = int(rng.integers(2**31))
    domain = random_mdp("dirichlet", 8, 3, gamma=0.9, steps=100, seed=seed)
    log = domain.collect(rng)
    uniform = np.full((8, 3), 1 / 3)
    return Pair(domain, domain.true_model(), log, domain.posterior().fit(log), uniform)


def river_pair(rng: np.random.Generator, all_rows: bool = True) -> Pair:
    """Riverswim with the rewards of the group's code and an unknown law of moves.

    15 steps of a random swimmer from the first state; without `all_rows`, those at the ends are
    left out of the likelihood.
    """
    domain = RiverSwim(variant="craam")
    frame = domain.frame()
    q = np.array([[DRIFT, rng.dirichlet(np.ones(3))]])
    truth = frame.dense(move_blocks(q, LEFT_STAY_RIGHT, domain.n_states))
    behaviour = np.full((domain.n_states, 2), 0.5)
    log = logged(domain, truth, behaviour, 0, domain.steps, rng)
    fitted = TiedPosterior(known={"0": DRIFT}, frame=frame).fit(log)
    return Pair(domain, truth, log, RiverPosterior(fitted) if all_rows else fitted, behaviour)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RiverPosterior(FittedPosterior):
    """The law of moves given all rows, those at the first state included.

    With counts (l, s, r) of inner rows and, at the first state, u moves up and d stays, the
    likelihood is q_l^l·q_s^s·q_r^(r+u)·(1 − q_r)^d: q_r ~ Beta(1 + r + u, 2 + l + s + d) and,
    independent of it, q_l/(1 − q_r) ~ Beta(1 + l, 1 + s).
    """

    inner: FittedTied

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` exact, independent draws."""
        rng = np.random.default_rng(seed)
        left, stay, right = self.inner.counts[1]
        log = self.inner.log
        first = (log.s == 0) & (log.a == 1)
        up = int((first & (log.s_next == 1)).sum())
        stays = int(first.sum()) - up
        q_right = rng.beta(1 + right + up, 2 + left + stay + stays, size=n)
        q_left = (1 - q_right) * rng.beta(1 + left, 1 + stay, size=n)
        law = np.stack([q_left, 1 - q_right - q_left, q_right], axis=1)
        q = np.stack([np.tile(DRIFT, (n, 1)), np.maximum(law, 0.0)], axis=1)
        frame = self.inner.frame
        return frame.dense(move_blocks(q, LEFT_STAY_RIGHT, len(frame.states)))


def inventory_pair(rng: np.random.Generator) -> Pair:
    """A shop of 20 places, mean demand ~ Gamma(4, scale 2), 10 steps of ordering the maximum."""
    mu = rng.gamma(4.0, 2.0)
    shop = Shop(capacity=20, max_order=20, max_demand=50)
    domain, truth = Inventory(shop=shop), demand_models(np.array([mu]), shop)
    most = np.zeros((21, 21))
    most[:, -1] = 1.0
    log = logged(domain, truth, most, 0, 10, rng)
    fitted = DemandPosterior(4.0, 2.0, truncated=True, shop=shop).fit(log)
    return Pair(domain, truth, log, fitted, most)


def pest_pair(rng: np.random.Generator) -> Pair:
    """Pest control, growth by one of 1500 laws, 20 steps of random treatment from 9."""
    domain = PestControl()
    every = candidates()
    truth = every.select(np.array([rng.integers(every.n_models)]))
    behaviour = np.full((every.n_states, every.n_actions), 1.0 / every.n_actions)
    log = logged(domain, truth, behaviour, domain.start, 20, rng)
    return Pair(domain, truth, log, ListPosterior.of(every, log), behaviour)


@lru_cache(maxsize=1)
def candidates() -> ModelSet:
    """The growth laws of the pest world's prior, the same on every machine."""
    rng = np.random.default_rng(2021)
    theta = rng.normal(GROWTH_MEAN, GROWTH_SPREAD, size=(CANDIDATES, 4))
    return pest_frame().dense(pest_rows(drawn_growth(theta)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ListPosterior(FittedPosterior):
    """Weights over a list of models, from their likelihood of the log; equal weights before it."""

    every: ModelSet
    weights: FloatArray

    @classmethod
    def of(cls, every: ModelSet, log: TransitionLog) -> ListPosterior:
        """Condition on the log."""
        level = np.zeros(every.n_models)
        for s, a, s_next in zip(log.s, log.a, log.s_next, strict=True):
            k = int(s) * every.n_actions + int(a)
            lo, hi = every.indptr[k], every.indptr[k + 1]
            block = every.prob[lo * every.n_models : hi * every.n_models]
            j = int(np.flatnonzero(every.next_states[lo:hi] == s_next)[0])
            with np.errstate(divide="ignore"):
                level += np.log(block.reshape(every.n_models, hi - lo)[:, j])
        w = np.exp(level - level.max())
        return cls(every, w / w.sum())

    def weighted(self) -> ModelSet:
        """The posterior itself: the models that are still possible, with their weights."""
        left = self.weights > NO_WEIGHT
        some = self.every.select(left)
        return replace(some, f=self.weights[left] / self.weights[left].sum())

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` independent draws."""
        rng = np.random.default_rng(seed)
        drawn = self.every.select(rng.choice(self.every.n_models, size=n, p=self.weights))
        return replace(drawn, f=np.full(n, 1.0 / n))


PRIORS = {
    "random": Prior("random worlds", random_pair),
    "riverswim": Prior("riverswim", river_pair),
    "riverswim-inner": Prior("riverswim, inner rows", partial(river_pair, all_rows=False), False),
    "inventory": Prior("inventory", inventory_pair),
    "pest": Prior("pest control", pest_pair),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """Everything that methods are run on and measured by, for one log."""

    log: TransitionLog
    fitted: FittedPosterior
    train: Problem
    test: Problem
    own_seed: np.random.SeedSequence
    _own: dict[int, ModelSet] = field(default_factory=dict)

    @classmethod
    def of(
        cls, domain: TabularDomain, log: TransitionLog, fitted: FittedPosterior,
        seeds: Sequence[np.random.SeedSequence], n_train: int, n_test: int, alpha: float,
    ) -> Bench:  # fmt: skip
        """Draw models with the first seed; the second is for methods that draw for themselves."""
        drawn = fitted.sample(n_train + n_test, np.random.default_rng(seeds[0]))
        models, test = drawn.split(n_train)
        problem = domain.problem_on(models, SoftRobust(0.0, alpha))
        return cls(log, fitted, problem, problem.with_models(test), seeds[1])

    def at(self, lam: float) -> Problem:
        """The training problem for one λ."""
        alpha = self.train.objective.alpha
        return replace(self.train, objective=SoftRobust(lam, alpha))

    def own_draws(self, n: int) -> ModelSet:
        """`n` further draws for methods that want more than the training models, made once."""
        if n not in self._own:
            self._own[n] = self.fitted.sample(n, np.random.default_rng(self.own_seed))
        return self._own[n]

    def measure(self, policy: Policy) -> dict[str, dict[str, float]]:
        """Mean and CVaR of a policy on training and held-out models."""
        out = {}
        for word, problem in self.problems().items():
            x, f = policy_return(problem, policy), problem.models.f
            out[word] = {"mean": mean(x, f), "cvar": cvar(x, f, problem.objective.alpha)}
        return out

    def problems(self) -> dict[str, Problem]:
        """By the models that a policy is measured on."""
        return {"training": self.train, "held-out": self.test}

    def scales(self) -> dict[str, float]:
        """What is to be gained: clairvoyant mean less the uniform policy's, on either models."""
        out = {}
        for word, problem in self.problems().items():
            best = optimal_returns(problem).V @ problem.p0
            random = policy_return(problem, problem.uniform_policy())
            out[word] = float((best - random) @ problem.models.f)
        return out


def bench_of(
    name: str, settings: Mapping[str, Any], seed: int, n_train: int, n_test: int, alpha: float
) -> Bench:
    """Of a tabular domain's own log; where NUTS samples, every log has its own chains."""
    made = make_domain(name, **settings)
    if isinstance(made, PestControl):
        made = replace(made, nuts=replace(made.nuts, seed=seed))
    domain = cast(TabularDomain, made)
    log_seed, *seeds = np.random.SeedSequence(seed).spawn(3)
    log = domain.collect(np.random.default_rng(log_seed))
    fitted = cast(FittedPosterior, domain.posterior().fit(log))
    return Bench.of(domain, log, fitted, seeds, n_train, n_test, alpha)
