"""One data seed of a domain: its log, its posterior, training and held-out models.

Seeds are split as `TabularDomain.split_problem` splits them: the log and the draws of one data seed
share no random numbers. A third stream serves methods that draw for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data import TransitionLog
from softrobust.domains import PestControl, TabularDomain, make_domain
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar, mean
from softrobust.posterior import FittedPosterior
from softrobust.problem import Problem
from softrobust.returns import optimal_returns, policy_return

FloatArray = NDArray[np.float64]


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
    def of(cls, domain: TabularDomain, seed: int, n_train: int, n_test: int, alpha: float) -> Bench:
        """Collect, fit and draw."""
        log_seed, draw_seed, own_seed = np.random.SeedSequence(seed).spawn(3)
        log = domain.collect(np.random.default_rng(log_seed))
        fitted = cast(FittedPosterior, domain.posterior().fit(log))
        drawn = fitted.sample(n_train + n_test, np.random.default_rng(draw_seed))
        return cls.from_draws(domain, log, fitted, drawn, n_train, alpha, own_seed)

    @classmethod
    def from_draws(
        cls,
        domain: TabularDomain,
        log: TransitionLog,
        fitted: FittedPosterior,
        drawn: ModelSet,
        n_train: int,
        alpha: float,
        own_seed: np.random.SeedSequence,
    ) -> Bench:
        """From draws that are there: the first `n_train` to learn from, the rest to test on."""
        models, test = drawn.split(n_train)
        frame = domain.frame()
        problem = Problem(
            models,
            rewards=None if models.rewards is not None else frame.rewards,
            p0=frame.p0 if models.p0 is None else None,
            gamma=frame.gamma if models.gamma is None else None,
            objective=SoftRobust(0.0, alpha),
        )
        return cls(log, fitted, problem, problem.with_models(test), own_seed)

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
        for word, problem in (("training", self.train), ("held-out", self.test)):
            x, f = policy_return(problem, policy), problem.models.f
            out[word] = {"mean": mean(x, f), "cvar": cvar(x, f, problem.objective.alpha)}
        return out

    def scales(self) -> dict[str, float]:
        """What is to be gained: clairvoyant mean less the uniform policy's, on either models."""
        out = {}
        for word, problem in (("training", self.train), ("held-out", self.test)):
            best = optimal_returns(problem).V @ problem.p0
            random = policy_return(problem, problem.uniform_policy())
            out[word] = float((best - random) @ problem.models.f)
        return out


def domain_of(name: str, settings: Mapping[str, Any], seed: int) -> TabularDomain:
    """A tabular domain from plain settings; where NUTS samples, every log has its own chains."""
    made = make_domain(name, **settings)
    if isinstance(made, PestControl):
        made = replace(made, nuts=replace(made.nuts, seed=seed))
    return cast(TabularDomain, made)
