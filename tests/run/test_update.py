"""New rows for an old run: nothing from nothing, drift found, changes only beyond the margin."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.bounds import Covers
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, write_log_csv
from softrobust.data.join import join_logs, known_rows
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior
from softrobust.report.summary import update_lines
from softrobust.returns import static_return
from softrobust.run import choose
from softrobust.run.folder import Run, load_run
from softrobust.run.update import adopt, drift_test, update
from softrobust.solvers import Improve, LocalSearch, solve
from tests.study.test_checks import P, solved, visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return solved(visits(), tmp_path_factory.mktemp("old"))


def rows(n: int, seed: int, P: np.ndarray = P) -> TransitionLog:
    rng = np.random.default_rng(seed)
    s, a = rng.integers(0, 2, n), rng.integers(0, 2, n)
    to = (rng.random(n) < P[s, a, 1]).astype(int)
    return TransitionLog.from_arrays(s, a, to, to - 0.1 * a, np.arange(n))


def test_an_empty_file_changes_nothing(folder: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("state,action,next_state,reward,episode\n", encoding="utf-8")
    before = {f.name: f.read_bytes() for f in folder.path.iterdir()}
    found, record = update(folder, empty, LocalSearch())
    assert found is None
    assert record["changes"] == []
    assert update_lines(record, None) == ["No row is new: the file has none, and nothing changes."]
    assert run_cli(["update", str(folder.path), str(empty), "--out", str(tmp_path / "new")]) == 0
    assert not (tmp_path / "new").exists()
    assert {f.name: f.read_bytes() for f in folder.path.iterdir()} == before


def test_joined_logs_count_what_both_count() -> None:
    old, new = visits(), rows(50, 1)
    both = join_logs(old, new)
    np.testing.assert_array_equal(both.pair_counts, old.pair_counts + new.pair_counts)
    assert both.n_rows == old.n_rows + 50
    assert both.episode is not None
    assert old.episode is not None
    assert len(np.unique(both.episode)) == len(np.unique(old.episode)) + 50


def test_new_states_come_after_the_old_ones() -> None:
    old = TransitionLog.from_arrays(["b", "b"], ["x", "y"], ["b", "(end)"], [1.0, 2.0])
    new = TransitionLog.from_arrays(["a"], ["x"], ["b"], [3.0])
    both = join_logs(old, new)
    assert both.states.names == ("b", "a", "(end)")
    assert both.pair_counts[both.states.index("a"), 0] == 1
    given = old.with_rewards(np.full((2, 2), 7.0))
    with pytest.raises(InputError, match="Rewards were given"):
        join_logs(given, new)
    with pytest.raises(InputError, match="episodes"):
        join_logs(old, TransitionLog.from_arrays(["b"], ["x"], ["b"], [1.0], [0]))


def test_drift_p_values_are_uniform_where_nothing_changed() -> None:
    """New rows drawn from a model of the posterior: small p-values are as rare as they say."""
    fitted = DirichletPosterior().fit(rows(60, 0))
    models = fitted.sample(120, seed=5)
    p = []
    for omega in range(120):
        table = models[omega].P
        p.append(drift_test(fitted, rows(40, 1000 + omega, table), seed=omega).p_value)
    values = np.array(p, dtype=float)
    assert 0.35 < values.mean() < 0.65  # uniform: 0.5 ± 0.026
    assert np.mean(values < 0.05) < 0.13  # binomial(120, .05): above has probability 2e-4


def test_drift_finds_a_changed_world() -> None:
    fitted = DirichletPosterior().fit(rows(400, 0))
    assert drift_test(fitted, rows(200, 1, 1 - P)).p_value == pytest.approx(1 / 1001)
    strange = TransitionLog.from_arrays(["9"], ["0"], ["9"], [0.0])
    found = drift_test(fitted, strange)
    assert found.p_value is None
    assert found.impossible == 1
    assert found.changed


def test_drift_sees_changes_for_the_better_and_in_rewards() -> None:
    """A world that became more certain is a change too; so are other rewards."""
    old = rows(300, 0)
    fitted = DirichletPosterior().fit(old)
    sure = P.copy()
    sure[:, 1] = [0.0, 1.0]
    better = drift_test(fitted, rows(150, 1, sure), old=old)
    assert better.p_value is not None
    assert better.p_value < 0.025
    assert better.changed
    same = rows(150, 2)
    assert not drift_test(fitted, same, old=old).changed
    assert same.reward is not None
    paid = replace(same, reward=-1000 * same.reward)
    assert drift_test(fitted, paid, old=old).reward_p == 0.0
    rng = np.random.default_rng(0)
    assert old.reward is not None
    noisy = replace(old, reward=old.reward + rng.normal(size=old.n_rows)).with_rewards(
        old.rewards.pairs if old.rewards is not None else np.zeros((2, 2))
    )
    again = replace(same, reward=same.reward + rng.normal(size=same.n_rows))
    usual = drift_test(fitted, again, old=noisy).reward_p
    moved = replace(again, reward=np.asarray(again.reward) + 2.0)
    assert usual is not None
    assert drift_test(fitted, moved, old=noisy).reward_p == pytest.approx(0.0, abs=1e-6)


def test_changes_need_more_than_the_margin(folder: Run) -> None:
    problem = folder.problem
    old = problem.uniform_policy()
    best = solve(problem, LocalSearch(seed=0)).policy
    value = static_return(problem, old)
    free, gains = adopt(problem, old, best, 0.0)
    np.testing.assert_array_equal(free.probs, best.probs)
    assert sum(gains.values()) == pytest.approx(static_return(problem, best) - value)
    dear, none = adopt(problem, old, best, 1e6)
    np.testing.assert_array_equal(dear.probs, old.probs)
    assert none == {}
    small = min(gains.values()) * 1.01
    part, some = adopt(problem, old, best, small)
    assert all(gain > small for gain in some.values())
    assert static_return(problem, part) == pytest.approx(value + sum(some.values()))


def test_the_verb_writes_a_run_with_its_history(folder: Run, tmp_path: Path) -> None:
    write_log_csv(rows(80, 3, 1 - P), tmp_path / "new.csv")
    out = tmp_path / "run2"
    words = ["update", str(folder.path), str(tmp_path / "new.csv"), "--out", str(out)]
    assert run_cli(words) == 0
    again = load_run(out)
    assert again.log is not None
    assert folder.log is not None
    assert again.log.n_rows == folder.log.n_rows + 80
    record = json.loads((out / "update.json").read_text(encoding="utf-8"))
    assert record[0]["old_hash"] == folder.log.data_hash
    assert record[0]["data_hash"] == again.log.data_hash
    assert record[0]["drift"]["p_value"] < 0.05
    found, once_more = update(again, tmp_path / "new.csv", LocalSearch())  # the same rows again
    assert found is None
    assert (once_more["new_rows"], once_more["known_rows"]) == (0, 80)
    (line,) = update_lines(once_more, None)
    assert line == "No row is new: 80 rows of the file are in the run already, and nothing changes."
    write_log_csv(rows(20, 9), tmp_path / "more.csv")
    assert (
        run_cli(["update", str(out), str(tmp_path / "more.csv"), "--out", str(tmp_path / "run3")])
        == 0
    )
    history = json.loads((tmp_path / "run3" / "update.json").read_text(encoding="utf-8"))
    assert len(history) == 2
    assert load_run(tmp_path / "run3").updates == tuple(history)


def test_the_command_of_an_update_makes_the_same_run(
    folder: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder.save("old")
    write_log_csv(rows(80, 3, 1 - P), tmp_path / "new.csv")
    words = ["old", str(tmp_path / "new.csv"), "--columns", "state=state", "--margin", "0.01"]
    assert run_cli(["update", *words, "--seed", "3", "--out", "one"]) == 0
    one = load_run("one")
    assert one.command == (
        "softrobust update old new.csv --margin 0.01 --columns state=state --seed 3 "
        "--solver local-search"
    )
    assert run_cli([*shlex.split(one.command)[1:], "--out", "two"]) == 0
    assert load_run("two").certificate == one.certificate
    limited = ["update", *words[:2], "--time-limit", "60", "--out", "three"]
    assert run_cli(limited) == 0
    assert "--time-limit 60" in load_run("three").command
    found, _ = update(replace(folder, path=None), tmp_path / "new.csv", LocalSearch())
    assert found is not None
    assert found.command == ""  # of a run without a folder


def test_an_update_of_improve_is_compared_with_clear_changes(tmp_path: Path) -> None:
    old = choose(rows(120, 0), gamma=0.8, n_models=40, n_test=50, replications=0)
    write_log_csv(rows(80, 3), tmp_path / "new.csv")
    assert old.log is not None
    found, _ = update(old, tmp_path / "new.csv", Improve(old.log))
    assert found is not None
    under = found.certificate.posterior
    assert under is not None
    assert under.covers is Covers.CLEAR_CHANGES
    assert under.gap_share is not None
    with within(1e-3):
        late, _ = update(old, tmp_path / "new.csv", Improve(old.log))
    assert late is not None
    assert late.certificate.posterior is not None
    assert late.certificate.posterior.upper is None


def test_an_update_in_place_keeps_its_history(folder: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    folder.save(out)
    for seed in (5, 6):
        write_log_csv(rows(20, seed), tmp_path / "new.csv")
        words = ["update", str(out), str(tmp_path / "new.csv"), "--out", str(out), "--force"]
        assert run_cli(words) == 0
    assert len(load_run(out).updates) == 2
    assert load_run(out).command == ""  # the run that it was made of is gone
    lines = update_lines(dict(load_run(out).updates[1]), load_run(out).certificate)
    assert any(line.startswith("20 new rows") for line in lines)


def test_what_the_user_forbade_stays_forbidden(folder: Run, tmp_path: Path) -> None:
    allowed = folder.problem.allowed.copy()
    allowed[0, 1] = False
    bound = replace(folder, problem=replace(folder.problem, allowed=allowed))
    write_log_csv(rows(30, 4), tmp_path / "new.csv")
    found, _ = update(bound, tmp_path / "new.csv", LocalSearch())
    assert found is not None
    assert not found.problem.allowed[0, 1]


def chain(n: int, seed: int, length: int = 10, episodes: bool = True) -> TransitionLog:
    """Visits one after another, in episodes of the given length."""
    rng = np.random.default_rng(seed)
    kept, s = [], 0
    for i in range(n):
        s = s if i % length else int(rng.integers(2))
        a = int(rng.integers(2))
        to = int(rng.random() < P[s, a, 1])
        kept.append((s, a, to, to - 0.1 * a))
        s = to
    number = np.arange(n) // length if episodes else None
    states, actions, after, paid = zip(*kept, strict=True)
    return TransitionLog.from_arrays(states, actions, after, paid, number)


def part(log: TransitionLog, index: np.ndarray) -> TransitionLog:
    mask = np.zeros(log.n_rows, dtype=bool)
    mask[index] = True
    return log.part(mask)


@pytest.mark.parametrize("episodes", [True, False])
def test_old_rows_are_recognised_in_a_longer_export_and_new_ones_are_not(episodes: bool) -> None:
    whole, other = chain(340, 1, episodes=episodes), chain(300, 2, episodes=episodes)
    n, here = 325, np.arange(340)
    old = part(whole, here[:n])
    np.testing.assert_array_equal(known_rows(old, whole), np.where(here < n, here, -1))
    assert (known_rows(old, other) == -1).all()  # alike, and by chance alone
    latest = known_rows(old, part(whole, here[150:]))  # an export of the last months
    np.testing.assert_array_equal(latest, np.where(here < n, here, -1)[150:])
    if episodes:  # in another order of episodes, one of which went on
        assert whole.episode is not None
        assert whole.reward is not None
        order = np.argsort(-whole.episode, kind="stable")
        turned = TransitionLog.from_arrays(
            whole.s[order], whole.a[order], whole.s_next[order], whole.reward[order], order // 10
        )
        found = known_rows(old, turned)
        np.testing.assert_array_equal(np.sort(found[found >= 0]), np.arange(n))
        both = join_logs(old, whole, known_rows(old, whole))
        np.testing.assert_array_equal(both.pair_counts, whole.pair_counts)
        np.testing.assert_array_equal(both.p0, whole.p0)  # 34 starts, not 35


def test_a_full_export_again_adds_what_is_new_and_the_second_time_nothing(tmp_path: Path) -> None:
    whole = chain(340, 1)
    old = solved(part(whole, np.arange(320)), tmp_path)
    write_log_csv(whole, tmp_path / "all.csv")
    words = ["update", str(old.path), str(tmp_path / "all.csv"), "--out", str(tmp_path / "new")]
    assert run_cli(words) == 0
    made = load_run(tmp_path / "new")
    assert made.log is not None
    np.testing.assert_array_equal(made.log.pair_counts, whole.pair_counts)
    assert (made.updates[0]["new_rows"], made.updates[0]["known_rows"]) == (20, 320)
    before = {f.name: f.read_bytes() for f in (tmp_path / "new").iterdir()}
    words = ["update", str(tmp_path / "new"), str(tmp_path / "all.csv"), "--out"]
    assert run_cli([*words, str(tmp_path / "new"), "--force"]) == 0
    assert {f.name: f.read_bytes() for f in (tmp_path / "new").iterdir()} == before
    assert whole.reward is not None
    corrected = replace(whole, reward=np.where(np.arange(340) == 7, 99.0, whole.reward))
    write_log_csv(corrected, tmp_path / "other.csv")
    _, record = update(old, tmp_path / "other.csv", LocalSearch())
    assert record["absent_rows"] == 1
