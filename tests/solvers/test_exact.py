"""Limits, interrupts, checkpoints, masks and sinks of the static solvers."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.limits import LiveLine
from softrobust.bounds import Covers
from softrobust.bounds.advantage import relax
from softrobust.bounds.reduction import reduce
from softrobust.data import TransitionLog
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.solvers import Status
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.exact import branch_and_bound, exact
from softrobust.solvers.exact.exact import AGREE, Exact, load_checkpoint
from softrobust.solvers.exact.local_search import ExchangeClimber, LocalSearch
from softrobust.solvers.exact.milp import MILP
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
    # What rounding was allowed for goes with the file.
    state = load_checkpoint(path, reduce(problem), 1e-6)
    assert state.rounding == last.stats["closed_within"] > 0
    assert state.error == last.stats["enumeration_error"]
    finished = Exact(checkpoint=path).solve(problem)  # nothing left to do
    assert finished.stats["enumeration_error"] == state.error
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
    with np.load(path) as file:
        arrays = dict(file)
    size = (river().allowed.size + 7) // 8
    node = {"allowed": np.zeros((1, size), np.uint8), "bound": np.ones(1), "depth": np.ones(1, int),
            "xi": np.ones((1, arrays["xi"].shape[1]))}  # fmt: skip
    np.savez(path, **arrays | node)
    with pytest.raises(InputError, match="nodes with actions that are not allowed, or with none"):
        Exact(checkpoint=path).solve(river())
    meta = json.loads(str(arrays["meta"]))
    for name, value in (("error", -np.inf), ("rounding", -1.0), ("nodes", np.nan)):
        np.savez(path, **arrays | {"meta": np.array(json.dumps(meta | {name: value}))})
        with pytest.raises(InputError, match="counts or errors that cannot be"):
            Exact(checkpoint=path).solve(river())
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
        (lambda: Exact(time_limit=0.0), "time_limit"),
        (lambda: LocalSearch(starts=0), "starts"),
        (lambda: LocalSearch(starts=1.5), "starts"),  # type: ignore[arg-type]
        (lambda: LocalSearch(time_limit="5"), "time_limit"),  # type: ignore[arg-type]
        (lambda: Exact(gap="x"), "gap"),  # type: ignore[arg-type]
        (lambda: Exact(gap=float("nan")), "gap"),
        (lambda: Exact(node_limit=2.5), "node_limit"),  # type: ignore[arg-type]
        (lambda: Exact(time_limit="x"), "time_limit"),  # type: ignore[arg-type]
        (lambda: Exact(seed="x"), "seed"),  # type: ignore[arg-type]
        (lambda: Exact(seed=-1), "seed"),
        (lambda: MILP(gap="x"), "gap"),  # type: ignore[arg-type]
        (lambda: MILP(seed="x"), "seed"),  # type: ignore[arg-type]
        (lambda: MILP(node_limit=2.5), "node_limit"),  # type: ignore[arg-type]
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


# -- what is cut short ----------------------------------------------------------------------------


def climbing() -> Problem:
    """The nominal rule is not a local optimum of this objective, and one climb not the best.

    Staying put is free; two gambles differ by model in where they lead and what they pay.
    """
    S, N = 24, 20
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(S, 0.3), size=(N, S, 3))
    P[:, :, 0] = np.eye(S)
    pays = rng.normal(size=(S, 3, N)) + 0.3
    pays[:, 0] = 0.0
    models = ModelSet.from_dense(P)
    width = np.diff(models.indptr).reshape(S, 3)
    per_model = np.concatenate(
        [np.repeat(pays[s, a], width[s, a]) for s in range(S) for a in range(3)]
    )
    rewards = Rewards.of_models(per_model, S, 3)
    return Problem(models, rewards=rewards, gamma=0.95, objective=SoftRobust(1.0, 0.95))


@pytest.mark.parametrize("solver", [Exact, LocalSearch, MILP])
def test_no_time_at_all_still_climbs_once(solver: type[Exact]) -> None:
    problem = climbing()
    nominal = Nominal().solve(problem).static_value
    once = LocalSearch(starts=1).solve(problem).static_value
    assert once > nominal + 1e-6
    solution = solver(time_limit=1e-9).solve(problem)
    assert solution.static_value >= once - 1e-12 * abs(once)


def test_a_search_cut_short_is_made_good_when_resumed(tmp_path: Path) -> None:
    problem, path = climbing(), tmp_path / "tree.npz"
    best = LocalSearch().solve(problem).static_value
    cut = Exact(time_limit=1e-9, checkpoint=path).solve(problem)
    assert cut.status is Status.TIME_LIMIT
    assert cut.static_value < best - 1e-6
    reduced = reduce(problem)
    assert load_checkpoint(path, reduced, 1e-6).starts == 0
    again = Exact(node_limit=0, checkpoint=path).solve(problem)
    assert again.static_value >= best - 1e-12 * abs(best)
    assert again.stats["local_search_hits"].endswith("of 10")
    assert load_checkpoint(path, reduced, 1e-6).starts == 10
    third = Exact(node_limit=0, checkpoint=path).solve(problem)  # not a second time
    assert third.stats["local_search_hits"] == "1 of 1"
    assert third.static_value == again.static_value


def test_a_checkpoint_without_the_count_of_starts_is_searched_again(tmp_path: Path) -> None:
    problem, path = river(), tmp_path / "tree.npz"
    Exact(node_limit=0, checkpoint=path).solve(problem)
    with np.load(path) as file:
        stored = {name: file[name] for name in file.files}
    meta = json.loads(str(stored["meta"]))
    del meta["starts"]
    stored["meta"] = np.array(json.dumps(meta))
    with path.open("wb") as out:
        np.savez_compressed(out, **stored)
    again = Exact(node_limit=0, checkpoint=path).solve(problem)
    assert again.stats["local_search_hits"] == f"{AGREE} of {AGREE}"  # not one start alone


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, call: int) -> None:
    """Ctrl-C in the given call of a method."""
    real, calls = getattr(owner, name), []

    def method(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize("solver", [Exact, LocalSearch])
def test_an_interrupt_in_the_first_climb_keeps_what_it_has_reached(
    solver: type[Exact], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = climbing()
    nominal = Nominal().solve(problem).static_value
    interrupt(monkeypatch, ExchangeClimber, "neighbours", 6)
    solution = solver().solve(problem)
    assert solution.status is Status.INTERRUPTED
    assert solution.static_value > nominal + 1e-6


@pytest.mark.usefixtures("no_leaves")
def test_an_interrupt_while_a_search_is_taken_up_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, path = river(20, 60), tmp_path / "tree.npz"
    first = Exact(node_limit=5, checkpoint=path).solve(problem)
    assert first.bound is not None
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        interrupt(patch, branch_and_bound.Tree, "offer", 1)
        cut = Exact(checkpoint=path).solve(problem)
    assert cut.status is Status.INTERRUPTED
    assert cut.bound is not None
    assert cut.bound.value >= first.static_value
    assert path.read_bytes() == before
    assert Exact(checkpoint=path).solve(problem).status is Status.OPTIMAL


def test_an_interrupt_while_a_given_policy_is_climbed_from_keeps_the_incumbent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = climbing()
    given = Nominal().solve(problem).policy
    found = LocalSearch(starts=exact.WARM_STARTS).solve(problem).static_value
    interrupt(monkeypatch, branch_and_bound.Tree, "offer", 1)
    solution = Exact(start=given).solve(problem)
    assert solution.status is Status.INTERRUPTED
    assert solution.static_value >= found - 1e-12 * abs(found)
    assert solution.bound is not None
    assert solution.bound.value >= solution.static_value
