"""Limits, interrupts, checkpoints, masks and sinks of the static solvers."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from softrobust.bounds import Covers
from softrobust.bounds.advantage import relax
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.solvers import Status, branch_and_bound, exact
from softrobust.solvers.exact import Exact
from softrobust.solvers.local_search import LocalSearch
from softrobust.solvers.progress import LiveLine
from tests.agree.static_instances import brute_force
from tests.instances import random_problem


def river(S: int = 14, N: int = 20, lam: float = 1.0, alpha: float = 0.9) -> Problem:
    """A chain whose models disagree state by state: it takes branching."""
    rng = np.random.default_rng(0)
    P = np.zeros((N, S, 2, S))
    s = np.arange(S)
    P[:, s, 0, np.maximum(s - 1, 0)] = 1.0
    q = rng.dirichlet(np.ones(3), size=(N, S))
    for way, step in enumerate((-1, 0, 1)):
        for i in range(S):
            P[:, i, 1, min(max(i + step, 0), S - 1)] += q[:, i, way]
    rewards = np.zeros((S, 2, S))
    rewards[:, :, S - 1] = 100.0
    rewards[s[:-1], :, s[:-1] + 1] += 5.0
    models = ModelSet.from_dense(P)
    return Problem(models, rewards=rewards, gamma=0.95, objective=SoftRobust(lam, alpha))


@pytest.fixture
def no_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No enumeration, so that there are nodes to stop between."""
    monkeypatch.setattr(branch_and_bound, "LEAF_WORK", 0.0)
    monkeypatch.setattr(exact, "ENUMERATION_WORK", 0.0)


def test_bound_falls_and_covers_deterministic_policies() -> None:
    solution = Exact().solve(river())
    assert solution.status is Status.OPTIMAL
    assert solution.bound is not None
    assert solution.bound.covers is Covers.DETERMINISTIC
    assert solution.gap is not None
    assert 0 <= solution.gap <= 1e-6
    bounds = [entry[2] for entry in solution.stats["trace"]]
    assert all(b >= c for b, c in pairwise(bounds))
    json.dumps(dict(solution.stats), allow_nan=False)


def test_clairvoyant_bound_covers_all_where_it_binds() -> None:
    problem = random_problem(1, n_models=1)
    solution = Exact().solve(problem)
    assert solution.bound is not None
    assert solution.bound.covers is Covers.ALL
    assert solution.gap_abs is not None
    assert 0 <= solution.gap_abs <= 1e-9


@pytest.mark.usefixtures("no_leaves")
def test_node_limit_and_resume_reach_the_same_optimum(tmp_path: Path) -> None:
    problem, path = river(20, 60), tmp_path / "tree.npz"
    whole = Exact().solve(problem)
    first = Exact(node_limit=2, checkpoint=path).solve(problem)
    assert first.status is Status.NODE_LIMIT
    assert first.stats["open_nodes"] > 0
    last = first
    for limit in (5, 9, None):
        again = Exact(node_limit=limit, checkpoint=path).solve(problem)
        assert again.bound is not None
        assert last.bound is not None
        assert again.bound.value <= last.bound.value + 1e-12 * abs(last.bound.value)
        last = again
    assert last.status is Status.OPTIMAL
    assert last.static_value == pytest.approx(whole.static_value, rel=1e-9)
    assert last.stats["nodes"] > first.stats["nodes"]
    assert last.stats["seconds_before_resume"] > 0
    finished = Exact(checkpoint=path).solve(problem)  # nothing left to do
    assert finished.status is Status.OPTIMAL
    assert finished.stats["nodes"] == last.stats["nodes"]


@pytest.mark.usefixtures("no_leaves")
def test_a_checkpoint_of_another_problem_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tree.npz"
    Exact(node_limit=1, checkpoint=path).solve(river())
    with pytest.raises(InputError, match="another problem"):
        Exact(checkpoint=path).solve(replace(river(), objective=SoftRobust(0.9, 0.9)))
    with pytest.raises(InputError, match="closed nodes at a gap"):
        Exact(gap=1e-9, checkpoint=path).solve(river())
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="cannot be resumed"):
        Exact(checkpoint=path).solve(river())


@pytest.mark.usefixtures("no_leaves")
def test_interrupt_returns_the_incumbent_and_loses_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, path = river(20, 60), tmp_path / "tree.npz"
    real, calls = relax, []

    def interrupted(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(branch_and_bound, "relax", interrupted)
    solution = Exact(checkpoint=path).solve(problem)
    assert solution.status is Status.INTERRUPTED
    assert solution.bound is not None
    monkeypatch.setattr(branch_and_bound, "relax", real)
    whole = Exact().solve(problem)
    assert solution.bound.value >= whole.static_value
    assert solution.static_value >= LocalSearch().solve(problem).static_value - 1e-9
    resumed = Exact(checkpoint=path).solve(problem)
    assert resumed.status is Status.OPTIMAL
    assert resumed.static_value == pytest.approx(whole.static_value, rel=1e-9)


def test_short_of_memory_children_start_from_the_root(
    no_leaves: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = river(20, 60)
    whole = Exact().solve(problem)
    monkeypatch.setattr(branch_and_bound, "RELAXATION_MEMORY", 0)
    lean = Exact().solve(problem)
    assert lean.static_value == pytest.approx(whole.static_value, rel=1e-9)
    assert lean.status is Status.OPTIMAL


def test_copies_of_actions_and_unreachable_states_cost_nothing() -> None:
    base = random_problem(3, n_states=5, n_actions=2, masks=False)
    P = np.asarray(base.models.P)
    N, S, _, _ = P.shape
    wide = np.zeros((N, S + 1, 6, S + 1))
    wide[:, :S, :, :S] = P[:, :, [0, 1, 0, 1, 1, 0]]
    wide[:, S, :, S] = 1.0  # a state nobody comes to
    R = np.zeros((S + 1, 6, N))
    R[:S] = base.R[:, [0, 1, 0, 1, 1, 0]]
    problem = Problem(
        ModelSet.from_dense(wide, base.models.f),
        rewards=R.mean(axis=2),
        p0=np.append(base.p0, 0.0),
        gamma=base.gamma,
        objective=base.objective,
    )
    narrow = replace(base, rewards=base.R.mean(axis=2))
    solution = Exact(gap=1e-9).solve(problem)
    assert solution.static_value == pytest.approx(brute_force(narrow), abs=1e-9)
    assert solution.stats["log10_rules"] == pytest.approx(np.log10(2.0**S))


def test_a_log_with_unseen_pairs_and_sinks() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 4, 80), rng.integers(0, 3, 80)
    keep = ~((s == 2) & (a == 1))
    s_next = (s + a + (rng.random(80) < 0.4)) % 5  # state 4 is entered and never left
    log = TransitionLog.from_arrays(s[keep], a[keep], s_next[keep], (s - 0.5 * a)[keep])
    models = DirichletPosterior().fit(log).sample(15, seed=1)
    problem = Problem(
        models, rewards=log.rewards, p0=log.p0, gamma=0.9, objective=SoftRobust(0.5, 0.8)
    )
    solution = Exact(gap=1e-9).solve(problem)
    assert solution.static_value == pytest.approx(brute_force(problem), abs=1e-9)
    assert solution.policy.probs[2, 1] == 0


def test_local_search_says_what_it_is() -> None:
    problem = river()
    solution = LocalSearch(starts=4, seed=1).solve(problem)
    assert solution.status is Status.LOCAL_OPTIMUM
    assert solution.bound is None
    assert solution.stats["starts"] == 4
    same = LocalSearch(starts=4, seed=1).solve(problem)
    np.testing.assert_array_equal(same.policy.probs, solution.policy.probs)
    late = LocalSearch(time_limit=1e-9).solve(problem)
    assert late.status is Status.TIME_LIMIT
    assert LocalSearch(starts=1).solve(problem).static_value <= Exact().solve(problem).static_value


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Exact(gap=-1.0), "gap"),
        (lambda: Exact(node_limit=-1), "node_limit"),
        (lambda: Exact(time_limit=0.0), "time limit"),
        (lambda: LocalSearch(starts=0), "starts"),
    ],
)
def test_settings_are_checked(make: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        make()  # type: ignore[operator]


def test_live_line_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        line = LiveLine()
        line.update(lambda: "value 1")
        line.update(lambda: "too soon")
        line.clear()
        assert ("value 1" in stream.getvalue()) is shown
        assert "too soon" not in stream.getvalue()


@pytest.mark.usefixtures("no_leaves")
@pytest.mark.parametrize("dual", [True, False])
def test_a_gap_of_zero_ends_at_single_rules(dual: bool) -> None:
    problem = random_problem(8, n_states=3, n_actions=2)
    solution = Exact(gap=0.0, dual=dual).solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.static_value == pytest.approx(brute_force(problem), abs=1e-12)
    assert solution.stats["open_nodes"] == 0
