"""Checks of a run folder: right models pass, wrong ones are caught, gaps are said."""

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
from softrobust.run.checks import (
    Check,
    Verdict,
    changed,
    check_run,
    confounding,
    draws,
    goal,
    held_out_episodes,
    prior_strength,
    rare_pairs,
    replay,
)
from softrobust.run.folder import Folder, load_run

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return solved(visits(), tmp_path_factory.mktemp("right"))


def solved(log: TransitionLog, where: Path) -> Folder:
    write_log_csv(log, where / "log.csv")
    words = "--gamma 0.8 --solver local-search --models 40 --test-models 200 --quiet --out"
    line = ["solve", str(where / "log.csv"), *words.split(), str(where / "run")]
    assert run_cli(line) == 0
    return load_run(where / "run")


def test_replay_is_fine_where_the_model_is_right(folder: Folder) -> None:
    check = replay(folder)
    assert check.verdict is Verdict.FINE
    assert check.figures["low"] <= check.figures["observed"] <= check.figures["high"]
    assert check.figures["share_inside"] > 0.8


def test_replay_catches_a_process_that_is_not_markov(tmp_path: Path) -> None:
    check = replay(solved(visits(drift=True), tmp_path))
    assert check.figures["observed"] != pytest.approx(check.figures["low"])
    # Early steps are better in the model than they were: the rank is at the edge.
    assert check.verdict is Verdict.CAUTION
    assert "does not reproduce" in check.sentence


def test_off_policy_estimates_agree_where_the_model_is_right(folder: Folder) -> None:
    check = held_out_episodes(folder)
    assert check.verdict is not Verdict.CAUTION, check.sentence
    names = {e["name"] for e in check.figures["estimates"]}
    assert names == {"WIS", "PDIS", "DR", "FQE"}
    told = [e for e in check.figures["estimates"] if e["can_tell"]]
    assert told
    for e in told:
        assert e["low"] <= e["value"] <= e["high"]


def test_no_rare_pairs_in_a_long_log(folder: Folder) -> None:
    assert rare_pairs(folder).figures["share"] == 0.0


def test_a_long_log_outweighs_the_prior(folder: Folder) -> None:
    check = prior_strength(folder)
    assert check.verdict is Verdict.FINE
    assert [row["factor"] for row in check.figures["alternatives"]] == [0.1, 10.0]


def test_grids_and_other_draws_are_compared(folder: Folder) -> None:
    assert len(goal(folder).figures["grid"]) == 20
    rows = draws(folder).figures["alternatives"]
    assert len(rows) == 4
    assert all(0 <= row["visits"] <= 1 and "gain" in row for row in rows)


def test_changed_counts_states_and_visits(folder: Folder) -> None:
    policy = folder.solution.policy
    other = Policy.from_decision(1 - policy.decision, policy.states, policy.actions)
    assert changed(folder.problem, policy, policy) == {"states": 0.0, "visits": 0.0}
    assert changed(folder.problem, policy, other) == {
        "states": 1.0,
        "visits": pytest.approx(1.0),
    }


def test_confounding_has_a_tipping_point(folder: Folder) -> None:
    figures = confounding(folder).figures
    assert figures["value"] >= figures["practice"]
    assert figures["tipping"] is None or figures["tipping"] > 1


def test_few_episodes_cannot_tell(folder: Folder) -> None:
    log = folder.log
    assert log is not None
    short = replace(folder, log=replace(log, episode=None))
    for check in (replay(short), held_out_episodes(short)):
        assert check.verdict is Verdict.CANNOT_TELL
        assert "episode" in check.sentence


def test_models_without_a_log_cannot_tell(folder: Folder) -> None:
    bare = replace(folder, log=None, posterior=None)
    results = list(check_run(bare))
    assert len(results) == 7
    assert sum(check.verdict is Verdict.CANNOT_TELL for check in results) == 6  # λ, α need no log


def test_the_verb_writes_what_it_says(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", str(folder.path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((folder.path / "checks.json").read_text(encoding="utf-8"))
    assert printed["checks"][0]["name"] == "behaviour replay"
    assert all(isinstance(Check(**c).sentence, str) for c in printed["checks"])


def test_folders_that_are_not_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"no problem\.npz"):
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
    assert check.verdict is Verdict.CAUTION, check.sentence
    low = check.figures["predicted"][0]
    told = [e for e in check.figures["estimates"] if e["can_tell"]]
    assert told
    assert all(e["value"] < low for e in told)
    assert replay(folder).verdict is Verdict.CAUTION  # single episodes vary more than their means
