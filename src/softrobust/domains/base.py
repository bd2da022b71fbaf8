"""What a domain is: a world that is known exactly, a log of it, and a posterior for that log.

    true_model()  →  P*, r, p₀, γ           collect(seed)  →  D
    posterior()   →  settings of P* | D     problem(seed)  →  models drawn from P* | D, to be solved

Transition rows are computed exactly; `step` simulates the same world by its own mechanism, so that
one can be tested against the other. Seeds are split (`SeedSequence`): the log and the draws of one
seed never share random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray, IntArray, refuse_if_too_large
from softrobust._core.settings import whole
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy
from softrobust.objective import SoftRobust
from softrobust.posterior import Frame, Posterior
from softrobust.problem import Problem

Seed = int | np.random.Generator
Steps = Annotated[int, partial(whole, hint="An episode needs at least one step.")]


class Domain(ABC):
    """A world with a name, a simulator, a log and a posterior."""

    __slots__ = ()
    name: ClassVar[str]
    summary: ClassVar[str]
    env_id: ClassVar[str | None] = None
    env_steps: ClassVar[int] = 100
    paper_models: ClassVar[int] = 100
    paper_goal: ClassVar[SoftRobust] = SoftRobust()

    @abstractmethod
    def true_model(self) -> Any:
        """P* with all that belongs to it."""

    @abstractmethod
    def collect(self, seed: Seed = 0) -> Any:
        """The batch of the paper, drawn with `seed`."""

    @abstractmethod
    def posterior(self) -> Posterior:
        """Settings of the paper's posterior."""

    @abstractmethod
    def problem_on(self, models: Any, objective: SoftRobust) -> Any:
        """Models that are there, with what the domain knows where they do not bring it."""

    def problem(
        self,
        seed: int = 0,
        n_models: int | None = None,
        objective: SoftRobust | None = None,
        fitted: Any = None,
    ) -> Any:
        """Collect, fit, draw `n_models`; `fitted` skips the first two."""
        return self.split_problem(seed, n_models, 0, objective, fitted)[0]

    def split_problem(
        self,
        seed: int = 0,
        n_models: int | None = None,
        n_test: int = 100,
        objective: SoftRobust | None = None,
        fitted: Any = None,
    ) -> tuple[Any, Any]:
        """A problem on the first `n_models` draws, and `n_test` further draws (or None) to test on.

        Without `n_models` there are as many as in the paper (`paper_models`).
        """
        log_seed, draw_seed = np.random.SeedSequence(seed).spawn(2)
        if fitted is None:
            fitted = self.posterior().fit(self.collect(np.random.default_rng(log_seed)))
        n = self.paper_models if n_models is None else n_models
        models, test = fitted.sample(n + n_test, np.random.default_rng(draw_seed)), None
        if n_test:
            models, test = models.split(n)
        return self.problem_on(models, self.paper_goal if objective is None else objective), test


class TabularDomain(Domain):
    """A domain with finitely many states."""

    __slots__ = ()

    @abstractmethod
    def frame(self) -> Frame:
        """States, actions, rewards, start and discount."""

    @abstractmethod
    def true_model(self) -> ModelSet:
        """P* as a set of one model, with rewards, start and discount."""

    @abstractmethod
    def step(self, s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        """Next states (n,) of states and actions (n,), simulated by the domain's own mechanism."""

    @abstractmethod
    def collect(self, seed: Seed = 0) -> TransitionLog:
        """The batch of the paper, drawn with `seed`."""

    def problem_on(self, models: ModelSet, objective: SoftRobust) -> Problem:
        """The domain's rewards, start and discount go with models that bring none."""
        frame = self.frame()
        return Problem(
            models,
            rewards=frame.rewards if models.rewards is None else None,
            p0=frame.p0 if models.p0 is None else None,
            gamma=frame.gamma if models.gamma is None else None,
            objective=objective,
        )

    def roll_out(
        self, behaviour: Policy | ArrayLike, start: int, steps: int, seed: Seed = 0,
        step: Callable[[IntArray, IntArray, np.random.Generator], IntArray] | None = None,
    ) -> TransitionLog:  # fmt: skip
        """One episode of `steps` transitions from the state of index `start`.

        `behaviour` is a policy, or its probabilities (n_states, n_actions); `step` moves instead of
        the domain's own.
        """
        rng = np.random.default_rng(seed)
        frame = self.frame()
        probs = np.asarray(getattr(behaviour, "probs", behaviour), dtype=np.float64)
        if probs.shape != (len(frame.states), len(frame.actions)):
            raise InputError(
                f"The behaviour needs shape {(len(frame.states), len(frame.actions))}; it has "
                f"{probs.shape}."
            )
        whole("start", start, 0, len(frame.states) - 1, "It is the index of a state.")
        whole("steps", steps, hint="An episode needs at least one step.")
        refuse_if_too_large(100.0 * steps, f"An episode of {steps} steps", "Set fewer steps.")
        s, a, s_next = (np.empty(steps, np.int64) for _ in range(3))
        now = np.array([start])
        for t in range(steps):
            s[t], a[t] = now[0], rng.choice(probs.shape[1], p=probs[now[0]])
            now = (step or self.step)(now, a[t : t + 1], rng)
            s_next[t] = now[0]
        if frame.rewards is None:
            raise InputError(f"The domain {self.name} has no rewards.")
        names, words = list(frame.states), list(frame.actions)
        log = TransitionLog.from_arrays(
            [names[i] for i in s],
            [words[i] for i in a],
            [names[i] for i in s_next],
            frame.rewards.at(s, a, s_next)[0],
            np.zeros(steps, np.int64),
            state_names=frame.states,
            action_names=frame.actions,
            source=f"the log of {self.name}",
        )
        # The domain's rewards are known for all pairs, not only for those of the log.
        return log.with_rewards(frame.rewards)


def optimal_policy(models: ModelSet) -> FloatArray:
    """(n_states, n_actions) probabilities of an optimal decision of a set of one model."""
    from softrobust.returns import optimal_returns  # the kernels take a second to load

    decision = optimal_returns(Problem(models)).decisions[0]
    return np.asarray(np.eye(models.n_actions)[decision])
