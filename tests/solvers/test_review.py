"""Cases that once slipped through: weights, rewards by model, discounts, checkpoints, statuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softrobust.bounds import Covers, best_bound
from softrobust.certificate import certify
from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.models import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.solvers import MILP, Exact, LocalSearch, SARect, Status
from tests.instances import random_problem


def test_rewards_by_model_with_a_model_of_no_weight() -> None:
    models = ModelSet.from_dense(np.ones((2, 1, 1, 1)), [1.0, 0.0])
    problem = Problem(models, Rewards.of_models([1.0, 2.0], 1, 1), p0=[1.0], gamma=0.9)
    for solver in (Exact(), LocalSearch(), MILP()):
        assert solver.solve(problem).static_value == pytest.approx(10.0)
    assert best_bound(problem).value == pytest.approx(10.0)
    assert certify(problem, problem.uniform_policy()).gap_abs <= 1e-9


@pytest.mark.parametrize("off", [9e-9, -9e-9])
@pytest.mark.parametrize("seed", range(5))
def test_weights_that_miss_one_within_the_tolerance(seed: int, off: float) -> None:
    base = random_problem(seed, n_states=3, n_actions=2, n_models=5)
    models = ModelSet.from_dense(base.models.P, base.models.f * (1 + off))
    assert models.f.sum() == pytest.approx(1.0, abs=1e-15)
    rewards = 1e3 * np.asarray(base.rewards.pairs)
    problem = Problem(models, rewards=rewards, gamma=0.9, objective=SoftRobust(0.5, 0.7))
    best = Exact().solve(problem).static_value
    for covers in (Covers.DETERMINISTIC, Covers.STATIONARY):
        assert best_bound(problem, covers).value >= best


def test_a_discount_that_row_sums_could_push_past_one() -> None:
    with pytest.raises(InputError, match="too near 1"):
        random_problem(0, gamma=1 - 5e-9)


@pytest.mark.parametrize("damage", ["truncate", "flip", "lack", "short"])
def test_a_damaged_checkpoint_is_bad_input(tmp_path: Path, damage: str) -> None:
    problem = random_problem(1, n_states=12, n_actions=4, n_models=20)
    path = tmp_path / "tree.npz"
    Exact(node_limit=1, checkpoint=path).solve(problem)
    content = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(content[:-40])
    elif damage == "flip":
        path.write_bytes(content[:100] + bytes([content[100] ^ 255]) + content[101:])
    else:
        with np.load(path) as file:
            arrays = dict(file)
        if damage == "lack":
            del arrays["decision"]
        else:
            arrays["decision"] = arrays["decision"][:-1]
        np.savez(path, **arrays)
    with pytest.raises(InputError, match="cannot be resumed"):
        Exact(checkpoint=path).solve(problem)


def test_a_checkpoint_needs_a_folder() -> None:
    with pytest.raises(InputError, match="no folder for the checkpoint"):
        Exact(checkpoint="nowhere/at/all/tree.npz")


@pytest.mark.parametrize("seed", range(6))
def test_milp_calls_proven_only_what_its_bound_proves(seed: int) -> None:
    problem = random_problem(seed, n_states=4, n_actions=2, n_models=4, gamma=0.95)
    solution = MILP().solve(problem)
    if solution.status is Status.TOLERANCE_REACHED:
        size = np.abs(problem.R).max() / (1 - problem.gamma)
        assert solution.gap_abs is not None
        assert solution.gap_abs <= 1e-6 * abs(solution.static_value) + 2e-6 * size


def test_the_edge_of_a_tail_is_inside_the_certificate() -> None:
    """Weights a hair off one half: CVaR at α = .5 is 4.8e-12, not 0."""
    f = np.array([0.5 - 2.4e-13, 0.5 + 2.4e-13])
    models = ModelSet.from_dense(np.ones((2, 1, 1, 1)), f)
    rewards = Rewards.of_models([0.0, 1.0], 1, 1)
    problem = Problem(models, rewards, p0=[1.0], gamma=0.9, objective=SoftRobust(1.0, 0.5))
    solution = SARect().solve(problem)
    exact = 10 * 2 * 2.4e-13
    assert solution.stats["model_value_lower"] <= exact <= solution.stats["model_value_upper"]
