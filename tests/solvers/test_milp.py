"""SR-MILP: its matrix, its forms at the ends of α and λ, its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.bounds.advantage import occupancy_bounds
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import Objective, Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.solvers.base import Deadline, Status
from softrobust.solvers.exact import milp
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import BUILD_SHARE, MILP, load_highs, run_highs, write_milp
from softrobust.solvers.exact.milp_program import MilpModel, build_milp
from tests.agree.static_instances import brute_force
from tests.instances import random_problem

highspy = pytest.importorskip("highspy")


@pytest.mark.parametrize("form", ["strengthened", "paper"])
@pytest.mark.parametrize(
    ("lam", "alpha"), [(0.0, 0.5), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0), (0.0, 1.0), (0.5, 0.9)]
)
def test_the_program_itself_has_the_right_optimum(form: str, lam: float, alpha: float) -> None:
    """HiGHS's own objective value, without local search or re-evaluation."""
    base = random_problem(2, n_states=4, n_actions=2, n_models=5, lam=lam, alpha=alpha)
    problem = base.with_models(base.models.select(base.models.f > 0))
    highs = load_highs(build_milp(problem, problem.allowed, form))  # type: ignore[arg-type]
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.run()
    assert highs.modelStatusToString(highs.getModelStatus()) == "Optimal"
    # HiGHS meets its constraints to 1e-6 only; its value inherits that.
    assert highs.getInfo().objective_function_value == pytest.approx(brute_force(problem), abs=1e-5)


@pytest.mark.parametrize("objective", [SoftRobust(0.5, 0.7), Percentile(0.7)])
def test_no_bound_rests_on_what_highs_says(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS solves a program without the best rule, as its presolve has been seen to make one."""
    cut = 0
    for seed in range(10):
        problem = replace(random_problem(seed, n_states=3, n_actions=2), objective=objective)
        optimum = Exact().solve(problem)
        taken = optimum.policy.probs.reshape(-1) > 0

        def without(model: MilpModel, taken: NDArray[np.bool_] = taken) -> object:
            upper = model.upper.copy()
            upper[: model.pairs.size] = ~taken[model.pairs] | (model.pairs < 2)  # state 0 is free
            return load_highs(replace(model, upper=upper))

        with monkeypatch.context() as patch:
            patch.setattr(milp, "load_highs", without)
            solution = MILP().solve(problem)
        assert solution.bound is not None
        assert solution.bound.value >= brute_force(problem)
        assert solution.static_value == pytest.approx(optimum.static_value, rel=1e-12)
        said = solution.stats["highs_bound"]
        cut += said is not None and said < optimum.static_value - 1e-3
    assert cut >= 5


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_written_files_hold_the_same_program(suffix: str, tmp_path: Path) -> None:
    problem = random_problem(4, n_states=3, n_actions=2, n_models=4, masks=True)
    path = tmp_path / f"program{suffix}"
    write_milp(problem, path)
    text = path.read_text()
    assert "pi_0_" in text
    assert "y_" in text
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    highs.run()
    assert abs(highs.getInfo().objective_function_value) == pytest.approx(
        abs(brute_force(problem)), abs=1e-5
    )
    with pytest.raises(InputError, match=r"\.mps or \.lp"):
        write_milp(problem, tmp_path / "program.txt")


def test_forbidden_actions_have_no_column() -> None:
    problem = random_problem(5, masks=True)
    model = build_milp(problem, problem.allowed, "paper")
    assert not np.isin(np.flatnonzero(~problem.allowed.reshape(-1)), model.pairs).any()
    solution = MILP().solve(problem)
    assert not (solution.policy.probs > 0)[~problem.allowed].any()


def test_strengthened_relaxation_is_tighter() -> None:
    """The LP relaxation with m and M is never above the printed one, whose big-M is 1/(1 − γ)."""
    base = random_problem(6, n_states=5, n_actions=3, n_models=6)
    problem = base.with_models(base.models.select(base.models.f > 0))
    values = []
    for form in ("strengthened", "paper"):
        model = build_milp(problem, problem.allowed, form)
        highs = load_highs(model)
        highs.setOptionValue("solve_relaxation", True)
        highs.run()
        values.append(highs.getInfo().objective_function_value)
    assert brute_force(problem) <= values[0] + 1e-6
    assert values[0] <= values[1] + 1e-6


def test_matrix_has_the_papers_size() -> None:
    rng = np.random.default_rng(0)
    S, A, N = 51, 5, 100
    models = ModelSet.from_dense(rng.dirichlet(np.ones(S), size=(N, S, A)))
    problem = Problem(models, rewards=rng.normal(size=(S, A)), gamma=0.9)
    model = build_milp(problem, problem.allowed, "paper")
    assert model.matrix.shape[1] == S * A * (N + 1) + N + 1


@pytest.mark.parametrize("seed", range(6))
def test_occupancy_bounds_are_attained(seed: int) -> None:
    """m and M are the extremes over all rules with that action, to rounding, and never inside."""
    from tests.agree.static_instances import all_decisions

    problem = random_problem(seed, n_states=4, n_actions=2, n_models=3, masks=seed % 2 == 0)
    bounds = occupancy_bounds(problem)
    P = np.asarray(problem.models.P)
    s = np.arange(problem.n_states)
    decisions = all_decisions(problem)
    rows = P[:, s, decisions].transpose(1, 0, 2, 3)
    M = np.eye(problem.n_states) - problem.gamma * rows
    h = np.linalg.solve(M.transpose(0, 1, 3, 2), problem.p0[:, None])[..., 0]
    for state, action in np.argwhere(problem.allowed):
        taking = h[decisions[:, state] == action][:, :, state]
        least, greatest = (x[state, action] for x in bounds)
        assert (least <= taking.min(axis=0) * (1 + 1e-12)).all()
        assert (greatest >= taking.max(axis=0) * (1 - 1e-12)).all()
        np.testing.assert_allclose(least, taking.min(axis=0), rtol=1e-9)
        np.testing.assert_allclose(greatest, taking.max(axis=0), rtol=1e-9)


def test_a_node_limit_gives_incumbent_and_bound_every_time_the_same() -> None:
    problem = random_problem(3, n_states=8, n_actions=3, n_models=12)
    first, second = (MILP(node_limit=0).solve(problem) for _ in range(2))
    assert first.status is Status.NODE_LIMIT
    assert first.bound is not None
    assert first.static_value <= first.bound.value
    assert (first.static_value, first.bound) == (second.static_value, second.bound)
    np.testing.assert_array_equal(first.policy.probs, second.policy.probs)
    with pytest.raises(InputError, match="node_limit"):
        MILP(node_limit=-1)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="formulation"):
        MILP(formulation="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="gap"):
        MILP(gap=-1)
    objective = SoftRobust(0.0, 0.5)
    problem = replace(random_problem(0), objective=objective)
    assert MILP().solve(problem).objective == objective


class _Interrupted:
    """A solver that Ctrl-C reaches twice while it runs."""

    HandleUserInterrupt = False

    def __init__(self) -> None:
        self.waits, self.cancelled = 0, 0

    def startSolve(self) -> None:
        assert self.HandleUserInterrupt

    def wait(self, timeout: float) -> tuple[bool, None]:
        self.waits += 1
        if self.waits in (2, 3):
            raise KeyboardInterrupt
        return self.waits >= 5, None

    def cancelSolve(self) -> None:
        self.cancelled += 1


def test_an_interrupt_stops_highs_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    highs = _Interrupted()
    run_highs(highs)
    assert (highs.waits, highs.cancelled) == (5, 2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("place", ["best_bound", "build_milp", "Exact"])
def test_an_interrupt_anywhere_keeps_the_local_search(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(5, n_states=5)
    found = LocalSearch().solve(problem).static_value

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(milp, place, interrupted)
    solution = MILP().solve(problem)
    assert solution.status is Status.INTERRUPTED
    assert solution.static_value >= found - 1e-12
    assert solution.bound is not None
    assert solution.bound.value >= found


def test_building_leaves_time_for_highs() -> None:
    assert Deadline(None).part(0.5).limit is None
    part = Deadline(30.0).part(BUILD_SHARE)
    assert part.limit is not None
    assert 9.0 < part.limit <= 10.0
