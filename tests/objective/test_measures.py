"""Risk measures by hand, by an LP, and by their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from softrobust.errors import InputError
from softrobust.objective import (
    SoftRobust,
    cvar,
    mean,
    tail_weights,
    upper_value_at_risk,
    value_at_risk,
)

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def samples(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 12))
    x = draw(arrays(float, n, elements=finite))
    raw = draw(arrays(float, n, elements=st.sampled_from([0.0, 1.0, 0.5, 3.0, 1e-3])))
    raw[draw(st.integers(0, n - 1))] += 1.0
    return x, raw / raw.sum()


alphas = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 0.95, 1.0]) | st.floats(0, 1)


def test_quantiles_of_one_to_hundred() -> None:
    x = np.arange(1.0, 101.0)
    assert value_at_risk(x, alpha=0.7) == 30
    assert upper_value_at_risk(x, alpha=0.7) == 31
    # Ten weights of 0.1 add up to 0.30000000000000004 at the third: still the third.
    assert value_at_risk(np.arange(10.0), np.full(10, 0.1), 0.7) == 2
    assert upper_value_at_risk(np.arange(10.0), np.full(10, 0.1), 0.7) == 3


def test_cvar_splits_the_atom_at_the_edge() -> None:
    assert cvar([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], 0.7) == pytest.approx((0.2 * 1 + 0.1 * 2) / 0.3)


def test_ends_of_alpha() -> None:
    x, f = np.array([5.0, -3.0, 1.0]), np.array([0.5, 0.0, 0.5])
    assert cvar(x, f, 0.0) == mean(x, f) == 3.0
    assert cvar(x, f, 1.0) == 1.0  # the model of weight zero does not count


@given(samples(), alphas)
def test_cvar_is_the_rockafellar_uryasev_maximum(
    sample: tuple[np.ndarray, np.ndarray], alpha: float
) -> None:
    x, f = sample
    if 1 - alpha < 1e-9:
        return
    scale = max(1.0, float(np.abs(x).max()))
    # The maximum over b of b − E[(b − x)₊]/(1 − α) (eq. 3.2) is attained at a sample point.
    best = max(b - np.maximum(b - x, 0) @ f / (1 - alpha) for b in x[f > 0])
    assert cvar(x, f, alpha) == pytest.approx(best, abs=1e-8 * scale / (1 - alpha))


@given(samples(), alphas, st.floats(0, 1))
def test_soft_robust_is_the_minimum_over_its_set(
    sample: tuple[np.ndarray, np.ndarray], alpha: float, lam: float
) -> None:
    x, f = sample
    objective = SoftRobust(lam, alpha)
    xi = objective.worst_case(x, f)
    low, high = objective.xi_bounds(f)
    scale = max(1.0, float(np.abs(x).max()))
    assert xi.sum() == pytest.approx(1, abs=1e-9)
    assert (xi >= low - 1e-9).all()
    assert (xi <= high + 1e-9 * np.maximum(1, high)).all()
    assert objective.value(x, f) == pytest.approx(float(xi @ x), abs=1e-8 * scale)


@pytest.mark.parametrize("seed", range(20))
def test_worst_case_equals_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, f = rng.normal(size=9), rng.dirichlet(np.ones(9))
    objective = SoftRobust(rng.random(), rng.random() * 0.98)
    low, high = objective.xi_bounds(f)
    lp = linprog(x, A_eq=np.ones((1, 9)), b_eq=[1.0], bounds=list(zip(low, high, strict=True)))
    assert objective.value(x, f) == pytest.approx(lp.fun, abs=1e-9)


@given(samples(), alphas)
def test_order_of_the_measures(sample: tuple[np.ndarray, np.ndarray], alpha: float) -> None:
    x, f = sample
    slack = 1e-9 * max(1.0, float(np.abs(x).max()))
    low, high = x[f > 0].min(), x[f > 0].max()
    assert low - slack <= cvar(x, f, alpha) <= mean(x, f) + slack
    assert low <= value_at_risk(x, f, alpha) <= upper_value_at_risk(x, f, alpha) <= high
    assert cvar(x, f, alpha) <= value_at_risk(x, f, alpha) + slack
    assert tail_weights(x, f, alpha).sum() == pytest.approx(1, abs=1e-9)


def test_tail_reads_as_people_say_it() -> None:
    assert SoftRobust(0.5, 0.9).words == "the worst 10 % of models"
    assert SoftRobust.from_tail(0.5, 0.1) == SoftRobust(0.5, 0.9)
    assert SoftRobust(0.5, 1.0).words == "the worst single model"


@pytest.mark.parametrize(
    ("lam", "alpha", "name"),
    [(-0.1, 0.5, "lambda"), (0.5, 1.2, "alpha"), (float("nan"), 0.5, "lambda")],
)
def test_shares_outside_the_unit_interval(lam: float, alpha: float, name: str) -> None:
    with pytest.raises(InputError, match=rf"{name} must lie in \[0, 1\]"):
        SoftRobust(lam, alpha)


def test_values_must_be_finite() -> None:
    with pytest.raises(InputError, match="entry 1 is not"):
        cvar([0.0, np.nan])


@pytest.mark.parametrize("f", [[0.0, 0.0], [5.0, 5.0], [1.5, -0.5], [np.nan, 1.0]])
def test_bad_weights(f: list[float]) -> None:
    for measure in (mean, value_at_risk, upper_value_at_risk, cvar):
        with pytest.raises(InputError, match=r"sum to 1"):
            measure([1.0, 2.0], f)
