"""Sets of continuous models: callables, mixtures, boxes, selections, and the problem on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models import (
    CallableModels,
    LinearReward,
    MixtureModel,
)
from softrobust.models.continuous_rewards import fit_linear_reward
from softrobust.models.gaussian import load_gaussian, save_gaussian
from softrobust.objective import SoftRobust
from softrobust.problem import ContinuousProblem
from tests.continuous_instances import FloatArray, TableAsContinuous, linear_models
from tests.instances import random_problem

PULL = np.array([0.5, 0.8, 0.9])


def pulled(clip: object = None) -> CallableModels:
    def step(s, a, omega, rng):  # type: ignore[no-untyped-def]
        return PULL[omega][:, None] * s + a[:, None] + 0.1 * rng.standard_normal(s.shape)

    return CallableModels(
        step, 3, ["x"], ["off", "on"], [0.5, 0.25, 0.25],
        mean=lambda s, a, omega: PULL[omega][:, None] * s + a[:, None],
        variance=lambda s, a, omega: np.full(s.shape, 0.01), clip=clip,
    )  # fmt: skip


def test_callable_models() -> None:
    m = pulled()
    s, a = np.array([[1.0], [2.0]]), np.array([0, 1])
    assert m.sample_next(s, a, 3).shape == (3, 2, 1)
    assert m.sample_next(s, a, 3, omega=[2, 0]).shape == (2, 1)
    assert m.draw_many(s, a, np.random.default_rng(0), 5).shape == (3, 5, 2, 1)
    np.testing.assert_array_equal(m.sample_next(s, a, 3), m.sample_next(s, a, 3))
    mean = m.mean(s, a)
    assert mean is not None
    np.testing.assert_allclose(mean[:, :, 0], [[0.5, 2.0], [0.8, 2.6], [0.9, 2.8]])
    part = m.select([2, 1])
    np.testing.assert_allclose(part.f, [0.5, 0.5])
    found = part.mean(s, a)
    assert found is not None
    np.testing.assert_allclose(found[0, :, 0], [0.9, 2.8])  # its models keep their own numbers
    train, test = m.split(1)
    assert (len(train), len(test)) == (1, 2)
    assert "3 models of x" in repr(m)


def test_the_mixture_has_the_moments_of_its_draws() -> None:
    mixture = pulled().mean_model()
    s, a = np.full((200_000, 1), 2.0), np.zeros(200_000, int)
    x = mixture.sample_next(s, a, 0)[0, :, 0]
    mean, variance = mixture.mean(s[:1], a[:1]), mixture.variance(s[:1], a[:1])
    assert mean is not None
    assert variance is not None
    assert x.mean() == pytest.approx(mean.item(), abs=5 * x.std() / np.sqrt(x.size))
    assert x.var() == pytest.approx(variance.item(), rel=0.02)
    assert mixture.mean_model() is mixture
    assert mixture.n_models == 1


def test_gaussian_mean_model_has_the_mean_parameters() -> None:
    m = replace(linear_models(4), f=np.array([0.4, 0.3, 0.2, 0.1]))
    one = m.mean_model()
    s, a = np.array([[1.0, 2.0]]), np.array([1])
    np.testing.assert_allclose(one.mean(s, a)[0], np.tensordot(m.f, m.mean(s, a), 1))
    np.testing.assert_allclose(one.variance(s, a)[0], np.tensordot(m.f, m.variance(s, a), 1))
    mixed = MixtureModel(m).mean(s, a)
    assert mixed is not None
    np.testing.assert_allclose(one.mean(s, a), mixed)  # the same mean as the mixture


def test_the_box_is_kept_and_counted() -> None:
    m = pulled(clip=([0.0], [1.5]))
    s, a = np.array([[1.0], [2.0]]), np.array([0, 1])
    draw = m.draw(s, a, np.random.default_rng(0))
    assert (draw.s_next >= 0).all()
    assert (draw.s_next <= 1.5).all()
    np.testing.assert_array_equal(draw.clipped, (draw.s_next == 1.5)[..., 0])
    assert draw.clipped[:, 1].all()
    assert not draw.clipped[0, 0]
    g = linear_models(2, clip=([0.0, 0.0], [0.1, 5.0]))
    assert g.draw([[1.0, 1.0]], [0], np.random.default_rng(0)).clipped.all()
    assert (g.draw_many([[1.0, 1.0]], [0], np.random.default_rng(0), 7)[..., 0] <= 0.1).all()


def test_box_and_range_stay_with_the_file(tmp_path: Path) -> None:
    m = linear_models(2, clip=([0.0, 0.0], [1.0, 5.0]), seen=([0.1, 0.1], [0.9, 4.0]))
    save_gaussian(tmp_path / "m.npz", m)
    read = load_gaussian(tmp_path / "m.npz")
    for name in ("clip", "seen"):
        np.testing.assert_array_equal(np.stack(getattr(read, name)), np.stack(getattr(m, name)))


@pytest.mark.parametrize(
    ("clip", "words"),
    [(([0.0],), "pair"), (([0.0, 1.0], [1.0, 2.0]), "one low and one high"),
     (([1.0], [0.0]), "low < high"), (([np.nan], [1.0]), "finite")],
)  # fmt: skip
def test_bad_boxes(clip: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        pulled(clip=clip)


def test_bad_callables() -> None:
    with pytest.raises(InputError, match="step must be a function"):
        CallableModels(None, 2, ["x"], ["a"])  # type: ignore[arg-type]
    wrong = CallableModels(lambda s, a, o, rng: s[:, :0], 2, ["x"], ["a"])
    with pytest.raises(InputError, match="one next state per row"):
        wrong.sample_next([[1.0]], [0])
    with pytest.raises(InputError, match="weights"):
        CallableModels(lambda s, a, o, rng: s, 2, ["x"], ["a"], f=[1.0])


def test_tables_as_vectors() -> None:
    table = random_problem(0).models
    m = TableAsContinuous(table)
    s, a = m.states[[0, 3]], np.array([1, 2])
    rows = m.rows(s, a)
    np.testing.assert_allclose(rows[2, 1], table.P[2, 3, 2])
    found = m.expect(s, a, lambda now, act, to: to[..., 0] ** 2)
    assert found is not None
    np.testing.assert_allclose(found, rows @ (np.arange(5.0) ** 2))
    draws = m.sample_next(np.tile(s, (20_000, 1)), np.tile(a, 20_000), 0)[0, ::2, 0]
    share = np.bincount(draws.astype(int), minlength=5) / draws.size
    np.testing.assert_allclose(share, rows[0, 0], atol=0.015)
    np.testing.assert_allclose(m.mean_model().table.P[0], np.tensordot(table.f, table.P, 1))
    assert m.variance(s, a, omega=[0, 1]).shape == (2, 1)


def test_reward_with_squares_and_actions() -> None:
    r = LinearReward([1.0, 0.0], [0.0, 2.0], [0.0, -1.0], [[1.0, 0.5], [0.0, 0.0]], 3.0)
    s, to = np.array([[1.0, 9.0]]), np.array([[2.0, 4.0]])
    assert r(s, np.array([1]), to).item() == 1 + 8 + (4 + 0.5 * 8) - 1 + 3
    first, second = to, to**2 + 0.25
    assert r.expected(s, np.array([1]), first, second).item() == pytest.approx(19 + 0.25)
    assert (r.degree, LinearReward([0.0], [1.0]).degree) == (2, 1)
    again = LinearReward.of_arrays(r.arrays())
    assert again(s, np.array([0]), to).item() == r(s, np.array([0]), to).item()
    with pytest.raises(InputError, match="shape"):
        LinearReward([1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="finite"):
        LinearReward([np.nan], [1.0])


def test_rewards_speak_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    r = LinearReward([1.0, 0.0], [0.0, 2.0], [0.0, -1.0], [1.0, 0.5], 3.0)
    rng = np.random.default_rng(0)
    s, a, to = rng.normal(size=(5, 2)), rng.integers(0, 2, 5), rng.normal(size=(3, 5, 2))
    found = r(jnp.asarray(s), jnp.asarray(a), jnp.asarray(to))
    np.testing.assert_allclose(np.asarray(found), r(s, a, to), rtol=1e-5)


def test_the_reward_of_a_log_is_found() -> None:
    from softrobust.domains import CancerGrowth

    log = CancerGrowth(episodes=4).collect(0)
    reward, r2, end = fit_linear_reward(log)
    assert end == 0.0
    assert r2 == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(reward.now, [0, 1, 1, 1], atol=1e-8)
    np.testing.assert_allclose(reward.next, [-1, -1, -1, -1], atol=1e-8)
    with pytest.raises(InputError, match="no column 'reward'"):
        fit_linear_reward(replace(log, reward=None))
    assert log.reward is not None
    bad = np.array(log.reward)
    bad[3] = np.nan
    with pytest.raises(InputError, match="finite"):
        fit_linear_reward(replace(log, reward=bad))


def test_problem() -> None:
    p = ContinuousProblem(linear_models(4))
    assert (p.gamma, p.horizon, p.n_models, p.n_actions, p.n_variables) == (0.8, 10, 4, 2, 2)
    assert p.objective == SoftRobust()
    starts = p.sample_start(100, np.random.default_rng(0))
    assert set(map(tuple, starts.tolist())) == {(1.0, 0.5), (0.2, 1.0)}
    assert p.mean_problem().n_models == 1
    assert p.with_models(linear_models(3)).n_models == 3
    assert "4 models" in repr(p)

    def sampler(rng: np.random.Generator, n: int) -> FloatArray:
        return rng.random((n, 2))

    other = ContinuousProblem(p.models, sampler, lambda s, a, to: to[..., 0], 0.5, 3, None, [1, 0])
    assert other.sample_start(4, np.random.default_rng(0)).shape == (4, 2)
    assert other.allowed.tolist() == [True, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": [[1.0]]}, "Start states"),
        ({"gamma": 1.0}, "gamma"),
        ({"horizon": 0}, "horizon"),
        ({"reward": 3.0}, "function"),
        ({"reward": LinearReward([1.0], [1.0])}, "coefficients"),
        ({"allowed": [False, False]}, "at least one true"),
    ],
)
def test_bad_problems(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ContinuousProblem(linear_models(2), **change)  # type: ignore[arg-type]


def test_what_models_do_not_bring_must_be_given() -> None:
    m = pulled()
    with pytest.raises(InputError, match="no start"):
        ContinuousProblem(m)
    with pytest.raises(InputError, match="no reward"):
        ContinuousProblem(m, [[1.0]])
    with pytest.raises(InputError, match="gamma is not known"):
        ContinuousProblem(m, [[1.0]], lambda s, a, to: s[..., 0])
    with pytest.raises(InputError, match="must be ContinuousModels"):
        ContinuousProblem(random_problem(0).models)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must have the variables"):
        ContinuousProblem(linear_models(2)).with_models(m)
    bad = ContinuousProblem(m, lambda rng, n: np.zeros((n, 3)), lambda s, a, to: 0, 0.9, 3)
    with pytest.raises(InputError, match="start sampler"):
        bad.sample_start(2, np.random.default_rng(0))
