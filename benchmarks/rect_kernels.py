"""Kernels of the rectangular solvers: the S game, the SA selection, Z at the speed of memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.rectangles import random_dense, scattered
from benchmarks.registry import Figure, cache_bytes, case, race
from benchmarks.rivals import WarmHighs, argsort_sa, block_lp, linprog_games, read_streams
from softrobust.kernels.expected import expected_values
from softrobust.kernels.s_game import solve_games
from softrobust.kernels.sa_select import best_actions
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.kernels.tail import tail_values
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns.rectangular_sweeps import Sweeps
from softrobust.solvers.base import Deadline
from softrobust.solvers.rectangular.rectangular import iterate, nominal_start

FloatArray = NDArray[np.float64]
LAM, ALPHA = 0.5, 0.7


def values_of(
    p: Problem, v: FloatArray, threads: bool = False, out: FloatArray | None = None
) -> FloatArray:
    m = p.models
    return expected_values(m.prob, m.indptr, m.next_states, p.R, v, p.gamma, threads, out)


def met_in_a_solve(A: int, N: int, smoke: bool) -> tuple[FloatArray, FloatArray]:
    """Games met in a solve: Z at its start (values of the mean model) and one sweep later."""
    p = random_dense(S=12 if smoke else 40, A=A, N=N, lam=LAM, alpha=ALPHA)
    Z = values_of(p, nominal_start(Sweeps(p)))
    games = solve_games(Z, p.models.f, SoftRobust(LAM, ALPHA).q_bounds(p.models.f), LAM)
    return Z, values_of(p, games.lb)


def independent(A: int, N: int, smoke: bool) -> tuple[FloatArray, FloatArray]:
    """The hardest games: independent normal entries, where d spreads over many actions."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4 if smoke else 40, A, N))
    return Z, Z + 1e-4 * rng.normal(size=Z.shape)


def three_factors(A: int, N: int, smoke: bool) -> tuple[FloatArray, FloatArray]:
    """Games in between: models differ by three common factors, d spreads over two to four actions.

    A level per action, loadings on the factors, and a little noise: posteriors of few parameters
    look like this.
    """
    rng = np.random.default_rng(0)
    S = 4 if smoke else 40
    Z = 0.3 * rng.normal(size=(S, A, 1)) + 0.1 * rng.normal(size=(S, A, N))
    Z += rng.normal(size=(S, A, 3)) @ rng.normal(size=(S, 3, N)) / 3**0.5
    return Z, Z + 1e-4 * rng.normal(size=Z.shape)


@case("s-game")
def s_game(smoke: bool) -> Iterator[Figure]:
    N = 20 if smoke else 100
    for A, make, what, goals in (
        (5, met_in_a_solve, "met in a solve", ("≥ 200", "≥ 1500")),
        (50, met_in_a_solve, "met in a solve", ("≥ 80", "")),
        (5, three_factors, "three common factors", ("≥ 200", "≥ 1500")),
        (50, three_factors, "three common factors", ("≥ 80", "")),
        (5, independent, "independent normal", ("", "")),
        (50, independent, "independent normal", ("", "")),
    ):
        z, z2 = make(A, N, smoke)
        f = np.full(N, 1 / N)
        u = np.minimum(f / (1 - ALPHA), 1)
        start = solve_games(z, f, u, LAM)
        many, many2 = (np.tile(x, (10, 1, 1)) for x in (z, z2))  # ours: too fast to time alone
        starts = solve_games(many, f, u, LAM)
        cold_t, warm_t, lp_t, highs_t, block_t = race(
            smoke,
            partial(solve_games, many, f, u, LAM),
            partial(solve_games, many2, f, u, LAM, start=starts),
            partial(linprog_games, z, f, LAM, ALPHA),
            partial(WarmHighs(z, f, LAM, ALPHA).solve, z2),
            partial(block_lp, z, f, LAM, ALPHA),
            seconds=8,
        )
        cold_t, warm_t = cold_t / 10, warm_t / 10
        name = f"S game {A} × {N}, {what}"
        note = (
            f"mean support {(start.d > 0).sum(axis=1).mean():.1f}; "
            f"{1e6 * cold_t / len(z):.1f} µs cold, {1e6 * warm_t / len(z):.1f} warm"
        )
        one, faster = "linprog per state", "times faster"
        yield Figure(f"{name}, cold", one, lp_t / cold_t, faster, goals[0], note)
        yield Figure(f"{name}, warm", one, lp_t / warm_t, faster, goals[1])
        yield Figure(f"{name}, warm", "warm highspy", highs_t / warm_t, faster)
        yield Figure(f"{name}, cold", "one block-diagonal LP", block_t / cold_t, faster)


@case("sa-selection")
def sa_selection(smoke: bool) -> Iterator[Figure]:
    rival_name, faster = "weighted argsort (numpy)", "times faster"
    for N in (100, 1000):
        p = random_dense(S=12 if smoke else 30, A=5, N=20 if smoke else N, lam=LAM, alpha=ALPHA)
        f, u = p.models.f, SoftRobust(LAM, ALPHA).q_bounds(p.models.f)
        Z = values_of(p, nominal_start(Sweeps(p)))
        first, _, _ = best_actions(Z, f, u, LAM)
        rows = np.ascontiguousarray(Z.reshape(-1, f.size))
        warm, cold, rival, tails = race(
            smoke,
            partial(best_actions, Z, f, u, LAM, first),
            partial(best_actions, Z, f, u, LAM),
            partial(argsort_sa, Z, f, LAM, ALPHA),
            partial(tail_values, rows, u, False),
        )
        name = f"SA update 5 × {N}"
        yield Figure(f"{name}, last best action known", rival_name, rival / warm, faster, "≥ 5")
        yield Figure(f"{name}, nothing known", rival_name, rival / cold, faster)
        yield Figure(f"CVaR of every row, N = {N}", rival_name, rival / tails, faster)


def large(smoke: bool) -> Problem:
    """Dense, A = 5, N = 100, ten times the cache."""
    if smoke:
        return random_dense(S=12, A=2, N=10)
    return random_dense(S=int((10 * cache_bytes() / (8 * 5 * 100)) ** 0.5) + 1)


@case("bandwidth")
def bandwidth(smoke: bool) -> Iterator[Figure]:
    need = 2**16 if smoke else 10 * cache_bytes()
    sparse = scattered(S=need // (8 * 4 * 50 * 10) + 20)
    for name, p in (("dense", large(smoke)), ("ten shared next states", sparse)):
        m, size = p.models, p.models.prob.nbytes
        v = np.random.default_rng(0).normal(size=p.n_states)
        single = m.prob.astype(np.float32)
        Z = np.empty(p.R.shape)  # once, as a sweep does with its own: it never holds all of Z
        for threads, cores in ((False, "one core"), (True, "all cores")):
            from_single = partial(
                expected_values, single, m.indptr, m.next_states, p.R, v, p.gamma, threads, Z
            )
            ours, fresh, half, read = race(
                smoke,
                partial(values_of, p, v, threads, Z),
                partial(values_of, p, v, threads),
                from_single,
                partial(read_streams, m.prob),
                seconds=4,
                wall=threads,
            )
            yield Figure(
                f"Z, {name}, {cores}",
                "eight-stream read of the same bytes, one core",
                read / ours,
                "of read bandwidth",
                "" if threads else "≥ 0.7",
                f"{size / 1e9:.2f} GB at {size / ours / 1e9:.1f} GB/s",
            )
            yield Figure(
                f"Z, {name}, {cores}, a new array each time",
                "eight-stream read of the same bytes, one core",
                read / fresh,
                "of read bandwidth",
            )
            yield Figure(
                f"Z from float32, {name}, {cores}", "Z from float64", ours / half, "times faster"
            )


@case("late-sweep")
def late_sweep(smoke: bool) -> Iterator[Figure]:
    p = large(smoke)
    for kind, name in ((S_GAME, "S"), (SA_GAME, "SA")):
        sweeps, bare = Sweeps(p), Sweeps(p)
        sweeps.threads = bare.threads = False
        v = iterate(sweeps, kind, nominal_start(sweeps), 1e-8, Deadline(None), 100)[0].v
        bare.warm = sweeps.warm
        bare.out = bare.out._replace(mixed=np.zeros(0))
        z, plain, mixed = race(
            smoke,
            partial(values_of, p, v),
            partial(bare.run, kind, v),
            partial(sweeps.run, kind, v),
            seconds=4,
        )
        what = f"{name} sweep at the solution, dense {p.n_states} × {p.n_actions} × {p.n_models}"
        share = "of the rival's time"
        yield Figure(what, "Z alone", plain / z, share, "≤ 1.3")
        yield Figure(f"{what}, with Newton's rows", "Z alone", mixed / z, share)
