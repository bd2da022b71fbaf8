"""Why this action here: what the other actions would earn, and which models make the difference.

For a state s and each allowed action a, two figures:

    exchange    ρ^S of the policy that takes a in s and is otherwise unchanged, exact
    Q           Σ_ω w_ω Q^ω(s, a) under the models' weights f and under the worst-case weights ξ

The worst-case ξ ∈ Ξ is the one that attains ρ^S (eq. 4): the models it weighs are those the policy
is protected against. What they have in common at (s, a) is shown as the next states whose
probability differs most between the ξ-average and the mean model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.returns import evaluate_policy, static_return
from softrobust.returns.gradient import action_values
from softrobust.solvers.nominal import Nominal

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
SHOWN_MODELS = 5
SHOWN_NEXT = 3


@final
@dataclass(frozen=True, slots=True)
class Option:
    """One action in the state."""

    action: str
    chosen: float
    objective: float
    q_mean: float
    q_worst: float
    seen: int | None
    practice: float | None
    nominal: bool


@final
@dataclass(frozen=True, slots=True)
class Shift:
    """A next state that the worst-case models make more or less probable."""

    next_state: str
    mean: float
    worst: float


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the policy does what it does in one state.

    Attributes
    ----------
    options : tuple of Option
        The allowed actions, the best exchange first.
    models : tuple of (ω, ξ_ω, return)
        The models that the worst case weighs most.
    shifts : tuple of Shift
        What happens after the chosen action in the worst case that the mean model does not expect.
    visits : float
        Share of discounted time spent here, over the models.
    price : dict
        Mean given up and bad case gained by the whole policy against nominal.
    """

    state: str
    action: str
    options: tuple[Option, ...]
    models: tuple[tuple[int, float, float], ...]
    shifts: tuple[Shift, ...]
    visits: float
    value: float
    words: str
    price: dict[str, float]

    def sentences(self) -> list[str]:
        """In words, one a line."""
        lines = [
            f"In '{self.state}' the policy takes '{self.action}'. "
            f"{100 * self.visits:.1f} % of (discounted) time is spent here."
        ]
        others = [o for o in self.options if o.action != self.action]
        if not others:
            lines.append("It is the only action allowed here.")
        for o in others:
            change = o.objective - self.value
            word = "gain" if change > 0 else "cost"
            lines.append(
                f"Taking '{o.action}' instead would {word} {abs(change):.3g} by the objective"
                + self._because(o)
            )
        if self.shifts:
            moves = "; ".join(
                f"'{x.next_state}' {100 * x.mean:.0f} % → {100 * x.worst:.0f} %"
                for x in self.shifts
            )
            lines.append(f"In {self.words}, '{self.action}' leads more or less often to: {moves}.")
        lines.append(self._price())
        return lines

    def _because(self, o: Option) -> str:
        own = next(x for x in self.options if x.action == self.action)
        mean, worst = o.q_mean - own.q_mean, o.q_worst - own.q_worst
        seen = "" if o.seen is None else f"; it was seen {o.seen} times here"
        return (
            f", the rest of the policy unchanged. One such decision is worth {mean:+.3g} on "
            f"average over the models and {worst:+.3g} under the worst-case weights{seen}."
        )

    def _price(self) -> str:
        mean, bad = self.price["mean"], self.price["cvar"]
        if abs(mean) + abs(bad) <= 1e-9 * max(abs(self.value), 1e-300):
            return "The whole policy earns what the nominal policy earns."
        return (
            f"Against the nominal policy the whole policy earns {mean:+.3g} on average and "
            f"{bad:+.3g} in {self.words}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "state": self.state,
            "action": self.action,
            "value": self.value,
            "visits": self.visits,
            "options": [
                {
                    "action": o.action, "probability": o.chosen, "objective": o.objective,
                    "change": o.objective - self.value, "q_mean": o.q_mean, "q_worst": o.q_worst,
                    "seen": o.seen, "practice": o.practice, "nominal": o.nominal,
                }
                for o in self.options
            ],
            "worst_models": [
                {"model": i, "weight": w, "return": r} for i, w, r in self.models
            ],
            "shifts": [
                {"next_state": x.next_state, "mean": x.mean, "worst": x.worst} for x in self.shifts
            ],
            "price_of_robustness": dict(self.price),
        }  # fmt: skip


def explain(
    problem: Problem, policy: Policy, state: str | int, log: TransitionLog | None = None
) -> Explanation:
    """Explain the policy's choice in a state, by its label."""
    s = problem.models.states.index(state)
    if not problem.decided[s]:
        raise InputError(
            f"In state '{problem.models.states[s]}' nothing is decided: it was never left in the "
            "data."
        )
    return explain_many(problem, policy, [s], log)[0]


def explain_many(
    problem: Problem, policy: Policy, states: list[int], log: TransitionLog | None = None
) -> list[Explanation]:
    """Explanations of several states, by index: what they share is computed once."""
    v, h = evaluate_policy(problem, policy)
    returns = v @ problem.p0
    f = problem.models.f
    xi = np.asarray(problem.objective.worst_case(returns, f))
    q = action_values(problem, v)
    visits = (f @ h) * (1 - problem.gamma)
    value = problem.objective.value(returns, f)
    nominal = Nominal().solve(problem)
    price = _price(problem, returns, nominal.policy)
    top = [int(i) for i in np.lexsort((returns, -(xi - (1 - problem.objective.lam) * f)))]
    models = tuple((i, float(xi[i]), float(returns[i])) for i in top[:SHOWN_MODELS] if xi[i] > 0)
    out = []
    for s in states:
        a = int(policy.decision[s])
        options = _options(problem, policy, s, q, xi, nominal.policy, log)
        out.append(
            Explanation(
                state=problem.models.states[s],
                action=problem.models.actions[a],
                options=options,
                models=models,
                shifts=_shifts(problem, s, a, xi),
                visits=float(visits[s]),
                value=value,
                words=problem.objective.words,
                price=price,
            )
        )
    return out


def _options(
    problem: Problem, policy: Policy, s: int, q: FloatArray, xi: FloatArray, nominal: Policy,
    log: TransitionLog | None,
) -> tuple[Option, ...]:  # fmt: skip
    found = []
    for a in np.flatnonzero(problem.allowed[s]):
        probs = policy.probs.copy()
        probs[s] = 0.0
        probs[s, a] = 1.0
        found.append(
            Option(
                action=problem.models.actions[int(a)],
                chosen=float(policy.probs[s, a]),
                objective=static_return(problem, replace(policy, probs=probs)),
                q_mean=float(problem.models.f @ q[:, s, a]),
                q_worst=float(xi @ q[:, s, a]),
                seen=None if log is None else int(log.pair_counts[s, a]),
                practice=None if log is None else float(log.behaviour[s, a]),
                nominal=int(nominal.decision[s]) == int(a),
            )
        )
    return tuple(sorted(found, key=lambda o: -o.objective))


def _shifts(problem: Problem, s: int, a: int, xi: FloatArray) -> tuple[Shift, ...]:
    """Next states whose probability the worst case moves most, by at least a percentage point."""
    columns, block = problem.models.block(s, a)
    mean, worst = problem.models.f @ block, xi @ block
    order = np.argsort(-np.abs(worst - mean), kind="stable")[:SHOWN_NEXT]
    return tuple(
        Shift(problem.models.states[int(columns[j])], float(mean[j]), float(worst[j]))
        for j in order
        if abs(worst[j] - mean[j]) >= 0.01
    )


def _price(problem: Problem, returns: FloatArray, nominal: Policy) -> dict[str, float]:
    from softrobust.returns import policy_return

    f = problem.models.f
    own = problem.objective.summary(returns, f)
    other = problem.objective.summary(policy_return(problem, nominal), f)
    return {"mean": own["mean"] - other["mean"], "cvar": own["cvar"] - other["cvar"]}
