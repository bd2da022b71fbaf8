"""Continuous models: features, moments of draws, selections and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.data import Labels
from softrobust.errors import InputError
from softrobust.models.gaussian import (
    GaussianFrame,
    GaussianModels,
    Scaling,
    load_gaussian,
    save_gaussian,
)

FRAME = GaussianFrame(
    Labels(("x", "y"), noun="variable"), Labels(("off", "on"), noun="action"),
    np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([0.0, -2.0]), np.array([1.0, 2.0]), 0.9, 5,
)  # fmt: skip


def models(n: int = 3, varying: bool = False) -> GaussianModels:
    rng = np.random.default_rng(0)
    F = len(FRAME.feature_names)
    return GaussianModels(
        rng.normal(size=(n, F, 2)),
        rng.random((n, F if varying else 1, 2)),
        np.full(n, 1 / n),
        Scaling(
            rng.normal(size=F),
            rng.random(F) + 1,
            np.array([1.0, 2.0]),
            np.array([0.5, 3.0]),
            np.ones(F if varying else 1),
        ),
        FRAME,
    )


def test_features() -> None:
    assert FRAME.feature_names == (
        "1", "x", "y", "action", "x·x", "x·y", "x·action", "y·y", "y·action",
    )  # fmt: skip
    phi = FRAME.features([[2.0, 3.0], [2.0, 3.0]], [0, 1])
    assert phi.tolist() == [[1, 2, 3, 0, 4, 6, 0, 9, 0], [1, 2, 3, 1, 4, 6, 2, 9, 3]]


def test_three_doses_keep_the_square() -> None:
    frame = GaussianFrame(
        Labels(("x",), noun="variable"), Labels(("0", "1", "2"), noun="action"), np.arange(3.0)
    )
    assert frame.feature_names[-1] == "action·action"
    with pytest.raises(InputError, match="no rewards"):
        frame.reward([1.0], [1.0])


@pytest.mark.parametrize("varying", [False, True])
def test_moments(varying: bool) -> None:
    m = models(varying=varying)
    s, a = np.array([[1.0, 2.0], [0.5, 4.0]]), np.array([0, 1])
    z = (FRAME.features(s, a) - m.scaling.centre) / m.scaling.scale
    mean = m.scaling.out_centre + m.scaling.out_scale * np.einsum("bk,nkj->nbj", z, m.weights)
    np.testing.assert_allclose(m.mean(s, a), mean, rtol=1e-12)
    many = np.stack([m.sample_next(s, a, seed) for seed in range(4000)])
    sd = np.sqrt(m.variance(s, a))
    assert (np.abs(many.mean(axis=0) - mean) < 5 * sd / np.sqrt(4000)).all()
    np.testing.assert_allclose(many.std(axis=0), sd, rtol=0.06)
    np.testing.assert_array_equal(m.sample_next(s, a, 3), m.sample_next(s, a, 3))


def test_rewards_parts_and_files(tmp_path: Path) -> None:
    m = models(5)
    assert m.frame.reward([3.0, 1.0], [9.0, 4.0]) == 3.0 - 8.0
    train, test = m.split(2)
    assert (len(train), len(test)) == (2, 3)
    np.testing.assert_array_equal(test.weights, m.weights[2:])
    save_gaussian(tmp_path / "m.npz", m)
    read = load_gaussian(tmp_path / "m.npz")
    np.testing.assert_array_equal(read.mean([[1.0, 1.0]], [1]), m.mean([[1.0, 1.0]], [1]))
    assert (read.frame.gamma, read.frame.horizon) == (0.9, 5)
    assert read.frame.variables == FRAME.variables
    assert "5 models of x, y" in repr(read)


def test_refused() -> None:
    m = models()
    with pytest.raises(InputError, match="weights must have shape"):
        GaussianModels(m.weights[:, :-1], m.noise, m.f, m.scaling, FRAME)
    with pytest.raises(InputError, match="noise must have shape"):
        GaussianModels(m.weights, m.noise[:, :, :1], m.f, m.scaling, FRAME)
    with pytest.raises(InputError, match="at least 0"):
        GaussianModels(m.weights, -m.noise, m.f, m.scaling, FRAME)
    with pytest.raises(InputError, match="split"):
        m.split(3)
    with pytest.raises(InputError, match="positive weight"):
        m.select(np.zeros(3, bool))


def test_scales_fit_the_models() -> None:
    m = models()
    for name in Scaling.__slots__:
        longer = replace(m.scaling, **{name: np.ones(99)})
        with pytest.raises(InputError, match=rf"scaling\.{name} must have shape"):
            replace(m, scaling=longer)
        with pytest.raises(InputError, match=rf"scaling\.{name} must be finite"):
            replace(m.scaling, **{name: np.full(1, np.nan)})
    with pytest.raises(InputError, match="start must have shape"):
        replace(FRAME, start=np.ones((1, 99)))
