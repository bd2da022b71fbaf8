"""A zoo of worlds with a known truth (see `world`), of as many kinds as logs come in.

Wet Chicken (Hans and Udluft 2009; discrete as in Scholl et al. 2022) and random MDPs with a soft
baseline (Laroche et al. 2019) are the benchmarks of safe policy improvement. The bundled pest log
comes from `pest`. The others are plain models of things that people log. None was chosen by what
any method earns in it.

A function below gives the truth of one world; zoo.toml says the rest. Add a world with
`register(name, maker)`; `TUNING` and `JUDGING` are tuples of names that were split before any
result was seen: methods are tuned on the one and judged on the other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import lgamma, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.settings import did_you_mean
from softrobust.domains.families import FAMILIES
from softrobust.domains.world import Size, World
from softrobust.errors import InputError

# Decided before any result: each half has ordered, unordered and factored states, noisy rewards,
# true ends, long and short logs, practice that hardly varies, and something hidden. Of the two
# benchmarks of the literature Wet Chicken is for tuning and random MDPs are for judging. Since then
# "inventory" changed sides, when its results showed what borrowing does to rewards of flows; the
# family "flow" was made to tune on, "reservoir" and "battery" to judge by, before they were run;
# "veiled" was made to tune on when "frailty" had shown what hidden causes do, and "sparse" when
# random MDPs had shown that many unclear changes were given up one by one; "pasture" and "ward" are
# like the two of thirteen worlds made elsewhere in which promises were far too sure.
TUNING = (
    "wet-chicken", "wet-chicken-numbers", "pest", "machine", "sites", "clinic", "greenhouse",
    "queue", "triage", "inventory", "mixed", "faint", "flow", "veiled", "sparse", "pasture", "ward",
)  # fmt: skip
JUDGING = (
    "random-mdp", "bus", "fishery", "reservoir", "battery", "delivery", "offers", "crossings",
    "servers", "frailty",
)  # fmt: skip

Maker = Callable[[int], World]
WORLDS: dict[str, tuple[Maker, bool]] = {}


def register(name: str, maker: Maker, *, family: bool = False) -> None:
    """Add a world: `maker(seed)` makes it. In a `family` every log has a world of its own."""
    if name in WORLDS:
        raise InputError(f"There is a world '{name}' already. Choose another name.")
    WORLDS[name] = (maker, family)


def make_world(name: str, seed: int = 0) -> World:
    """The world called `name`; `seed` chooses one of a family and is of no effect elsewhere."""
    if name not in WORLDS:
        raise InputError(
            f"There is no world '{name}'.{did_you_mean(name, WORLDS)} The worlds: "
            f"{', '.join(WORLDS)}."
        )
    maker, family = WORLDS[name]
    return _made(maker, seed if family else 0)


@lru_cache(maxsize=64)
def _made(maker: Maker, seed: int) -> World:
    return maker(seed)


# -------------------------------------------------------------------- pieces
class Truth(NamedTuple):
    """What is true of a world, by the names of `World`."""

    states: Iterable[str]
    P: FloatArray
    r: FloatArray
    p0: FloatArray
    practice: FloatArray
    noise: float | FloatArray = 0.0
    binary: bool = False
    observed: IntArray | None = None
    ends: BoolArray | None = None


Step = tuple[FloatArray, Any]  # a row, and a reward or one for each next state
Law = Callable[[int, int], Step]


def _by_pairs(n: int, n_actions: int, law: Law, n_ends: int = 0) -> tuple[FloatArray, FloatArray]:
    """P and r from law(s, a); the last `n_ends` states are left to `World`, which ends there."""
    P, r = np.zeros((n, n_actions, n)), np.zeros((n, n_actions, n))
    for s in range(n - n_ends):
        for a in range(n_actions):
            P[s, a], r[s, a] = law(s, a)
    return P, r


def _row(n: int, moves: Iterable[tuple[int, float]]) -> FloatArray:
    """Probabilities of 0 … n − 1 from (where, probability); what is beyond an end stays at it."""
    out = np.zeros(n)
    for to, p in moves:
        out[min(max(to, 0), n - 1)] += p
    return out


def _poisson(mean: float, most: int) -> FloatArray:
    """Probabilities of 0 … most, the last of which takes what is beyond."""
    k = np.arange(most + 1)
    p = np.exp([j * log(mean) - mean - lgamma(j + 1) for j in k]) if mean > 0 else 1.0 * (k == 0)
    p[-1] = max(0.0, 1.0 - float(p[:-1].sum()))
    return np.asarray(p)


def _rounded_normal(mean: float, sd: float, most: int) -> FloatArray:
    """Probabilities of 0 … most for a normal number that is rounded and clipped."""
    edges = ndtr((np.arange(most) + 0.5 - mean) / sd)
    return np.asarray(np.diff(edges, prepend=0.0, append=1.0))


def _mixed(decision: Sequence[int] | IntArray, share: float, n_actions: int) -> FloatArray:
    """A rule that is followed but for a `share` of uniform actions."""
    rule = np.eye(n_actions)[np.asarray(decision)]
    return np.asarray((1 - share) * rule + share / n_actions)


def _steps(x: IntArray, *edges: int) -> IntArray:
    """How many of the edges each number has reached: 0 below the first, then 1, 2, …"""
    return np.searchsorted(edges, x, side="right")


def _one(n: int, s: int) -> FloatArray:
    return np.asarray(np.eye(n)[s])


# -------------------------------------------------------------------- benchmarks
def _wet_chicken() -> Truth:
    moves = ((0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1))

    def law(s: int, a: int) -> Step:
        (x, y), (dx, dy) = divmod(s, 5), moves[a]
        v, y_next = 3 * y / 5, min(max(y + dy, 0), 4)
        low, high = x + dx + v - (3.5 - v), x + dx + v + (3.5 - v)
        edges = np.clip((np.arange(5) + 0.5 - low) / (high - low), 0, 1)
        up_to = np.concatenate([[0.0], edges])  # x̂ < 0 counts as 0
        row = np.zeros(25)
        row[5 * np.arange(5) + y_next] += np.diff(up_to)
        row[0] += 1 - up_to[-1]  # the waterfall
        return row, np.repeat(np.arange(5.0), 5)

    places = [divmod(s, 5) for s in range(25)]
    rule = [2 if x > 2 else 4 if y < 2 else 3 if y > 2 else (0, 1, 2)[x] for x, y in places]
    names = (f"x={x}|y={y}" for x, y in places)
    return Truth(names, *_by_pairs(25, 5, law), _one(25, 0), _mixed(rule, 0.1, 5))


def _random_mdp(_: str, make: Callable[..., World], seed: int) -> World:
    """One of the random MDPs of Laroche et al.: baseline half way between random and optimal."""
    rng = np.random.default_rng([20190101, seed])
    S, A, gamma = 50, 4, 0.95
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            cuts = np.sort(rng.random(3))
            P[s, a, rng.choice(S, 4, replace=False)] = np.diff(cuts, prepend=0.0, append=1.0)
    best: World | None = None
    for goal in range(1, S):  # the goal that is hardest to reach, yet can be reached in 50 steps
        end = np.arange(S) == goal
        world = make(
            states=tuple(map(str, range(S))), P=P, r=1.0 * end[None, None, :], p0=_one(S, 0),
            practice=np.full((S, A), 1 / A), ends=end,
        )  # fmt: skip
        if world.optimum > gamma**50 and (best is None or world.optimum < best.optimum):
            best = world
    if best is None:
        raise InputError(f"Random MDP {seed} has no goal that can be reached in 50 steps.")
    return replace(best, practice=_soft_baseline(best, rng))


def _soft_baseline(world: World, rng: np.random.Generator) -> FloatArray:
    """Softmax of Q* down to ¾ of the way from random to optimal, then perturbed down to ½.

    `world` has the random policy as its practice.
    """
    low, high = world.practice_return, world.optimum
    optimal = world.optimal_policy()
    v = np.linalg.solve(
        np.eye(50) - world.gamma * np.einsum("sa,sat->st", optimal, world.P),
        (optimal * world.rewards).sum(axis=1),
    )
    Q = world.rewards + world.gamma * world.P @ v
    inverse, probs = 2e6, optimal
    while world.true_return(probs) > low + 0.75 * (high - low):
        inverse *= 0.9
        probs = np.exp(inverse * (Q - Q.max(axis=1, keepdims=True)))
        probs /= probs.sum(axis=1, keepdims=True)
    while world.true_return(probs) > low + 0.5 * (high - low):
        s = int(rng.integers(50))
        probs[s, Q[s].argmax()] *= 0.9
        probs[s] /= probs[s].sum()
    return probs


def _pest() -> Truth:
    """The world of examples/make_pest_log.py."""
    S, cost, survival = 12, (0.0, 12.0, 30.0), (1.55, 0.8, 0.25)

    def law(k: int, a: int) -> Step:
        rate = survival[a] + (0.05 * k if a else 0.0)
        # Sums of independent Poisson numbers are Poisson: survivors and immigrants together.
        return _poisson(rate * k + 0.7, S - 1), 100.0 - 0.8 * k**2 - cost[a]

    n = np.arange(S)
    practice = _mixed(_steps(n, 3, 6), 0.25, 3)
    return Truth((f"n={k}" for k in n), *_by_pairs(S, 3, law), (n < 5) / 5, practice)


# -------------------------------------------------------------------- ordered
def _machine() -> Truth:
    """Wear 0 … 9 grows by 0, 1 or 2; a worn machine makes less and may break to 9."""
    S, grows = 10, ((0, 0.35), (1, 0.45), (2, 0.2))

    def law(w: int, a: int) -> Step:
        made, breaks = 10.0 - 0.12 * w**2, 0.015 * w
        if a == 0:
            run = [(w + up, p * (1 - breaks)) for up, p in grows]
            return _row(S, [*run, (S - 1, breaks)]), made
        if a == 1:  # service takes three levels off
            return _row(S, ((w + up - 3, p) for up, p in grows)), made - 5.0
        return _one(S, 0), -18.0

    wear = np.arange(S)
    practice = _mixed(_steps(wear, 6, 8), 0.06, 3)
    return Truth((f"wear {w}" for w in wear), *_by_pairs(S, 3, law), _one(S, 0), practice)


def _queue() -> Truth:
    """Up to 14 wait; arrivals are Poisson, and a fast or a second server costs more."""
    S, served, cost = 15, (1.0, 1.8, 2.6), (0.0, 1.5, 4.0)

    def law(k: int, a: int) -> Step:
        moves = (
            (max(k - done, 0) + come, p * q)
            for done, p in enumerate(_poisson(served[a], 8))
            for come, q in enumerate(_poisson(1.5, 12))
        )
        return _row(S, moves), -1.0 * k - cost[a]

    practice = _mixed(_steps(np.arange(S), 8), 0.3, 3)
    P, r = _by_pairs(S, 3, law)
    return Truth(map(str, range(S)), P, r, _poisson(2.0, S - 1), practice, noise=0.5)


def _bus() -> Truth:
    """Mileage in 5000s; the older the engine the dearer, and it is hardly ever replaced."""
    S = 20

    def law(m: int, a: int) -> Step:
        since = 0 if a else m
        row = _row(S, ((since + up, p) for up, p in ((0, 0.1), (1, 0.6), (2, 0.3))))
        return row, -25.0 if a else -0.6 * m

    replaced = 0.01 + 0.07 * (np.arange(S) >= 12)
    practice = np.column_stack([1 - replaced, replaced])
    return Truth(map(str, range(S)), *_by_pairs(S, 2, law), _one(S, 0), practice)


def _fishery() -> Truth:
    """Logistic growth of a stock of 0 … 11; catches are proportional to effort, prices vary."""
    S, top, effort = 12, 11.0, np.array([0.0, 0.15, 0.35, 0.6])
    n = np.arange(S)
    catch = n[:, None] * effort
    gain = 5.0 * catch - 3.0 * effort

    def law(s: int, a: int) -> Step:
        if s == 0:  # some come from elsewhere
            return 0.9 * _one(S, 0) + 0.1 * _one(S, 1), gain[s, a]
        left = s * (1 - effort[a])
        grown = left + 0.7 * left * (1 - left / top)
        return _rounded_normal(grown, 0.3 + 0.1 * left, S - 1), gain[s, a]

    start, practice = _rounded_normal(6.0, 2.0, S - 1), _mixed(1 + _steps(n, 3, 7), 0.3, 4)
    P, r = _by_pairs(S, 4, law)
    return Truth((f"stock {s}" for s in n), P, r, start, practice, noise=0.2 + 1.0 * catch)


def _inventory() -> Truth:
    """Stock 0 … 20; what is sold follows from stock, order and what is left."""
    S, orders, demand = 21, (0, 4, 8, 12), _poisson(5.0, 25)

    def law(s: int, a: int) -> Step:
        stock = min(s + orders[a], S - 1)
        row = _row(S, ((stock - d, p) for d, p in enumerate(demand)))
        sold = stock - np.arange(S)
        paid = 4.0 * sold - 2.0 * (stock - s) - 2.0 * (orders[a] > 0) - 0.15 * stock
        return row, np.where(row == 0, 0.0, paid)

    n = np.arange(S)
    practice = _mixed(2 - _steps(n, 4, 8), 0.2, 4)
    return Truth((f"stock={s}" for s in n), *_by_pairs(S, 4, law), _one(S, 10), practice)


def _clinic() -> Truth:
    """Severity 0 … 7 at visits, then discharge or death; quality of life is noisy."""
    S, home, dead = 8, 8, 9
    shift, sd, harm = (0.25, -0.35, -0.75), (1.0, 1.0, 1.3), (0.0, 0.4, 1.6)

    def law(k: int, a: int) -> Step:
        row, paid = np.zeros(10), np.full(10, 4.0 - 0.5 * k - harm[a])
        die = 0.002 * k**2 + (0.012 if a == 2 else 0.0)
        go = 0.25 if k == 0 else 0.08 if k == 1 else 0.0
        row[:S] = (1 - die - go) * _rounded_normal(k + shift[a], sd[a], S - 1)
        row[home], row[dead] = go, die
        paid[home] += 10.0
        paid[dead] -= 10.0
        return row, paid

    s = np.arange(10)
    names = (*(f"severity {k}" for k in range(S)), "discharged", "dead")
    start = np.where(s < S, 1.0 * (s >= 2), 0.0) / 6
    practice = _mixed(_steps(s, 3, 7), 0.35, 3)
    return Truth(names, *_by_pairs(10, 3, law, 2), start, practice, noise=3.0, ends=s >= S)


# -------------------------------------------------------------------- unordered
def _unordered(
    seed: int, S: int, A: int, branching: int, spread: float, share: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows on `branching` random next states, normal r(s, a), and a lazy practice.

    Rewards have a state and an action part. Half of the states have the action of most reward, the
    others any; a share is uniform.
    """
    rng = np.random.default_rng([7, seed])
    P = np.zeros((S, A, S))
    for s in range(S):
        near = rng.choice(S, branching, replace=False)  # the same places for every action
        for a in range(A):
            P[s, a, near] = rng.dirichlet(np.full(branching, 0.7))
    worth = 3.0 * rng.standard_normal((S, 1)) + spread * rng.standard_normal((S, A))
    r = worth[:, :, None]
    rng = np.random.default_rng([8, seed])
    now = np.einsum("sat,sat->sa", P, np.broadcast_to(r, P.shape)).argmax(axis=1)
    rule = np.where(rng.random(S) < 0.5, now, rng.integers(A, size=S))
    return P, r, _mixed(rule, share, A)


def _sites() -> Truth:
    names = ("harbour", "mill", "quarry", "market", "orchard", "station", "chapel", "bridge",
             "school", "depot", "ferry", "tower", "garden", "works")  # fmt: skip
    P, r, practice = _unordered(11, len(names), 3, 5, 1.5, 0.4)
    return Truth(names, P, r, np.full(len(names), 1 / len(names)), practice, noise=1.0)


def _crossings() -> Truth:
    trees, kinds = ("alder", "birch", "cedar", "elm", "fir", "hazel"), ("road", "lane", "square")
    names = [f"{a} {b}" for a in trees for b in kinds]
    P, r, practice = _unordered(12, len(names), 4, 4, 1.0, 0.5)
    ends = np.arange(len(names)) == 7
    return Truth(names, P, r, np.where(ends, 0.0, 1 / (len(names) - 1)), practice, ends=ends)


def _offers() -> Truth:
    """A visitor of a segment gets one offer; buying is 0 or 1, and the visit may go on."""
    rng = np.random.default_rng([7, 13])
    segments = ("student", "parent", "retired", "tourist", "local", "night shift", "newcomer",
                "regular", "gone")  # fmt: skip
    S, A = len(segments), 4
    buys = np.clip(rng.beta(2.0, 8.0, (S, 1)) + 0.12 * rng.standard_normal((S, A)), 0.02, 0.9)
    P = np.zeros((S, A, S))
    for s in range(S):
        P[s, :, s], P[s, :, S - 1] = 0.5, 0.5  # whatever is offered
    gone = np.arange(S) == S - 1
    start, practice = np.where(gone, 0.0, 1 / (S - 1)), _mixed(rng.integers(A, size=S), 0.5, A)
    return Truth(segments, P, buys[:, :, None], start, practice, binary=True, ends=gone)


# -------------------------------------------------------------------- factored
def _greenhouse() -> Truth:
    """Moisture 0 … 3, pest 0 … 2 and the season each go their own way."""
    sizes = (M, B, Z) = (4, 3, 2)
    S = M * B * Z

    def law(s: int, a: int) -> Step:
        m, b, z = (int(i) for i in np.unravel_index(s, sizes))
        wet, spray = a in (1, 3), a in (2, 3)
        down = 0.65 if z == 0 else 0.25
        to_m = _row(M, ((m + 2, 0.8), (m + 1, 0.2)) if wet else ((m - 1, down), (m, 1 - down)))
        less, more = (0.75, 0.05) if spray else (0.1, 0.2 + 0.1 * m)  # pests like it wet
        same = 1 - (0.8 if spray else less + more)
        to_b = _row(B, ((b - 1, less), (b + 1, more), (b, same)))
        to_z = np.array([0.9, 0.1]) if z == 0 else np.array([0.1, 0.9])
        grown = (0.0, 4.0, 7.0, 5.0)[m] - 2.0 * b
        row = np.einsum("i,j,k->ijk", to_m, to_b, to_z).reshape(-1)
        return row, grown - 1.0 * wet - 2.0 * spray

    axes = (range(M), range(B), ("dry", "wet"))
    names = (f"moisture={m}|pest={b}|season={z}" for m, b, z in product(*axes))
    wetness, pests = np.divmod(np.arange(S) // Z, B)
    practice = _mixed(np.asarray((wetness < 2) * 1 + (pests == 2) * 2), 0.3, 4)
    return Truth(names, *_by_pairs(S, 4, law), np.full(S, 1 / S), practice, noise=0.5)


def _delivery() -> Truth:
    """A 5 × 5 grid with a goal, a swamp that is slow, and moves that sometimes slip."""
    N, A, moves = 5, 4, ((-1, 0), (0, 1), (1, 0), (0, -1))
    S, goal = N * N, N * N - 1
    paid = np.where(np.arange(S) == goal, -1.0 + 20.0, -1.0)

    def law(s: int, a: int) -> Step:
        row, col = divmod(s, N)
        stuck = 0.6 if s in (6, 7, 12, 17) else 0.0
        out = np.zeros(S)
        for turn, p in ((0, 0.8), (1, 0.1), (3, 0.1)):
            d = moves[(a + turn) % A]
            to = min(max(row + d[0], 0), N - 1) * N + min(max(col + d[1], 0), N - 1)
            out[to] += p * (1 - stuck)
            out[s] += p * stuck
        return out, paid

    names = (f"row={i}|col={j}" for i in range(N) for j in range(N))
    practice = _mixed(np.random.default_rng([7, 14]).choice([1, 2], size=S), 0.4, A)
    P, r = _by_pairs(S, A, law, 1)
    return Truth(names, P, r, _one(S, 0), practice, ends=np.arange(S) == goal)


def _servers() -> Truth:
    """Load, mode and age of a cache; switching the mode takes the cache with it."""
    L, S = 4, 16

    def law(s: int, a: int) -> Step:  # stay, eco, full
        load, mode, age = (int(i) for i in np.unravel_index(s, (L, 2, 2)))
        to_load = _row(L, ((load - 1, 0.3), (load, 0.45), (load + 1, 0.25)))
        to_mode = mode if a == 0 else a - 1
        warm = 0.0 if to_mode != mode else 1.0 if age else 0.5
        to = np.zeros((L, 2, 2))
        to[:, to_mode, 0] = to_load * (1 - warm)
        to[:, to_mode, 1] = to_load * warm
        able = (1.5, 3.5)[to_mode] * (1.0 if age and to_mode == mode else 0.7)
        return to.reshape(-1), 3.0 * min(load, able) - (1.0, 3.0)[to_mode]

    axes = (range(L), ("eco", "full"), ("cold", "warm"))
    names = (f"load={i}|mode={m}|cache={c}" for i, m, c in product(*axes))
    practice = _mixed(np.array([1, 0, 0, 2])[np.arange(S) // 4], 0.08, 3)
    return Truth(names, *_by_pairs(S, 3, law), _one(S, 0), practice, noise=1.0)


def _reservoir() -> Truth:
    """Water 0 … 11 in wet and dry seasons; what is released earns, what spills costs."""
    L, inflow = 12, (_poisson(1.2, 8), _poisson(3.2, 8))
    turn = np.array([[0.92, 0.08], [0.12, 0.88]])
    S = L * 2

    def law(s: int, a: int) -> Step:  # release up to 0, 2, 4, 6
        level, season = divmod(s, 2)
        out = min(2 * a, level)
        row, paid = np.zeros((L, 2)), np.zeros((L, 2))
        for k, p in enumerate(inflow[season]):
            to = level - out + k
            spilled = max(to - (L - 1), 0)
            row[min(to, L - 1)] += p * turn[season]
            paid[min(to, L - 1)] += p * turn[season] * (3.0 * np.sqrt(out) - 4.0 * spilled)
        mean = np.divide(paid, row, out=np.zeros_like(paid), where=row > 0)
        return row.reshape(-1), mean.reshape(-1)

    level, wet = np.arange(S) // 2, np.arange(S) % 2 == 1
    rule = np.where(level > 8, 3, np.where((level > 4) & wet, 2, np.where(level > 2, 1, 0)))
    names = (f"level={i}|season={w}" for i, w in product(range(L), ("dry", "wet")))
    practice = _mixed(rule, 0.15, 4)
    return Truth(names, *_by_pairs(S, 4, law), _one(S, 12), practice, noise=0.5)


def _battery() -> Truth:
    """Charge 0 … 6 and the price of power; buying and selling lose a little each way."""
    C, prices = 7, (1.0, 2.0, 3.5, 6.0)
    K = len(prices)
    S = C * K

    def law(s: int, a: int) -> Step:  # wait, buy, sell
        charge, k = divmod(s, K)
        then = _row(K, ((k - 1, 0.35), (k, 0.35), (k + 1, 0.3)))
        to = (charge, min(charge + 2, C - 1), max(charge - 2, 0))[a]
        leak, traded = (0.1 if to > 0 else 0.0), to - charge
        row = np.zeros((C, K))
        row[to] += (1 - leak) * then
        row[max(to - 1, 0)] += leak * then
        return row.reshape(-1), -prices[k] * traded * (1.05 if traded > 0 else 0.9) - 0.1 * (a > 0)

    names = (f"charge={i}|price={p:g}" for i, p in product(range(C), prices))
    practice = _mixed(np.tile([1, 0, 0, 2], C), 0.25, 3)
    return Truth(names, *_by_pairs(S, 3, law), np.repeat(np.eye(C)[3], K) / K, practice)


def _pasture() -> Truth:
    """Grass 0 … 7 in four seasons that follow each other; it grows fast in one, hardly in another.

    What is eaten pays at once; what it costs shows seasons later, where the same action does less.
    """
    G, grow, eat = 8, (0.8, 1.9, 0.9, 0.1), (0.3, 0.9, 1.7)
    S = 4 * G

    def law(s: int, a: int) -> Step:  # light, medium, heavy
        season, g = divmod(s, G)
        eaten = eat[a] * min(1.0, g / 3)
        grown = grow[season] * (0.35 + 0.9 * g / 7 * (1 - g / 9.5))
        row = np.zeros((4, G))
        row[(season + 1) % 4] = _rounded_normal(g - eaten + grown, 0.75, G - 1)
        return row.reshape(-1), 4.0 * eaten + 1.5 * a * (season == 2) - 6.0 * (g == 0)

    grass = np.arange(S) % G
    liked = np.exp(np.column_stack([1.2 - 0.2 * grass, np.full(S, 0.9), 0.3 + 0.15 * grass]) / 0.7)
    practice = liked / liked.sum(axis=1, keepdims=True)
    start = np.where((np.arange(S) >= 3) & (np.arange(S) < 6), 1 / 3, 0.0)
    names = (f"season={q + 1}|grass={g}" for q, g in product(range(4), range(G)))
    return Truth(names, *_by_pairs(S, 3, law), start, practice, noise=0.8)


# -------------------------------------------------------------------- something hidden
def _ward() -> Truth:
    """Severity 0 … 7; a rare action helps most, and one time in 25 is a disaster.

    The last full state is 7 after a disaster: the log shows it by its reward alone.
    """
    S, drift, cost = 8, (0.35, -0.3, -1.0), (0.0, 0.6, 0.2)

    def law(h: int, a: int) -> Step:  # rest, drug, push
        s, paid = min(h, S - 1), np.full(S + 1, 4.0 - 0.6 * min(h, S - 1) - cost[a])
        row = np.append(_rounded_normal(s + drift[a], 1.0, S - 1), 0.0)
        row = (0.96 * row + 0.04 * _one(S + 1, S)) if a == 2 else row
        paid[S] -= 150.0
        return row, paid

    severity = np.minimum(np.arange(S + 1), S - 1)
    drug = 0.96 / (1 + np.exp(1.0 - 0.3 * severity))
    practice = np.column_stack([0.96 - drug, drug, np.full(S + 1, 0.04)])
    names, P_r = (f"severity {s}" for s in range(S)), _by_pairs(S + 1, 3, law)
    return Truth(names, *P_r, _one(S + 1, 4), practice, noise=0.7, observed=severity)


def _triage() -> Truth:
    """Every day some cases are urgent; staff see it, the log does not.

    Urgency is drawn anew at every step, so what a policy of observed states meets is a Markov
    chain. Staff treat the urgent fast; fast treatment therefore looks worse than it is.
    """
    S, U, urgent = 8, 2, np.array([0.7, 0.3])

    def law(h: int, a: int) -> Step:
        s, u = divmod(h, U)
        drift = (0.5 if u == 0 else 1.6) - (1.0 if a else 0.0)
        row = np.kron(_rounded_normal(s + drift - 0.35, 0.9, S - 1), urgent)
        return row, -1.0 * s - (1.2 if a else 0.0) - (1.0 if u else 0.0)

    names, start = (f"waiting {s}" for s in range(S)), _rounded_normal(2.0, 1.0, S - 1)
    practice = np.tile([(0.85, 0.15), (0.3, 0.7)], (S, 1))
    P, r = _by_pairs(S * U, 2, law)
    seen = np.arange(S * U) // U
    return Truth(names, P, r, np.kron(start, urgent), practice, observed=seen)


def _frailty() -> Truth:
    """Patients are robust or frail for good; doctors see it and spare the frail the strong drug."""
    S, U = 6, 2
    n = S * U + 1

    def law(h: int, a: int) -> Step:
        s, u = divmod(h, U)
        drift = 0.4 * u + (0.3, -0.1, -0.5)[a]
        die = 0.004 * s**2 + 0.01 * u * s
        row, paid = np.zeros(n), np.full(n, 2.0 - 0.4 * s - (0.0, 0.1, 0.35)[a])
        row[np.arange(S) * U + u] = (1 - die) * _rounded_normal(s + drift, 0.8, S - 1)
        row[-1] = die
        paid[-1] -= 8.0
        return row, paid

    names = (*(f"score {s}" for s in range(S)), "dead")
    start = np.append(np.kron(_rounded_normal(2.0, 1.0, S - 1), [0.6, 0.4]), 0.0)
    practice = np.tile([(0.25, 0.25, 0.5), (0.6, 0.3, 0.1)], (S, 1))
    practice = np.vstack([practice, np.full(3, 1 / 3)])
    P, r = _by_pairs(n, 3, law, 1)
    seen, ends = np.append(np.arange(S * U) // U, S), np.arange(n) == n - 1
    return Truth(names, P, r, start, practice, noise=0.5, observed=seen, ends=ends)


# -------------------------------------------------------------------- the table
TRUTHS: dict[str, Callable[[], Truth]] = {
    "wet-chicken": _wet_chicken,
    "wet-chicken-numbers": lambda: _wet_chicken()._replace(states=map(str, range(25))),
    "pest": _pest, "machine": _machine, "sites": _sites, "clinic": _clinic, "queue": _queue,
    "greenhouse": _greenhouse, "triage": _triage, "bus": _bus, "fishery": _fishery,
    "inventory": _inventory, "delivery": _delivery, "offers": _offers, "crossings": _crossings,
    "servers": _servers, "reservoir": _reservoir, "battery": _battery, "frailty": _frailty,
    "pasture": _pasture, "ward": _ward,
}  # fmt: skip


def _register_all() -> None:
    table = tomllib.loads(Path(__file__).with_name("zoo.toml").read_text(encoding="utf-8"))
    for name, d in table.items():
        given: dict[str, Any] = {key: tuple(d[key]) for key in ("kinds", "actions")}
        given |= {"about": d["about"], "gamma": d["gamma"]}
        given["sizes"] = tuple(Size(*n) for n in d["sizes"])
        make = partial(World, name=name, **given)
        family = name == "random-mdp"
        maker = partial(_random_mdp if family else _of_truth, name, make)
        register(name, maker, family=family)


def _of_truth(name: str, make: Callable[..., World], _: int) -> World:
    found = TRUTHS[name]()
    return make(**found._replace(states=tuple(found.states))._asdict())


_register_all()
for _family in FAMILIES:
    register(_family.name, _family.world, family=True)
