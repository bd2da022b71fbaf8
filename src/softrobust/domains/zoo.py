"""A zoo of worlds with a known truth (see `world`), of as many kinds as logs come in.

Wet Chicken (Hans and Udluft 2009; discrete as in Scholl et al. 2022) and random MDPs with a soft
baseline (Laroche et al. 2019) are the benchmarks of safe policy improvement. The bundled pest log
comes from `pest`. The others are plain models of things that people log. None was chosen by what
any method earns in it.

Add a world with `register(name, maker)`; `TUNING` and `JUDGING` are tuples of names that were split
before any result was seen: methods are tuned on the one and judged on the other.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import lgamma, log

import numpy as np
from scipy.special import ndtr

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.domains.world import Size, World
from softrobust.errors import InputError

# Decided before any result: each half has ordered, unordered and factored states, noisy rewards,
# true ends, long and short logs, practice that hardly varies, and something hidden. Of the two
# benchmarks of the literature Wet Chicken is for tuning and random MDPs are for judging.
TUNING = (
    "wet-chicken",
    "wet-chicken-numbers",
    "pest",
    "machine",
    "sites",
    "clinic",
    "greenhouse",
    "queue",
    "triage",
)
JUDGING = (
    "random-mdp",
    "bus",
    "fishery",
    "inventory",
    "delivery",
    "offers",
    "crossings",
    "servers",
    "frailty",
)

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
        close = difflib.get_close_matches(name, WORLDS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(f"There is no world '{name}'.{hint} The worlds: {', '.join(WORLDS)}.")
    maker, family = WORLDS[name]
    return _made(maker, seed if family else 0)


@lru_cache(maxsize=64)
def _made(maker: Maker, seed: int) -> World:
    return maker(seed)


# -------------------------------------------------------------------- pieces
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


def _mixed(decision: list[int] | IntArray, share: float, n_actions: int) -> FloatArray:
    """A rule that is followed but for a `share` of uniform actions."""
    rule = np.eye(n_actions)[np.asarray(decision)]
    return np.asarray((1 - share) * rule + share / n_actions)


def _one(n: int, s: int) -> FloatArray:
    return np.asarray(np.eye(n)[s])


# -------------------------------------------------------------------- benchmarks
def _wet_chicken(_: int) -> World:
    moves = np.array([(0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1)])
    P = np.zeros((25, 5, 25))
    decision = np.zeros(25, dtype=np.int64)
    for x in range(5):
        for y in range(5):
            s, v = 5 * x + y, 3 * y / 5
            decision[s] = 2 if x > 2 else 4 if y < 2 else 3 if y > 2 else (0, 1, 2)[x]
            for a, (dx, dy) in enumerate(moves):
                y_next = min(max(y + dy, 0), 4)
                low, high = x + dx + v - (3.5 - v), x + dx + v + (3.5 - v)
                edges = np.clip((np.arange(5) + 0.5 - low) / (high - low), 0, 1)
                up_to = np.concatenate([[0.0], edges])  # x̂ < 0 counts as 0
                P[s, a, 5 * np.arange(5) + y_next] += np.diff(up_to)
                P[s, a, 0] += 1 - up_to[-1]  # the waterfall
    return World(
        name="wet-chicken",
        kinds=("factored", "ordered", "one trajectory"),
        about="A canoe above a waterfall; the benchmark of safe policy improvement.",
        states=tuple(f"x={x}|y={y}" for x in range(5) for y in range(5)),
        actions=("drift", "hold", "paddle back", "left", "right"),
        P=P,
        r=np.repeat(np.arange(5.0), 5)[None, None, :],
        p0=_one(25, 0),
        gamma=0.95,
        practice=_mixed(decision, 0.1, 5),
        sizes=(Size(1, 200), Size(1, 1000), Size(1, 5000)),
    )


def _wet_chicken_numbers(seed: int) -> World:
    return replace(
        _wet_chicken(seed),
        name="wet-chicken-numbers",
        kinds=("numbers that hide coordinates", "one trajectory"),
        about="Wet Chicken with states numbered 5x + y: nobody says that there are two axes.",
        states=tuple(map(str, range(25))),
    )


def _random_mdp(seed: int) -> World:
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
        world = World(
            name="random-mdp",
            kinds=("unordered", "numbers without meaning", "true ends", "family"),
            about="50 states, 4 actions, 4 next states of a pair; 1 at a goal that ends the "
            "episode; every log has a world of its own.",
            states=tuple(map(str, range(S))),
            actions=tuple("abcd"),
            P=P,
            r=1.0 * (np.arange(S) == goal)[None, None, :],
            p0=_one(S, 0),
            gamma=gamma,
            practice=np.full((S, A), 1 / A),
            ends=np.arange(S) == goal,
            sizes=(Size(10, 50), Size(50, 50), Size(200, 50)),
        )
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


def _pest(_: int) -> World:
    """The world of examples/make_pest_log.py."""
    S, cost, survival = 12, np.array([0.0, 12.0, 30.0]), (1.55, 0.8, 0.25)
    P = np.zeros((S, 3, S))
    for k in range(S):
        for a in range(3):
            rate = survival[a] + (0.05 * k if a else 0.0)
            # Sums of independent Poisson numbers are Poisson: survivors and immigrants together.
            P[k, a] = _poisson(rate * k + 0.7, S - 1)
    n = np.arange(S)
    return World(
        name="pest",
        kinds=("ordered", "seasons"),
        about="Weekly pest counts on a farm: wait, spot treatment, or spray.",
        states=tuple(f"n={k}" for k in n),
        actions=("wait", "spot", "spray"),
        P=P,
        r=(100.0 - 0.8 * n[:, None] ** 2 - cost)[:, :, None],
        p0=(n < 5) / 5,
        gamma=0.9,
        practice=_mixed(np.where(n < 3, 0, np.where(n < 6, 1, 2)), 0.25, 3),
        sizes=(Size(3, 40), Size(8, 40), Size(30, 40)),
    )


# -------------------------------------------------------------------- ordered
def _machine(_: int) -> World:
    """Wear 0 … 9 grows by 0, 1 or 2; a worn machine makes less and may break to 9."""
    S = 10
    P, r = np.zeros((S, 3, S)), np.zeros((S, 3, S))
    for w in range(S):
        for up, p in ((0, 0.35), (1, 0.45), (2, 0.2)):
            P[w, 0, min(w + up, S - 1)] += p * (1 - 0.015 * w)
            P[w, 1, max(min(w + up - 3, S - 1), 0)] += p  # service takes three levels off
        P[w, 0, S - 1] += 0.015 * w
        P[w, 2, 0] = 1.0
        made = 10.0 - 0.12 * w**2
        r[w] = np.array([made, made - 5.0, -18.0])[:, None]
    wear = np.arange(S)
    rule = np.where(wear < 6, 0, np.where(wear < 8, 1, 2))
    return World(
        name="machine",
        kinds=("ordered", "near-deterministic practice", "one trajectory"),
        about="Wear of a machine: run, service or replace; people nearly always follow one rule.",
        states=tuple(f"wear {w}" for w in wear),
        actions=("run", "service", "replace"),
        P=P,
        r=r,
        p0=_one(S, 0),
        gamma=0.95,
        practice=_mixed(rule, 0.06, 3),
        sizes=(Size(1, 100), Size(1, 400), Size(1, 2000)),
    )


def _queue(_: int) -> World:
    """Up to 14 wait; arrivals are Poisson, and a fast or a second server costs more."""
    S, served, cost = 15, (1.0, 1.8, 2.6), np.array([0.0, 1.5, 4.0])
    P = np.zeros((S, 3, S))
    for k in range(S):
        for a in range(3):
            for done, p in enumerate(_poisson(served[a], 8)):
                left = max(k - done, 0)
                for come, q in enumerate(_poisson(1.5, 12)):
                    P[k, a, min(left + come, S - 1)] += p * q
    n = np.arange(S)
    return World(
        name="queue",
        kinds=("ordered", "noisy rewards"),
        about="A queue served by one, a fast, or two servers; waiting costs.",
        states=tuple(map(str, n)),
        actions=("one", "fast", "two"),
        P=P,
        r=(-1.0 * n[:, None] - cost)[:, :, None],
        noise=np.array(0.5),
        p0=_poisson(2.0, S - 1),
        gamma=0.95,
        practice=_mixed(np.where(n < 8, 0, 1), 0.3, 3),
        sizes=(Size(4, 30), Size(10, 40), Size(40, 50)),
    )


def _bus(_: int) -> World:
    """Mileage in 5000s; the older the engine the dearer, and it is hardly ever replaced."""
    S = 20
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2, S))
    for m in range(S):
        for up, p in ((0, 0.1), (1, 0.6), (2, 0.3)):
            P[m, 0, min(m + up, S - 1)] += p
            P[m, 1, up] += p
        r[m] = np.array([-0.6 * m, -25.0])[:, None]
    replaced = 0.01 + 0.07 * (np.arange(S) >= 12)
    return World(
        name="bus",
        kinds=("ordered", "near-deterministic practice", "long episodes"),
        about="When to replace bus engines by mileage; it is rarely done.",
        states=tuple(map(str, range(S))),
        actions=("keep", "replace"),
        P=P,
        r=r,
        p0=_one(S, 0),
        gamma=0.95,
        practice=np.column_stack([1 - replaced, replaced]),
        sizes=(Size(5, 60), Size(20, 100), Size(60, 120)),
    )


def _fishery(_: int) -> World:
    """Logistic growth of a stock of 0 … 11; catches are proportional to effort, prices vary."""
    S, top = 12, 11.0
    effort = np.array([0.0, 0.15, 0.35, 0.6])
    P = np.zeros((S, 4, S))
    n = np.arange(S)
    for s in n:
        for a in range(4):
            left = s * (1 - effort[a])
            P[s, a] = _rounded_normal(left + 0.7 * left * (1 - left / top), 0.3 + 0.1 * left, S - 1)
            if s == 0:
                P[s, a] = 0.9 * _one(S, 0) + 0.1 * _one(S, 1)  # some come from elsewhere
    catch = n[:, None] * effort
    return World(
        name="fishery",
        kinds=("ordered", "noisy rewards", "short logs"),
        about="How hard to fish a stock that grows back.",
        states=tuple(f"stock {s}" for s in n),
        actions=("none", "low", "middle", "high"),
        P=P,
        r=(5.0 * catch - 3.0 * effort)[:, :, None],
        noise=0.2 + 1.0 * catch,
        p0=_rounded_normal(6.0, 2.0, S - 1),
        gamma=0.95,
        practice=_mixed(np.where(n < 3, 1, np.where(n < 7, 2, 3)), 0.3, 4),
        sizes=(Size(5, 15), Size(20, 15), Size(100, 15)),
    )


def _inventory(_: int) -> World:
    """Stock 0 … 20; what is sold follows from stock, order and what is left."""
    S, orders = 21, np.array([0, 4, 8, 12])
    P, r = np.zeros((S, 4, S)), np.zeros((S, 4, S))
    demand = _poisson(5.0, 25)
    for s in range(S):
        for a, order in enumerate(orders):
            stock = min(s + order, S - 1)
            for d, p in enumerate(demand):
                P[s, a, max(stock - d, 0)] += p
            sold = stock - np.arange(S)
            r[s, a] = 4.0 * sold - 2.0 * (stock - s) - 2.0 * (order > 0) - 0.15 * stock
    r[P == 0] = 0.0
    n = np.arange(S)
    return World(
        name="inventory",
        kinds=("ordered", "rewards by next state", "long logs"),
        about="How much to order when demand is uncertain and lost sales are not seen.",
        states=tuple(f"stock={s}" for s in n),
        actions=tuple(f"order {k}" for k in orders),
        P=P,
        r=r,
        p0=_one(S, 10),
        gamma=0.95,
        practice=_mixed(np.where(n < 4, 2, np.where(n < 8, 1, 0)), 0.2, 4),
        sizes=(Size(2, 100), Size(5, 200), Size(10, 600)),
    )


def _clinic(_: int) -> World:
    """Severity 0 … 7 at visits, then discharge or death; quality of life is noisy."""
    S, home, dead = 8, 8, 9
    P = np.zeros((10, 3, 10))
    r = np.zeros((10, 3, 10))
    shift, sd = np.array([0.25, -0.35, -0.75]), np.array([1.0, 1.0, 1.3])
    harm = np.array([0.0, 0.4, 1.6])
    for k in range(S):
        for a in range(3):
            die = 0.002 * k**2 + (0.012 if a == 2 else 0.0)
            go = 0.25 if k == 0 else 0.08 if k == 1 else 0.0
            P[k, a, :S] = (1 - die - go) * _rounded_normal(k + shift[a], sd[a], S - 1)
            P[k, a, home], P[k, a, dead] = go, die
            r[k, a] = 4.0 - 0.5 * k - harm[a]
            r[k, a, home] += 10.0
            r[k, a, dead] -= 10.0
    s = np.arange(10)
    return World(
        name="clinic",
        kinds=("ordered", "noisy rewards", "true ends", "many short episodes"),
        about="Visits to a clinic: no, mild or strong treatment; discharge and death end them.",
        states=(*(f"severity {k}" for k in range(S)), "discharged", "dead"),
        actions=("none", "mild", "strong"),
        P=P,
        r=r,
        noise=np.array(3.0),
        p0=np.where(s < S, 1.0 * (s >= 2), 0.0) / 6,
        gamma=0.95,
        practice=_mixed(np.where(s < 3, 0, np.where(s < 7, 1, 2)), 0.35, 3),
        ends=s >= S,
        sizes=(Size(20, 10), Size(60, 10), Size(300, 10)),
    )


# -------------------------------------------------------------------- unordered
def _unordered(
    seed: int, S: int, A: int, branching: int, spread: float
) -> tuple[FloatArray, FloatArray]:
    """Rows on `branching` random next states, and normal r(s, a) of a state and an action part."""
    rng = np.random.default_rng([7, seed])
    P = np.zeros((S, A, S))
    for s in range(S):
        near = rng.choice(S, branching, replace=False)  # the same places for every action
        for a in range(A):
            P[s, a, near] = rng.dirichlet(np.full(branching, 0.7))
    worth = 3.0 * rng.standard_normal((S, 1)) + spread * rng.standard_normal((S, A))
    return P, worth[:, :, None]


def _lazy_practice(P: FloatArray, r: FloatArray, seed: int, share: float) -> FloatArray:
    """Half of the states have the action of most reward, the others any; a share is uniform."""
    rng = np.random.default_rng([8, seed])
    S, A = P.shape[:2]
    now = np.einsum("sat,sat->sa", P, np.broadcast_to(r, P.shape)).argmax(axis=1)
    return _mixed(np.where(rng.random(S) < 0.5, now, rng.integers(A, size=S)), share, A)


def _sites(_: int) -> World:
    names = ("harbour", "mill", "quarry", "market", "orchard", "station", "chapel", "bridge",
             "school", "depot", "ferry", "tower", "garden", "works")  # fmt: skip
    P, r = _unordered(11, len(names), 3, 5, 1.5)
    return World(
        name="sites",
        kinds=("unordered", "noisy rewards"),
        about="Which crew to send from site to site; names say nothing.",
        states=names,
        actions=("crew red", "crew blue", "crew green"),
        P=P,
        r=r,
        noise=np.array(1.0),
        p0=np.full(len(names), 1 / len(names)),
        gamma=0.9,
        practice=_lazy_practice(P, r, 11, 0.4),
        sizes=(Size(6, 25), Size(20, 30), Size(60, 50)),
    )


def _crossings(_: int) -> World:
    names = tuple(f"{a}{b}" for a in ("alder", "birch", "cedar", "elm", "fir", "hazel")
                  for b in (" road", " lane", " square"))  # fmt: skip
    P, r = _unordered(12, len(names), 4, 4, 1.0)
    ends = np.arange(len(names)) == 7
    return World(
        name="crossings",
        kinds=("unordered", "true ends", "short logs"),
        about="Which way to send a van through a town; one square is where the trip ends.",
        states=names,
        actions=("north", "east", "south", "west"),
        P=P,
        r=r,
        p0=np.where(ends, 0.0, 1 / (len(names) - 1)),
        gamma=0.95,
        practice=_lazy_practice(P, r, 12, 0.5),
        ends=ends,
        sizes=(Size(8, 15), Size(30, 20), Size(120, 30)),
    )


def _offers(_: int) -> World:
    """A visitor of a segment gets one offer; buying is 0 or 1, and the visit may go on."""
    rng = np.random.default_rng([7, 13])
    segments = ("student", "parent", "retired", "tourist", "local", "night shift", "newcomer",
                "regular", "gone")  # fmt: skip
    S, A = len(segments), 4
    buys = np.clip(rng.beta(2.0, 8.0, (S, 1)) + 0.12 * rng.standard_normal((S, A)), 0.02, 0.9)
    P = np.zeros((S, A, S))
    for s in range(S):
        P[s, :, s], P[s, :, S - 1] = 0.5, 0.5  # whatever is offered
    return World(
        name="offers",
        kinds=("unordered", "noisy rewards", "true ends", "actions move nothing"),
        about="Which of four offers to show to whom; bought or not is all that is seen.",
        states=segments,
        actions=("bread", "coffee", "soup", "cake"),
        P=P,
        r=buys[:, :, None],
        binary=True,
        p0=np.where(np.arange(S) < S - 1, 1 / (S - 1), 0.0),
        gamma=0.9,
        practice=_mixed(rng.integers(A, size=S), 0.5, A),
        ends=np.arange(S) == S - 1,
        sizes=(Size(60, 10), Size(300, 10), Size(1500, 10)),
    )


# -------------------------------------------------------------------- factored
def _greenhouse(_: int) -> World:
    """Moisture 0 … 3, pest 0 … 2 and the season each go their own way."""
    M, B, Z, A = 4, 3, 2, 4
    S = M * B * Z
    P, r = np.zeros((S, A, S)), np.zeros((S, A, S))
    for m in range(M):
        for b in range(B):
            for z in range(Z):
                s = (m * B + b) * Z + z
                for a in range(A):
                    wet, spray = a in (1, 3), a in (2, 3)
                    down = 0.65 if z == 0 else 0.25
                    to_m = np.zeros(M)
                    to_m[min(m + 2, M - 1) if wet else max(m - 1, 0)] += down if not wet else 0.8
                    to_m[min(m + 1, M - 1) if wet else m] += 1 - down if not wet else 0.2
                    grow = 0.2 + 0.1 * m  # pests like it wet
                    to_b = np.zeros(B)
                    to_b[max(b - 1, 0)] += 0.75 if spray else 0.1
                    to_b[min(b + 1, B - 1)] += 0.05 if spray else grow
                    to_b[b] += 1 - (0.8 if spray else 0.1 + grow)
                    to_z = np.array([0.9, 0.1]) if z == 0 else np.array([0.1, 0.9])
                    P[s, a] = np.einsum("i,j,k->ijk", to_m, to_b, to_z).reshape(-1)
                    grown = (0.0, 4.0, 7.0, 5.0)[m] - 2.0 * b
                    r[s, a] = grown - 1.0 * wet - 2.0 * spray
    labels = tuple(
        f"moisture={m}|pest={b}|season={z}"
        for m in range(M)
        for b in range(B)
        for z in ("dry", "wet")
    )
    wetness, pests = np.divmod(np.arange(S) // Z, B)
    rule = np.asarray((wetness < 2) * 1 + (pests == 2) * 2)
    return World(
        name="greenhouse",
        kinds=("factored", "noisy rewards"),
        about="Water, spray, both or neither, by moisture, pest and season.",
        states=labels,
        actions=("nothing", "water", "spray", "both"),
        P=P,
        r=r,
        noise=np.array(0.5),
        p0=np.full(S, 1 / S),
        gamma=0.9,
        practice=_mixed(rule, 0.3, A),
        sizes=(Size(6, 30), Size(20, 40), Size(60, 80)),
    )


def _delivery(_: int) -> World:
    """A 5 × 5 grid with a goal, a swamp that is slow, and moves that sometimes slip."""
    N, A = 5, 4
    S, goal = N * N, N * N - 1
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    swamp = {6, 7, 12, 17}
    P = np.zeros((S, A, S))
    for s in range(S):
        row, col = divmod(s, N)
        for a in range(A):
            for turn, p in ((0, 0.8), (1, 0.1), (3, 0.1)):
                d = moves[(a + turn) % A]
                to = min(max(row + d[0], 0), N - 1) * N + min(max(col + d[1], 0), N - 1)
                stuck = 0.6 if s in swamp else 0.0
                P[s, a, to] += p * (1 - stuck)
                P[s, a, s] += p * stuck
    r = np.full((S, A, S), -1.0)
    r[:, :, goal] += 20.0
    rng = np.random.default_rng([7, 14])
    return World(
        name="delivery",
        kinds=("factored", "ordered", "true ends"),
        about="A cart crosses a grid with a swamp; arriving ends the episode.",
        states=tuple(f"row={i}|col={j}" for i in range(N) for j in range(N)),
        actions=("up", "right", "down", "left"),
        P=P,
        r=r,
        p0=_one(S, 0),
        gamma=0.95,
        practice=_mixed(rng.choice([1, 2], size=S), 0.4, A),
        ends=np.arange(S) == goal,
        sizes=(Size(5, 40), Size(25, 40), Size(100, 40)),
    )


def _servers(_: int) -> World:
    """Load, mode and age of a cache; switching the mode takes the cache with it."""
    L, A = 4, 3
    modes, ages = ("eco", "full"), ("cold", "warm")
    S = L * 4
    P, r = np.zeros((S, A, S)), np.zeros((S, A, S))
    for load in range(L):
        to_load = np.zeros(L)
        to_load[max(load - 1, 0)] += 0.3
        to_load[load] += 0.45
        to_load[min(load + 1, L - 1)] += 0.25
        for mode in range(2):
            for age in range(2):
                s = (load * 2 + mode) * 2 + age
                for a in range(A):  # stay, eco, full
                    to_mode = mode if a == 0 else a - 1
                    warm = 0.0 if to_mode != mode else 1.0 if age else 0.5
                    to = np.zeros((L, 2, 2))
                    to[:, to_mode, 0] = to_load * (1 - warm)
                    to[:, to_mode, 1] = to_load * warm
                    P[s, a] = to.reshape(-1)
                    able = (1.5, 3.5)[to_mode] * (1.0 if age and to_mode == mode else 0.7)
                    r[s, a] = 3.0 * min(load, able) - (1.0, 3.0)[to_mode]
    labels = tuple(f"load={i}|mode={m}|cache={c}" for i in range(L) for m in modes for c in ages)
    work = np.arange(S) // 4
    return World(
        name="servers",
        kinds=("factored", "noisy rewards", "near-deterministic practice", "one trajectory"),
        about="When to switch servers between saving and full power.",
        states=labels,
        actions=("stay", "to eco", "to full"),
        P=P,
        r=r,
        noise=np.array(1.0),
        p0=_one(S, 0),
        gamma=0.95,
        practice=_mixed(np.where(work == 3, 2, np.where(work == 0, 1, 0)), 0.08, A),
        sizes=(Size(1, 200), Size(1, 800), Size(1, 4000)),
    )


# -------------------------------------------------------------------- something hidden
def _triage(_: int) -> World:
    """Every day some cases are urgent; staff see it, the log does not.

    Urgency is drawn anew at every step, so what a policy of observed states meets is a Markov
    chain. Staff treat the urgent fast; fast treatment therefore looks worse than it is.
    """
    S, U = 8, 2
    urgent = np.array([0.7, 0.3])
    P, r = np.zeros((S * U, 2, S * U)), np.zeros((S * U, 2, S * U))
    practice = np.zeros((S * U, 2))
    for s in range(S):
        for u in range(U):
            h = s * U + u
            practice[h] = (0.85, 0.15) if u == 0 else (0.3, 0.7)
            for a in range(2):
                drift = (0.5 if u == 0 else 1.6) - (1.0 if a else 0.0)
                P[h, a] = np.kron(_rounded_normal(s + drift - 0.35, 0.9, S - 1), urgent)
                r[h, a] = -1.0 * s - (1.2 if a else 0.0) - (1.0 if u else 0.0)
    return World(
        name="triage",
        kinds=("confounded", "ordered"),
        about="Slow or fast treatment; staff see urgency, and the log does not have it.",
        states=tuple(f"waiting {s}" for s in range(S)),
        actions=("slow", "fast"),
        P=P,
        r=r,
        p0=np.kron(_rounded_normal(2.0, 1.0, S - 1), urgent),
        gamma=0.9,
        practice=practice,
        observed=np.arange(S * U) // U,
        sizes=(Size(8, 20), Size(25, 30), Size(100, 40)),
    )


def _frailty(_: int) -> World:
    """Patients are robust or frail for good; doctors see it and spare the frail the strong drug."""
    S, U = 6, 2
    n = S * U + 1
    P, r = np.zeros((n, 3, n)), np.zeros((n, 3, n))
    practice = np.full((n, 3), 1 / 3)
    for s in range(S):
        for u in range(U):
            h = s * U + u
            practice[h] = (0.25, 0.25, 0.5) if u == 0 else (0.6, 0.3, 0.1)
            for a in range(3):
                drift = 0.4 * u + (0.3, -0.1, -0.5)[a]
                die = 0.004 * s**2 + 0.01 * u * s
                stay = (1 - die) * _rounded_normal(s + drift, 0.8, S - 1)
                P[h, a, np.arange(S) * U + u] = stay
                P[h, a, n - 1] = die
                r[h, a] = 2.0 - 0.4 * s - (0.0, 0.1, 0.35)[a]
                r[h, a, n - 1] -= 8.0
    first = np.append(np.kron(_rounded_normal(2.0, 1.0, S - 1), [0.6, 0.4]), 0.0)
    return World(
        name="frailty",
        kinds=("confounded", "noisy rewards", "true ends"),
        about="Three drugs; doctors see who is frail, and the log does not have it.",
        states=(*(f"score {s}" for s in range(S)), "dead"),
        actions=("no drug", "weak drug", "strong drug"),
        P=P,
        r=r,
        noise=np.array(0.5),
        p0=first,
        gamma=0.95,
        practice=practice,
        observed=np.append(np.arange(S * U) // U, S),
        ends=np.arange(n) == n - 1,
        sizes=(Size(20, 12), Size(80, 12), Size(400, 12)),
    )


for _name, _maker in {
    "wet-chicken": _wet_chicken,
    "wet-chicken-numbers": _wet_chicken_numbers,
    "pest": _pest,
    "machine": _machine,
    "sites": _sites,
    "clinic": _clinic,
    "greenhouse": _greenhouse,
    "queue": _queue,
    "triage": _triage,
    "bus": _bus,
    "fishery": _fishery,
    "inventory": _inventory,
    "delivery": _delivery,
    "offers": _offers,
    "crossings": _crossings,
    "servers": _servers,
    "frailty": _frailty,
}.items():
    register(_name, _maker)
register("random-mdp", _random_mdp, family=True)
