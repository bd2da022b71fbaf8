"""What projected value iteration hands over: a policy that needs nothing else, and what to know.

Exact lookahead is kept in the policy where models, reward and features can be stored as arrays;
else the action values against nature's answer are fitted, q_a(s) = φ(s)ᵀw_a, and the share of
states where the fit decides otherwise is reported.

With drawn next states the update has a bias, for CVaR picks models whose draws were unlucky. It is
measured on the last batch against the exact update, or where there is none by halving the draws:
a bias of order 1/k shows as the difference between the mean of two halves and the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.models.expectation import ClosedForm, Expectation, Sampled, expectation_of
from softrobust.models.features import Features
from softrobust.models.lookahead import LinearPolicy, LookaheadPolicy, Update
from softrobust.solvers.regression import feature_matrix, regress

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous_policy import ContinuousPolicy

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The last weights w, and how they are read."""

    problem: ContinuousProblem
    update: Update
    expectation: Expectation
    features: Any
    w: FloatArray

    def exact(self) -> Expectation | None:
        """Expected values without noise, where they exist."""
        if self.expectation.exact:
            return self.expectation
        try:
            return expectation_of(self.problem.models, self.problem.reward, self.features, None)
        except InputError:
            return None  # draws are all there is

    def value(self, by: Expectation, s: FloatArray, rng: np.random.Generator) -> FloatArray:
        """σ at states s."""
        return self.update.decide(by.values(s, self.w, self.problem.gamma, rng)).value


def final_policy(
    answer: Answer, s: FloatArray, ridge: float, rng: np.random.Generator
) -> tuple[ContinuousPolicy, dict[str, Any]]:
    """The policy, and what is to be said of it; s are states to fit on where a fit is needed."""
    exact, p = answer.exact(), answer.problem
    if isinstance(exact, ClosedForm) and isinstance(exact.features, Features):
        policy = LookaheadPolicy(exact, answer.w, p.gamma, answer.update)
        return policy, {"policy": "exact lookahead"}
    by = answer.expectation if exact is None else exact
    decision = answer.update.decide(by.values(s, answer.w, p.gamma, rng))
    worth = np.where(p.allowed, decision.worth, decision.lower[:, None])
    W = regress(feature_matrix(answer.features, s), worth, ridge, "the last batch")
    fitted = LinearPolicy(answer.features, W, p.variables, p.actions, p.allowed)
    off = 1.0 - float((fitted.probs(s) * decision.d).sum(axis=1).mean())
    said = {"policy": "linear fit of action values", "policy_disagreement": max(off, 0.0)}
    return fitted, said


def sampling_bias(answer: Answer, s: FloatArray, rng: np.random.Generator) -> dict[str, Any]:
    """How much too low (negative) or high drawn next states make σ on states s, on average."""
    sampled, exact = answer.expectation, answer.exact()
    assert isinstance(sampled, Sampled)  # asked for only then
    whole = answer.value(sampled, s, rng)
    if exact is not None:
        off, against = whole - answer.value(exact, s, rng), "exact expectations"
    else:
        half = Sampled(sampled.models, sampled.reward, sampled.features, sampled.k // 2)
        off = 0.5 * (answer.value(half, s, rng) + answer.value(half, s, rng)) - whole
        against = "halves of the draws"
    return {
        "samples": sampled.k,
        "sampling_bias": float(off.mean()),
        "sampling_bias_se": float(off.std(ddof=1) / np.sqrt(off.size)),
        "sampling_bias_against": against,
    }
