"""Training runs of soft actor-critic: resumed, stopped, side by side, gone wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.files import read_npz, write_npz
from softrobust.errors import InputError, SolverError
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.solvers.base import Status
from softrobust.solvers.continuous.sac import SoftRobustSAC
from softrobust.solvers.continuous.sac.training import FORMAT, VERSION
from tests.solvers.sac_worlds import TINY, gaussian_problem

jax = pytest.importorskip("jax")
pytest.importorskip("optax")


def parts(policy: Any) -> tuple[Any, ...]:
    assert isinstance(policy, NetworkPolicy)
    return (*policy.weights, *policy.biases)


def same(a: Any, b: Any) -> None:
    """Bit by bit."""
    for x, y in zip(parts(a.policy), parts(b.policy), strict=True):
        np.testing.assert_array_equal(x, y)
    for key in ("curve_return", "last_return", "last_entropy", "last_losses"):
        assert a.stats[key] == b.stats[key]


def test_resumed_run_is_identical(tmp_path: Path) -> None:
    """Stopped after 4 of 6 iterations, or by the clock after 1, it ends with the same bits."""
    problem = gaussian_problem()
    whole = SoftRobustSAC(**TINY).solve(problem)
    file = str(tmp_path / "run.npz")
    first = SoftRobustSAC(**{**TINY, "iterations": 4}, checkpoint=file).solve(problem)
    assert first.stats["iterations"] == 4
    same(SoftRobustSAC(**TINY, checkpoint=file).solve(problem), whole)
    same(SoftRobustSAC(**TINY, checkpoint=file).solve(problem), whole)  # nothing left to do

    other = str(tmp_path / "clock.npz")
    stopped = SoftRobustSAC(**TINY, checkpoint=other, time_limit=1e-6).solve(problem)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.stats["iterations"] == 1
    same(SoftRobustSAC(**TINY, checkpoint=other).solve(problem), whole)


def test_agents_side_by_side_are_the_agents_alone() -> None:
    """Batched products round otherwise than single ones: to 1e-4 of the largest weight."""
    problem = gaussian_problem()
    solver = SoftRobustSAC(**TINY)
    together = solver.train(problem, (3, 8))[0]
    for seed, found in zip((3, 8), together, strict=True):
        alone = replace(solver, seed=seed).solve(problem)
        assert found.stats["seed"] == seed
        for x, y in zip(parts(found.policy), parts(alone.policy), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-4 * np.abs(y).max())
    a, b = (np.concatenate([np.ravel(x) for x in parts(s.policy)]) for s in together)
    assert np.abs(a - b).max() > 0.1  # two seeds are two agents


def test_nan_stops_with_the_step_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    problem = gaussian_problem()
    file = tmp_path / "run.npz"
    SoftRobustSAC(**{**TINY, "iterations": 4}, checkpoint=str(file)).solve(problem)
    arrays = dict(read_npz(file, FORMAT, VERSION))
    head = {"format", "format_version"}
    place = next(k for k in arrays if "networks" in k and "'q'" in k and "W0" in k)
    arrays[place] = np.full_like(arrays[place], np.nan)
    write_npz(file, FORMAT, VERSION, {k: v for k, v in arrays.items() if k not in head})
    before = file.read_bytes()
    with pytest.raises(SolverError, match=r"seed 0, iteration 5, update 1.*iteration 4\).*Lower"):
        SoftRobustSAC(**TINY, checkpoint=str(file)).solve(problem)
    assert file.read_bytes() == before


def test_a_run_goes_on_with_lower_rates_and_says_so(tmp_path: Path) -> None:
    problem, file = gaussian_problem(), str(tmp_path / "run.npz")
    SoftRobustSAC(**{**TINY, "iterations": 4}, checkpoint=file).solve(problem)
    lower = SoftRobustSAC(**TINY, checkpoint=file, actor_rate=1e-5)
    with pytest.warns(UserWarning, match=r"other learning rates.*from iteration 5 on"):
        assert lower.solve(problem).stats["iterations"] == TINY["iterations"]
    with pytest.raises(InputError, match="no folder for the checkpoint"):
        SoftRobustSAC(**TINY, checkpoint=str(tmp_path / "none" / "run.npz")).solve(problem)


def test_parameters_that_run_away_are_not_kept_as_good(tmp_path: Path) -> None:
    """Losses are computed before an update: those of the first are fine at any rate."""
    problem, file = gaussian_problem(), tmp_path / "run.npz"
    once = {**TINY, "block": 1, "updates": 1, "iterations": 2}
    with pytest.raises(SolverError, match=r"actor network have run away.*by iteration 1"):
        SoftRobustSAC(**once, actor_rate=1e30, checkpoint=str(file)).solve(problem)
    assert not file.exists()


def test_checkpoints_of_other_runs_are_refused(tmp_path: Path) -> None:
    problem = gaussian_problem()
    file = str(tmp_path / "run.npz")
    SoftRobustSAC(**{**TINY, "iterations": 4}, checkpoint=file).solve(problem)
    with pytest.raises(InputError, match="other models, settings or seeds"):
        SoftRobustSAC(**TINY, checkpoint=file, seed=1).solve(problem)
    with pytest.raises(InputError, match="other models, settings or seeds"):
        SoftRobustSAC(**TINY, checkpoint=file).solve(gaussian_problem(seed=1))
    with pytest.raises(InputError, match="beyond the 2 asked for"):
        SoftRobustSAC(**{**TINY, "iterations": 2}, checkpoint=file).solve(problem)
    Path(file).write_bytes(Path(file).read_bytes()[:2000])
    with pytest.raises(InputError, match="not a whole"):
        SoftRobustSAC(**TINY, checkpoint=file).solve(problem)


def test_no_seed_is_no_run() -> None:
    problem = gaussian_problem()
    with pytest.raises(InputError, match="at least one seed"):
        SoftRobustSAC(**TINY).train(problem, ())
