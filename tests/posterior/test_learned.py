"""The prior that is learned from the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.limits import OutOfTime, within
from softrobust.data import TransitionLog, read_log
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.posterior import load_posterior
from softrobust.posterior.belief import Belief
from softrobust.posterior.diagnostics import foresight
from softrobust.posterior.dirichlet import DirichletPosterior, HierarchicalPosterior
from softrobust.posterior.learned import FittedLearned, LearnedPosterior
from softrobust.posterior.resemblance import APART, Geometry, Tokens
from softrobust.posterior.reward_draws import RewardPosterior, Variances, _exceptions
from softrobust.posterior.reward_events import NEVER
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import policy_return


def walk(n: int, seed: int = 0, S: int = 12) -> TransitionLog:
    """An ordered world: "up" and "down" move by about one, the same everywhere."""
    rng = np.random.default_rng(seed)
    s, rows = 5, []
    for _ in range(n):
        a = int(rng.random() < 0.5)
        t = int(np.clip(s + (1 if a else -1) + rng.integers(-1, 2), 0, S - 1))
        rows.append((s, a, t, float(t) - a + rng.normal()))
        s = t
    state, action, to, reward = zip(*rows, strict=True)
    return TransitionLog.from_arrays(
        [f"n={x}" for x in state], [("down", "up")[x] for x in action], [f"n={x}" for x in to],
        list(reward),
    )  # fmt: skip


def lottery(n: int, seed: int = 0, S: int = 8) -> TransitionLog:
    """Nothing resembles anything: every pair leads to two states of its own."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(S, size=(S, 2, 2))
    s, rows = 0, []
    for _ in range(n):
        a = int(rng.integers(2))
        t = int(targets[s, a, rng.integers(2)])
        rows.append((s, a, t))
        s = t
    names = list(rng.permutation(["ash", "elm", "fir", "oak", "yew", "bay", "box", "fig"]))
    state, action, to = zip(*rows, strict=True)
    return TransitionLog.from_arrays(
        [names[x] for x in state], list(map(str, action)), [names[x] for x in to]
    )


def base_of(log: TransitionLog, state: str, action: str, name: str) -> dict[str, float]:
    """A base measure of one row, by next state."""
    fitted = LearnedPosterior().fit(log)
    row = list(log.states).index(state) * log.n_actions + list(log.actions).index(action)
    i = int(np.flatnonzero(fitted.rows == row)[0])
    cells = slice(fitted.indptr[i], fitted.indptr[i + 1])
    values = fitted.base[cells, fitted.names.index(name)]
    return {
        log.states[int(t)]: float(x) for t, x in zip(fitted.columns[cells], values, strict=True)
    }


@pytest.mark.parametrize("falls", [True, False])
def test_what_lies_beyond_a_border_is_learned(falls: bool) -> None:
    """Moves of 1 or 2 from the last but one state: half of them cross, and fall to 0 or stop."""
    rng = np.random.default_rng(0)
    s, S, rows = 0, 8, []
    for _ in range(600):
        a = int(rng.random() < 0.5)
        t = s + (int(rng.integers(1, 3)) if a else -1)
        t = max(0, t) if t < S else (0 if falls else S - 1)
        rows.append((f"n={s}", ("back", "on")[a], f"n={t}"))
        s = t
    log = TransitionLog.from_arrays(*zip(*rows, strict=True))
    edge, near = base_of(log, "n=6", "on", "edge"), base_of(log, "n=6", "on", "near")
    if falls:  # the truth is one half each; carried moves that stop at the border say 0.75
        assert abs(edge["n=7"] - 0.5) < 0.2 < near["n=7"] - 0.5
        assert abs(edge["n=0"] - 0.5) < 0.2 < 0.5 - near["n=0"]
    else:
        assert edge["n=0"] < 0.05


def test_actions_that_lead_to_the_same_place_teach_each_other() -> None:
    """A store is filled by 0, 3 or 5, then 0 to 3 are sold: a rare order knows what others saw."""
    rng = np.random.default_rng(0)
    s, rows = 0, []
    for _ in range(400):
        order = (5 if s < 3 else 0) if rng.random() < 0.9 else int(rng.choice([0, 3, 5]))
        t = max(min(s + order, 9) - int(rng.integers(0, 4)), 0)
        rows.append((f"stock={s}", f"order {order}", f"stock={t}"))
        s = t
    log = TransitionLog.from_arrays(*zip(*rows, strict=True))
    fitted = LearnedPosterior().fit(log)
    pushes = fitted.common.push[:, 0, 0]
    push = {name: round(float(x), 6) for name, x in zip(log.actions, pushes, strict=True)}
    assert push["order 5"] - push["order 0"] == 5
    assert push["order 3"] - push["order 0"] == 3
    after = base_of(log, "stock=3", "order 3", "after")
    assert sum(after.get(f"stock={t}", 0.0) for t in (3, 4, 5, 6)) > 0.9


def grazed(n: int) -> TransitionLog:
    """Grass grows by season, and a share of it is eaten."""
    rng = np.random.default_rng(0)
    rows, grow = [], (0, 2, 3, 1)
    for _ in range(n):
        season, g, heavy = int(rng.integers(4)), int(rng.integers(9)), rng.random() < 0.3
        left = g - (0.4 if heavy else 0.1) * g + grow[season] + rng.normal(0, 0.5)
        to = int(np.clip(np.rint(left), 0, 11))
        rows.append((f"season={season}|grass={g}", "heavy" if heavy else "light",
                     f"season={(season + 1) % 4}|grass={to}"))  # fmt: skip
    return TransitionLog.from_arrays(*zip(*rows, strict=True))


def test_the_log_says_which_columns_matter_and_what_share_an_action_moves() -> None:
    log = grazed(600)
    fitted = LearnedPosterior().fit(log)
    geometry = fitted.common.geometry
    assert geometry.metric[0] == APART  # seasons
    assert geometry.metric[1] < APART
    assert fitted.learned()["apart"] == ["season"]
    plain = LearnedPosterior().fit(log, Geometry.of(log.states))
    assert fitted.evidence() > plain.evidence() + 20.0
    assert geometry.parts
    heavy, light = log.actions.index("heavy"), log.actions.index("light")
    grass = geometry.ranks[:, 1]
    push = (fitted.common.push[heavy] - fitted.common.push[light])[:, 1]
    by_grass = [push[(grass == g) & geometry.placed].mean() for g in range(9)]
    np.testing.assert_allclose(np.diff(by_grass), -0.3, atol=0.1)  # of every rank
    assert not fitted.common.free[1]  # whatever pooled rows look like
    np.testing.assert_array_equal(fitted.common.free, LearnedPosterior().fit(log).common.free)


def test_a_push_of_part_of_a_rank_is_shared_between_the_next_two() -> None:
    """Chance moves by about one, and the other action half a rank further."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(800):
        s, far = int(rng.integers(2, 7)), bool(rng.random() < 0.5)
        t = int(np.clip(np.rint(s + 0.5 * far + rng.normal()), 0, 9))
        rows.append((f"n={s}", "far" if far else "near", f"n={t}"))
    log = TransitionLog.from_arrays(*zip(*rows, strict=True))
    geometry = replace(Geometry.of(log.states), parts=True)
    common = LearnedPosterior().fit(log, geometry).common
    moved = [common.push[log.actions.index(name)] for name in ("far", "near")]
    assert (moved[0] - moved[1]).mean() == pytest.approx(0.5, abs=0.15)


def test_rare_rewards_far_from_others_are_events_of_their_action() -> None:
    """One disaster in 30 uses tells what the action risks, not that one state is bad."""
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 8, 400), (rng.random(400) < 0.075).astype(int)
    t = np.clip(s + rng.integers(-1, 2, 400), 0, 7)
    r = 4.0 - 0.5 * s + 0.7 * rng.standard_normal(400)
    r[np.flatnonzero(a == 1)[3]] -= 150.0
    names = ([f"n={x}" for x in s], [("usual", "push")[x] for x in a], [f"n={x}" for x in t])
    log = TransitionLog.from_arrays(*names, list(r))
    found = RewardPosterior.fit(log, Geometry.of(log.states))
    (events,) = found.events
    assert events.size == pytest.approx(-150.0, rel=0.03)
    n = int(a.sum())
    rates = events.rates().reshape(log.shape)
    push, usual = log.actions.index("push"), log.actions.index("usual")
    assert rates[:, push].min() > 0.2 / n
    assert rates[:, push].mean() == pytest.approx(1 / n, rel=0.6)
    assert rates[:, usual].max() < 0.1 / n
    drawn = events.draws(2000, np.random.default_rng(1))
    np.testing.assert_allclose(drawn.mean(axis=0), events.rates() * events.size, atol=1.5)
    assert found.noises().reshape(log.shape)[:, push].min() > 100.0
    lumps = found.noise(np.full(20_000, push), np.random.default_rng(2))  # of n=0 or the like
    assert lumps.mean() == pytest.approx(0.0, abs=0.5)
    assert lumps.min() < -100.0
    half = RewardPosterior.fit(log.part(np.arange(200)), Geometry.of(log.states), found.variances)
    assert len(half.events) == int((r[:200] < -100).any())
    kept = Variances.of_numbers(found.variances.numbers())
    assert (kept.low, kept.high, kept.noise) == (
        found.variances.low, found.variances.high, found.variances.noise
    )  # fmt: skip
    before = Variances.of_numbers(np.r_[1.0, 2.0, 3.0, np.arange(9.0)])  # of a folder of before
    assert (before.noise, before.apart, before.low) == (1.0, 3.0, -NEVER)


def test_rewards_by_next_state_are_no_events() -> None:
    """Where the same transition always pays the same, nothing is left to chance."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 8, 400)
    t = rng.integers(0, 8, 400)
    paid = np.where((s == 2) & (t == 7), -150.0, 1.0 * t)
    log = TransitionLog.from_arrays([f"n={x}" for x in s], ["go"] * 400, [f"n={x}" for x in t],
                                    list(paid))  # fmt: skip
    assert RewardPosterior.fit(log, Geometry.of(log.states)).events == ()


def test_ends_belong_to_states() -> None:
    """Episodes end in state 0 whatever is done: a rare action there borrows that."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(120):
        s = int(rng.integers(5, 8))
        for _ in range(40):
            a = "rare" if rng.random() < (0.1 if s == 0 else 0.5) else "usual"
            over = s == 0 and rng.random() < 0.5
            t = max(0, s - 1 + int(rng.integers(-1, 2)))
            rows.append((f"n={s}", a, f"n={t}", 1.0, episode, over))
            if over:
                break
            s = t
    log = TransitionLog.from_arrays(*zip(*rows, strict=True))
    assert base_of(log, "n=0", "rare", "near")["(end)"] < 0.1
    assert 0.3 < base_of(log, "n=0", "rare", "leave")["(end)"] < 0.7


def loads(n: int, moved: bool) -> TransitionLog:
    """A load that goes up and down, and a mode that actions set; or a load that they move, too."""
    rng = np.random.default_rng(0)
    rows, load, mode = [], 0, "eco"
    for _ in range(n):
        a = "to full" if rng.random() < (0.05 if load < 2 else 0.95) else "to eco"
        up = (a == "to full") if moved else rng.random() < 0.5
        t, to = min(max(load + (1 if up else -1), 0), 3), a.removeprefix("to ")
        rows.append((f"load={load}|mode={mode}", a, f"load={t}|mode={to}", 1.0))
        load, mode = int(rng.integers(4)) if moved else t, to
    return TransitionLog.from_arrays(*zip(*rows, strict=True))


def test_what_actions_do_not_move_is_learned_from_all_of_them() -> None:
    """ "to full" is rare at low loads: elsewhere it was seen at the border, where loads fall."""
    log = loads(1500, moved=False)
    fitted = LearnedPosterior().fit(log)
    assert fitted.common.free.tolist() == [True, False]
    row = base_of(log, "load=1|mode=eco", "to full", "outside")
    assert row["load=0|mode=full"] == pytest.approx(0.5, abs=0.08)
    assert row["load=2|mode=full"] == pytest.approx(0.5, abs=0.08)
    assert fitted.learned()["bases"]["outside"] > 0.3


def test_columns_that_actions_move_have_no_such_base() -> None:
    fitted = LearnedPosterior().fit(loads(1500, moved=True))
    assert not fitted.common.free.any()
    assert "outside" not in fitted.learned()["bases"]


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["n=1", "n=2", "n=10"], 1),
        (["0", "1", "2"], 1),
        (["x=0|y=1", "x=1|y=0"], 2),
        (["bp=high|age=3–5", "bp=low|age=3–5", "bp=low|age=5–9"], 2),
        (["severity 1", "severity 2", "dead", "severity 3"], 1),
        (["low", "medium", "high"], 1),
        (["oak", "elm", "fir"], 0),
    ],
)
def test_coordinates(names: list[str], columns: int) -> None:
    geometry = Geometry.of(Labels(tuple(names), noun="state"))
    assert geometry.sizes.size == columns


def test_unplaced_states_keep_their_own_name() -> None:
    geometry = Geometry.of(Labels(("stage 1", "stage 2", "stage 3", "dead", "(end)"), noun="state"))
    np.testing.assert_array_equal(geometry.placed, [True, True, True, False, False])
    assert geometry.ranks[:3, 0].tolist() == [0, 1, 2]


def test_all_that_is_near_may_go_where_there_are_no_places() -> None:
    state = ["<1", "1–2", "2–3", "s0", "s1", "s0", "s1"]
    after = ["s0", "s0", "s0", "s1", "s0", "<1", "s1"]
    action = ["a", "a", "b", "a", "b", "b", "a"]
    log = read_log({"state": state, "action": action, "next_state": after, "reward": [1.0] * 7})
    P = np.asarray(LearnedPosterior().fit(log).sample(20, seed=0).P)
    np.testing.assert_allclose(P.sum(axis=-1)[P.sum(axis=-1) > 0], 1.0)


def test_rows_are_distributions() -> None:
    models = LearnedPosterior().fit(walk(200)).sample(30, seed=1)
    rows = np.add.reduceat(models.prob, np.cumsum(np.repeat(np.diff(models.indptr), 30))[:-1])
    assert models.n_models == 30
    np.testing.assert_allclose(rows, 1.0, atol=1e-12)


def test_mean_of_draws_is_the_mean() -> None:
    fitted = LearnedPosterior().fit(walk(400))
    drawn = fitted.sample(3000, seed=0).mean_model().prob
    np.testing.assert_allclose(drawn, fitted.mean().prob, atol=0.05)


def test_own_counts_are_left_out_of_the_base() -> None:
    """A pair's bases do not change when its own rows are repeated."""
    log = walk(150)
    pair = (int(log.s[0]), int(log.a[0]))
    own = np.flatnonzero((log.s == pair[0]) & (log.a == pair[1]))
    more = np.concatenate([np.arange(log.n_rows), own, own])
    from dataclasses import replace

    longer = replace(
        log, s=log.s[more], a=log.a[more], s_next=log.s_next[more], reward=None, rewards=None
    )
    short, long = (LearnedPosterior().fit(x) for x in (replace(log, reward=None), longer))
    row = int(np.flatnonzero(short.rows == pair[0] * 2 + pair[1])[0])
    cells = slice(short.indptr[row], short.indptr[row + 1])
    np.testing.assert_allclose(short.base[cells], long.base[cells], atol=1e-12)


def test_ordered_worlds_borrow_and_lotteries_do_not() -> None:
    ordered, none = (LearnedPosterior().fit(log).learned() for log in (walk(400), lottery(400)))
    assert ordered["borrowed"] > none["borrowed"] + 0.2
    assert ordered["coordinates"] == 1
    assert none["coordinates"] == 0


def test_foresees_better_than_fixed_priors() -> None:
    rivals = {
        "learned": LearnedPosterior(min_count=0),
        "dirichlet": DirichletPosterior(min_count=0),
        "hierarchical": HierarchicalPosterior(min_count=0),
    }
    ordered = foresight(walk(250, seed=3), rivals)
    assert ordered["learned"] > max(ordered["dirichlet"], ordered["hierarchical"]) + 0.1
    unordered = foresight(lottery(250, seed=3), rivals)
    assert unordered["learned"] > max(unordered["dirichlet"], unordered["hierarchical"]) - 0.1


def test_same_seed_same_models() -> None:
    fitted = LearnedPosterior().fit(walk(100))
    np.testing.assert_array_equal(fitted.sample(4, seed=7).prob, fitted.sample(4, seed=7).prob)
    assert not np.array_equal(fitted.sample(4, seed=7).prob, fitted.sample(4, seed=8).prob)


def test_saved_and_read(tmp_path: Path) -> None:
    fitted = LearnedPosterior().fit(walk(100))
    fitted.save(tmp_path / "posterior.npz")
    again = load_posterior(tmp_path / "posterior.npz")
    assert isinstance(again, FittedLearned)
    np.testing.assert_array_equal(again.sample(3, seed=0).prob, fitted.sample(3, seed=0).prob)


def test_an_end_stays_an_end() -> None:
    log = TransitionLog.from_arrays(
        ["n=0", "n=1", "n=2"] * 10, ["go"] * 30, ["n=1", "n=2", "n=2"] * 10, [1.0] * 30,
        [i // 3 for i in range(30)], [False, False, True] * 10,
    )  # fmt: skip
    fitted = LearnedPosterior().fit(log)
    assert fitted.sinks.tolist() == [False, False, False, True]
    models = fitted.sample(5, seed=0)
    to, block = models.block(3, 0)
    assert to.tolist() == [3]
    assert (block == 1.0).all()


def test_many_states_with_two_rows_each() -> None:
    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(300), 2)
    log = TransitionLog.from_arrays(s, rng.integers(5, size=600), rng.integers(300, size=600))
    fitted = LearnedPosterior().fit(log)
    assert np.diff(fitted.indptr).max() <= 96 + 2
    assert 0.0 <= fitted.dropped <= 1.0
    assert fitted.sample(5, seed=0).n_models == 5


def test_tokens_are_sorted_by_action_and_state() -> None:
    log = walk(60)
    tokens = Tokens.of(log)
    assert tokens.n.sum() == log.n_rows
    for k in range(log.n_states * log.n_actions):
        own = slice(int(tokens.first[k]), int(tokens.last[k]))
        assert (tokens.s[own] == k // log.n_actions).all()
        assert tokens.n[own].sum() == np.asarray(log.pair_counts).reshape(-1)[k]


def test_strengths_must_be_positive() -> None:
    with pytest.raises(InputError, match="positive"):
        LearnedPosterior(strengths=(0.0, 1.0))


def test_noisy_rewards_shrink_and_exact_ones_stay() -> None:
    noisy = walk(300)
    geometry = Geometry.of(noisy.states)
    fit = RewardPosterior.fit(noisy, geometry)
    assert fit.variances.noise == pytest.approx(1.0, rel=0.3)
    belief = Belief.of(noisy, 0.9, 50, 0)
    assert belief.R.std(axis=2).max() > 0.05
    s, a, t = noisy.s, noisy.a, noisy.s_next
    exact = TransitionLog.from_arrays(
        [noisy.states[i] for i in s], [noisy.actions[i] for i in a], [noisy.states[i] for i in t],
        [float(i) for i in t],
    )  # fmt: skip
    known = RewardPosterior.fit(exact, geometry)
    assert known.variances.noise < 1e-4
    keys = (s.astype(np.int64) * 2 + a) * noisy.n_states + t
    hit, value = known.known(keys)
    assert hit.all()
    np.testing.assert_allclose(value, np.asarray(t, dtype=float))


def test_models_of_a_belief_earn_what_it_says() -> None:
    log = walk(150).with_initial({"n=5": 1.0})
    belief = Belief.of(log, 0.9, 20, 0)
    problem = Problem(belief.models())
    probs = belief.available / belief.available.sum(axis=1, keepdims=True)
    policy = Policy(probs, log.states, log.actions)
    np.testing.assert_allclose(policy_return(problem, policy), belief.returns(probs), atol=1e-9)
    each = np.tile(probs, (20, 1, 1))
    np.testing.assert_allclose(belief.returns(each), belief.returns(probs), atol=1e-9)


def test_starts_are_drawn_where_they_are_shares_of_episodes() -> None:
    log = TransitionLog.from_arrays(
        ["a", "b"] * 10, ["go"] * 20, ["b", "a"] * 10, [1.0, 0.0] * 10, list(range(20))
    )
    belief = Belief.of(log, 0.9, 200, 0)
    assert belief.p0.std(axis=0).max() > 0.05
    np.testing.assert_allclose(belief.p0.mean(axis=0), log.p0, atol=0.05)
    fixed = Belief.of(log.with_initial({"a": 1.0}), 0.9, 20, 0)
    assert (fixed.p0 == [1.0, 0.0]).all()


def test_a_pair_may_be_an_exception_in_rewards() -> None:
    v = Variances(np.ones(1), noise=1.0, freedom=50.0, apart=25.0)
    seen = np.array([4.0, 100.0, 0.0])
    chance, mean, deviation = _exceptions(np.array([-24.0, 5.0, 0.0]), seen, v)
    assert chance[0] > 0.99  # by far not what effects say
    assert chance[1] < 0.02  # often seen, and as they say
    assert chance[2] == pytest.approx(0.1)  # never seen: who knows
    np.testing.assert_allclose(mean, [-24.0 / (4 + 1 / 25), 5.0 / (100 + 1 / 25), 0.0])
    np.testing.assert_allclose(deviation**2, [1 / (4 + 1 / 25), 1 / (100 + 1 / 25), 25.0])


def test_rewards_of_an_action_have_a_trend_of_their_own() -> None:
    rng = np.random.default_rng(4)
    s, a = rng.integers(0, 10, 400), rng.integers(0, 2, 400)
    few = (s < 8) | (a == 0) | (np.cumsum((s >= 8) & (a == 1)) <= 1)  # once beyond 7
    s, a = s[few], a[few]
    t = np.clip(s + rng.integers(-1, 2, s.size), 0, 9)
    log = TransitionLog.from_arrays(
        [f"n={x}" for x in s], [f"a{x}" for x in a], [f"n={x}" for x in t],
        list(2.0 * s - 1.5 * s * a + 0.5 * rng.standard_normal(s.size)),
    )  # fmt: skip
    found = RewardPosterior.fit(log, Geometry.of(log.states))
    u, z, _ = found.means()
    at = [log.states.index(f"n={x}") for x in range(10)]
    pay = u[0].reshape(log.shape)[at] + z[0][at][:, None]
    assert np.abs(pay[:, 1] - 0.5 * np.arange(10)).max() < 1.0
    drawn = found.draws(4000, np.random.default_rng(0))[0].mean(axis=0)
    np.testing.assert_allclose(drawn, u[0], atol=0.15)


def test_rewards_that_vary_are_drawn_with_the_models(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    s_next = (s + a + (rng.random(400) < 0.3)) % 3
    r = s_next + rng.standard_normal(400)
    noisy = TransitionLog.from_arrays(s, a, s_next, r)
    models = LearnedPosterior().fit(noisy).sample(500, seed=1)
    problem = Problem(models, rewards=noisy.rewards, p0=noisy.p0, gamma=0.9)
    assert problem.rewards is noisy.rewards
    assert problem.paid is models.rewards
    assert problem.paid.drawn
    spread, mean = problem.R.std(axis=2), problem.R.mean(axis=2)
    # About 67 rows a pair with noise 1: between what all rows and what the pair alone would give.
    assert (spread > 0.5 / np.sqrt(400)).all()
    assert (spread < 3.0 / np.sqrt(67)).all()
    truth = np.zeros((3, 2))
    for i in range(3):
        for j in range(2):
            near, far = (i + j) % 3, (i + j + 1) % 3
            truth[noisy.states.index(str(i)), noisy.actions.index(str(j))] = 0.7 * near + 0.3 * far
    assert (np.abs(mean - truth) < 5 * spread).all()
    exact = TransitionLog.from_arrays(s, a, s_next, s_next.astype(float))
    assert LearnedPosterior().fit(exact).sample(3, seed=1).rewards is None
    some = problem.with_models(models.select(range(20)))
    np.testing.assert_array_equal(some.R, problem.R[:, :, :20])
    save_problem(tmp_path / "problem.npz", problem)
    again = load_problem(tmp_path / "problem.npz")
    np.testing.assert_array_equal(again.R, problem.R)
    assert again.rewards.kind == noisy.rewards.kind


def test_conjugate_gradients_estimate_rewards_as_a_factorisation_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 12, 300), rng.integers(0, 3, 300)
    after = np.minimum(s + a, 11)
    paid = s - 2.0 * a + rng.normal(size=300)
    log = TransitionLog.from_arrays(s, a, after, paid)
    dense = RewardPosterior.fit(log, Geometry.of(log.states))
    monkeypatch.setattr("softrobust.posterior.reward_draws.HUGE", 0)
    sparse = RewardPosterior.fit(log, Geometry.of(log.states), dense.variances)
    assert sparse.root is None
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-4)
    one, two = (x.draws(4000, np.random.default_rng(1))[0] for x in (dense, sparse))
    np.testing.assert_allclose(two.mean(axis=0), one.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(two.std(axis=0), one.std(axis=0), rtol=0.15)
    own = RewardPosterior.fit(log, Geometry.of(log.states)).variances  # by random probes
    assert 0.8 < own.noise / dense.variances.noise < 1.25


@pytest.mark.parametrize("per_model", [False, True])
def test_large_sparse_beliefs_are_solved_by_iteration(
    per_model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    s, a = np.tile(np.arange(220), 2), rng.integers(0, 2, 440)
    log = TransitionLog.from_arrays(s, a, np.clip(s + a - rng.integers(0, 2, 440), 0, 219), s / 9.0)
    belief = Belief.of(log, 0.9, 3, 0)
    probs = belief.available / belief.available.sum(axis=1, keepdims=True)
    probs = np.tile(probs, (3, 1, 1)) if per_model else probs
    direct = belief.values(probs)
    monkeypatch.setattr("softrobust.posterior.belief.SPARSE_SHARE", 1.0)
    np.testing.assert_allclose(belief.values(probs), direct, rtol=1e-7)


def test_values_of_many_steps_are_averaged_a_few_models_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    belief = Belief.of(walk(120), 1.0, 7, 0, horizon=40)
    probs = belief.available / belief.available.sum(axis=1, keepdims=True)
    whole = belief.q_values(probs)
    monkeypatch.setattr("softrobust.posterior.belief.STEP_BYTES", 8 * 41 * probs.shape[0] * 3)
    np.testing.assert_allclose(belief.q_values(probs), whole, rtol=1e-12)


def test_replicates_are_the_same_kept_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of the bootstrap spares time and changes nothing."""
    log = walk(120)
    monkeypatch.setattr("softrobust.posterior.learned.SETS", 48)
    kept, other = LearnedPosterior().fit(log), LearnedPosterior().fit(log)
    here = kept.sample(200, seed=5)
    monkeypatch.setattr("softrobust.posterior.learned.SET_BYTES", 0)
    other.sample(3, seed=1)
    assert kept.sets[0].done.any()
    assert not other.sets[0].done.size
    np.testing.assert_array_equal(here.prob, other.sample(200, seed=5).prob)
    np.testing.assert_array_equal(here.prob, kept.sample(200, seed=5).prob)


def test_what_takes_long_of_a_large_log_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The support of wide rows and the variances of rewards are read, not found again."""
    rng = np.random.default_rng(0)
    s, a = np.tile(np.arange(130), 2), rng.integers(0, 2, 260)
    to = np.clip(s + a - rng.integers(0, 2, 260), 0, 129)
    log = TransitionLog.from_arrays(s, a, to, s / 9.0 + rng.normal(size=260))
    fitted = LearnedPosterior().fit(log)
    fitted.save(tmp_path / "fit.npz")
    for found_again in ("learned._Common._heaviest", "reward_draws._evidence"):
        monkeypatch.delattr(f"softrobust.posterior.{found_again}")
    again = load_posterior(tmp_path / "fit.npz")
    assert isinstance(again, FittedLearned)
    here, there = (fit.sample(3, seed=1) for fit in (fitted, again))
    np.testing.assert_array_equal(here.prob, there.prob)
    assert here.rewards is not None
    assert there.rewards is not None
    np.testing.assert_array_equal(here.rewards.values, there.rewards.values)
    arrays = dict(np.load(tmp_path / "fit.npz"))
    arrays["own:columns"] = np.zeros_like(arrays["own:columns"])
    np.savez(tmp_path / "fit.npz", **arrays)
    with pytest.raises(InputError, match=r"fit\.npz: .*miss some that the log shows"):
        load_posterior(tmp_path / "fit.npz")


def test_draws_are_independent() -> None:
    """Models of one call have no more in common than those of two: what they share is the fit."""
    fitted = LearnedPosterior().fit(walk(60))
    one = fitted.sample(2000, seed=0)
    p = np.array([one.select([i]).prob for i in range(0, 2000, 2)])[:, :24]
    q = np.array([one.select([i]).prob for i in range(1, 2000, 2)])[:, :24]
    both = [np.corrcoef(p[:, j], q[:, j])[0, 1] for j in range(24) if p[:, j].std() > 1e-3]
    assert np.abs(np.mean(both)) < 0.02  # 24 correlations of deviation 0.03


def test_a_horizon_looks_at_the_clock() -> None:
    log = TransitionLog.from_arrays([0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], rewards=[1, 0, 2, 0])
    belief = Belief.of(log, 0.9, 5, 0, horizon=50)
    probs = np.full((2, 2), 0.5)
    q = belief.q_values(probs)
    with within(1e-9), pytest.raises(OutOfTime):
        belief.q_values(probs)
    with within(1e9):
        np.testing.assert_array_equal(belief.q_values(probs), q)
