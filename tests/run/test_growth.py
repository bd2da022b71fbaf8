"""As many models as the question needs: N doubles until little is open, at a level that holds."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.bounds import Covers
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, write_log_csv
from softrobust.errors import InputError
from softrobust.models.files import save_models
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import Draws
from softrobust.posterior.base import FittedPosterior, Seed
from softrobust.problem import Problem
from softrobust.returns import static_return, stream_returns
from softrobust.run import Options, Run, choose, growth, load_run, set_up
from softrobust.run import setup as setups
from softrobust.run.growth import answer
from softrobust.run.options import Setup
from softrobust.solvers import Exact, LocalSearch, Nominal, solve
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.improve import Improve, promise_of


def population() -> Problem:
    """2000 models: draws with replacement have these, and nothing else, for their posterior."""
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.full(3, 0.6), size=(2000, 3, 2))
    return Problem(
        ModelSet.from_dense(P),
        rewards=np.array([[1.0, 0.2], [0.4, -0.4], [0.0, 0.01]]),
        gamma=0.8,
        objective=SoftRobust(0.5, 0.8),
    )


WHOLE = population()
WORTH = {
    rule: static_return(WHOLE, WHOLE.policy(np.array(rule))) for rule in product(range(2), repeat=3)
}
BEST = max(WORTH.values())


@dataclass(frozen=True, slots=True)
class Known(FittedPosterior):
    """A posterior whose best policy is known."""

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        return WHOLE.models.select(np.random.default_rng(seed).choice(2000, n, replace=True))


def repeated(seed: int, first: int) -> tuple[bool, bool, int, float, bool]:
    """Whether both limits hold; the looks taken, what was left at the last one; a true miss."""
    models = Draws.of(Known(), first, np.random.SeedSequence(seed).spawn(1)[0]).models
    setup = Setup(WHOLE.with_models(models), posterior=Known(), more_models=True)
    found = answer(setup, LocalSearch(starts=3), seed, 10, named=True)
    under, policy = found.under, found.solution.policy
    assert under is not None
    assert under.upper is not None
    assert under.paired_gap is not None
    assert under.gap_share is not None
    missed = BEST - WORTH[tuple(policy.decision.tolist())]
    held = missed <= under.paired_gap + 1e-9, under.upper >= BEST
    return *held, len(found.open), under.gap_share, missed > 0


def coverage(times: int, first: int = 8) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(times):
        paired, upper, looks, share, missed = repeated(seed, first)
        seen["missed"] += missed
        seen["paired"] += paired
        seen["upper"] += upper
        seen["stopped"] += share <= growth.SHARE
        seen["early"] += share <= growth.SHARE and looks <= 3
    return seen


def test_the_stopping_rule_keeps_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 times at 95 %: fewer than 25 would have a probability below 0.004."""
    monkeypatch.setattr(growth, "SHARE", 0.08)
    seen = coverage(30)
    assert min(seen["paired"], seen["upper"]) >= 25, seen
    assert seen["stopped"] >= 15, seen
    assert seen["missed"] >= 3, seen  # a rule that could be wrong


@pytest.mark.slow
def test_the_stopping_rule_keeps_its_level_a_thousand_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "SHARE", 0.08)
    seen = coverage(1000)
    assert min(seen["paired"], seen["upper"]) >= 950, seen
    assert min(seen["stopped"], seen["early"]) >= 300, seen
    assert seen["missed"] >= 150, seen


# --------------------------------------------------------------------------------------------------
# The whole line.


def small_log(seed: int = 0, rows: int = 60, noise: float = 0.0) -> TransitionLog:
    rng = np.random.default_rng(seed)
    s, a = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    after = np.where(rng.random(rows) < 0.55 + 0.1 * a, (s + 1) % 3, rng.integers(0, 3, rows))
    names = ["low", "mid", "high"]
    return TransitionLog.from_arrays(
        [names[i] for i in s], [["rest", "push"][i] for i in a], [names[i] for i in after],
        s - 0.2 * a + noise * rng.normal(size=rows),
    )  # fmt: skip


def test_models_are_added_until_little_is_left() -> None:
    run = choose(small_log(), Exact(time_limit=600.0), gamma=0.9, posterior="dirichlet")
    under = run.certificate.posterior
    assert under is not None
    assert under.gap_share is not None
    assert under.upper is not None
    assert under.gap_share <= growth.SHARE
    assert under.to_dict()["gap_share"] == under.gap_share
    assert under.paired_gap == pytest.approx(
        under.gap_share * (under.upper - run.certificate.uniform_value)
    )
    assert under.covers is Covers.DETERMINISTIC
    assert run.solution.status == "optimal"  # the last answer is proven on its models
    n = run.problem.n_models
    assert n >= 300
    first = Draws.of(run.posterior, 300, np.random.SeedSequence(0).spawn(2)[0]).models
    np.testing.assert_array_equal(run.problem.models.select(range(300)).prob, first.prob)
    fixed = choose(small_log(), Exact(), gamma=0.9, posterior="dirichlet", n_models=50)
    assert fixed.problem.n_models == 50


@pytest.mark.parametrize("solver", [None, LocalSearch(starts=3)])
def test_no_clock_has_a_say_unless_it_is_asked(
    solver: LocalSearch | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine a thousand times slower the same models and limits come out."""
    runs, real = [], time.monotonic
    for pace in (1.0, 1000.0):
        monkeypatch.setattr(time, "monotonic", lambda pace=pace: pace * real())
        runs.append(choose(small_log(1, 30), solver, gamma=0.9, alpha=0.8))
    one, other = (run.certificate.posterior for run in runs)
    assert runs[0].problem.n_models == runs[1].problem.n_models
    assert one is not None
    assert one == other


def test_thirty_models_are_in_the_bad_case() -> None:
    assert set_up(small_log(), Options(gamma=0.9, alpha=0.99)).problem.n_models == 3000
    assert set_up(small_log(), Options(gamma=0.9)).problem.n_models == 300


def test_a_limit_and_a_long_horizon_leave_fewer_models() -> None:
    with within(3.0) as clock:
        assert set_up(small_log(), Options(gamma=0.9, horizon=100_000)).problem.n_models < 300
        assert clock.cut == ["models"]
    with within(3.0) as clock:  # asked for by number too; how many, the machine decides
        asked = Options(gamma=1.0, horizon=100_000, n_models=3000)
        assert set_up(small_log(), asked).problem.n_models < 3000
        assert clock.cut == ["models"]
    with within(1.0) as clock:  # figures and pictures of millions take their time
        asked = Options(gamma=0.9, n_models=10**6, posterior="dirichlet")
        assert set_up(small_log(), asked).problem.n_models < 10**5
        assert clock.cut == ["models"]
    with within(1e6) as clock:
        assert set_up(small_log(), Options(gamma=0.9, horizon=30)).problem.n_models == 300
        assert not clock.cut


def test_only_what_there_was_less_of_is_said_to_be_cut() -> None:
    """A limit that left every look and every replication as it was cut neither."""
    models = Draws.of(Known(), 8, 0).models
    setup = Setup(WHOLE.with_models(models), posterior=Known(), more_models=True)
    with within(12.0) as clock:
        under = answer(setup, LocalSearch(starts=3), 0, 10, named=True).under
        assert under is not None
        assert under.replications == 10
        assert under.gap_share is not None
        assert ("models" in clock.cut) == (under.gap_share > growth.SHARE)
        assert "replications" not in clock.cut
    with within(0.02) as clock:
        under = answer(setup, LocalSearch(starts=3), 0, 10, named=True).under
        assert under is None or under.replications < 10
        assert {"models", "replications"} & set(clock.cut)


def test_the_default_is_the_best_of_its_own_class() -> None:
    """What improve leaves out is said; among clear changes little is open."""
    run = choose(small_log(2, 200), gamma=0.9)
    under = run.certificate.posterior
    assert run.solution.solver == "improve"
    assert under is not None
    assert under.covers is Covers.CLEAR_CHANGES
    assert under.gap_share is not None
    assert run.problem.n_models >= 300
    first = choose(small_log(2, 200), gamma=0.9, n_models=20)
    np.testing.assert_array_equal(run.solution.policy.probs, first.solution.policy.probs)


def test_no_candidate_is_better_on_fresh_models(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def watched(problem: Problem, policies: Any, draws: Draws) -> Any:
        found = stream_returns(problem, policies, draws)
        seen.append((policies, [problem.objective.value(x.x, x.f) for x in found], draws))
        return found

    monkeypatch.setattr(growth, "stream_returns", watched)
    run = choose(small_log(3, 25), gamma=0.9, posterior="dirichlet", replications=0)
    policies, worth, draws = seen[-1]
    assert len(policies) == 6  # exact, nominal, s-rect, local search, randomized, practice
    best = policies[int(np.argmax(worth))]
    np.testing.assert_array_equal(run.solution.policy.probs, best.probs)
    known = run.solution.stats["candidates"]
    assert known["n_models"] == draws.n_models
    assert [row["objective"] for row in known["policies"]] == pytest.approx(worth)
    assert all(row["of_class"] and row["more"]["value"] <= 0 for row in known["policies"])
    [own] = [row for row in known["policies"] if not row["why_not"]]
    assert own["solver"] == run.solution.solver
    held = run.heldout
    assert isinstance(held, Draws)
    assert (draws.seed, draws.key) != (held.seed, held.key)  # certified on a stream of its own
    assert "--solver" not in run.command


def walked(seed: int, S: int, A: int, rows: int, noise: float = 0.3) -> TransitionLog:
    """A walk by a practice that leans one way in every state, with noisy rewards."""
    rng = np.random.default_rng(seed)
    P, R = rng.dirichlet(np.full(S, 0.5), size=(S, A)), rng.normal(size=(S, A))
    beta, s = rng.dirichlet(np.ones(A), size=S), int(rng.integers(S))
    steps = []
    for _ in range(rows):
        a = int(rng.choice(A, p=beta[s]))
        t = int(rng.choice(S, p=P[s, a]))
        steps.append((str(s), str(a), str(t), R[s, a] + noise * rng.normal()))
        s = t
    first, actions, after, rewards = zip(*steps, strict=True)
    return TransitionLog.from_arrays(first, actions, after, np.array(rewards))


def told(run: Run) -> dict[str, Any]:
    """What is said of those that earn more on fresh models, by what became of them."""
    return {n.facts["why"]: n.facts for n in run.notes if n.code == "more_on_fresh"}


def test_what_caution_leaves_out_is_said_however_many_models_were_asked_for() -> None:
    """By fresh models: the best of the others earns that much more, within their noise."""
    run = choose(small_log(2, 60, 0.3), gamma=0.9, n_models=100, replications=0)
    said = told(run)["not_clear"]
    rival = solve(run.problem, Nominal())
    fresh = stream_returns(
        run.problem, [run.solution.policy, rival.policy], Draws.of(run.posterior, 20_000, 99)
    )
    own, other = (run.problem.objective.value(x.x, x.f) for x in fresh)
    assert said["value"] >= 0.8 * (other - own) > 0
    assert said["low"] > 0
    assert said["solver"] in ("nominal", "local-search")
    assert run.certificate.promise is not None  # of its own policy, which the posterior puts behind
    rows = run.solution.stats["candidates"]["policies"]
    outside = [row for row in rows if row["why_not"] == "not_clear"]
    assert not any(row["of_class"] for row in outside)
    assert said["value"] == max(row["more"]["value"] for row in outside)


@pytest.mark.parametrize("log", [(1, 5, 3, 80), (13, 5, 3, 200)])
def test_the_promise_chooses_and_who_earns_more_on_fresh_models_is_on_record(
    log: tuple[int, int, int, int],
) -> None:
    rows = walked(*log)
    run = choose(rows, gamma=0.9, n_models=1000, replications=4)
    under, promise = run.certificate.posterior, run.certificate.promise
    assert promise is not None
    assert promise == Improve(rows).choice(run.problem).promise
    judged = promise_of(rows, 0.9, run.solution.policy)  # as `evaluate` promises it
    assert judged is not None
    assert judged.gain == promise.gain
    assert under is not None
    assert under.covers is Covers.CLEAR_CHANGES  # which holds the answer
    assert under.paired_gap is not None
    own, *others = run.solution.stats["candidates"]["policies"]
    assert own["why_not"] == ""
    assert {row["solver"] for row in others} >= {"behaviour", "nominal", "local-search"}
    for row in others:
        shown = row["more"]["low"] > 1e-9
        within = "not_promised" if row["of_class"] else "not_clear"
        assert row["why_not"] == (within if shown else "no_more")
        assert row["more"]["low"] <= row["objective"] - own["objective"] <= row["more"]["high"]
        assert not row["of_class"] or row["more"]["low"] <= under.paired_gap
    assert any(row["of_class"] and row["why_not"] == "not_promised" for row in others)


def test_a_class_of_practice_alone_misses_nothing_and_needs_no_more_models() -> None:
    run = choose(walked(101, 4, 2, 45, noise=5.0), gamma=0.9)
    under, promise = run.certificate.posterior, run.certificate.promise
    assert promise is not None
    assert promise.of_practice
    assert run.problem.n_models == 300
    assert under is not None
    assert (under.paired_gap, under.gap_share) == (0.0, 0.0)


def test_the_gap_of_an_answer_that_randomizes_covers_those_that_do() -> None:
    run = choose(walked(1, 5, 3, 80), gamma=0.9, posterior="dirichlet", replications=4)
    under = run.certificate.posterior
    assert not run.solution.policy.deterministic
    assert under is not None
    assert under.covers is Covers.STATIONARY
    assert under.upper is not None
    assert under.paired_gap is not None
    better = solve(run.problem, RandomizedAscent()).policy  # whatever mixes actions is below it
    [x] = stream_returns(run.problem, [better], Draws.of(run.posterior, 4000, 99))
    assert run.problem.objective.value(x.x, x.f) <= under.upper
    [said] = [n.facts for n in run.notes if n.code == "upper_deterministic"]
    best = solve(run.problem.with_models(run.posterior.sample(3000, 98)), Exact())
    assert best.static_value - 0.05 <= said["upper"] < under.upper  # 0.05: optimism of 3000 models


def test_a_limit_leaves_fewer_models_to_compare_on() -> None:
    setup = set_up(small_log(), Options(gamma=0.9, n_models=20))
    found = [solve(setup.problem, Nominal())] * 2
    with within(1e-6) as clock:
        assert growth._on_fresh(setup, found, 0) is None
        assert clock.cut == ["comparisons"]
    with within(1e9) as clock:
        long = growth._on_fresh(setup, found, 0)
    other = growth._on_fresh(setup, found, 0)  # the clock had no say
    assert long is not None
    assert other is not None
    np.testing.assert_array_equal(long[0].x, other[0].x)
    assert not clock.cut


@pytest.mark.parametrize("models", [[], ["--models", "70"]])
def test_the_command_of_a_run_that_grew_makes_it_again(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log_csv(small_log(3, 25), tmp_path / "log.csv")
    words = "--gamma 0.9 --posterior dirichlet --solver local-search --replications 4 --quiet --out"
    assert run_cli(["solve", "log.csv", *models, *words.split(), "one"]) == 0
    one = load_run("one")
    assert one.problem.n_models == 70 if models else one.problem.n_models > 300
    assert ("--models 70" in one.command) == bool(models)
    assert run_cli([*shlex.split(one.command)[1:], "--quiet", "--out", "two"]) == 0
    assert load_run("two").certificate == one.certificate


def test_a_named_solver_answers_itself() -> None:
    run = choose(small_log(3, 25), LocalSearch(), gamma=0.9, posterior="dirichlet", replications=4)
    assert run.solution.solver == "local-search"
    assert "candidates" not in run.solution.stats
    run = choose(small_log(3, 25), Nominal(), gamma=0.9, posterior="dirichlet", replications=0)
    assert run.problem.n_models == 300


def test_a_sampler_with_few_draws_shares_them_out(tmp_path: Path) -> None:
    """Answers are compared on what was left over, and certified on others still."""
    drawn = set_up(small_log(), Options(gamma=0.9, n_models=2)).posterior.sample(1500, 1)
    save_models(tmp_path / "drawn.npz", drawn)
    settings = {"file": str(tmp_path / "drawn.npz")}
    run = choose(small_log(), gamma=0.9, posterior="draws", settings=settings)
    under = run.certificate.posterior
    assert run.problem.n_models == 300
    assert len(run.solution.stats["candidates"]["policies"]) == 6
    assert under is not None
    assert (under.replications, under.n_models) == (5, 100)
    assert under.gap_share is not None


def test_models_that_memory_is_not_meant_for_are_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen, bounded and kept on the first of them; evaluated on all."""
    asked: dict[str, Any] = {"gamma": 0.9, "posterior": "dirichlet", "n_models": 600}
    whole = choose(small_log(3, 25), LocalSearch(), replications=0, **asked)
    assert "on_all_models" not in {n.code for n in whole.notes}
    stored = whole.problem.models.next_states.size
    monkeypatch.setattr(setups, "MOST_CELLS", 300 * stored)
    write_log_csv(small_log(3, 25), tmp_path / "log.csv")
    run = choose(tmp_path / "log.csv", LocalSearch(), replications=0, **asked)
    assert run.problem.n_models == 256  # whole blocks
    np.testing.assert_array_equal(
        run.problem.models.prob, whole.problem.models.select(range(256)).prob
    )
    facts = {n.code: n.facts for n in run.notes}
    assert facts["models_in_memory"]["models"] == run.solution.n_models == 256
    assert facts["models_in_memory"]["asked"] == facts["on_all_models"]["n"] == 600
    value = static_return(whole.problem, run.solution.policy)
    assert facts["on_all_models"]["objective"] == pytest.approx(value, rel=1e-12)
    certificate = run.certificate
    assert certificate.static["objective"] == static_return(run.problem, run.solution.policy)
    best = solve(run.problem, Exact())
    assert certificate.bound.value >= best.static_value - 1e-9
    assert "--models 600" in run.command
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    np.testing.assert_array_equal(again.problem.models.prob, run.problem.models.prob)
    with within(1e-3) as clock:
        assert set_up(small_log(), Options(**asked)).problem.n_models <= 600
        assert clock.cut


@pytest.mark.parametrize("number", ["x", [300], 2.5, True])
def test_a_number_of_models_that_is_none_is_refused_under_a_limit_too(number: Any) -> None:
    with within(5.0), pytest.raises(InputError, match="number of models must be a whole number"):
        set_up(small_log(), Options(gamma=0.9, n_models=number))
