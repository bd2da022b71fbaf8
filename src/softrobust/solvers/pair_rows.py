"""What nature moves in an ambiguity set: one nominal row per pair, with the rewards beside it.

Which next states may the worst case use? The paper and Petrik and Russel (2019) write the simplex
over all states. Their group's code lets nature move mass only among next states of positive nominal
probability, and so do we by default (`support="models"`): every model of the set lives there, so a
set that contains P* with probability α still does, stock that was never there cannot appear, and
rewards are known there. `support="all"` is the text's simplex.

Rewards stand at the transition, z = r(s,a,s′) + γv(s′). Where they differ by model, r(s,a,s′) is
Σ_ω f P̂^ω r^ω / Σ_ω f P̂^ω, with which the nominal row has the mean reward. States that the data
never left stay where they are with reward 0, whatever the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Support = Literal["models", "all"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Nominal rows of the pairs that may be taken; other pairs list nothing.

    Attributes
    ----------
    indptr : (n_states·n_actions + 1,), next_states, p, r : (nnz,)
        Lists, nominal probabilities and rewards of the transitions, laid out like `ModelSet`.
    live : (n_states·n_actions,) bool
        Pairs that nature may move: allowed, and not of a state that the data never left.
    n_states : int
    """

    indptr: IntArray
    next_states: NDArray[np.int32]
    p: FloatArray
    r: FloatArray
    live: NDArray[np.bool_]
    n_states: int

    @property
    def keys(self) -> IntArray:
        """pair·n_states + s′ of every entry, ascending."""
        pair = np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))
        return pair * self.n_states + self.next_states

    @property
    def width(self) -> int:
        """The longest list."""
        return int(np.diff(self.indptr).max(initial=0))

    @property
    def deviation(self) -> float:
        """The largest |row sum − 1|, with the rounding of the sum itself."""
        used = np.diff(self.indptr) > 0
        sums = np.add.reduceat(self.p, self.indptr[:-1][used])
        return float(np.abs(sums - 1).max()) + float(np.finfo(float).eps) * (self.width + 2)


def model_keys(models: ModelSet, which: NDArray[np.bool_] | None = None) -> IntArray:
    """pair·n_states + s′ of the listed next states, ascending; only the chosen entries."""
    pair = np.repeat(np.arange(models.indptr.size - 1), np.diff(models.indptr))
    keys = pair * models.n_states + models.next_states
    return np.asarray(keys if which is None else keys[which], dtype=np.int64)


def pair_rows(
    problem: Problem,
    centre: ModelSet | None = None,
    support: Support = "models",
    more: IntArray | None = None,
) -> PairRows:
    """The nominal rows of a problem.

    Parameters
    ----------
    centre : ModelSet, optional
        One model (its mean, if several); the mean of the problem's models by default.
    support : "models" or "all"
        Where nature may put mass: next states that the nominal row or a model of positive weight
        reaches, or all states.
    more : (n,), optional
        Keys of further next states (see `model_keys`), such as those that other draws reach.
    """
    S, A = problem.n_states, problem.n_actions
    sinks = np.repeat(problem.models.sinks, A)
    live = problem.allowed.reshape(-1) & ~sinks
    own = problem.models.mean_model()
    at = own if centre is None else _centre(problem, centre)
    listed, p = model_keys(at), at.prob
    if support == "all":
        refuse_if_too_large(40.0 * live.sum() * S, "Rows over all states", "Use support='models'.")
        keys = (np.flatnonzero(live)[:, None] * S + np.arange(S)).reshape(-1)
    elif support == "models":
        parts = [listed[p > 0], model_keys(own, own.prob > 0), more]
        keys = np.unique(np.concatenate([x for x in parts if x is not None]))
        keys = keys[live[keys // S]]
    else:
        raise InputError(f"support must be 'models' or 'all'; it is {support!r}.")
    stay = np.flatnonzero(problem.allowed.reshape(-1) & sinks)
    keys = np.sort(np.concatenate([keys, stay * S + stay // A]))
    rows = _at(listed, p, keys)
    moves = live[keys // S]
    rows[~moves] = 1.0
    r = np.zeros(keys.size)
    r[moves] = transition_rewards(problem, keys[moves])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys // S, minlength=S * A))])
    return PairRows(indptr, (keys % S).astype(np.int32), rows, r, live, S)


def _centre(problem: Problem, centre: ModelSet) -> ModelSet:
    check_like(problem, centre, "The centre of the ambiguity sets")
    return centre if centre.n_models == 1 else centre.mean_model()


def check_like(problem: Problem, models: ModelSet, what: str) -> None:
    """Raise unless `models` have the problem's labels and transitions for all its pairs."""
    m = problem.models
    if models.states != m.states or models.actions != m.actions:
        raise InputError(
            f"{what} must have the states and actions of the problem ({m.n_states} and "
            f"{m.n_actions}); it has {models.n_states} and {models.n_actions}, or other labels."
        )
    missing = np.argwhere(problem.allowed & ~models.available)
    if missing.size:
        s, a = missing[0]
        raise InputError(
            f"{what} must know every allowed pair: state '{m.states[s]}', action "
            f"'{m.actions[a]}' has no transitions there."
        )


def _at(listed: IntArray, values: FloatArray, keys: IntArray) -> FloatArray:
    """Values of the ascending keys `listed` at `keys`, 0 where they are not listed."""
    place = np.minimum(np.searchsorted(listed, keys), listed.size - 1)
    return np.where(listed[place] == keys, values[place], 0.0)


def transition_rewards(problem: Problem, keys: IntArray) -> FloatArray:
    """r(s,a,s′) of the keys pair·n_states + s′; an unknown one is an error."""
    S, A = problem.n_states, problem.n_actions
    if problem.rewards.per_model is not None:
        value, known = _mean_rewards(problem, keys)
    else:
        value, known = problem.rewards.lookup(keys // S, keys % S)
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        pair, s_next = divmod(int(keys[i]), S)
        m = problem.models
        raise InputError(
            "An ambiguity set needs the reward of every transition that nature may choose: state "
            f"'{m.states[pair // A]}', action '{m.actions[pair % A]}', next state "
            f"'{m.states[s_next]}' has none ({int((~known).sum())} such transitions). Use "
            "support='models', or give a reward table with a default."
        )
    return value


def _mean_rewards(problem: Problem, keys: IntArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Σ f P r / Σ f P at the keys (Σ f r where no model gets there), and whether it is listed."""
    m, per_model = problem.models, problem.rewards.per_model
    assert per_model is not None
    mean = np.empty(m.next_states.size)
    for k in range(m.indptr.size - 1):
        lo, hi = m.indptr[k], m.indptr[k + 1]
        P = m.prob[lo * m.n_models : hi * m.n_models].reshape(m.n_models, hi - lo)
        r = per_model[lo * m.n_models : hi * m.n_models].reshape(P.shape)
        mass = m.f @ P
        with np.errstate(divide="ignore", invalid="ignore"):
            mean[lo:hi] = np.where(mass > 0, m.f @ (P * r) / mass, m.f @ r)
    listed = model_keys(m)
    place = np.minimum(np.searchsorted(listed, keys), listed.size - 1)
    known = listed[place] == keys
    return np.where(known, mean[place], 0.0), known
