"""Rehearsals: claims hold as often as they say where the model is right; runs resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.posterior import FittedDirichlet
from softrobust.run.folder import Run
from softrobust.run.rehearsal import rehearse
from softrobust.study.checks import Verdict
from softrobust.study.foreign import load_rehearsal
from softrobust.study.rehearsal import Rehearsal, Stage, summary
from tests.study.test_checks import noise, solved, visits

TIMES = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return solved(visits(), tmp_path_factory.mktemp("rehearse"))


def test_coverage_is_nominal_where_the_model_is_right(folder: Run, tmp_path: Path) -> None:
    """Worlds from the prior: the posterior of the simulated log is exact, so β means β."""
    found = rehearse(folder, tmp_path / "r", TIMES, world="prior", workers=0, progress=False)
    assert isinstance(found, Rehearsal)
    assert found.failed == 0
    assert set(found.coverage) == {0.9, 0.5, 0.95}
    for level, (share, low, high) in found.coverage.items():
        error = 4 * np.sqrt(level * (1 - level) / TIMES)
        assert abs(share - level) <= error, (level, share)
        assert low <= share <= high
    assert found.regret >= 0
    assert found.gains["current practice"][0] > 0


def test_a_loss_that_is_rounding_is_none() -> None:
    world = {"return": 700.0, "practice": 1.0, "nominal": 1.0, "claims": {}}
    best = [700.0 + 2e-13, 700.0 - 1e-13, 700.0]
    assert summary([world | {"best": x} for x in best], "posterior").regret == 0
    assert summary([world | {"best": 703.0}] * 2, "posterior").regret == 3


def test_simulated_logs_have_the_shape_of_the_real_one(folder: Run) -> None:
    assert folder.log is not None
    assert folder.posterior is not None
    stage = Stage.of(folder.problem, folder.log, folder.posterior)
    rng = np.random.default_rng(0)
    log = stage.simulated(stage.world("posterior", rng), rng)
    assert log.n_rows == folder.log.n_rows
    np.testing.assert_array_equal(
        np.bincount(np.asarray(log.episode)), np.bincount(np.asarray(folder.log.episode))
    )
    assert stage.prior is not None
    np.testing.assert_allclose(stage.prior, 0.5)  # strength 1 over two next states
    again = stage.learned(folder.log)
    assert isinstance(again, FittedDirichlet)
    assert isinstance(stage.fitted, FittedDirichlet)
    np.testing.assert_allclose(again.concentration, stage.fitted.concentration)


def test_the_same_for_any_number_of_workers_and_after_a_resume(folder: Run, tmp_path: Path) -> None:
    one = rehearse(folder, tmp_path / "a", 6, workers=0, progress=False)
    two = rehearse(folder, tmp_path / "b", 6, workers=2, progress=False)
    assert one == two
    (tmp_path / "a" / "results" / "world3.json").unlink()
    assert rehearse(folder, tmp_path / "a", 6, workers=0, resume=True, progress=False) == one


def test_summary_of_known_figures() -> None:
    results = [
        {"return": 1.0 + i, "nominal": 1.0, "practice": 2.0, "best": 2.0 + i,
         "claims": {"0.5": 2.5}} for i in range(4)
    ]  # fmt: skip
    found = summary(results, "prior")
    assert found.coverage[0.5][0] == 0.5
    assert found.regret == pytest.approx(1.0)
    assert found.gains["current practice"][0] == pytest.approx(0.5)
    assert found.gains["the nominal policy"][3] == 0.75


def test_bad_input(folder: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="posterior or the prior"):
        rehearse(folder, tmp_path / "x", 2, world="moon")
    with pytest.raises(InputError, match="no solver"):
        rehearse(folder, tmp_path / "x", 2, solver="nothing")
    assert run_cli(["rehearse", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert read_log(folder.path / "log.parquet").n_rows == 960


def test_noisy_rewards_are_rehearsed(tmp_path: Path) -> None:
    """Rewards are pure noise: the line promises what the best of many means promises."""
    found = rehearse(solved(noise(), tmp_path), tmp_path / "r", 60, workers=0, progress=False)
    assert isinstance(found, Rehearsal)
    assert found.verdict is Verdict.CAUTION
    assert load_rehearsal(tmp_path / "r" / "summary.json") == found
    assert found.coverage[0.5][0] < 0.3
    assert found.coverage[0.5][2] < 0.5  # and the interval says so
