"""Why this action here: what the other actions would earn, and which models make the difference.

For a state s and each allowed action a, two kinds of figures:

    exchange    objective, mean and CVaR of the policy that takes a in s and is otherwise unchanged
    Q           Σ_ω w_ω Q^ω(s, a): a taken once, then the policy; w the models' own weights f, and
                the weights q of CVaR's tail, which average over the worst 1 − α of models

They can disagree, for Q looks at the models that are the worst for the policy as it is, while the
exchanged policy has worst models of its own, and meets the state more or less often.

The worst-case ξ = (1 − λ)f + λq ∈ Ξ attains ρ^S (eq. 4.2): models it weighs more than f does are
those the policy is protected against. What they have in common at (s, a) is shown as the next
states whose probability differs most between the tail's average and the mean model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.settings import instance
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import Objective, tail_weights
from softrobust.problem import Problem
from softrobust.returns import measured, returns_of
from softrobust.returns.evaluation import (
    action_values,
    averaged,
    evaluate_policy,
    horizon_values_of,
    total_time,
)
from softrobust.solvers import Nominal, behaviour_policy
from softrobust.study.solved import need_stationary

SHOWN_MODELS = 5
SHOWN_NEXT = 3
SAME = 1e-9  # a spread below this share of the size is rounding
PLAIN = ("is_practice", "value", "mean", "cvar", "visits")  # what a record has as it is
FIGURES = ("objective", "mean", "cvar")


@final
@dataclass(frozen=True, slots=True)
class Option:
    """One action in the state.

    `objective`, `mean` and `cvar` are those of the whole policy with this action exchanged;
    `q_mean` and `q_worst` the action's value, over all models and over the tail's.
    """

    action: str
    chosen: float
    objective: float
    mean: float
    cvar: float
    q_mean: float
    q_worst: float
    seen: int | None
    practice: float | None
    nominal: bool


@final
@dataclass(frozen=True, slots=True)
class Shift:
    """A next state that is more or less probable in the tail's models than on average."""

    next_state: str
    mean: float
    worst: float


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the policy does what it does in one state."""

    state: str
    # the actions taken here, the most probable first, and their probabilities
    mix: dict[str, float]
    # whether that is what the log shows, chance by chance; None without a log
    is_practice: bool | None
    options: tuple[Option, ...]  # the allowed actions, the best exchange first
    # (ω, ξ_ω, return): the models that the worst case weighs most
    models: tuple[tuple[int, float, float], ...]
    # what happens after what is done here in the worst case that the mean model does not expect
    shifts: tuple[Shift, ...]
    visits: float  # share of the time spent here, over the models; of discounted time where it is
    discounted: bool
    # value, mean, cvar: the policy's objective, mean and bad case on these models
    value: float
    mean: float
    cvar: float
    # q_mean, q_worst: the state's own value, over all models and over the tail's
    q_mean: float
    q_worst: float
    objective: Objective
    # mean given up and bad case gained by the whole policy against nominal, on these models
    price: dict[str, float]

    @property
    def action(self) -> str | None:
        """The one action that is taken here; None where there are several."""
        return next(iter(self.mix)) if len(self.mix) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; returns are less those of the `reference`, if any."""
        return {
            "state": self.state,
            "reference": self.objective.against,
            "action": self.action,
            "probabilities": dict(self.mix),
            **{name: getattr(self, name) for name in PLAIN},
            "options": [
                {
                    "action": o.action, "probability": o.chosen, "objective": o.objective,
                    "change": o.objective - self.value, "change_mean": o.mean - self.mean,
                    "change_cvar": o.cvar - self.cvar, "q_mean": o.q_mean, "q_worst": o.q_worst,
                    "seen": o.seen, "practice": o.practice, "nominal": o.nominal,
                }
                for o in self.options
            ],
            "worst_models": [
                {"model": i, "weight": w, "return": r} for i, w, r in self.models
            ],
            "shifts": [asdict(x) for x in self.shifts],
            "price_of_robustness": dict(self.price),
        }  # fmt: skip


@names_arguments
def explain(
    problem: Problem, policy: Policy, state: str | int, log: TransitionLog | None = None
) -> Explanation:
    """Explain the policy's choice in a state, by its label."""
    instance("problem", problem, Problem)
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
    need_stationary(policy, "An explanation")
    v, h = evaluate_policy(problem, policy)
    returns = measured(problem, v @ problem.p0)
    f = problem.models.f
    xi = np.asarray(problem.objective.worst_case(returns, f))
    tail = tail_weights(returns, f, problem.objective.alpha)
    live = returns[f > 0]
    if np.ptp(live) <= SAME * np.abs(live).max():  # any models could be called the worst: none are
        xi = tail = f
    ends = problem.horizon is not None  # values are then those of the first step
    q = action_values(problem, horizon_values_of(problem, policy, every=True)[1] if ends else v)
    visits = (f @ h) / total_time(problem)
    own = problem.objective.summary(returns, f)
    nominal = Nominal().solve(problem)
    other = problem.objective.summary(returns_of(problem, nominal.policy).x, f)
    price = {name: own[name] - other[name] for name in ("mean", "cvar")}
    shares = averaged(problem, nominal.policy)
    top = [int(i) for i in np.lexsort((returns, -(xi - (1 - problem.objective.lam) * f)))]
    shown = [] if xi is f else top[:SHOWN_MODELS]
    models = tuple((i, float(xi[i]), float(returns[i])) for i in shown if xi[i] > 0)
    usual = None if log is None else behaviour_policy(problem, log)[0].probs
    common: dict[str, Any] = {"models": models, "objective": problem.objective, "price": price}
    common |= {"value": own["objective"], "mean": own["mean"], "cvar": own["cvar"]}
    out = []
    for s in states:
        row = policy.probs[s]
        out.append(
            Explanation(
                state=problem.models.states[s],
                mix=dict(sorted(policy.mix(s).items(), key=lambda taken: -taken[1])),
                is_practice=None if usual is None else bool(np.abs(row - usual[s]).max() <= SAME),
                options=_options(problem, policy, s, q, tail, shares, log),
                shifts=_shifts(problem, s, row, tail),
                visits=float(visits[s]),
                discounted=problem.gamma < 1,
                q_mean=float(f @ v[:, s]),
                q_worst=float(tail @ v[:, s]),
                **common,
            )
        )
    return out


def _options(
    problem: Problem, policy: Policy, s: int, q: FloatArray, tail: FloatArray, nominal: Policy,
    log: TransitionLog | None,
) -> tuple[Option, ...]:  # fmt: skip
    found, f = [], problem.models.f
    for a in np.flatnonzero(problem.allowed[s]):
        probs = policy.probs.copy()
        probs[s] = 0.0
        probs[s, a] = 1.0
        returns = returns_of(problem, replace(policy, probs=probs)).x
        summary = problem.objective.summary(returns, f)
        found.append(
            Option(
                action=problem.models.actions[int(a)],
                chosen=float(policy.probs[s, a]),
                **{name: summary[name] for name in FIGURES},
                q_mean=float(f @ q[:, s, a]),
                q_worst=float(tail @ q[:, s, a]),
                seen=None if log is None else int(log.pair_counts[s, a]),
                practice=None if log is None else float(log.behaviour[s, a]),
                nominal=int(nominal.decision[s]) == int(a),
            )
        )
    return tuple(sorted(found, key=lambda o: -o.objective))


def _shifts(problem: Problem, s: int, row: FloatArray, tail: FloatArray) -> tuple[Shift, ...]:
    """Next states after `row` that the tail changes most, by a percentage point or more."""
    models = problem.models
    own = [(row[a], *models.block(s, int(a))) for a in np.flatnonzero(row > 0)]
    columns = np.unique(np.concatenate([to for _, to, _ in own]))
    mean, worst = np.zeros(columns.size), np.zeros(columns.size)
    for share, to, block in own:
        at = np.searchsorted(columns, to)
        mean[at] += share * (models.f @ block)
        worst[at] += share * (tail @ block)
    order = np.argsort(-np.abs(worst - mean), kind="stable")[:SHOWN_NEXT]
    return tuple(
        Shift(models.states[int(columns[j])], float(mean[j]), float(worst[j]))
        for j in order
        if abs(worst[j] - mean[j]) >= 0.01
    )
