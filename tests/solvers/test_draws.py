"""Quantiles in one pass over parts of the draws, and draws of a sampler that keeps a few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softrobust._core.limits import within
from softrobust.data import TransitionLog
from softrobust.models.model_set import ModelSet
from softrobust.objective import value_at_risk
from softrobust.posterior import Diagnostics, DirichletPosterior, FittedPosterior
from softrobust.problem import Problem
from softrobust.solvers import CADP, WSU
from softrobust.solvers.baselines.draws import (
    DrawnSample,
    PosteriorDraws,
    UpperTail,
    tail_mass,
    whole_draws,
)
from tests.instances import random_problem


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=1, max_size=30),
    st.floats(0, 1),
    st.integers(1, 7),
)
def test_parts_give_the_quantile_of_the_whole(
    sample: list[tuple[int, int]], tail: float, part: int
) -> None:
    x, w = np.array(sample, dtype=float).T
    if w.sum() == 0:
        return
    both = {}
    for lower_side in (False, True):
        above = UpperTail(2, tail, w.sum(), lower_side)
        for i in range(0, x.size, part):
            piece = slice(i, i + part)
            above.add(np.stack([x[piece], -x[piece]]), w[piece])
        both[lower_side] = above.quantile(w.sum())
    # The upper quantile inf{x : G(x) ≥ 1 − tail}, and VaR as the lower quantile of −x.
    f = w / w.sum()
    np.testing.assert_array_equal(
        both[False], [value_at_risk(x, f, tail), value_at_risk(-x, f, tail)]
    )
    np.testing.assert_array_equal(
        both[True], [-value_at_risk(-x, f, 1 - tail), -value_at_risk(x, f, 1 - tail)]
    )


def test_what_is_kept_is_the_tail() -> None:
    rng = np.random.default_rng(0)
    above = UpperTail(3, 0.01, 1000.0)
    for _ in range(10):
        above.add(rng.normal(size=(3, 100)), np.ones(100))
    assert above.values.shape == (3, 11)


def test_pairs_that_may_be_taken_share_the_risk() -> None:
    problem = random_problem(0, masks=True, alpha=0.8)
    tail, wanted, pairs = tail_mass(problem)
    assert pairs == problem.allowed.sum()
    assert tail == pytest.approx(0.2 / pairs)
    assert whole_draws(wanted) == pairs * 5
    assert whole_draws(26.6) == 27
    assert tail_mass(random_problem(0, alpha=1.0))[:2] == (0.0, np.inf)


def test_unequal_weights_are_worth_fewer_draws() -> None:
    problem = random_problem(1)
    sample = DrawnSample(problem, None, 1.0)
    assert sample.effective == pytest.approx(1 / (problem.models.f**2).sum())
    assert sample.effective < 7
    equal = DrawnSample(problem, ModelSet.from_dense(problem.models.P), 1.0)
    assert equal.effective == pytest.approx(7)
    assert not equal.saturated(1 / 7)
    assert equal.saturated(1 / 7 - 1e-6)


class Kept(FittedPosterior):
    """A sampler that has kept 9 draws."""

    __slots__ = ("models",)

    def __init__(self) -> None:
        self.models = random_problem(2, n_models=9).models

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        rng = np.random.default_rng(seed)
        return ModelSet.from_dense(self.models.P[rng.permutation(9)[:n]])

    def diagnostics(self) -> Diagnostics:
        return Diagnostics(exact=False, n_draws=9)


def test_a_sampler_gives_what_it_has_kept_and_no_draw_twice() -> None:
    problem = random_problem(2)
    sample = DrawnSample(problem, PosteriorDraws(Kept()), 100.0)
    parts = [models for models, _ in sample]
    assert [m.n_models for m in parts] == [9]
    assert len({p.tobytes() for p in parts[0].P}) == 9
    again = [models for models, _ in sample]
    assert again[0] is parts[0]  # small enough to stay in memory


def test_what_was_drawn_to_see_how_long_it_takes_is_not_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = TransitionLog.from_arrays([0, 1, 0], ["go"] * 3, [1, 0, 1], [1, 2, 1])
    draws, asked = PosteriorDraws(DirichletPosterior().fit(log)), list[int]()
    own = PosteriorDraws.draw

    def draw(self: PosteriorDraws, n: int, i: int = 0) -> ModelSet:
        asked.append(n)
        return own(self, n, i)

    monkeypatch.setattr(PosteriorDraws, "draw", draw)
    with within(1e-9):
        few = draws.in_time(1000)
    assert asked == [few.n_models]
    np.testing.assert_array_equal(few.prob, draws.draw(few.n_models).prob)


def test_draws_that_do_not_fit_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(2)
    monkeypatch.setattr("softrobust.solvers.baselines.draws.KEPT_BYTES", 1)
    sample = DrawnSample(problem, PosteriorDraws(Kept()), 100.0)
    (first,), (second,) = ([models for models, _ in sample] for _ in range(2))
    assert first is not second
    np.testing.assert_array_equal(first.prob, second.prob)


def test_a_pass_ends_with_its_time_and_is_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part is drawn at least; the quantile is that of what was drawn."""
    problem = random_problem(2)
    monkeypatch.setattr("softrobust.solvers.baselines.draws.PART_BYTES", 1)
    monkeypatch.setattr("softrobust.solvers.baselines.draws.KEPT_BYTES", 1)
    log = TransitionLog.from_arrays([0, 1, 2], [0, 1, 0], [1, 2, 0], [1.0, 0.0, 2.0])
    draws = PosteriorDraws(DirichletPosterior().fit(log))
    problem = Problem(draws.draw(2), log.rewards, log.p0, 0.9)
    with within(1e-6) as clock:
        sample = DrawnSample(problem, draws, 50.0)
        (first,) = [models.n_models for models, _ in sample]
        assert first == sample.n == sample.total == 1
        assert [models.n_models for models, _ in sample] == [1]
        assert clock.cut == ["models"]
    whole = DrawnSample(problem, draws, 50.0)
    assert len(list(whole)) == whole.n == 50
    above = UpperTail(1, 0.1, 50.0)
    above.add(np.arange(10.0)[None], np.ones(10))
    assert above.quantile(10.0)[0] == 8.0  # one of ten may lie above, where five of fifty might


@pytest.mark.parametrize("solver", [WSU(), CADP()])
def test_a_limit_of_time_leaves_a_policy(solver: WSU | CADP) -> None:
    with within(1e-6):
        found = solver.solve(random_problem(3))
    assert found.status == "time_limit"
    assert np.isfinite(found.static_value)
