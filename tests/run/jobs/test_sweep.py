"""One task of a sweep, and what a sweep is summed up to."""

from __future__ import annotations

import csv
import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.domains import RiverSwim
from softrobust.errors import SolverError
from softrobust.objective import SoftRobust
from softrobust.returns import policy_return, static_return
from softrobust.run import sweep as sweep_results
from softrobust.run.jobs import StorageError, task_seed
from softrobust.run.jobs.tasks import plain_result
from softrobust.run.sweep import average, run_sweep, solve_one
from softrobust.run.sweep_file import Source, Sweep
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.registry import SOLVERS
from tests.run.jobs.folders import contents

ROOT = Path(__file__).resolve().parents[3]
RIVER = {"n_states": 5, "steps": 30}


def one(solver: str, lam: float = 0.5, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "source": "river", "domain": "riverswim", "source_settings": RIVER, "seed": 3, "root": 0,
        "solver": solver, "lam": lam, "alpha": 0.8, "models": 12, "heldout": 40, "node_limit": 5,
    }  # fmt: skip
    return plain_result(solve_one(**(settings | changes)))


def tiny(**changes: Any) -> Sweep:
    settings: dict[str, Any] = {
        "solvers": ("exact", "nominal"), "lambdas": (0.0, 1.0), "alphas": (0.8,), "seeds": (0, 1),
        "models": 10, "heldout": 30, "node_limit": 5, "seed": 0,
        "sources": (Source("river", "riverswim", RIVER),),
    }  # fmt: skip
    return Sweep(**(settings | changes))


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_runs_without_a_clock(solver: str) -> None:
    result = one(solver)
    assert result == one(solver)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["status"] not in ("time_limit", "interrupted")
    assert result["static"]["objective"] <= result["bound"]
    assert result["heldout"]["n_models"] == 40


def test_the_figures_are_those_of_the_domain_by_hand() -> None:
    result, river = one("nominal"), RiverSwim(n_states=5, steps=30)
    seed = task_seed(0, "river", 3)
    assert result["data_seed"] == seed
    problem, test = river.split_problem(seed, 12, 40, SoftRobust(0.5, 0.8))
    assert test is not None
    policy = Nominal().solve(problem).policy
    assert result["static"]["objective"] == pytest.approx(static_return(problem, policy), rel=1e-12)
    returns = policy_return(problem.with_models(test), policy)
    assert result["heldout"]["mean"]["value"] == pytest.approx(returns.mean(), rel=1e-12)
    truth = policy_return(problem.with_models(river.true_model()), policy)[0]
    assert result["true_return"] == pytest.approx(truth, rel=1e-12)
    states = [state for first, last, _ in result["policy"] for state in (first, last)]
    assert (states[0], states[-1]) == ("0", "4")


def test_solvers_meet_the_same_data_and_seeds_other_data() -> None:
    uniform = {one(solver)["uniform_value"] for solver in ("nominal", "s-rect", "exact")}
    assert len(uniform) == 1
    assert one("nominal", seed=4)["uniform_value"] not in uniform
    assert one("nominal", root=1)["uniform_value"] not in uniform


def test_a_log_of_ones_own() -> None:
    log = ROOT / "examples" / "pest_log.csv"
    result = one("empirical", domain=None, source_settings={"gamma": 0.9}, log=log)
    assert result["gamma"] == 0.9
    assert result["true_return"] is None


def test_horizons_and_references(tmp_path: Path) -> None:
    """A timed plan has its own bound; a search over one rule for all steps does not bound it."""
    plan, river = one("local-search", horizon=3), RiverSwim(n_states=5, steps=30)
    assert {row[0] for row in plan["policy"]} == {0, 1, 2}
    assert plan["bound_covers"] in ("timed", "all")
    problem, _ = river.split_problem(task_seed(0, "river", 3), 12, 40, SoftRobust(0.5, 0.8))
    same = LocalSearch(seed=plan["solver_seed"]).solve(replace(problem, horizon=3))
    assert plan["static"]["objective"] == pytest.approx(same.static_value, rel=1e-9)
    truth = replace(problem.with_models(river.true_model()), horizon=3)
    assert plan["true_return"] == pytest.approx(policy_return(truth, same.policy)[0], rel=1e-9)
    rule = tmp_path / "rule.csv"
    rule.write_text("state,action\nn=0,wait\n")
    log = ROOT / "examples" / "pest_log.csv"
    settings: dict[str, Any] = {"domain": None, "source_settings": {"gamma": 0.9}, "log": log}
    plain, gain = one("nominal", **settings), one("nominal", **settings, reference=rule)
    assert gain["static"]["mean"] != plain["static"]["mean"]
    assert gain["policy"] == plain["policy"]
    results: list[dict[str, Any]] = [
        {"source": "x", "seed": 0, "lam": 1.0, "alpha": 0.9, "policy": rows, "bound": bound,
         "bound_covers": covers, "static": {"objective": 1.0}, "uniform_value": 0.0}
        for rows, bound, covers in (
            ([[0, "a", "b", "go"]], 3.0, "timed"),
            ([["a", "b", "go"]], 2.0, "stationary"),
            ([["a", "b", {"go": 0.5, "stay": 0.5}]], 1.5, "deterministic"),
        )
    ]  # fmt: skip
    sweep_results._share_bounds(results)
    assert [r["open"] for r in results] == [2.0, 0.5, 0.5]


def test_a_status_of_a_clock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS, "hasty", lambda _: LocalSearch(time_limit=1e-9))
    with pytest.raises(SolverError, match="depend on the machine's speed"):
        one("hasty")


def test_a_sweep_is_summed_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    record, _ = run_sweep(tiny(), out, workers=0)
    assert json.loads((out / "results.json").read_text()) == record
    with open(out / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [row["key"] for row in rows]
    assert keys == sorted(keys)
    assert len(keys) == 8
    group = next(g for g in record["groups"] if (g["solver"], g["lam"]) == ("exact", 1.0))
    members = [r for r in rows if (r["solver"], r["lam"]) == ("exact", "1.0")]
    values = [float(r["heldout_objective"]) for r in members]
    assert group["n"] == 2
    assert group["heldout_objective"]["mean"] == pytest.approx(np.mean(values), rel=1e-12)
    exact, nominal = (
        next(r for r in rows if (r["solver"], r["lam"], r["seed"]) == (solver, "1.0", "0"))
        for solver in ("exact", "nominal")
    )
    # The exact solver's proof judges the nominal policy too.
    short = float(exact["bound"]) - float(nominal["objective"])
    assert float(nominal["open"]) == pytest.approx(max(short, 0.0), abs=1e-12)
    assert group["open"]["mean"] <= 1e-5 * abs(group["objective"]["mean"])
    before = contents(out)
    assert run_sweep(tiny(), out, workers=0, resume=True)[0] == record
    assert contents(out) == before


def test_a_disk_that_is_full_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "sweep"

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sweep_results, "atomic_write", full)
        with pytest.raises(StorageError, match=r"No space left on device.*resume=True"):
            run_sweep(tiny(), out, workers=0)
    assert not (out / "results.json").exists()
    record, _ = run_sweep(tiny(), out, workers=0, resume=True)
    assert record["failed"] == {}
    assert (out / "results.json").exists()


def test_average() -> None:
    assert average([1.0, None]) is None
    assert average([]) is None
    values = [1.0, 2.0, 4.0]
    found = average(values)
    assert found is not None
    # Student's t with 2 degrees of freedom: 4.302652729911275
    half = 4.302652729911275 * np.std(values, ddof=1) / np.sqrt(3)
    assert found["half_width"] == pytest.approx(half, rel=1e-9)


@pytest.mark.slow
def test_the_bytes_of_a_sweep_do_not_depend_on_who_computes_it(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    log = {"log": ROOT / "examples" / "pest_log.csv"}
    sources = (*tiny().sources, Source("pest", None, {"gamma": 0.9}, log))
    sweep = tiny(solvers=("exact", "randomized", "bcr", "rsvf", "spibb"), sources=sources)
    places: list[dict[str, Any]] = [{"workers": n} for n in (0, 1, 2, 3)] + [{"cluster": "local:2"}]
    found = []
    for i, place in enumerate(places):
        run_sweep(sweep, tmp_path / str(i), **place)
        found.append(contents(tmp_path / str(i)))
    assert all(each == found[0] for each in found[1:])
