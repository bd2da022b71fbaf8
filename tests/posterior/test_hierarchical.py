"""Learned strength: the density by brute force, limits, and rows given the strength."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior, HierarchicalPosterior


def coin_log(heads: list[int], throws: int) -> TransitionLog:
    """One state per coin; a throw leads to state h or t."""
    s, to = [], []
    for i, k in enumerate(heads):
        s += [f"c{i}"] * throws
        to += ["h"] * k + ["t"] * (throws - k)
    return TransitionLog.from_arrays(s, ["go"] * len(s), to, np.zeros(len(s)))


def test_density_equals_brute_force() -> None:
    """Beta-binomial coins on a support of two states."""
    heads, throws = [0, 4, 4, 1], 4
    log = coin_log(heads, throws)
    mask = np.zeros((len(log.states),) * 2, bool)
    mask[:, [log.states.index("h"), log.states.index("t")]] = True
    fitted = HierarchicalPosterior(2.0, 0.7, support=mask).fit(log)
    x = np.linspace(-4, 6, 20_001)
    half = np.exp(x) / 2
    level = -0.5 * ((x - np.log(2.0)) / 0.7) ** 2
    for k in heads:
        level = level + betaln(half + k, half + throws - k) - betaln(half, half)
    density = np.exp(level - level.max())
    density /= density.sum() * (x[1] - x[0])
    own = np.interp(x, fitted.grid.x, fitted.grid.density, left=0, right=0)
    np.testing.assert_allclose(own, density, atol=2e-5 * density.max())
    assert fitted.grid.mean() == pytest.approx(float((x * density).sum() * (x[1] - x[0])), abs=1e-4)
    assert np.isfinite(gammaln(fitted.grid.x[0]) if fitted.grid.x[0] > 0 else 0.0)


def test_concentrated_rows_pull_the_strength_down() -> None:
    sharp = HierarchicalPosterior().fit(coin_log([0, 6, 6, 0, 6, 0], 6))
    spread = HierarchicalPosterior().fit(coin_log([3, 3, 3, 3, 3, 3], 6))
    assert sharp.strengths(500).mean() < 0.5 * spread.strengths(500).mean()


def test_a_narrow_prior_is_the_plain_posterior() -> None:
    log = coin_log([1, 2], 3)
    models = HierarchicalPosterior(3.0, 1e-6).fit(log).sample(20_000, seed=0)
    plain = DirichletPosterior(strength=3.0).fit(log).mean()
    s = log.states.index("c0")
    np.testing.assert_allclose(
        models.block(s, 0)[1].mean(axis=0), plain.block(s, 0)[1][0], atol=0.01
    )


def test_refused() -> None:
    with pytest.raises(InputError, match="spread must be a positive"):
        HierarchicalPosterior(spread=0.0)
