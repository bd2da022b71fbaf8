"""A world whose truth is known: what a policy chosen from a log really earns.

    world.draw_log(size, seed)  →  D, as a user has it
    world.true_return(π, D)     →  ρ(π, P*);    world.practice_return, world.optimum

A world is a finite model of *full* states; people see `observed[h]` of full state h. In most worlds
that is all there is. In a confounded one several full states look alike, practice knows which one
it is in, and a policy of the log's states cannot: both are evaluated on the full model. A log holds
what a user would have: labels, rewards with their noise, episodes, true ends; never the list of
all states, nor the true start.

A policy is put to work as people would: where it says nothing (a state that the log never left), or
the very shares of the log ("as before"), practice goes on.

`optimum` is the best that a policy of observed states can earn: by policy iteration where nothing
is hidden, else over all deterministic policies.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import cast, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, frozen
from softrobust.data import TransitionLog
from softrobust.data.labels import OfStates
from softrobust.errors import InputError
from softrobust.models.policy import Policy

SAME = 1e-12  # shares closer than this are the same shares
_EVERY = cast("IntArray", None)  # defaults that __post_init__ fills in
_NONE = cast("BoolArray", None)
MOST_POLICIES = 100_000  # a hidden world must be small enough to try every deterministic policy


@final
@dataclass(frozen=True)
class Size:
    """How much is logged: `episodes` of at most `steps` rows each."""

    episodes: int
    steps: int

    @property
    def most_rows(self) -> int:
        """Rows if no episode ends early; names the size."""
        return self.episodes * self.steps


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class World(OfStates):
    """A world with a known truth."""

    # name, kinds, about: kind words ("ordered", "noisy rewards", …) and a sentence
    name: str
    kinds: tuple[str, ...]
    about: str
    # states, actions: labels as they stand in a log
    states: tuple[str, ...]
    actions: tuple[str, ...]
    P: FloatArray  # (n_full, n_actions, n_full): transition probabilities of full states
    r: FloatArray  # (n_full, n_actions, n_full): mean rewards
    p0: FloatArray  # (n_full,): where episodes start
    gamma: float
    practice: FloatArray  # (n_full, n_actions): what people do, knowing the full state
    sizes: tuple[Size, Size, Size]  # short, middle and long logs
    # (n_full, n_actions): standard deviation of normal noise on the logged reward; 0 where there is
    # none
    noise: FloatArray = field(default_factory=lambda: np.zeros(()))
    binary: bool = False  # logged rewards are 0 or 1 with mean r
    # (n_full,) int: index into `states` of what is seen; every state in turn by default
    observed: IntArray = _EVERY
    # (n_full,) bool: states in which an episode is over; nothing is earned there
    ends: BoolArray = _NONE

    def __post_init__(self) -> None:
        n, A = self.P.shape[0], len(self.actions)
        observed = np.arange(n) if self.observed is None else self.observed
        ends = np.zeros(n, bool) if self.ends is None else self.ends
        over = ends[:, None, None]
        P = np.where(over, np.eye(n)[:, None, :], self.P)
        r = np.where(over, 0.0, np.broadcast_to(self.r, (n, A, n)))
        given = {"P": P, "r": r, "noise": np.broadcast_to(self.noise, (n, A)), "p0": self.p0,
                 "practice": self.practice, "observed": observed, "ends": ends}  # fmt: skip
        kinds = {"observed": np.int64, "ends": np.bool_}
        for name, value in given.items():
            object.__setattr__(self, name, frozen(value, kinds.get(name, np.float64)))
        self._check(n, A)

    def _check(self, n: int, A: int) -> None:
        shapes = {"P": (n, A, n), "p0": (n,), "practice": (n, A), "observed": (n,), "ends": (n,)}
        for name, shape in shapes.items():
            found = getattr(self, name).shape
            if found != shape:
                raise InputError(
                    f"World '{self.name}': {name} needs shape {shape}; it has {found}."
                )
        for name in ("P", "p0", "practice"):
            rows = getattr(self, name)
            if not (rows >= 0).all() or (np.abs(rows.sum(axis=-1) - 1) > 1e-9).any():
                raise InputError(f"World '{self.name}': the rows of {name} must be distributions.")
        if set(self.observed.tolist()) != set(range(len(self.states))):
            raise InputError(f"World '{self.name}': every state must be observed somewhere.")

    @property
    def hidden(self) -> bool:
        """Whether full states look alike."""
        return len(self.states) < int(self.P.shape[0])

    # ---------------------------------------------------------------- truth
    @cached_property
    def rewards(self) -> FloatArray:
        """Expected reward of full states, (n_full, n_actions)."""
        return np.asarray(np.einsum("sat,sat->sa", self.P, self.r))

    def _value(self, probs: FloatArray, horizon: int | None = None) -> float:
        """p₀ᵀ(I − γP_π)⁻¹ r_π for probabilities of full states, or the undiscounted sum of H."""
        P = np.einsum("sa,sat->st", probs, self.P)
        r = (probs * self.rewards).sum(axis=1)
        if horizon is None:
            return float(self.p0 @ np.linalg.solve(np.eye(P.shape[0]) - self.gamma * P, r))
        v = np.zeros_like(r)
        for _ in range(horizon):
            v = r + P @ v
        return float(self.p0 @ v)

    def over(self, horizon: int) -> tuple[float, float]:
        """What practice, and the best rule for each step, earn in so many steps, undiscounted."""
        v = np.zeros(self.P.shape[0])
        for _ in range(horizon):
            v = (self.rewards + self.P @ v).max(axis=1)
        return self._value(np.asarray(self.practice), horizon), float(self.p0 @ v)

    @cached_property
    def practice_return(self) -> float:
        """What practice earns, with all that it sees."""
        return self._value(np.asarray(self.practice))

    def true_return(
        self,
        policy: Policy | ArrayLike,
        log: TransitionLog | None = None,
        horizon: int | None = None,
    ) -> float:
        """What a policy of observed states truly earns; with a horizon, undiscounted in its steps.

        `policy` is a `Policy` with the labels of a log, or probabilities (n_states, n_actions) in
        the order of the world. Practice goes on in states that a `Policy` does not decide, and,
        with `log`, where its probabilities are the log's own shares.
        """
        if isinstance(policy, Policy):
            probs, decided = self._rows(policy, log)
        else:
            probs = np.asarray(policy, dtype=np.float64)
            decided = np.ones(self.n_states, dtype=bool)
            if probs.shape != self.shape:
                raise InputError(
                    f"Probabilities for world '{self.name}' need shape {self.shape}; they have "
                    f"{probs.shape}."
                )
        seen = self.observed
        return self._value(np.where(decided[seen][:, None], probs[seen], self.practice), horizon)

    def _rows(self, policy: Policy, log: TransitionLog | None) -> tuple[FloatArray, BoolArray]:
        """Probabilities in the order of the world, and in which states the policy says anything."""
        probs = np.zeros(self.shape)
        decided = np.zeros(self.n_states, dtype=bool)
        own = {name: i for i, name in enumerate(self.states)}
        columns = [self.actions.index(name) for name in policy.actions]
        shares = np.full(policy.probs.shape, np.nan) if log is None else log.behaviour
        same = np.asarray((np.abs(policy.probs - shares) <= SAME).all(axis=1))
        for s, name in enumerate(policy.states):
            if name in own and policy.decided[s] and not same[s]:
                probs[own[name], columns] = policy.probs[s]
                decided[own[name]] = True
        return probs, decided

    @cached_property
    def optimum(self) -> float:
        """The best return of a policy of observed states."""
        if not self.hidden:
            return self._value(self.optimal_policy())
        over = [bool(self.ends[self.observed == s].all()) for s in range(self.n_states)]
        n = self.n_actions ** over.count(False)
        if n > MOST_POLICIES:
            raise InputError(
                f"World '{self.name}' hides something and has {n} deterministic policies, more "
                f"than {MOST_POLICIES}: its optimum cannot be found."
            )
        every = np.eye(self.n_actions)
        choices = product(*(range(1 if end else self.n_actions) for end in over))
        return max(self._value(every[np.array(choice)[self.observed]]) for choice in choices)

    def optimal_policy(self) -> FloatArray:
        """An optimal policy of full states, (n_full, n_actions), by policy iteration."""
        n = self.P.shape[0]
        every, decision = np.eye(self.n_actions), np.zeros(n, dtype=np.int64)
        rows = np.arange(n)
        while True:
            v = np.linalg.solve(
                np.eye(n) - self.gamma * self.P[rows, decision], self.rewards[rows, decision]
            )
            Q = self.rewards + self.gamma * self.P @ v
            gain = Q.max(axis=1) - Q[rows, decision]
            better = gain > 1e-10 * max(1.0, float(np.abs(Q).max()))
            if not better.any():
                return every[decision]
            decision = np.where(better, Q.argmax(axis=1), decision)

    # ---------------------------------------------------------------- logs
    def draw_log(self, size: int, seed: int) -> TransitionLog:
        """A log of size number `size` (0, 1, 2), made as users make theirs."""
        spec = self.sizes[size]
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), size, seed])
        act = np.cumsum(self.practice, axis=1)
        move = np.cumsum(self.P, axis=2)
        start = np.cumsum(self.p0)
        rows: list[tuple[int, int, int, int]] = []
        for episode in range(spec.episodes):
            s = _drawn(start, rng.random())
            for u, w in rng.random((spec.steps, 2)):
                a = _drawn(act[s], u)
                s_next = _drawn(move[s, a], w)
                rows.append((episode, s, a, s_next))
                s = s_next
                if self.ends[s]:
                    break
        episodes, s_, a_, next_ = np.array(rows, dtype=np.int64).T
        reward = self.r[s_, a_, next_]
        if self.binary:
            reward = (rng.random(s_.size) < reward).astype(np.float64)
        else:
            reward = reward + self.noise[s_, a_] * rng.standard_normal(s_.size)
        return TransitionLog.from_arrays(
            np.array(self.states)[self.observed[s_]],
            np.array(self.actions)[a_],
            np.array(self.states)[self.observed[next_]],
            reward,
            episodes,
            self.ends[next_] if self.ends.any() else None,
            source=f"a log of {self.name}",
        )


def _drawn(cumulative: FloatArray, u: float) -> int:
    """The index that u ∈ [0, 1) falls on; rounding of the last sum cannot carry it beyond."""
    i = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(i, cumulative.size - 1)
