"""Rewards r(s, a, s′) of continuous states whose expectation over s′ is known in closed form.

    r = constant + now·s + next·s′ + s′ᵀ·square·s′ + action[a]

With independent entries of s′ only their first two moments enter: E[s′ᵢs′ⱼ] = E[s′ᵢ]·E[s′ⱼ] for
i ≠ j. Calls use operators that NumPy and JAX both understand. Any other callable of (s, a, s′) can
be a reward, too; its expectation is then estimated from draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arrays import FloatArray, Sealed, frozen, shaped
from softrobust.data.continuous import ContinuousLog
from softrobust.errors import InputError

RewardFunction = Callable[[Any, Any, Any], Any]


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class LinearReward(Sealed):
    """r(s, a, s′) linear in s and s′, with optional squares of s′ and a number per action.

    `now` and `next` are (n_variables,), `action` is (n_actions,); `square`, the coefficients of
    products of entries of s′, is (n_variables, n_variables), or a vector that is its diagonal.

    Examples
    --------
    >>> tumour = LinearReward(now=[0.0, 1.0], next=[-0.5, -1.0])
    >>> float(tumour(np.array([0.0, 40.0]), 1, np.array([1.0, 38.0])))
    1.5
    """

    now: FloatArray
    next: FloatArray
    action: FloatArray | None
    square: FloatArray | None
    constant: float

    def __init__(
        self,
        now: ArrayLike,
        next: ArrayLike,  # noqa: A002 (as the paper's s′ is "next" everywhere here)
        action: ArrayLike | None = None,
        square: ArrayLike | None = None,
        constant: float = 0.0,
    ) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        d = np.size(now)
        if square is not None and np.ndim(square) == 1:
            square = np.diag(np.asarray(square, dtype=np.float64))
        given = {"now": (now, (d,)), "next": (next, (d,)), "square": (square, (d, d))}
        for name, (value, shape) in given.items():
            if value is not None:
                value = shaped(f"The reward's '{name}'", value, np.float64, shape)
            put(self, name, value)
        put(self, "action", None if action is None else frozen(action, np.float64))
        put(self, "constant", float(constant))
        parts = [self.now, self.next, self.action, self.square, np.array(self.constant)]
        if not all(np.isfinite(part).all() for part in parts if part is not None):
            raise InputError("The coefficients of a reward must be finite numbers.")

    def __call__(self, s: Any, a: Any, s_next: Any) -> Any:
        """r for states (…, n_variables), action indices (…) and next states (…, n_variables)."""
        # Sums over few variables, written out: they fuse, and keep full precision on a GPU.
        out = (s * self.now).sum(-1) + (s_next * self.next).sum(-1) + self.constant
        if self.square is not None:
            out = out + ((s_next[..., None, :] * self.square).sum(-1) * s_next).sum(-1)
        if self.action is not None:
            out = out + sum(float(c) * (a == k) for k, c in enumerate(self.action))
        return out

    def expected(self, s: Any, a: Any, first: FloatArray, second: FloatArray) -> FloatArray:
        """E[r] from E[s′] and E[s′²], both (…, n_variables) with independent entries of s′."""
        out = self(s, a, first)
        if self.square is not None:
            out = out + (second - first**2) @ np.diag(self.square)
        return np.asarray(out)

    @property
    def degree(self) -> int:
        """Of r as a polynomial in s′."""
        return 1 if self.square is None else 2

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All coefficients, under `reward_…`."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {f"reward_{name}": np.asarray(x) for name, x in named.items() if x is not None}

    @classmethod
    def of_arrays(cls, arrays: Any) -> LinearReward:
        """The inverse of `arrays`."""
        named = {name: arrays.get(f"reward_{name}") for name in cls.__slots__}
        return cls(**{**named, "constant": float(arrays["reward_constant"])})


@final
class FittedReward(NamedTuple):
    """A linear reward, the share of the rewards' variance explained, and what an end adds."""

    reward: LinearReward
    r2: float
    end: float = 0.0


def fit_linear_reward(log: ContinuousLog) -> FittedReward:
    """Least squares of the log's reward column on (1, s, s′, a), and on ends where there are any.

    A share below 1 says that the rewards of the log are not linear in the variables: what is
    maximised is then the fit, not the rewards.
    """
    if log.reward is None:
        raise InputError(
            f"{log.rows.source} has no column 'reward', and a policy needs to know what is good. "
            "Add it, or give the reward itself.",
            arguments={"reward_now": "", "reward_next": ""},
        )
    bad = np.flatnonzero(~np.isfinite(log.reward))
    if bad.size:
        raise InputError(
            f"Rewards must be finite numbers: {log.rows.where(int(bad[0]))} has "
            f"{log.reward[bad[0]]}. Remove or complete the row."
        )
    d, A = len(log.variables), len(log.actions)
    taken = np.eye(A)[log.a]
    X = np.concatenate([log.s, log.s_next, taken], axis=1)
    over = np.zeros(len(log)) if log.terminal is None else log.terminal.astype(np.float64)
    ends = 0 < over.sum() < over.size
    if ends:
        X = np.column_stack([X, over])
    size = np.maximum(np.sqrt((X**2).mean(axis=0)), 1e-300)
    w = np.linalg.lstsq(X / size, log.reward, rcond=None)[0] / size
    left, spread = float(np.var(log.reward - X @ w)), float(np.var(log.reward))
    action = w[2 * d : 2 * d + A]
    constant = float(action.mean())
    reward = LinearReward(w[:d], w[d : 2 * d], action - constant, constant=constant)
    r2 = 1.0 if spread == 0 else 1.0 - left / spread
    return FittedReward(reward, r2, float(w[-1]) if ends else 0.0)
