"""Whole rectangular solves: passes over the models, and times against LPs and ordinary solves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.rect_kernels import values_of
from benchmarks.rectangles import pest_like, random_dense, ring
from benchmarks.registry import Figure, case, race
from benchmarks.rivals import linprog_games, value_iteration
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import rectangular_sweeps as _rectangle
from softrobust.returns.rectangular_sweeps import Bracket, SweepBatch, Sweeps
from softrobust.solvers.base import Deadline
from softrobust.solvers.rectangular.rectangular import (
    Rectangular,
    SARect,
    SolvedPoint,
    SRect,
    iterate,
    nominal_start,
    solve_points,
)

FloatArray = NDArray[np.float64]
KINDS = ((S_GAME, "S-rect"), (SA_GAME, "SA-rect"))


def solve(p: Problem, kind: int, tol: float = 1e-8) -> tuple[Sweeps, Bracket]:
    """The solver without the policy's exact static value, nothing remembered from earlier."""
    _rectangle._MEANS.pop(p.models, None)
    sweeps = Sweeps(p)
    return sweeps, iterate(sweeps, kind, nominal_start(sweeps), tol, Deadline(None), 1000)[0]


@case("passes")
def passes(smoke: bool) -> Iterator[Figure]:
    from tests.agree.value_iteration import rectangular_value_iteration

    makers: tuple[tuple[str, Callable[[float], Problem]], ...] = (
        ("pest-like 51 × 5 × 100", lambda gamma: pest_like(N=5 if smoke else 100, gamma=gamma)),
        (
            "random 51 × 5 × 100",
            lambda gamma: random_dense(S=8 if smoke else 51, N=5 if smoke else 100, gamma=gamma),
        ),
        ("ring 200 × 3 × 50", lambda gamma: ring(S=20 if smoke else 200, gamma=gamma)),
    )
    for name, make in makers:
        for gamma in (0.9,) if smoke else (0.9, 0.95, 0.99, 0.999):
            p = make(gamma)
            for kind, solver in KINDS:
                sweeps, answer = solve(p, kind)
                assert answer.tol <= 1e-8
                note = f"certified to {answer.tol:.0e}"
                if kind == S_GAME and gamma <= 0.99:
                    rival = value_iteration(p, kind)[1]
                    bounded = rectangular_value_iteration(p, kind)[2]
                    note += (
                        f"; value iteration reads P {rival} times, {bounded} with certified bounds"
                    )
                yield Figure(
                    f"{solver}, {name}, γ = {gamma:g}, to 1e-8",
                    "one read of P",
                    sweeps.passes,
                    "passes",
                    "≤ 15",
                    note,
                )


@case("whole-solve")
def whole_solve(smoke: bool) -> Iterator[Figure]:
    from softrobust.kernels.optimal import solve_models

    p = pest_like(N=5 if smoke else 100)
    some = slice(0, 3 if smoke else None)

    def ordinary() -> None:
        N, S = p.n_models, p.n_states
        V, decisions = np.zeros((N, S)), np.zeros((N, S), np.int64)
        m = p.models
        solve_models(
            False, 0, N, m.indptr, m.next_states, m.prob, p.R, p.allowed, p.gamma,
            1e-8, 10_000, V, decisions, np.empty(N), np.empty(N),
        )  # fmt: skip

    Z = values_of(p, np.zeros(p.n_states))[some]
    s_t, sa_t, lp_t, mdp_t, vi_t = race(
        smoke,
        partial(solve, p, S_GAME),
        partial(solve, p, SA_GAME),
        partial(linprog_games, Z, p.models.f, 0.5, 0.7),
        ordinary,
        partial(value_iteration, p, S_GAME),
        seconds=6,
    )
    size = f"pest-like 51 × 5 × {p.n_models}, γ = .9, to 1e-8"
    share, times = "of the rival's time", "times faster"
    note = f"{1e3 * s_t:.1f} ms"
    yield Figure(f"S-rect, {size}", "one linprog sweep", s_t / lp_t, share, "≤ 0.1", note)
    yield Figure(f"S-rect, {size}", "ordinary solve of the N models", s_t / mdp_t, share, "≤ 2")
    yield Figure(f"SA-rect, {size}", "ordinary solve of the N models", sa_t / mdp_t, share)
    yield Figure(f"S-rect, {size}", "value iteration with the same games", vi_t / s_t, times)


def solved(
    p: Problem, solver: Rectangular, lams: list[float], alphas: list[float], count: int
) -> list[SolvedPoint]:
    """A grid without the policies' exact static values, nothing remembered from earlier."""
    _rectangle._MEANS.pop(p.models, None)
    points = list(solve_points(solver, p, lams, alphas, count))
    assert max(x.found.tol for x in points) <= 1e-8
    return points


def lock_step(
    smoke: bool, p: Problem, solver: Rectangular, lams: list[float], alphas: list[float]
) -> Figure:
    """Points swept together against one at a time, both from their neighbours' answers."""
    together, alone = (partial(solved, p, solver, lams, alphas, count) for count in (8, 1))
    ours, rival = race(smoke, together, alone, seconds=6)
    passes = [sum(x.stats["passes"] for x in run()) for run in (together, alone)]
    size = f"{p.n_states} × {p.n_actions} × {p.n_models}"
    return Figure(
        f"{solver.name} grid of {len(lams)} × {len(alphas)} (λ, α), {size}, eight points together",
        "one point at a time, from its neighbour",
        rival / ours,
        "times faster",
        "",
        f"{ours:.2f} s of processor time without static values; {passes[0]:.0f} passes over P "
        f"({p.models.prob.nbytes / 1e9:.2f} GB) instead of {passes[1]:.0f}",
    )


@case("grid")
def grid(smoke: bool) -> Iterator[Figure]:
    p = pest_like(N=5 if smoke else 100)
    lams = np.linspace(0, 1, 2 if smoke else 20).tolist()
    alphas = np.linspace(0, 0.95, 2 if smoke else 10).tolist()
    some = [(x, y) for x in lams[:: 1 if smoke else 5] for y in alphas[:: 1 if smoke else 3]]
    worst = 0.0

    def whole() -> None:
        nonlocal worst
        _rectangle._MEANS.pop(p.models, None)
        points = SRect().solve_grid(p, lams, alphas)
        worst = max(x.stats["tol_achieved"] for row in points for x in row)
        assert worst <= 1e-8

    def one_by_one() -> None:
        for lam, alpha in some:
            SRect().solve(replace(p, objective=SoftRobust(lam, alpha)))

    ours, alone = race(smoke, whole, one_by_one, seconds=6)
    alone *= len(lams) * len(alphas) / len(some)
    what = f"S-rect grid of {len(lams)} × {len(alphas)} (λ, α), 51 × 5 × {p.n_models}"
    note = f"each certified to {worst:.0e}, static values included"
    yield Figure(what, "one second of processor time, all cores", ours, "s", "≤ 2", note)
    yield Figure(what, "one solve per point", alone / ours, "times faster")
    for solver in (SRect(), SARect()):
        yield lock_step(smoke, p, solver, lams, alphas)


@case("grid-dense")
def grid_dense(smoke: bool) -> Iterator[Figure]:
    p = random_dense(S=12, A=2, N=10) if smoke else random_dense(S=400, A=4, N=100)
    lams = np.linspace(0.1, 1, 2 if smoke else 4).tolist()
    alphas = np.linspace(0, 0.9, 2 if smoke else 6).tolist()
    for solver in (SRect(), SARect()):
        yield lock_step(smoke, p, solver, lams, alphas)
    first = Sweeps(p)
    first.threads = False
    together, v = SweepBatch(first, 8), nominal_start(first)
    values = [v * (1 + 1e-3 * j) for j in range(8)]
    for kind, name in KINDS:
        one, eight = race(
            smoke,
            partial(together.run, kind, [0], values[:1]),
            partial(together.run, kind, range(8), values),
            seconds=4,
        )
        yield Figure(
            f"{name} sweep of eight points together, dense {p.n_states} × {p.n_actions} × "
            f"{p.n_models}",
            "a sweep of one point",
            eight / one,
            "of the rival's time",
        )
