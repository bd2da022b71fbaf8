"""Checks of a run: right models pass, wrong ones are caught, gaps are said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog
from softrobust.data.readers import write_log_csv
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.run.folder import Run, load_run
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.study.checks import (
    Check,
    Verdict,
    check_run,
    confounding,
    draws,
    goal,
    held_out_episodes,
    load_checks,
    prior_strength,
    rare_pairs,
    replay,
)
from softrobust.study.solved import changed

N_EPISODES = 120
P = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.6, 0.4], [0.1, 0.9]]])  # (s, a, s′)


def visits(seed: int = 0, drift: bool = False) -> TransitionLog:
    """Episodes of eight steps; with `drift`, what action 1 does depends on the hour: not Markov."""
    rng = np.random.default_rng(seed)
    s, a, n, r, e = [], [], [], [], []
    for episode in range(N_EPISODES):
        now = int(rng.integers(2))
        for t in range(8):
            act = int(rng.random() < 0.5)
            late = drift and t >= 4
            to = int(rng.random() < (0.99 if late else P[now, act, 1]))
            s.append(now)
            a.append(act)
            n.append(to)
            r.append(float(to) - 0.1 * act)
            e.append(episode)
            now = to
    return TransitionLog.from_arrays(s, a, n, r, e)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return solved(visits(), tmp_path_factory.mktemp("right"))


def solved(log: TransitionLog, where: Path) -> Run:
    write_log_csv(log, where / "log.csv")
    words = "--gamma 0.8 --solver local-search --posterior dirichlet --models 40 --test-models 200"
    words += " --quiet --out"
    line = ["solve", str(where / "log.csv"), *words.split(), str(where / "run")]
    assert run_cli(line) == 0
    return load_run(where / "run")


def test_replay_is_fine_where_the_model_is_right(folder: Run) -> None:
    check = replay(folder)
    assert check.verdict is Verdict.FINE
    assert check.facts["low"] <= check.facts["observed"] <= check.facts["high"]
    assert check.facts["share_inside"] > 0.8


def test_replay_catches_a_process_that_is_not_markov(tmp_path: Path) -> None:
    check = replay(solved(visits(drift=True), tmp_path))
    assert check.facts["observed"] != pytest.approx(check.facts["low"])
    # Early steps are better in the model than they were: the rank is at the edge.
    assert check.verdict is Verdict.CAUTION
    assert not check.facts["fits"]


def test_off_policy_estimates_agree_where_the_model_is_right(folder: Run) -> None:
    check = held_out_episodes(folder)
    assert check.verdict is not Verdict.CAUTION, check.facts
    names = {e["name"] for e in check.facts["estimates"]}
    assert names == {"WIS", "PDIS", "DR", "FQE"}
    told = [e for e in check.facts["estimates"] if e["can_tell"]]
    assert told
    for e in told:
        assert e["low"] <= e["value"] <= e["high"]


def test_no_rare_pairs_in_a_long_log(folder: Run) -> None:
    assert rare_pairs(folder).facts["share"] == 0.0


def test_a_long_log_outweighs_the_prior(folder: Run) -> None:
    check = prior_strength(folder)
    assert check.verdict is Verdict.FINE
    assert [row["factor"] for row in check.facts["alternatives"]] == [0.1, 10.0]


def test_grids_and_other_draws_are_compared(folder: Run) -> None:
    assert len(goal(folder).facts["grid"]) == 20
    rows = draws(folder).facts["alternatives"]
    assert len(rows) == 4
    assert all(0 <= row["visits"] <= 1 and "gain" in row for row in rows)


def test_changed_counts_states_and_visits(folder: Run) -> None:
    policy = folder.solution.policy
    other = Policy.from_decision(1 - policy.decision, policy.states, policy.actions)
    assert changed(folder.problem, policy, policy) == {"states": 0.0, "visits": 0.0}
    assert changed(folder.problem, policy, other) == {
        "states": 1.0,
        "visits": pytest.approx(1.0),
    }


def test_confounding_has_a_tipping_point(folder: Run) -> None:
    figures = confounding(folder).facts
    assert figures["value"] >= figures["practice"]
    assert figures["tipping"] is None or figures["tipping"] > 1


def test_few_episodes_cannot_tell(folder: Run) -> None:
    log = folder.log
    assert log is not None
    bare = replace(folder, log=replace(log, episode=None))
    found = {check.code: check for check in check_run(bare)}
    for code in ("replay", "off_policy"):
        assert found[code].verdict is Verdict.CANNOT_TELL
        assert found[code].facts["why"] == "refused"
        assert "episode" in found[code].facts["text"]
    assert log.episode is not None
    assert log.reward is not None
    few = np.asarray(log.episode) < 3
    short = replace(log, s=log.s[few], a=log.a[few], s_next=log.s_next[few],
                    reward=log.reward[few], episode=log.episode[few])  # fmt: skip
    for check in (replay, held_out_episodes):
        made = check(replace(folder, log=short))
        assert made.verdict is Verdict.CANNOT_TELL
        assert (made.facts["why"], made.facts["n_episodes"]) == ("few_episodes", 3)


def test_models_without_a_log_cannot_tell(folder: Run) -> None:
    bare = replace(folder, log=None, posterior=None)
    results = list(check_run(bare))
    assert len(results) == 7
    assert sum(check.verdict is Verdict.CANNOT_TELL for check in results) == 6  # λ, α need no log


def test_the_verb_writes_what_it_says(folder: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", str(folder.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((folder.path / "checks.json").read_text(encoding="utf-8"))
    assert printed["checks"][0]["code"] == "replay"
    read = load_checks(folder.path / "checks.json")
    assert read is not None
    assert [check.to_dict() for check in read] == printed["checks"]


def test_checks_of_an_older_format_keep_their_words(tmp_path: Path) -> None:
    file = tmp_path / "checks.json"
    assert load_checks(file) is None
    old = {"name": "rare", "verdict": "fine", "sentence": "It is well.", "figures": {}}
    file.write_text(json.dumps({"format_version": 1, "checks": [old]}))
    assert load_checks(file) == (
        Check("recorded", Verdict.FINE, {"name": "rare", "text": "It is well."}),
    )
    for broken in ("[1]", "{", '{"checks": [{"name": "x"}]}'):
        file.write_text(broken)
        with pytest.raises(InputError, match="Check the run again"):
            load_checks(file)


def test_folders_that_are_not_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"no solution\.json"):
        load_run(tmp_path)


def noise() -> TransitionLog:
    """Nothing matters: next states are uniform, rewards are noise."""
    rng = np.random.default_rng(1)
    n = 80 * 12
    s_next = rng.integers(0, 5, n)
    s = np.concatenate([[0], s_next[:-1]])
    return TransitionLog.from_arrays(
        s, rng.integers(0, 5, n), s_next, rng.normal(0, 10, n), np.repeat(np.arange(80), 12)
    )


def test_noise_is_not_taken_for_gain(tmp_path: Path) -> None:
    folder = solved(noise(), tmp_path)
    check = held_out_episodes(folder)
    assert check.verdict is Verdict.CAUTION, check.facts
    low = check.facts["predicted"][0]
    told = [e for e in check.facts["estimates"] if e["can_tell"]]
    assert told
    assert all(e["value"] < low for e in told)
    assert replay(folder).verdict is Verdict.CAUTION  # single episodes vary more than their means


def walked(n: int, steps: int, seed: int = 0) -> TransitionLog:
    """As `visits`, in short episodes that end, with one action at even odds."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n):
        now = 0
        for t in range(steps):
            act = int(rng.random() < 0.5)
            to = int(rng.random() < P[now, act, 1])
            rows.append((now, act, to, float(to) - 0.1 * act, episode, t == steps - 1))
            now = to
    return TransitionLog.from_arrays(*zip(*rows, strict=True))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return solved(walked(200, 2), tmp_path_factory.mktemp("short"))


def test_fine_only_where_whole_episodes_can_tell(short: Run, folder: Run) -> None:
    """Two steps leave many effective episodes; of eight steps hardly any is left."""
    told = held_out_episodes(short)
    assert told.verdict is Verdict.FINE, told.facts
    assert all(e["can_tell"] for e in told.facts["estimates"])
    untold = held_out_episodes(folder)
    by_name = {e["name"]: e for e in untold.facts["estimates"]}
    assert by_name["WIS"]["effective_size"] < 10
    assert not by_name["WIS"]["can_tell"]
    assert by_name["FQE"]["can_tell"]
    assert not untold.facts["apart"]
    assert (untold.verdict, untold.facts["why"]) == (Verdict.CANNOT_TELL, "too_uncertain")


def test_the_default_line_is_checked_by_itself(tmp_path: Path) -> None:
    write_log_csv(walked(60, 4), tmp_path / "log.csv")
    line = ["solve", str(tmp_path / "log.csv"), "--gamma", "0.8", "--quiet", "--replications", "0"]
    assert run_cli([*line, "--out", str(tmp_path / "run")]) == 0
    run = load_run(tmp_path / "run")
    assert run.solution.solver == "improve"
    found = {check.code: check for check in check_run(run)}
    assert {row["alpha"] for row in found["goal"].facts["grid"]} == {0.9}
    own = next(row for row in found["goal"].facts["grid"] if row["lam"] == 0.5)
    assert own["visits"] == 0.0  # the run's own λ gives the run's own policy
    assert len(found["draws"].facts["alternatives"]) == 2
    assert len(found["off_policy"].facts["estimates"]) == 4
    practice = behaviour_policy(run.problem, run.log)[0]
    same = replace(run, solution=replace(run.solution, policy=practice))
    other = draws(same)  # this run keeps practice where other seeds recommend a change
    assert {row["verdict"] for row in other.facts["alternatives"]} == {"change"}
    assert other.verdict is Verdict.CAUTION
    assert confounding(same).facts["why"] == "is_practice"
