"""Held-out data: what judges had no part in the choice, and what they say is what they show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog
from softrobust.data.readers import write_log_csv
from softrobust.models.policy import Policy
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.run.folder import load_run
from softrobust.study.checks import Verdict
from softrobust.study.validation import Chooser, Validation, validate
from tests.study.test_foreign import walk


def problem_of(log: TransitionLog) -> Problem:
    models = DirichletPosterior().fit(log).sample(2, seed=0)
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)


def always(action: str, seen: list[TransitionLog]) -> Chooser:
    """A procedure that recommends one action whatever it sees, and promises 1."""

    def choose(part: TransitionLog) -> tuple[Policy, float | None]:
        seen.append(part)
        decision = np.full(part.n_states, part.actions.index(action))
        return Policy.from_decision(decision, part.states, part.actions), 1.0

    return choose


def test_only_the_rest_judges() -> None:
    """Where "up" leads down in the rest of the log alone, the choice is judged a loss."""
    log, seen = walk(n=60), list[TransitionLog]()
    problem = problem_of(log)
    good = validate(log, problem, always("up", seen), seed=1)
    assert (good.unit, good.n_chosen, good.n_judged) == ("episodes", 40, 20)
    assert good.gain is not None
    assert good.gain[1] <= good.gain[0] <= good.gain[2]
    assert good.gain[1] > 0
    assert (good.said, good.verdict) == (1.0, Verdict.FINE)
    (part,) = seen
    assert part.episode is not None
    assert log.episode is not None
    assert np.unique(part.episode).size == 40
    rest = ~np.isin(log.episode, part.episode)
    swapped = replace(log, a=np.where(rest, 1 - log.a, log.a))
    bad = validate(swapped, problem, always("up", seen), seed=1)
    np.testing.assert_array_equal(seen[1].a, part.a)
    assert bad.chance is not None
    assert bad.chance < 0.1
    assert bad.verdict is Verdict.CAUTION


def test_rewards_of_the_rest_are_not_told() -> None:
    """The part knows the rewards of its own rows only."""
    log, seen = walk(n=60, noise=1.0), list[TransitionLog]()
    validate(log, problem_of(log), always("up", seen))
    assert seen[0].rewards is None
    assert seen[0].reward is not None
    assert seen[0].reward.size == seen[0].n_rows < log.n_rows


def test_off_policy_estimates_come_from_the_rest() -> None:
    """One step an episode: three in ten take "up", so that weights can tell."""
    log = walk(n=240, steps=1)
    problem = replace(problem_of(log), gamma=0.3)
    found = validate(log, problem, always("up", []), seed=2)
    assert found.estimate is not None
    e = found.estimate
    assert e["name"] == "DR"
    assert e["can_tell"]
    assert 10 <= e["effective_size"] < e["size"] == 80
    assert e["low"] <= e["value"] <= e["high"]
    assert e["value"] > e["practice"]


def test_practice_is_not_judged_and_small_logs_judge_nothing() -> None:
    log = walk(n=20)

    def keep(part: TransitionLog) -> tuple[Policy, float | None]:
        return Policy(np.asarray(part.behaviour), part.states, part.actions), 0.0

    same = validate(log, problem_of(log), keep)
    assert (same.why, same.gain, same.verdict) == ("is_practice", None, Verdict.CANNOT_TELL)
    seen: list[TransitionLog] = []
    for few in (walk(n=11, steps=30), walk(n=30, steps=1)):
        small = validate(few, problem_of(few), always("up", seen))
        assert (small.why, small.verdict) == ("too_small", Verdict.CANNOT_TELL)
    assert not seen
    blocks = validate(log, problem_of(log), always("up", []), "blocks")
    assert (blocks.unit, blocks.n_chosen, blocks.n_judged) == ("blocks", 13, 7)
    bare = validate(replace(log, episode=None), problem_of(log), always("up", []))
    assert (bare.asked, bare.unit) == ("episodes", "blocks")


@pytest.mark.parametrize("more", [[], ["--solver", "local-search", "--models", "20"]])
def test_the_run_keeps_it(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log_csv(walk(n=24, steps=8), tmp_path / "log.csv")
    line = ["solve", str(tmp_path / "log.csv"), "--gamma", "0.9", "--replications", "0", *more]
    line += ["--validate", "episodes", "--details", "--out", str(tmp_path / "run")]
    assert run_cli(line) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Held-out data (not held-out models): chosen again on 16 episodes" in said
    record = json.loads((tmp_path / "run" / "solution.json").read_text(encoding="utf-8"))
    assert "--validate episodes" in record["command"]
    run = load_run(tmp_path / "run")
    assert isinstance(run.validation, Validation)
    assert json.loads(json.dumps(run.record()["validation"])) == record["validation"]
    assert record["validation"]["gain"][0] > 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Held-out data (not held-out models)" in page.split('<ul class="tiles">')[0]


def test_what_has_no_data_to_hold_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log_csv(walk(n=4, steps=4), tmp_path / "log.csv")
    line = ["solve", str(tmp_path / "log.csv"), "--gamma", "0.9", "--validate"]
    assert run_cli([*line, "patients"]) == 2
    assert "Data are held out by episodes or blocks; it got 'patients'" in capsys.readouterr().err
    (tmp_path / "models.csv").write_text(
        "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n0,0,0,0,1,1\n"
    )
    line[1] = str(tmp_path / "models.csv")
    assert run_cli([*line, "episodes"]) == 2
    assert "Data are held out of a log" in capsys.readouterr().err
