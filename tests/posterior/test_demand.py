"""Demand: the closed form, censoring by brute force, truncation, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from softrobust.data import TransitionLog
from softrobust.domains import Inventory
from softrobust.errors import InputError
from softrobust.posterior import DemandPosterior, Shop, load_posterior
from softrobust.posterior.demand import Demands, FittedDemand

NONE = np.zeros(0, np.int64)


def test_conjugate() -> None:
    d = np.array([9, 12, 10])
    fitted = DemandPosterior().fit_demands(Demands(d, NONE))
    law = stats.gamma(4 + d.sum(), scale=6 / (6 * 3 + 1))
    assert (fitted.shape, 1 / fitted.rate) == pytest.approx((4 + 31, 6 / 19))
    assert stats.kstest(fitted.means(20_000, 0), law.cdf).pvalue > 1e-3
    assert fitted.diagnostics().exact
    assert not fitted.diagnostics().problems


@pytest.mark.parametrize("truncated", [False, True])
def test_censored_rows_by_brute_force(truncated: bool) -> None:
    d, bounds = np.array([9, 12, 10]), np.array([15, 8])
    shop = Shop(max_demand=20)
    fitted = DemandPosterior(truncated=truncated, shop=shop).fit_demands(Demands(d, bounds))
    mu = np.linspace(0.01, 60, 60_001)
    inside = stats.poisson.cdf(20, mu) if truncated else 1.0
    density = stats.gamma(4, scale=6).pdf(mu)
    for x in d:
        density = density * stats.poisson.pmf(x, mu) / inside
    for c in bounds:
        top = stats.poisson.sf(20, mu) if truncated else 0.0
        density = density * (stats.poisson.sf(c - 1, mu) - top) / inside
    density /= density.sum()
    cdf = np.cumsum(density)
    draws = fitted.means(20_000, 3)
    assert stats.kstest(draws, lambda x: np.interp(x, mu, cdf)).pvalue > 1e-3


def test_leaving_censored_rows_out_underestimates() -> None:
    rng = np.random.default_rng(0)
    domain = Inventory(mean_demand=10.0)
    # Always order up to 10: about half of the rows sell out.
    s, rows = 0, []
    for _ in range(400):
        a = 10 - s
        after = int(domain.step(np.array([s]), np.array([a]), rng)[0])
        rows.append((s, a, after))
        s = after
    log = TransitionLog.from_arrays(
        *(list(x) for x in zip(*rows, strict=True)), state_names=range(51), action_names=range(41)
    )
    right = DemandPosterior().fit(log)
    assert right.means(2000).mean() == pytest.approx(10.0, abs=0.7)
    wrong = DemandPosterior(censored="exclude").fit(log)
    assert wrong.means(2000).mean() < 8.5
    assert wrong.sample(2).notes[0].code == "censored_rows_left_out"
    assert right.sample(2).notes[0].code == "censored_rows_are_limits"
    assert right.describe()["censored_rows"] > 100
    with pytest.raises(InputError, match=r"stock ran out in .* rows"):
        DemandPosterior(censored="refuse").fit(log)


def test_models_bring_their_world() -> None:
    domain = Inventory()
    log = domain.collect(0)
    models = domain.posterior().fit(log).sample(5, seed=1)
    assert models.gamma == 0.99
    assert models.rewards is not None
    assert models.p0 is not None
    np.testing.assert_allclose(models.p0, 1 / 51)
    assert (models.n_states, models.n_actions) == (51, 41)
    np.testing.assert_allclose(models.P.sum(axis=3), 1.0, atol=1e-12)


def test_backlog_reveals_the_demand() -> None:
    domain = Inventory(shop=Shop(max_backlog=60))
    fitted = domain.posterior().fit(domain.collect(0))
    assert fitted.demands.at_least.size == 0
    assert fitted.grid is None


def log_of(*rows: tuple[Any, Any, Any], **names: Any) -> TransitionLog:
    s, a, to = (list(x) for x in zip(*rows, strict=True))
    return TransitionLog.from_arrays(s, a, to, **names)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (log_of((0, 5, 2), (2, 4, 51)), r"knows the states.*row 2.*'51'"),
        (log_of((0, 5, 7)), "cannot exceed what was there"),
        (log_of(("0", "5", "2.5")), "whole units: the state '2.5'"),
        (log_of((0, 50, 7)), r"knows the actions.*'50'"),
    ],
)
def test_refused_logs(log: TransitionLog, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DemandPosterior().fit(log)


def test_rewards_of_another_world_are_refused() -> None:
    log = TransitionLog.from_arrays([0], [5], [2], [1.0], state_names=range(51))
    with pytest.raises(InputError, match="rewards of the log must be those of The inventory"):
        DemandPosterior().fit(log)


def test_a_fit_without_a_log_is_written_and_read(tmp_path: Path) -> None:
    for bounds in (NONE, np.array([15, 8])):
        fitted = DemandPosterior(shape=np.float64(3)).fit_demands(
            Demands(np.array([9, 12, 10]), bounds)
        )
        fitted.save(tmp_path / "posterior.npz")
        read = load_posterior(tmp_path / "posterior.npz")
        assert isinstance(read, FittedDemand)
        np.testing.assert_array_equal(read.means(50, 3), fitted.means(50, 3))
        np.testing.assert_array_equal(read.sample(4, 1).prob, fitted.sample(4, 1).prob)
        assert read.describe() == fitted.describe()
        assert read.diagnostics() == fitted.diagnostics()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([4, -3], "A lower bound of demand .*cannot be negative: value 2 of 2 is -3"),
        ([2.5], "whole units .*value 1 of 1 is 2.5"),
        ([np.nan], "is nan"),
        (["many"], "number of units"),
    ],
)
@pytest.mark.parametrize("censored", ["likelihood", "exclude"])
def test_refused_bounds(bounds: list[Any], message: str, censored: Any) -> None:
    with pytest.raises(InputError, match=message):
        DemandPosterior(censored=censored).fit_demands(Demands(np.array([1]), bounds))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "demands", "message"),
    [
        ({"shape": 0.0}, [1], "positive shape"),
        ({"censored": "guess"}, [1], "likelihood, exclude or refuse"),
        ({}, [1.5], "whole units"),
        ({}, [-2], "negative"),
        ({"truncated": True}, [60], "max_demand"),
    ],
)
def test_refused(settings: dict[str, Any], demands: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DemandPosterior(**settings).fit_demands(Demands(np.array(demands), NONE))
