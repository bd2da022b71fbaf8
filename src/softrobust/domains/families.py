"""Families of worlds for tuning: every seed makes another world, of any kind (see `zoo`).

States lie on a line, on a grid, or nowhere. What an action does is a displacement with noise (some
actions reset, some borders throw back, some rows are rough), or a row on a few places that is more
or less alike for all actions. Rewards belong to places, pairs and costs of actions, with noise or
none; some worlds end. Practice follows a rule that was made for a distorted picture of the world,
more or less strictly. In some of the ordered worlds labels do not say that there is an order.

`mixed` are worlds in which there is something to gain, `faint` those in which practice is nearly
right and rewards are noisy: there the promise of a gain is most often a mistake. In `flow` a stock
is filled by orders and emptied by demand, and rewards belong to what flows: an error in where a
row leads is one in what it earns. In `veiled` people see what the log does not have. `sparse` are
larger worlds without any order, rows on a few places, and little that is worth anything: a log of a
few rows for every pair shows no single change clearly, and all of them together show much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from scipy.special import ndtr
from scipy.stats import nbinom, poisson

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.domains.world import Size, World
from softrobust.errors import SolverError

ATTEMPTS = 100
Rng = np.random.Generator


@final
@dataclass(frozen=True)
class Family:
    """A way to make worlds, and limits of what practice leaves open, of optimum − worst.

    `make` gives fields of `World`, one `size` for all its logs; `about` and the name are ours.
    """

    name: str
    key: int
    make: Callable[[Rng], dict[str, Any]]
    least: float
    most: float = np.inf

    def world(self, seed: int) -> World:
        """The first attempt with this seed that is within the limits."""
        named: dict[str, Any] = {"name": f"{self.name}-{seed}"}
        named["about"] = f"One of the family '{self.name}'."
        for attempt in range(ATTEMPTS):
            drawn = self.make(np.random.default_rng([self.key, seed, attempt]))
            made = World(sizes=(drawn.pop("size"),) * 3, **named, **drawn)
            gain, most = made.optimum - made.practice_return, _range(made)
            if most > 0 and self.least < gain / most < self.most:
                return made
        raise SolverError(f"No world of '{self.name}' came within its limits in {ATTEMPTS} trials.")


def _range(world: World) -> float:
    """The best less the worst return."""
    return world.optimum + replace(world, r=-np.asarray(world.r)).optimum


def _actions(A: int) -> tuple[str, ...]:
    return tuple(f"do {chr(65 + a)}" for a in range(A))


def _of_any_kind(
    rng: Rng, noises: tuple[float, ...], distortion: tuple[float, ...]
) -> dict[str, Any]:
    shape = rng.choice(["line", "grid", "places"])
    A = int(rng.integers(2, 6))
    limits = ((3, 6), (2, 6)) if shape == "grid" else ((6, 25),)
    dims = tuple(int(rng.integers(*limit)) for limit in limits)
    at = np.stack(np.unravel_index(np.arange(int(np.prod(dims))), dims), axis=1)
    P = _places(rng, at.shape[0], A) if shape == "places" else _displaced(rng, at, dims, A)
    rough = rng.choice([0.0, 0.0, 0.15, 0.35])
    if rough and shape != "places":
        _roughen(rng, P, rough)
    kind, r = _rewards(rng, P, at, shape)
    spread = float(np.einsum("sat,sat->sa", P, r).std())
    noise = spread * rng.choice(noises)
    S = at.shape[0]
    ends = np.zeros(S, dtype=bool)
    if rng.random() < 0.25:
        end = int(rng.integers(S))
        ends[end] = True
        r[:, :, end] += rng.normal(0, 5)
    gamma = float(rng.choice([0.8, 0.9, 0.95, 0.98]))
    p0 = np.zeros(S)
    first = int(rng.integers(1, 4))
    p0[rng.choice(np.flatnonzero(~ends), first, replace=False)] = 1 / first
    manner, practice = _practice(rng, P, r, spread, distortion)
    rows = int(rng.choice([80, 150, 300, 600, 1200, 3000]))
    steps = min(int(rng.choice([8, 20, 50, rows])), rows)
    return {
        "kinds": (str(shape), kind, manner), "states": _labels(rng, shape, at),
        "actions": _actions(A), "P": P, "r": r, "noise": np.array(noise), "p0": p0,
        "gamma": gamma, "practice": practice, "ends": ends,
        "size": Size(max(1, rows // steps), steps),
    }  # fmt: skip


def _places(rng: Rng, S: int, A: int) -> FloatArray:
    """Rows on a few places; a share of each is common to all actions of the state."""
    P = np.zeros((S, A, S))
    width = int(rng.integers(2, min(S, 7)))
    common, conc = rng.uniform(0, 0.8), rng.choice([0.3, 0.7, 2.0])

    def row(pool: IntArray) -> FloatArray:
        out = np.zeros(S)
        out[rng.choice(pool, width, replace=False)] = rng.dirichlet(np.full(width, conc))
        return out

    for s in range(S):
        pool = rng.choice(S, min(S, width + 2), replace=False)
        base = row(pool)
        for a in range(A):
            P[s, a] = common * base + (1 - common) * row(pool)
    return P


def _displaced(rng: Rng, at: IntArray, dims: tuple[int, ...], A: int) -> FloatArray:
    """Every action moves by its drift, with normal noise, and stops at the borders."""
    S = at.shape[0]
    P = np.zeros((S, A, S))
    sd = rng.uniform(0.4, 1.5)
    drift = rng.normal(0, 1.2, (A, len(dims)))
    slope = rng.normal(0, 0.5) / max(dims)
    for s in range(S):
        for a in range(A):
            mean = at[s] + drift[a] + slope * (at[s] - np.array(dims) / 2)
            p = np.ones(S)
            for d, n in enumerate(dims):
                edges = ndtr((np.arange(n - 1) + 0.5 - mean[d]) / sd)
                p = p * np.diff(edges, prepend=0.0, append=1.0)[at[:, d]]
            P[s, a] = p / p.sum()
    if rng.random() < 0.4:  # an action that resets, at some chance
        a, home, share = int(rng.integers(A)), int(rng.integers(S)), rng.uniform(0.5, 1)
        P[:, a] = (1 - share) * P[:, a] + share * np.eye(S)[home]
    if rng.random() < 0.3:  # a place that throws back
        far, home, share = int(rng.integers(S)), int(rng.integers(S)), rng.uniform(0.5, 1)
        P[far] = (1 - share) * P[far] + share * np.eye(S)[home]
    return P


def _roughen(rng: Rng, P: FloatArray, share: float) -> None:
    S, A, _ = P.shape
    for s in range(S):
        for a in range(A):
            pool = rng.choice(S, 3, replace=False)
            P[s, a] *= 1 - share
            P[s, a, pool] += share * rng.dirichlet(np.ones(3))


def _rewards(rng: Rng, P: FloatArray, at: IntArray, shape: str) -> tuple[str, FloatArray]:
    """Worth of places, costs of actions, and in some worlds of pairs or of rare bad places."""
    S, A, _ = P.shape
    r = np.zeros((S, A, S))
    kind = str(rng.choice(["place", "pair", "cost", "rare"]))
    ramp = at @ rng.normal(0, 1, at.shape[1]) if shape != "places" else rng.normal(0, 1, S)
    ramp = np.asarray(ramp) / max(float(np.std(ramp)), 1e-9)
    if rng.random() < 0.4:
        ramp = -np.abs(ramp - ramp[int(rng.integers(S))])
    r += ramp
    r -= (rng.uniform(0, 1.0, A) * rng.choice([0.0, 0.3, 1.0]))[:, None]
    if kind == "pair":
        r += rng.normal(0, 1, (S, A))[:, :, None]
    if kind == "rare":
        bad = rng.choice(S, max(1, S // 10), replace=False)
        r[:, :, bad] -= rng.uniform(3, 12)
    return kind, r


def _practice(
    rng: Rng, P: FloatArray, r: FloatArray, spread: float, distortion: tuple[float, ...]
) -> tuple[str, FloatArray]:
    """A rule for a distorted world, followed softly, strictly, or with many exceptions."""
    S, A, _ = P.shape
    seen = 0.6 * P + 0.4 * P[rng.permutation(S)] if rng.random() < 0.5 else P
    valued = r + rng.normal(0, 1, (S, A))[:, :, None] * spread * rng.choice(distortion)
    v, ahead = np.zeros(S), float(rng.choice([0.0, 0.5, 0.9]))
    for _ in range(60):
        Q = np.einsum("sat,sat->sa", seen, valued) + ahead * seen @ v
        v = Q.max(axis=1)
    manner = str(rng.choice(["soft", "strict", "noisy"]))
    if manner == "soft":
        z = Q / max(Q.std(axis=1).mean(), 1e-9) * rng.uniform(0.5, 2)
        soft = np.exp(z - z.max(axis=1, keepdims=True))
        return manner, soft / soft.sum(axis=1, keepdims=True)
    other = 0.05 if manner == "strict" else rng.uniform(0.1, 0.5)
    return manner, (1 - other) * np.eye(A)[Q.argmax(axis=1)] + other / A


def _labels(rng: Rng, shape: str, at: IntArray) -> tuple[str, ...]:
    order = np.arange(at.shape[0])
    if shape != "places":
        if rng.random() >= 0.3:
            if shape == "grid":
                return tuple(f"x={i}|y={j}" for i, j in at)
            return tuple(f"level {i}" for i in order)
        order = rng.permutation(order)  # nobody says that there is an order
    return tuple(
        f"{chr(97 + i % 26)}{chr(97 + 7 * i % 26)}{'x' * (i // 26)}" for i in order.tolist()
    )


# -------------------------------------------------------------------- stocks and flows
def _stock(rng: Rng) -> dict[str, Any]:
    """A stock, orders and demand."""
    S, A = int(rng.integers(8, 26)), int(rng.integers(2, 6))
    orders = np.sort(rng.choice(np.arange(1, max(S * 2 // 3, A + 1)), A - 1, replace=False))
    orders = np.append(0, orders)
    mean, units = rng.uniform(1, S / 3), np.arange(S + int(orders.max()) + 1)
    even = rng.random() < 0.5
    demand = poisson.pmf(units, mean) if even else nbinom.pmf(units, 2, 2 / (2 + mean))
    demand[-1] = max(demand[-1] + 1 - demand.sum(), 0.0)
    price = rng.uniform(1, 5)
    bought, fixed = price * rng.uniform(0.2, 0.7), price * rng.choice([0, 0.5, 2])
    held = price * rng.choice([0.02, 0.05, 0.2])
    P, r = np.zeros((S, A, S)), np.zeros((S, A, S))
    for s in range(S):
        for a, order in enumerate(orders):
            stock = min(s + order, S - 1)
            np.add.at(P[s, a], np.maximum(stock - units, 0), demand)
            r[s, a] = price * (stock - np.arange(S)) - bought * (stock - s) - held * stock
            r[s, a] -= fixed * (order > 0)
    r[P == 0] = 0.0
    limits = np.sort(rng.integers(0, S, A - 1))[::-1]
    rule = (np.arange(S)[:, None] < limits).sum(axis=1)
    if rng.random() < 0.5:
        rule = np.clip(rule + rng.integers(-1, 2), 0, A - 1)
    other = rng.choice([0.05, 0.15, 0.3, 0.5])
    gamma, start = float(rng.choice([0.8, 0.9, 0.95, 0.98])), int(rng.integers(S))
    rows = int(rng.choice([80, 150, 300, 600, 1200]))
    steps = min(int(rng.choice([20, 50, 100, rows])), rows)
    return {
        "kinds": ("line", "flow"), "states": tuple(f"stock={i}" for i in range(S)),
        "actions": tuple(f"order {k}" for k in orders), "P": P, "r": r,
        "noise": np.array(float(rng.choice([0, 0, 1.0])) * price), "p0": np.eye(S)[start],
        "gamma": gamma, "practice": (1 - other) * np.eye(A)[rule] + other / A,
        "size": Size(max(1, rows // steps), steps),
    }  # fmt: skip


# -------------------------------------------------------------------- what the log does not have
def _veiled(rng: Rng) -> dict[str, Any]:
    """Two kinds of cases with rows, rewards and rules of their own; a case may change its kind.

    People see it and the log does not have it: it changes outcomes and decisions.
    """
    S, A = ((int(rng.integers(4, 10)), 2), (int(rng.integers(4, 7)), 3))[int(rng.integers(2))]
    shape, at = str(rng.choice(["line", "places"])), np.arange(S)[:, None]

    def rows() -> FloatArray:
        return _places(rng, S, A) if shape == "places" else _displaced(rng, at, (S,), A)

    P = rows()
    apart = rng.uniform(0.2, 0.8)
    kind, r = _rewards(rng, P, at, shape)
    spread = float(np.einsum("sat,sat->sa", P, r).std())
    cases = ((P, r), ((1 - apart) * P + apart * rows(), r - spread * rng.uniform(0, 2)))
    stays = float(rng.choice([1.0, 0.95, 0.5]))
    change = np.array([[stays, 1 - stays], [1 - stays, stays]])
    full, paid = np.zeros((S, 2, A, S, 2)), np.zeros((S, 2, A, S, 2))
    practice, first = np.zeros((S, 2, A)), rng.dirichlet([3, 3])
    for z, (Pz, rz) in enumerate(cases):
        full[:, z] = Pz[..., None] * change[z]
        paid[:, z] = rz[..., None]
        practice[:, z] = _practice(rng, Pz, rz, spread, (0.1, 0.5, 1.0))[1]
    ends = np.zeros((S, 2), dtype=bool)
    if rng.random() < 0.5:
        end = int(rng.integers(S))
        ends[end] = True
        paid[:, :, :, end] += rng.normal(0, 5)
    starts = rng.choice(np.flatnonzero(~ends[:, 0]), 2, replace=False)
    p0 = np.zeros((S, 2))
    p0[starts] = first / 2
    steps = int(rng.choice([6, 12, 30]))
    rows_ = int(rng.choice([150, 400, 1000, 3000]))
    return {
        "kinds": (shape, kind, "confounded"), "states": _labels(rng, shape, at),
        "actions": _actions(A), "P": full.reshape(2 * S, A, 2 * S),
        "r": paid.reshape(2 * S, A, 2 * S),
        "noise": np.array(spread * rng.choice([0.0, 0.5, 2.0])), "p0": p0.reshape(-1),
        "gamma": float(rng.choice([0.9, 0.95])), "practice": practice.reshape(2 * S, A),
        "ends": ends.reshape(-1), "observed": np.repeat(np.arange(S), 2),
        "size": Size(max(10, rows_ // steps), steps),
    }  # fmt: skip


# -------------------------------------------------------------------- many places, few goals
def _sparse(rng: Rng) -> dict[str, Any]:
    """Few goals; practice is soft about a rule that values places wrongly, and in part random."""
    S, A = int(rng.integers(20, 61)), int(rng.integers(2, 6))
    width, conc = int(rng.integers(2, 7)), rng.choice([0.5, 1.0, 3.0])
    P = np.zeros((S, A, S))
    for row in P.reshape(S * A, S):
        row[rng.choice(S, width, replace=False)] = rng.dirichlet(np.full(width, conc))
    goals = rng.choice(S, int(rng.integers(1, 4)), replace=False)
    r, ends = np.zeros((S, A, S)), np.zeros(S, dtype=bool)
    r[:, :, goals] = rng.uniform(0.5, 1.5, goals.size)
    if rng.random() < 0.3:  # what actions cost
        r -= (rng.uniform(0, 0.1, A))[:, None]
    if rng.random() < 0.5:
        ends[goals] = True
    gamma = float(rng.choice([0.9, 0.95, 0.98]))
    practice = _practice(rng, P, r, float(r.std()), (0.0, 0.1, 0.3))[1]
    random = rng.uniform(0, 0.7)
    start = int(rng.choice(np.flatnonzero(~ends)))
    rows = int(S * A * rng.choice([1.5, 3.0, 8.0]))
    steps = int(rng.choice([20, 50]))
    return {
        "kinds": ("places", "goals"), "states": _labels(rng, "places", np.arange(S)[:, None]),
        "actions": _actions(A), "P": P, "r": r, "p0": np.eye(S)[start], "gamma": gamma,
        "practice": (1 - random) * practice + random / A, "ends": ends,
        "size": Size(max(1, rows // steps), steps),
    }  # fmt: skip


_mixed = partial(_of_any_kind, noises=(0.0, 0.0, 0.5, 2.0), distortion=(0.3, 1.0, 3.0))
_faint = partial(_of_any_kind, noises=(0.0, 1.0, 3.0), distortion=(0.1, 0.5, 1.0))
FAMILIES = (
    Family("mixed", 11, _mixed, 0.05), Family("faint", 12, _faint, 0.01, 0.12),
    Family("flow", 13, _stock, 0.01), Family("veiled", 14, _veiled, 0.05),
    Family("sparse", 15, _sparse, 0.1),
)  # fmt: skip
