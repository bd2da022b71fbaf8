"""Draws from elsewhere: arrays, ArviZ, Stan's CSV; rows are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.data import Labels, Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.models.files import save_models
from softrobust.posterior import (
    DirichletPosterior,
    DrawsPosterior,
    ExternalPosterior,
    Frame,
    TiedPosterior,
    load_posterior,
)
from softrobust.posterior.diagnostics import import_arviz

FRAME = Frame(
    Labels(("dry", "wet"), noun="state"), Labels(("wait",), noun="action"),
    Rewards.of_pairs([[1.0], [0.0]]), np.array([1.0, 0.0]), 0.9,
)  # fmt: skip


def rows(draw: dict[str, Any]) -> Any:
    """Rain with probability p, drying with probability q[0]."""
    p, q = draw["p"], draw["q"][0]
    return [[[1 - p, p]], [[q, 1 - q]]]


def draws(chains: int = 2, n: int = 50) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"p": rng.beta(2, 5, (chains, n)), "q": rng.beta(5, 2, (chains, n, 1))}


def test_arrays() -> None:
    flat = {k: v.reshape(100, *v.shape[2:]) for k, v in draws().items()}
    models = ExternalPosterior.of_arrays(flat, rows, FRAME).fit().sample(100, seed=3)
    assert sorted(models.P[:, 0, 0, 1]) == sorted(flat["p"])
    assert models.gamma == 0.9
    assert models.rewards is not None


def test_inference_data(tmp_path: Path) -> None:
    arviz = import_arviz()
    data = arviz.from_dict(posterior=draws(), sample_stats={"diverging": np.zeros((2, 50), bool)})
    fitted = ExternalPosterior.from_arviz(data, rows, FRAME).fit()
    quality = fitted.diagnostics()
    assert set(quality.parameters) == {"p", "q"}
    assert quality.parameters["p"].rhat < 1.1
    assert any(note.code == "few_effective_draws" for note in quality.problems)
    data.to_netcdf(str(tmp_path / "draws.nc"))
    again = ExternalPosterior.from_arviz(tmp_path / "draws.nc", rows, FRAME).fit()
    np.testing.assert_array_equal(again.sample(9, 1).prob, fitted.sample(9, 1).prob)
    with pytest.raises(InputError, match="no group 'posterior'"):
        ExternalPosterior.from_arviz(object(), rows, FRAME)


def test_stan_files(tmp_path: Path) -> None:
    for chain, values in enumerate(((0.2, 0.7), (0.4, 0.6))):
        text = "# stan_version\nlp__,divergent__,p,q.1\n"
        text += f"-1,0,{values[0]},{values[1]}\n# adapted\n-2,1,{values[0] + 0.1},{values[1]}\n"
        (tmp_path / f"chain{chain}.csv").write_text(text)
    made = ExternalPosterior.from_stan_csv(sorted(tmp_path.glob("*.csv")), rows, FRAME)
    assert made.n_draws == 4
    np.testing.assert_allclose(made.draws["p"], [[0.2, 0.3], [0.4, 0.5]])
    assert made.draws["q"].shape == (2, 2, 1)
    assert made.diverging is not None
    assert made.diverging.sum() == 2
    with pytest.raises(InputError, match="no file"):
        ExternalPosterior.from_stan_csv(tmp_path / "nothing.csv", rows, FRAME)
    for text, words in (
        ("p\n", "holds no draws"), ("p\nx\n", "not a CSV file of Stan"),
        ("p,q\n1\n", "not a CSV file of Stan"), ("p.x\n1\n", "not a CSV file of Stan"),
        ("p.99999999999\n1\n", "lacks entries of 'p'"), ("p,p.1\n1,2\n", "lacks entries of 'p'"),
        ("p.-1.-1\n1\n", "lacks entries of 'p'"), ("p.1,p.1\n1,2\n", "lacks entries of 'p'"),
    ):  # fmt: skip
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(InputError, match=words):
            ExternalPosterior.from_stan_csv(tmp_path / "bad.csv", rows, FRAME)


def test_saved_without_its_function(tmp_path: Path) -> None:
    log = TransitionLog.from_arrays(["dry"], ["wait"], ["wet"], [1.0])
    fitted = ExternalPosterior(draws(), rows, FRAME).fit(log)
    fitted.save(tmp_path / "p.npz")
    with pytest.raises(InputError, match=r"no code.*rows="):
        load_posterior(tmp_path / "p.npz")
    read = load_posterior(tmp_path / "p.npz", rows=rows)
    np.testing.assert_array_equal(read.sample(5, 1).prob, fitted.sample(5, 1).prob)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "fn", "message"),
    [
        ({}, rows, "no draws"),
        ({"p": np.zeros(4)}, rows, "same chains and draws"),
        ({"p": np.zeros((2, 3)), "q": np.zeros((2, 4, 1))}, rows, "'q' has"),
        ({"p": np.full((1, 2), np.nan)}, rows, "finite"),
        ({"p": np.zeros((1, 2)), "q": np.ones((1, 2, 1))}, lambda _: [[0.0]], "must return"),
    ],
)
def test_refused(given: dict[str, Any], fn: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExternalPosterior(given, fn, FRAME).fit()


def test_rows_that_are_no_distribution_are_refused() -> None:
    bad = ExternalPosterior(draws(), lambda _: [[[0.5, 0.6]], [[0.0, 1.0]]], FRAME).fit()
    with pytest.raises(InputError, match="rows must sum to 1"):
        bad.sample(2)
    with pytest.raises(InputError, match="100 draws were kept"):
        bad.sample(101)


def noisy_log(shift: float = 0.0, noise: float = 0.05) -> TransitionLog:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 5, 200), rng.integers(0, 2, 200)
    to = np.clip(s + rng.integers(-1, 2, 200), 0, 4)
    reward = 0.1 * s - 0.2 * a + noise * rng.standard_normal(200) + shift
    names = [f"s{i}" for i in range(5)]
    return TransitionLog.from_arrays(
        [names[i] for i in s], [f"a{i}" for i in a], [names[i] for i in to], reward,
        state_names=names,
    )  # fmt: skip


@pytest.mark.parametrize("prior", [DirichletPosterior(), TiedPosterior()], ids=["own", "tied"])
@pytest.mark.parametrize("noted", [True, False])
def test_draws_of_a_noisy_log_know_its_means(prior: Any, noted: bool, tmp_path: Path) -> None:
    log, file = noisy_log(), str(tmp_path / "draws.npz")
    drawn = prior.fit(log).sample(9)
    assert log.rewards is not None
    rewards = log.rewards if noted else Rewards.of_pairs(log.rewards.pairs)  # as another tool has
    save_models(file, replace(drawn, rewards=rewards))
    known = DrawsPosterior(file).fit(log).sample(3).rewards
    assert known is not None
    np.testing.assert_array_equal(known.pairs, log.rewards.pairs)
    with pytest.raises(InputError, match=r"must be those of draws\.npz.*draw the models from this"):
        DrawsPosterior(file).fit(noisy_log(shift=0.5))
    with pytest.raises(InputError, match=r"must be those of draws\.npz"):
        DrawsPosterior(file).fit(noisy_log(shift=0.05, noise=0.0))  # no noise explains it
