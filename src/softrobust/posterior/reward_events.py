"""Rare rewards far from all others (a disaster, a windfall), as events with a rate.

    r_i = usual_i + B_i·size,   B_i ~ Bernoulli(q_g),   q_g ~ Beta(q₀, 1 − q₀),   g = g_h(s_i, a_i)

One reward of −150 where all others lie between −2 and 4 says little about the pair it fell on, and
much about what was done: squares cannot tell the two apart, counts can. What a rate belongs to (h)
is one of these, by their evidence and what is thought of them beforehand: to all rows, to an
action, to a state, to a pair. q₀ is the share of events in all rows, so that what was never done
has their rate.

Rewards are taken apart only where that makes them likelier as a whole (`reward_draws`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import betaln, logsumexp

from softrobust._core.arrays import BoolArray, FloatArray, Sealed
from softrobust.data import TransitionLog

NEVER = float(np.finfo(np.float64).max)  # no reward is beyond
EDGE = 0.05  # share of the rows on either side that may be events,
BEYOND = 3.0  # if they are so many times as far out as the rows between the edges are wide
ROUGH = 0.25  # of their size, by which events differ at least
# Of rates of all rows, actions, states and pairs: what is sudden and grave is mostly done.
BEFOREHAND = np.log([0.3, 0.5, 0.15, 0.05])
LEAST = 1e-9  # a rate is at least so far from 0 and 1


def event_limits(paid: FloatArray) -> tuple[float, float]:
    """The rewards below and above which a row is an event; `NEVER` where there are none."""
    low, high = np.quantile(paid, [EDGE, 1.0 - EDGE])
    limits = float(low - BEYOND * (high - low)), float(high + BEYOND * (high - low))
    some = high > low
    return (
        limits[0] if some and (paid < limits[0]).any() else -NEVER,
        limits[1] if some and (paid > limits[1]).any() else NEVER,
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewardEvents(Sealed):
    """Events of one side: how often by pair, and how large."""

    hits: FloatArray  # (n_states, n_actions)
    rows: FloatArray  # (n_states, n_actions)
    size: float
    error: float  # of the mean size
    spread: float  # of sizes

    @classmethod
    def of(cls, log: TransitionLog, event: BoolArray, sizes: FloatArray) -> RewardEvents:
        """Learn from the rows that are events; `sizes` (n_events,) are beyond what is usual."""
        pair = log.s.astype(np.int64) * log.n_actions + log.a
        hits, rows = (
            np.bincount(x, minlength=log.n_states * log.n_actions).reshape(log.shape).astype(float)
            for x in (pair[event], pair)
        )
        size = float(sizes.mean())
        spread = float(np.sqrt(sizes.var() + (ROUGH * size) ** 2))
        return cls(hits, rows, size, spread / np.sqrt(sizes.size), spread)

    def evidence(self, sizes: FloatArray) -> float:
        """Log density of which rows are events, and of their sizes; one number was learned."""
        z = (sizes - self.size) / self.spread
        large = -0.5 * (z @ z) - sizes.size * np.log(self.spread * np.sqrt(2 * np.pi))
        return float(logsumexp(self._likely()) + large - 0.5 * np.log(sizes.size + 1.0))

    def draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, n_pairs): what events add to mean rewards."""
        out, likely = np.empty((n, self.hits.size)), self._likely()
        of = rng.choice(len(BEFOREHAND), n, p=np.exp(likely - logsumexp(likely)))
        sizes = self.size + self.error * rng.standard_normal(n)
        groups = self._groups()
        for i in range(n):
            a, b = groups[of[i]]
            rate = np.clip(rng.beta(np.maximum(a, LEAST), np.maximum(b, LEAST)), LEAST, 1 - LEAST)
            out[i] = np.broadcast_to(rate, self.hits.shape).reshape(-1) * sizes[i]
        return out

    def rates(self) -> FloatArray:
        """(n_pairs,): mean rates."""
        likely = self._likely()
        weight = np.exp(likely - logsumexp(likely))
        means = [np.broadcast_to(a / (a + b), self.hits.shape) for a, b in self._groups()]
        return np.asarray(sum(w * x for w, x in zip(weight, means, strict=True))).reshape(-1)

    def _groups(self) -> list[tuple[FloatArray, FloatArray]]:
        """What rates are drawn from, of all rows, actions (1, A), states (S, 1) and pairs."""
        share = (self.hits.sum() + 0.5) / (self.rows.sum() + 1.0)
        out = []
        for axes in ((0, 1), (0,), (1,), ()):
            k, n = (x.sum(axis=axes, keepdims=True) for x in (self.hits, self.rows))
            out.append((k + share, n - k + 1.0 - share))
        return out

    def _likely(self) -> FloatArray:
        """(4,): log evidence of what rates belong to, with what is thought of it beforehand."""
        share = (self.hits.sum() + 0.5) / (self.rows.sum() + 1.0)
        none = betaln(share, 1.0 - share)
        return np.array([(betaln(a, b) - none).sum() for a, b in self._groups()]) + BEFOREHAND
