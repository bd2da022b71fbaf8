"""Worlds with a known truth: exact returns against simulation, logs as users have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.domains.world import Size, World
from softrobust.domains.zoo import JUDGING, TUNING, WORLDS, make_world, register
from softrobust.errors import InputError
from softrobust.models.policy import Policy

NAMES = (*TUNING, *JUDGING)


def simulated(world: World, policy: np.ndarray, n: int, seed: int) -> tuple[float, float]:
    """Mean discounted return of n episodes of 150 steps, with its standard error."""
    rng = np.random.default_rng(seed)
    act, move = np.cumsum(policy, axis=1), np.cumsum(world.P, axis=2)
    h = rng.choice(world.p0.size, size=n, p=world.p0)
    total = np.zeros(n)
    for t in range(150):
        a = (rng.random(n)[:, None] > act[h]).sum(axis=1).clip(max=world.n_actions - 1)
        to = (rng.random(n)[:, None] > move[h, a]).sum(axis=1).clip(max=world.p0.size - 1)
        total += world.gamma**t * world.r[h, a, to]
        h = to
    return float(total.mean()), float(total.std() / np.sqrt(n))


@pytest.mark.parametrize("name", NAMES)
def test_true_returns_are_what_simulation_earns(name: str) -> None:
    world = make_world(name)
    tail = world.gamma**150 * float(np.abs(world.r).max()) / (1 - world.gamma)
    mean, error = simulated(world, np.asarray(world.practice), 4000, 1)
    assert world.practice_return == pytest.approx(mean, abs=4.5 * error + tail)
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(world.n_actions), size=world.n_states)
    mean, error = simulated(world, probs[world.observed], 4000, 3)
    assert world.true_return(probs) == pytest.approx(mean, abs=4.5 * error + tail)
    assert world.optimum > world.practice_return
    assert world.optimum >= world.true_return(probs)


def test_wet_chicken_is_that_of_the_literature() -> None:
    world = make_world("wet-chicken")
    assert world.practice_return == pytest.approx(29.75, abs=0.005)
    assert world.optimum == pytest.approx(43.08, abs=0.005)
    # From (2, 2), drifting: v = 1.2, so x̂ is uniform on 3.2 ± 2.3.
    row = world.P[12, 0]
    np.testing.assert_allclose(row[[2, 7, 12, 17, 22]], [0, 0.6 / 4.6, 1 / 4.6, 1 / 4.6, 1 / 4.6])
    assert row[0] == pytest.approx(1.0 / 4.6)
    assert make_world("wet-chicken-numbers").states[12] == "12"


def test_random_mdps_are_a_family_with_a_baseline_half_way() -> None:
    one, other = make_world("random-mdp", 3), make_world("random-mdp", 4)
    assert not np.array_equal(one.P, other.P)
    assert ((one.P[~one.ends] > 0).sum(axis=2) == 4).all()
    for world in (one, other):
        uniform = world.true_return(np.full((50, 4), 0.25))
        half = (world.practice_return - uniform) / (world.optimum - uniform)
        assert 0.45 < half <= 0.5
    assert make_world("pest", 3) is make_world("pest", 4)


@pytest.mark.parametrize("name", NAMES)
def test_logs_are_drawn_again_and_look_like_a_users(name: str) -> None:
    world = make_world(name)
    log, again, other = (world.draw_log(0, seed) for seed in (5, 5, 6))
    assert log.data_hash == again.data_hash != other.data_hash
    assert log.n_rows <= world.sizes[0].most_rows
    assert {*log.states} <= {*world.states, "(end)", *map(str, range(50))}
    assert {*log.actions} <= {*world.actions}
    assert (log.end is not None) == bool(world.ends.any())
    assert log.reward is not None
    assert log.episode is not None
    assert [s.most_rows for s in world.sizes] == sorted(s.most_rows for s in world.sizes)
    # Shares of a long log are those of practice, where practice depends on what is seen.
    if not world.hidden and name != "random-mdp":
        long = world.draw_log(2, 0)
        for s, state in enumerate(long.states):
            n = int(long.pair_counts[s].sum())
            if n >= 200:
                truth = world.practice[world.states.index(state)]
                truth = truth[[world.actions.index(a) for a in long.actions]]
                assert np.abs(long.behaviour[s] - truth).max() < 5 * np.sqrt(0.25 / n)


def test_practice_goes_on_where_the_policy_says_so() -> None:
    world = make_world("frailty")  # practice knows more than the log
    log = world.draw_log(1, 0)
    shares = np.where(log.sinks[:, None], 1 / 3, log.behaviour)
    policy = Policy(shares, log.states, log.actions, ~log.sinks)
    assert world.true_return(policy, log) == pytest.approx(world.practice_return, rel=1e-12)
    assert world.true_return(policy) != pytest.approx(world.practice_return, rel=1e-3)
    nothing = Policy(shares, log.states, log.actions, np.zeros(len(log.states), bool))
    assert world.true_return(nothing) == pytest.approx(world.practice_return, rel=1e-12)
    always = np.zeros_like(shares)
    always[:, list(log.actions).index("strong drug")] = 1.0
    best = Policy(always, log.states, log.actions)
    full = np.tile([0.0, 0.0, 1.0], (world.n_states, 1))
    assert world.true_return(best, log) == pytest.approx(world.true_return(full), rel=1e-12)


def test_both_halves_have_every_kind() -> None:
    assert not set(TUNING) & set(JUDGING)
    assert set(NAMES) == set(WORLDS)
    for half in (TUNING, JUDGING):
        kinds = {k for name in half for k in make_world(name).kinds}
        wanted = {"ordered", "unordered", "factored", "noisy rewards", "true ends", "confounded"}
        assert wanted | {"near-deterministic practice"} <= kinds


def test_worlds_are_checked_and_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Did you mean 'fishery'"):
        make_world("fishry")
    with pytest.raises(InputError, match="already"):
        register("pest", lambda _: make_world("pest"))
    pest = make_world("pest")
    with pytest.raises(InputError, match="distributions"):
        replace(pest, p0=np.ones(12))
    with pytest.raises(InputError, match="shape"):
        replace(pest, practice=np.ones((3, 3)) / 3)
    with pytest.raises(InputError, match="observed"):
        replace(pest, observed=np.zeros(12, int))
    with pytest.raises(InputError, match="shape"):
        pest.true_return(np.ones((2, 2)))
    monkeypatch.setattr("softrobust.domains.zoo.WORLDS", dict(WORLDS))
    register("short pest", lambda _: replace(pest, name="short pest", sizes=(Size(1, 5),) * 3))
    assert make_world("short pest").draw_log(2, 0).n_rows == 5


@pytest.mark.parametrize(("family", "seed"), [("flow", 7069), ("sparse", 7092)])
def test_a_family_leaves_out_what_is_no_world(family: str, seed: int) -> None:
    """Rounding had made a probability of demand negative; all returns of an attempt were equal."""
    world = make_world(family, seed)
    assert world.optimum > world.practice_return
    assert np.allclose(world.P.sum(axis=2), 1.0)
    assert (np.asarray(world.P) >= 0.0).all()
