"""Population posterior: a short run, resumed, saved, extended; refusals; failure of the sampler."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.data import TransitionLog
from softrobust.domains import PestControl
from softrobust.errors import InputError, SolverError
from softrobust.posterior import Nuts, PopulationPosterior, PosteriorWarning, load_posterior
from softrobust.posterior.diagnostics import check_divergence
from softrobust.posterior.nuts import sampler
from softrobust.posterior.population import FittedPopulation

pytest.importorskip("numpyro")
SHORT = {"chains": 2, "warmup": 60, "draws": 40, "block": 20}


def short_fit(log: TransitionLog, **more: object) -> FittedPopulation:
    """A run that is too short to be trusted, and says so."""
    settings = Nuts(**(SHORT | more))  # type: ignore[arg-type]
    with pytest.warns(PosteriorWarning, match=r"effective_size .* continue the chains"):
        return PopulationPosterior(nuts=settings).fit(log)


def test_a_short_run_resumed_saved_and_extended(tmp_path: Path) -> None:
    log = PestControl(steps=40).collect(0)
    whole = short_fit(log)
    assert whole.theta.shape == (80, 4)
    file = tmp_path / "chains.npz"
    short_fit(log, draws=20, checkpoint=str(file))
    resumed = short_fit(log, checkpoint=str(file))
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    with pytest.raises(InputError, match=r"chains\.npz has 40 per chain, draws is 30.*draws=40"):
        PopulationPosterior(nuts=Nuts(**(SHORT | {"draws": 30}), checkpoint=str(file))).fit(log)
    with pytest.raises(InputError, match="other data or settings"):
        PopulationPosterior(nuts=Nuts(**SHORT, seed=5, checkpoint=str(file))).fit(log)

    whole.save(tmp_path / "posterior.npz")
    read = load_posterior(tmp_path / "posterior.npz")
    assert isinstance(read, FittedPopulation)
    np.testing.assert_array_equal(read.sample(7, 3).prob, whole.sample(7, 3).prob)
    longer, other = whole.extend(20), read.extend(20)
    assert longer.chains.n_draws == 120
    for draws in (2.5, "a", 0):
        with pytest.raises(InputError, match="number of draws must be a whole number ≥ 1"):
            whole.extend(draws)  # type: ignore[arg-type]
    np.testing.assert_array_equal(longer.theta, other.theta)
    np.testing.assert_array_equal(longer.chains.values["mu"][:, :40], whole.chains.values["mu"])

    with within(1e-3) as clock:  # the first block of each chain, whatever time is left
        cut = short_fit(log, draws=60)
        assert clock.cut == ["draws"]
    np.testing.assert_array_equal(cut.theta, short_fit(log, draws=20).theta)

    models = whole.sample(80, seed=1)
    assert (models.gamma, models.n_states) == (0.9, 51)
    with pytest.raises(InputError, match=r"81 models .*extend"):
        whole.sample(81)
    names = whole.diagnostics().parameters
    assert {"mu", "mu0", "mu1", "mu2", "ext_mu", "sigma[4]"} <= set(names)


def test_what_the_largest_population_hides_is_noticed() -> None:
    """Rows that end at 50 look like little growth; where there are none, nothing is said."""
    rng = np.random.default_rng(0)
    n, a = rng.integers(0, 51, 150), np.arange(150) % 5
    to = np.clip(np.round(n * rng.normal(2.0, 0.3, 150)) + 3, 0, 50).astype(int)
    name = "share of full populations"
    assert name in short_fit(TransitionLog.from_arrays(n, a, to)).diagnostics().missed
    few = np.round(n / 3) + 3
    free = short_fit(TransitionLog.from_arrays(n, a, few.astype(int))).diagnostics()
    assert free.predictive[name] == 0.5


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (TransitionLog.from_arrays([3, 60], [0, 1], [9, 3]), r"row 2 .*'60'"),
        (TransitionLog.from_arrays([3], [7], [9]), "knows the actions"),
        (TransitionLog.from_arrays([3], [0], [9], [5.0]), "the domain pays 991"),
    ],
)
def test_refused(log: TransitionLog, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PopulationPosterior().fit(log)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(InputError, match="at least one transition"):
        PopulationPosterior().fit(TransitionLog.from_arrays([], [], []))


def test_a_sampler_that_diverges_everywhere_is_an_error() -> None:
    draws = {"mu": np.random.default_rng(0).normal(size=(2, 10))}
    with pytest.raises(SolverError, match=r"100% of its transitions diverged.*nothing was kept"):
        check_divergence(np.ones((2, 10), bool), draws)
    with pytest.raises(SolverError, match="'mu' is NaN"):
        check_divergence(np.zeros((2, 10), bool), {"mu": np.full((2, 10), np.nan)})
    with pytest.raises(SolverError, match="no way through"):
        check_divergence(np.zeros((2, 10), bool), {"mu": np.ones((2, 10))})
    still = {"sigma": np.broadcast_to(np.arange(3.0), (2, 10, 3))}  # parameters differ, none moves
    with pytest.raises(SolverError, match="no way through"):
        check_divergence(np.zeros((2, 10), bool), still)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_divergence(np.zeros((2, 10), bool), draws)
        check_divergence(np.zeros((1, 1), bool), {"mu": np.ones((1, 1))})  # one draw cannot tell


def nowhere(data: Any) -> None:
    """A density that is nowhere defined but at the start."""
    import numpyro
    import numpyro.distributions as dist

    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    numpyro.factor("pit", data["y"][0] / (x - x))


def test_nothing_is_written_when_the_sampler_fails(tmp_path: Path) -> None:
    data = {"y": np.zeros(3)}
    file = tmp_path / "chains.npz"
    nuts = Nuts(1, 5, 5, checkpoint=str(file))
    run = sampler(nowhere, lambda data: {"x": data["y"][0]}, nuts, data)
    with pytest.raises(SolverError, match="no draw is usable"):
        run.sample(data, nuts, "Nowhere")
    assert not file.exists()


@pytest.mark.slow
def test_the_problem_of_pest_control() -> None:
    domain = PestControl()
    problem = domain.problem(0, 20)
    assert (problem.n_models, problem.gamma, problem.objective.alpha) == (20, 0.9, 0.7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"chains": 0}, "chains"), ({"draws": 1.5}, "draws"), ({"target_accept": 1.0}, "target")],
)
def test_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Nuts(**settings)  # type: ignore[arg-type]
