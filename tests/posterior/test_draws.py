"""A stream of models: known by its seeds, the same for every reader, kept in files as seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softrobust as sr
from softrobust.data import TransitionLog, read_log
from softrobust.errors import InputError
from softrobust.models.files import save_models
from softrobust.models.model_set import ModelSet
from softrobust.posterior import DirichletPosterior, HierarchicalPosterior, LearnedPosterior
from softrobust.posterior.sampling import BLOCK, SHARD, TURNS, Draws, origin
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import policy_return, stream_returns
from softrobust.run import Options, choose, load_run, run_page, set_up

N = 2 * BLOCK + 37
PEST = Path(__file__).parents[2] / "examples" / "pest_log.csv"


def small_log(noise: float = 0.3) -> TransitionLog:
    rng = np.random.default_rng(3)
    s, a = rng.integers(0, 4, 60), rng.integers(0, 2, 60)
    after = np.where(rng.random(60) < 0.6, (s + a) % 4, rng.integers(0, 4, 60))
    reward = s * 1.0 + noise * rng.standard_normal(60)
    names = [f"n={i}" for i in range(4)]
    return TransitionLog.from_arrays(
        [names[i] for i in s], [f"a{i}" for i in a], [names[i] for i in after], reward
    )


def problem_of(log: TransitionLog, models: Any) -> Problem:
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)


@pytest.mark.parametrize(
    "settings", [LearnedPosterior(), DirichletPosterior(), HierarchicalPosterior()], ids=str
)
def test_any_reader_finds_the_same_models(settings: Any) -> None:
    import numba

    log = small_log()
    draws = Draws.of(settings.fit(log), N, 5)
    whole = draws.models
    for n in (1, BLOCK - 1, BLOCK, BLOCK + 1):  # the first n of a longer stream
        first = Draws.of(settings.fit(log), n, 5).models
        np.testing.assert_array_equal(first.prob, whole.select(range(n)).prob)
    before = numba.get_num_threads()
    policies = [problem_of(log, whole).uniform_policy()]
    found = []
    try:
        for threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
            numba.set_num_threads(threads)
            again = replace(draws, _kept=[])
            found.append(stream_returns(problem_of(log, whole), policies, again)[0].x)
    finally:
        numba.set_num_threads(before)
    parts = [draws.part(at, min(BLOCK, N - at)) for at in range(0, N, BLOCK)]
    shards = [stream_returns(problem_of(log, whole), policies, part)[0].x for part in parts[::-1]]
    for other in (*found[1:], np.concatenate(shards[::-1])):
        np.testing.assert_array_equal(found[0], other)
    np.testing.assert_allclose(
        found[0], policy_return(problem_of(log, whole), policies[0]), rtol=1e-13
    )


@pytest.mark.parametrize("hands", [None, 1, 2, 3, 1000])
@pytest.mark.parametrize("n", [1, 5000, 100_000, 1_000_001])
def test_parts_are_whole_blocks_of_the_stream(n: int, hands: int | None) -> None:
    draws = Draws.of(DirichletPosterior().fit(small_log()), n, 5).part(2 * BLOCK, n)
    parts = draws.shards(hands)
    at = draws.first + np.cumsum([0, *(part.n_models for part in parts)])
    assert [part.first for part in parts] == at[:-1].tolist()
    assert at[-1] == draws.first + n
    assert all(part.n_models % BLOCK == 0 for part in parts[:-1])
    most = SHARD if hands is None else TURNS * SHARD
    assert max(part.n_models for part in parts) <= most
    if hands is not None and n == 100_000:  # as many for each, neither tiny nor much larger
        assert len(parts) == max(min(TURNS * hands, -(-n // SHARD)), -(-n // most))


def test_streams_are_independent() -> None:
    fitted = DirichletPosterior().fit(small_log())
    one, other = (Draws.of(fitted, 2000, seed) for seed in np.random.SeedSequence(0).spawn(2))
    x, y = (draws.models.prob[: 2000 * 3] for draws in (one, other))
    assert not np.isclose(x, y).all()
    blocks = list(one.blocks())
    assert not np.array_equal(blocks[0].prob, blocks[1].prob)


def test_a_problem_is_kept_as_seeds(tmp_path: Path) -> None:
    log = small_log()
    draws = Draws.of(LearnedPosterior().fit(log), 400, 1)
    problem = problem_of(log, draws.models)
    assert origin(problem.models) is not None
    assert origin(problem.models.select(range(5))) is None  # others than were drawn
    save_problem(tmp_path / "problem.npz", problem)
    assert (tmp_path / "problem.npz").stat().st_size < 30_000
    again = load_problem(tmp_path / "problem.npz")
    np.testing.assert_array_equal(again.R, problem.R)
    np.testing.assert_array_equal(again.models.prob, problem.models.prob)
    save_problem(tmp_path / "arrays.npz", problem_of(log, draws.posterior.sample(400, 1)))
    assert (tmp_path / "arrays.npz").stat().st_size > 60_000  # whose seeds nobody knows


def test_models_that_cannot_be_drawn_again_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_log()
    problem = problem_of(log, Draws.of(DirichletPosterior().fit(log), 300, 1).models)
    save_problem(tmp_path / "problem.npz", problem)
    other = lambda self, b: self.posterior.sample(self.block, 77 + b)  # noqa: E731
    monkeypatch.setattr(Draws, "drawn", other)  # as another generator would
    with pytest.raises(InputError, match="cannot be drawn again as they were"):
        load_problem(tmp_path / "problem.npz")


def test_the_demo_folder_is_small_and_whole(tmp_path: Path) -> None:
    setup = set_up(PEST, Options(gamma=0.9))
    run = choose(setup, sr.Nominal(), replications=0)
    run.save(tmp_path / "run")
    assert sum(file.stat().st_size for file in (tmp_path / "run").iterdir()) < 2**20
    again = load_run(tmp_path / "run")
    assert isinstance(again.heldout, Draws)
    assert again.heldout.record() == run.heldout.record()
    np.testing.assert_array_equal(again.problem.R, run.problem.R)
    page = run_page(again, tmp_path / "page.html")
    page.save(tmp_path / "page.html")
    # A folder of an older version holds the models themselves, and no digests.
    held = run.heldout.models
    solution = tmp_path / "run" / "solution.json"
    record = json.loads(solution.read_text())
    del record["files"]
    solution.write_text(json.dumps(record))
    (tmp_path / "run" / "posterior.json").write_text(
        (tmp_path / "run" / "posterior.json").read_text().replace('"heldout": {', '"unused": {')
    )
    save_models(tmp_path / "run" / "heldout.npz", held)
    arrays = replace(run.problem.models, notes=())
    save_problem(tmp_path / "run" / "problem.npz", replace(run.problem, models=arrays))
    old = load_run(tmp_path / "run")
    np.testing.assert_array_equal(old.heldout.prob, held.prob)
    np.testing.assert_array_equal(old.problem.R, run.problem.R)
    assert read_log(PEST).data_hash == old.log.data_hash


def test_others_draw_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked of them at a time, the models are those of the stream."""

    class Others:
        alone = False

        def models(self, draws: Draws) -> list[ModelSet]:
            return list(draws.blocks())

        def returns(self, *_: Any) -> list[Any]:
            return []

    log = TransitionLog.from_arrays([0, 1, 0], ["go", "go", "go"], [1, 0, 1])
    draws = replace(Draws.of(LearnedPosterior().fit(log), 100, 3), block=13)
    monkeypatch.setattr("softrobust.posterior.sampling.ROUND", 50)
    parts = list(draws._by(Others()))
    whole = draws.models
    assert sum(part.n_models for part in parts) == 100
    made = np.concatenate([part.P for part in parts])
    assert np.array_equal(made, whole.P)
