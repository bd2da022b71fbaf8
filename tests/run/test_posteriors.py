"""Any posterior goes through the whole line: solved, kept, read back, checked, updated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softrobust as sr
from softrobust._core.limits import Deadline, time_bound, unbounded, within
from softrobust.cli.main import run as command
from softrobust.data.readers import write_log_csv
from softrobust.domains import make_domain
from softrobust.posterior import ExternalPosterior, Frame, LearnedPosterior
from softrobust.posterior.base import CHECKING, CHOOSING, FRESH
from softrobust.posterior.sampling import Draws, origin
from softrobust.report.summary import summary_lines
from softrobust.run import Run, choose, load_run, run_frontier, run_page
from softrobust.run.evaluate import evaluate_file, setup_of
from softrobust.run.rehearsal import rehearse
from softrobust.run.update import update
from softrobust.study.checks import check_run
from softrobust.study.explain import explain
from softrobust.study.value_of_data import data_values

SHOP = {"capacity": 3, "max_order": 2, "max_demand": 4}


def walk(n: int = 90, seed: int = 0) -> sr.TransitionLog:
    """A walk on four states: action 1 goes right more often, and the right end pays."""
    rng = np.random.default_rng(seed)
    s, a, t = np.zeros(n, int), rng.integers(0, 2, n), np.zeros(n, int)
    for i in range(n):
        s[i] = 0 if i % 9 == 0 else t[i - 1]
        step = int(rng.random() < 0.3 + 0.4 * a[i]) - int(rng.random() < 0.3)
        t[i] = min(max(s[i] + step, 0), 3)
    reward = (s == 3) - 0.1 * a
    return sr.TransitionLog.from_arrays(
        s, a, t, reward, np.arange(n) // 9, state_names=range(4), action_names=range(2)
    )


def sold(n: int = 60) -> sr.TransitionLog:
    """A shop that holds three."""
    log: sr.TransitionLog = make_domain("inventory", **SHOP, steps=n).collect(0)
    return log


def file_of_draws(folder: Path) -> str:
    models = sr.DirichletPosterior(min_count=0, support="all").fit(walk()).sample(90, seed=3)
    sr.save_models(folder / "draws.npz", models)
    return str(folder / "draws.npz")


CASES: list[tuple[str, dict[str, Any]]] = [
    ("learned", {}),
    ("dirichlet", {"strength": 2.0}),
    ("hierarchical", {"spread": 1.0}),
    ("tied", {"prior": 0.5}),
    ("demand", SHOP),
    ("draws", {}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=[name for name, _ in CASES])
def test_the_whole_line(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    log = sold() if name == "demand" else walk()
    if name == "draws":
        settings = {"file": file_of_draws(tmp_path)}
    made = choose(
        log, sr.LocalSearch(), replications=4, gamma=0.9, posterior=name, settings=settings,
        n_models=6, n_test=20,
    )  # fmt: skip
    assert made.certificate.posterior is not None
    assert made.certificate.promise is not None or "promise_unseen" in {n.code for n in made.notes}
    made.save(tmp_path / "run")
    read = load_run(tmp_path / "run")
    assert read.posterior.describe() == made.posterior.describe()
    for use in (CHOOSING, CHECKING, FRESH):
        one, two = (Draws.of(x.posterior.share(use), 5, 1).models for x in (made, read))
        np.testing.assert_array_equal(one.prob, two.prob)
    np.testing.assert_array_equal(read.problem.models.prob, made.problem.models.prob)
    assert read.record()["heldout"] == made.record()["heldout"]
    assert len(list(check_run(read))) == 7
    assert data_values(read, draws=20)
    setup = setup_of(read)
    given = evaluate_file(setup, tmp_path / "run" / "policy.csv")
    np.testing.assert_array_equal(given.solution.policy.probs, made.solution.policy.probs)
    assert len(run_frontier(setup, [0.0, 1.0], [0.8]).points) == 2
    assert explain(read.problem, read.solution.policy, read.problem.models.states[0], read.log)
    assert run_page(read, tmp_path / "page.html").html
    learns = name != "draws"
    new = sold(12) if name == "demand" else walk(18, seed=1)
    write_log_csv(new, tmp_path / "new.csv")
    _updated(read, tmp_path, learns)
    _rehearsed(read, tmp_path / "worlds", learns)


def _updated(read: Run, folder: Path, learns: bool) -> None:
    if not learns:
        with pytest.raises(sr.InputError, match="sampled elsewhere"):
            update(read, folder / "new.csv", sr.Nominal())
        return
    found, record = update(read, folder / "new.csv", sr.Nominal())
    assert found is not None
    assert record["new_rows"] > 0
    assert found.problem.models.states == read.problem.models.states
    assert found.certificate.posterior is not None
    assert found.certificate.posterior.paired_gap is not None


def _rehearsed(read: Run, out: Path, learns: bool) -> None:
    if not learns:
        with pytest.raises(sr.InputError, match="sampled elsewhere"):
            rehearse(read, out, 1, workers=0, progress=False)
        return
    found = rehearse(read, out, 2, solver="nominal", workers=0, progress=False)
    assert not found.to_dict()["failed"]


@pytest.mark.parametrize(("name", "settings"), [("tied", {}), ("demand", SHOP)])
def test_models_with_rewards_of_their_own_are_drawn_again(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """So many that the folder keeps their seeds, and not the models."""
    made = choose(
        sold() if name == "demand" else walk(), sr.Nominal(), replications=0, gamma=0.9,
        posterior=name, settings=settings, n_models=300, n_test=20,
    )  # fmt: skip
    made.save(tmp_path / "run")
    read = load_run(tmp_path / "run")
    np.testing.assert_array_equal(read.problem.models.prob, made.problem.models.prob)
    np.testing.assert_array_equal(read.problem.R, made.problem.R)


def test_draws_of_one_use_serve_no_other(tmp_path: Path) -> None:
    fitted = sr.posterior.DrawsPosterior(file_of_draws(tmp_path)).fit(walk())
    parts = [fitted.share(use).sample(30, seed=0) for use in (CHOOSING, CHECKING, FRESH)]
    rows = np.concatenate([part.prob.reshape(8, 30, 4).transpose(1, 0, 2) for part in parts])
    assert len({row.tobytes() for row in rows}) == 90
    with pytest.raises(sr.InputError, match="31 models were asked for, and 30 draws were kept"):
        fitted.share(CHOOSING).sample(31)


@pytest.mark.parametrize("told", [True, False])
def test_too_few_draws_to_certify_or_to_compare_are_said(tmp_path: Path, told: bool) -> None:
    """Nobody asked for the models of the replications: how many are left is said, and needed."""
    log = walk()
    models = sr.DirichletPosterior(min_count=0).fit(log).sample(330 if told else 1350, seed=3)
    sr.save_models(tmp_path / "draws.npz", models)
    made = choose(
        log, gamma=0.9, posterior="draws", settings={"file": str(tmp_path / "draws.npz")},
        n_models=None if told else 300,
    )  # fmt: skip
    under = made.certificate.posterior
    assert under is not None
    assert ("not_compared" in {note.code for note in made.notes}) == told
    assert ("candidates" in made.solution.stats) != told
    if told:
        assert under.reason is not None
        assert under.reason.code == "replications_few_draws"
        assert dict(under.reason.facts) == {"draws": 110, "least": 4, "models": 100}
    else:
        assert under.upper is not None


def test_rewards_that_sampled_models_lack_come_from_the_log(tmp_path: Path) -> None:
    """As `sample` writes them: with those of its log, and a pair that this never saw."""
    log = walk(4)
    models = sr.DirichletPosterior(min_count=0, support="all").fit(log).sample(30, seed=3)
    assert log.rewards is not None
    sr.save_models(tmp_path / "draws.npz", replace(models, rewards=log.rewards, p0=log.p0))
    asked: dict[str, Any] = {"gamma": 0.9, "n_models": 5, "n_test": 5, "posterior": "draws",
                             "settings": {"file": str(tmp_path / "draws.npz")}}  # fmt: skip
    with pytest.raises(sr.InputError, match="Every allowed action needs a reward"):
        choose(log, sr.Nominal(), replications=0, **asked)
    told = log.with_reward_table(None, 0.5)
    assert choose(told, sr.Nominal(), replications=0, **asked).problem.R.max() >= 0.5


def test_ones_own_draws_and_objects(tmp_path: Path) -> None:
    log, rng = walk(), np.random.default_rng(0)
    right = {"q": rng.beta(2, 3, size=(60, 2))}

    def rows(draw: Any) -> Any:
        P = np.zeros((4, 2, 4))
        for s in range(4):
            P[s, :, min(s + 1, 3)] += draw["q"]
            P[s, :, max(s - 1, 0)] += 1 - draw["q"]
        return P

    frame = Frame(log.states, log.actions, sr.Rewards.of_pairs(np.zeros((4, 2))), log.p0, 0.8)
    own = ExternalPosterior.of_arrays(right, rows, frame)
    bare = sr.TransitionLog.from_arrays(
        log.s, log.a, np.minimum(log.s + 1, 3), state_names=range(4), action_names=range(2)
    )
    made = choose(bare, sr.Nominal(), replications=0, posterior=own, n_models=10, n_test=10)
    assert made.problem.gamma == 0.8  # of the frame
    assert not made.command  # no command has the function
    made.save(tmp_path / "run")
    read = load_run(tmp_path / "run")
    assert read.posterior.pool == 60
    assert read.heldout.n_models == 10


def test_labels_and_rewards_of_a_posterior_of_its_own_domain() -> None:
    """A log that saw few states is told by those of the domain; rewards and start are its own."""
    log = sold(5)
    plain = sr.TransitionLog.from_arrays(
        [log.states[i] for i in log.s], [log.actions[i] for i in log.a],
        [log.states[i] for i in log.s_next], log.reward,
    )  # fmt: skip
    made = choose(
        plain, sr.Nominal(), replications=0, posterior="demand", settings=SHOP, n_models=5, n_test=5
    )
    assert list(made.log.states) == ["0", "1", "2", "3"]
    assert made.log.n_rows == plain.n_rows
    assert {note.code for note in made.notes} >= {"p0_of_posterior"}
    told = " ".join(text for _, text in summary_lines(made))
    left = 4 - np.unique(log.s).size
    assert f"In {left} state" in told  # where there is no practice to go on with
    assert "that the log never left: what policy.csv says" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--posterior tie", "Did you mean 'tied'?"),
        ("--posterior tied --set prio=2", "Did you mean 'prior'? Its settings are known, moves"),
        ("--posterior tied --set prior=no", "prior must be a positive number; it is 'no'"),
        ("--posterior tied --min-count 2", "has no min_count"),
        ("--posterior dirichlet --strength 2 --set strength=3", "was given twice"),
        ("--posterior draws", "needs its file of models"),
        ("--posterior regression", "is for continuous states"),
    ],
)
def test_mistakes_are_named(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log_csv(walk(), tmp_path / "log.csv")
    assert command(["solve", str(tmp_path / "log.csv"), "--gamma", "0.9", *words.split()]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("verb", ["frontier", "evaluate"])
def test_a_posterior_of_vectors_is_refused_before_columns_are_missed(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.csv").write_text("x,action,next_x,reward\n0,1,0.5,1\n0.5,0,0.2,0\n")
    more = ["--policy", str(tmp_path / "c.csv")] if verb == "evaluate" else []
    words = [verb, str(tmp_path / "c.csv"), "--gamma", "0.9", "--posterior", "regression", *more]
    assert command(words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "'regression' is for continuous states, and this for tables of them." in told


def test_what_asks_about_a_table_refuses_vectors_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = make_domain("cancer", episodes=8, horizon=15).collect(0)
    solver = sr.SRVI(iterations=2, episodes=2, batch=10)
    made = choose(log, solver, gamma=0.9, n_models=3, n_test=3, episodes=2)
    made.save(tmp_path / "run")
    run, table = str(tmp_path / "run"), str(tmp_path / "run" / "policy.csv")
    more = {"evaluate": ["--policy", table], "update": [table], "explain": ["--state", "0"]}
    for verb in ("evaluate", "explain", "check", "rehearse", "value-of-data", "update", "rules"):
        assert command([verb, run, *more.get(verb, [])]) == 2, verb
        assert "report, apply and export" in " ".join(capsys.readouterr().err.split())
    for verb in ("evaluate", "frontier"):
        assert command([verb, table, "--continuous", *more.get(verb, [])]) == 2
        assert "cut the vectors into bins first" in " ".join(capsys.readouterr().err.split())
    assert command(["report", run, "--quiet"]) == 0


def test_who_judges_is_said(tmp_path: Path) -> None:
    made = choose(
        walk(), sr.Improve(walk()), replications=0, gamma=0.9, posterior="dirichlet", n_models=5,
        n_test=5,
    )  # fmt: skip
    (note,) = [n for n in made.notes if n.code == "promise_by_learned"]
    assert note.facts == {"posterior": "dirichlet", "solver": "improve"}
    (tmp_path / "may.csv").write_text("state,action\n0,1\n")
    barred = choose(
        walk(), sr.Nominal(), replications=0, gamma=0.9, n_models=5, n_test=5,
        allowed=tmp_path / "may.csv",
    )  # fmt: skip
    assert "improve_not_allowed" not in {note.code for note in barred.notes}  # it was named
    barred = choose(
        walk(), replications=0, gamma=0.9, n_models=5, n_test=5, allowed=tmp_path / "may.csv"
    )
    (note,) = [n for n in barred.notes if n.code == "improve_not_allowed"]
    assert note.facts == {"solver": "exact"}


def test_a_command_repeats_the_settings(tmp_path: Path) -> None:
    write_log_csv(walk(), tmp_path / "log.csv")
    words = "--gamma 0.9 --models 5 --test-models 5 --replications 0 --solver nominal"
    asked = ["--posterior", "tied", "--set", "prior=0.5", "--reward-default", "0"]
    out = tmp_path / "run"
    where = ["solve", str(tmp_path / "log.csv"), *words.split(), *asked, "--out", str(out)]
    assert command([*where, "--quiet"]) == 0
    record = json.loads((out / "solution.json").read_text())
    assert "--posterior tied" in record["command"]
    assert "--set prior=0.5" in record["command"]


def test_a_limit_bounds_the_whole_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However short: there is an answer, and it says what was cut."""
    write_log_csv(walk(), tmp_path / "log.csv")
    words = ["solve", str(tmp_path / "log.csv"), "--gamma", "0.9", "--time-limit", "0.001"]
    for solver in ((), ("--solver", "exact")):
        assert command([*words, *solver, "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        (cut,) = [note for note in record["notes"] if note["code"] == "cut_by_time"]
        assert {"models", "promise"} <= set(cut["facts"]["parts"])
        assert f"--models {record['n_models']} --time-limit 0.001" in record["command"]
        if not solver:
            assert record["promise"]["verdict"] == "no_time"


def test_a_limit_bounds_models_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were drawn in time are the first of the stream."""
    write_log_csv(walk(), tmp_path / "log.csv")
    words = ["solve", str(tmp_path / "log.csv"), "--gamma", "0.9", "--models", "100000"]
    assert command([*words, "--time-limit", "0.5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (cut,) = [note for note in record["notes"] if note["code"] == "cut_by_time"]
    assert "models" in cut["facts"]["parts"]
    posterior = LearnedPosterior().fit(walk())
    for clock in (Deadline(1e-9), Deadline(0.05)):
        draws = Draws.of(posterior, 100_000, 3)
        some = draws.within(clock, 200)
        assert 200 <= some.n_models < 100_000
        whole = draws.part(0, some.n_models).models
        assert np.array_equal(some.prob, whole.prob)
        drawn = origin(some)
        assert drawn is not None
        assert drawn.n_models == some.n_models


def test_bounds_are_nested_and_remember_what_was_cut() -> None:
    with within(100.0) as outer:
        assert outer.affords("models", 10, 1.0, 0.5) == 10
        with within(1000.0):
            assert time_bound().left <= 100.0
            assert time_bound().affords("models", 400, 1.0, 0.5, least=3) in (49, 50)
            with unbounded():
                assert time_bound().limit is None
        assert outer.cut == ["models"]
    assert time_bound().limit is None
    assert time_bound().affords("models", 400, 1e9, 0.5) == 400
    assert not time_bound().cut
