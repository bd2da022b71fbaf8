"""Laws of the rectangular operators: monotone, contracting, shift-equivariant; ρ^RA ≤ ρ^R."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_GAME, SA_NATURE
from softrobust.problem import Problem
from softrobust.returns.dynamic import s_rect_return, sa_rect_return
from softrobust.returns.rectangular_sweeps import Sweeps
from tests.instances import random_problem

FloatArray = NDArray[np.float64]

seeds = st.integers(0, 10**6)
levels = st.sampled_from([0.0, 1e-6, 0.3, 0.5, 1.0])
kinds = st.sampled_from([S_GAME, SA_GAME, S_NATURE, SA_NATURE])


def apply(problem: Problem, kind: int, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    sweeps = Sweeps(problem)
    sweeps.out.d[:] = problem.uniform_policy().probs
    sweeps.run(kind, v)
    return sweeps.out.lb, sweeps.out.ub


@settings(max_examples=60, deadline=None)
@given(seeds, levels, levels, kinds)
def test_operators(seed: int, lam: float, alpha: float, kind: int) -> None:
    p = random_problem(seed, lam=lam, alpha=alpha, masks=True)
    rng = np.random.default_rng(seed)
    v = rng.normal(size=p.n_states)
    higher = v + rng.exponential(size=p.n_states)
    low, high = apply(p, kind, v)
    assert (low <= high).all()
    assert (high - low).max() <= 1e-8
    above_low, above_high = apply(p, kind, higher)
    assert (low <= above_high).all()  # monotone
    assert (above_low - high).max() <= p.gamma * (higher - v).max()  # contracting
    shift_low, shift_high = apply(p, kind, v + 7.0)
    assert (shift_low <= high + 7.0 * p.gamma + 1e-14).all()  # shift-equivariant
    assert (shift_high >= low + 7.0 * p.gamma - 1e-14).all()


@settings(max_examples=40, deadline=None)
@given(seeds, levels, levels)
def test_nature_with_fewer_ties_is_stronger(seed: int, lam: float, alpha: float) -> None:
    p = random_problem(seed, lam=lam, alpha=alpha, masks=True)
    rng = np.random.default_rng(seed)
    probs = p.uniform_policy().probs * rng.uniform(0.1, 1.0, size=(p.n_states, p.n_actions))
    policy = type(p.uniform_policy())(
        probs / probs.sum(axis=1, keepdims=True), p.models.states, p.models.actions
    )
    one, both = sa_rect_return(p, policy), s_rect_return(p, policy)
    assert one <= both + 1e-9 * max(1.0, abs(both))
