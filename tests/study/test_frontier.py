"""The frontier: every point certified, the chosen ones not dominated, prices and changes right."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.cli.main import run
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.report import picture_frontier
from softrobust.returns import static_return
from softrobust.solvers import Exact, Nominal, SARect, Status
from softrobust.study.frontier import Frontier, frontier, save_frontier_csv
from tests.instances import random_problem

LAMS = (0.0, 0.25, 0.5, 0.75, 1.0)
ALPHAS = (0.5, 0.8)


def make(seed: int) -> Frontier:
    problem = random_problem(seed, n_states=5, n_actions=3, n_models=12)
    return frontier(problem, LAMS, ALPHAS)


@pytest.mark.parametrize("seed", range(6))
def test_every_point_is_the_certified_optimum(seed: int) -> None:
    problem = random_problem(seed, n_states=5, n_actions=3, n_models=12)
    found = frontier(problem, LAMS, ALPHAS)
    for point in found:
        there = replace(problem, objective=SoftRobust(point.lam, point.alpha))
        value = static_return(there, point.policy)
        assert value == pytest.approx(point.certificate.static["objective"], abs=1e-9)
        best = Exact().solve(there).static_value
        assert value == pytest.approx(best, abs=2e-4 * abs(best) + 1e-9)
        assert point.certificate.bound.value >= best - 1e-9 * abs(best)


@pytest.mark.parametrize("seed", range(6))
def test_chosen_points_do_not_dominate_each_other(seed: int) -> None:
    found = make(seed)
    for j in range(len(ALPHAS)):
        chosen = found.chosen(j)
        assert chosen
        for p in chosen:
            for q in chosen:
                better = q.mean >= p.mean and q.cvar >= p.cvar
                assert p is q or not better or (q.mean, q.cvar) == (p.mean, p.cvar)
        # More caution never raises the mean nor lowers the bad case along the chosen points.
        means, tails = [p.mean for p in chosen], [p.cvar for p in chosen]
        assert means == sorted(means, reverse=True)
        assert tails == sorted(tails)


def test_prices_and_changes() -> None:
    for seed in range(6):
        found = make(seed)
        for j in range(len(ALPHAS)):
            column = found.column(j)
            for before, after in itertools.pairwise(column):
                if before.policy_id == after.policy_id:
                    assert after.changed == ()
                    assert after.price is None
                elif after.price is not None:
                    gained = after.cvar - before.cvar
                    assert after.price == pytest.approx((before.mean - after.mean) / gained)


def test_a_policy_found_elsewhere_is_not_overlooked() -> None:
    """Nominal ignores λ, so its pool has one policy; exact points are never below it."""
    problem = random_problem(1, n_states=4, n_actions=3, n_models=9)
    plain = frontier(problem, LAMS, ALPHAS, Nominal())
    assert {p.policy_id for p in plain} == {0}
    assert all(p.certificate.gap_abs >= 0 for p in plain)
    cautious = frontier(problem, LAMS, ALPHAS, SARect())
    for p, q in zip(frontier(problem, LAMS, ALPHAS), cautious, strict=True):
        assert p.certificate.static["objective"] >= q.certificate.static["objective"] - 1e-6


def test_points_after_the_time_have_the_best_policy_of_the_others() -> None:
    problem = random_problem(4)
    with within(1e-9) as clock:
        found = frontier(problem, [0.0, 0.5, 1.0], [0.7], Exact())
    assert "points" in clock.cut
    assert [p.status for p in found][1:] == [Status.TIME_LIMIT] * 2
    first = found.points[0][0].policy
    for p in found:
        np.testing.assert_array_equal(p.policy.probs, first.probs)
        there = replace(problem, objective=SoftRobust(p.lam, p.alpha))
        assert p.certificate.static["objective"] == pytest.approx(static_return(there, first))


def test_files(tmp_path: Path) -> None:
    found = make(0)
    save_frontier_csv(found, tmp_path / "f.csv")
    rows = list(csv.DictReader((tmp_path / "f.csv").read_text().splitlines()))
    assert len(rows) == len(LAMS) * len(ALPHAS) == len(found.rows())
    assert float(rows[0]["mean"]) == found.points[0][0].mean
    picture_frontier(found).save(tmp_path / "f.svg", tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "f.svg").read_text()
    assert ">λ 0" in picture_frontier(found)


@pytest.mark.parametrize(
    ("lams", "alphas", "message"),
    [
        ([], [0.9], "lambda"),
        ([0.5, 0.5], [0.9], "rise"),
        ([0, 2], [0.9], "lambda"),
        ([0], [-1], "alpha"),
    ],
)
def test_bad_grids(lams: list[float], alphas: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        frontier(random_problem(0), lams, alphas)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    rng = np.random.default_rng(0)
    rows = ["state,action,next_state,reward"]
    rows += [f"{s},{a},{t},{s - a}" for s, a, t in rng.integers(0, [3, 2, 3], (60, 3))]
    log.write_text("\n".join(rows) + "\n")
    flags = ["--gamma", ".9", "--lambdas", "0,1", "--alphas", ".5,.9"]
    assert run(["frontier", str(log), *flags, "--out", str(tmp_path / "run")]) == 0
    assert "price" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "frontier.csv", "frontier.png", "frontier.svg",
    ]  # fmt: skip
    assert run(["frontier", str(log), *flags, "--json", "--solver", "randomized"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert run(["frontier", str(log), "--gamma", ".9", "--lambdas", "a,b"]) == 2
    assert "--lambdas takes numbers" in capsys.readouterr().err


def test_a_given_start_is_never_made_worse() -> None:
    problem = random_problem(2, n_states=5, n_actions=3, n_models=9)
    best = Exact().solve(problem)
    again = Exact(start=best.policy).solve(problem)
    assert again.static_value >= best.static_value - 1e-12
    cut = Exact(start=best.policy, node_limit=0).solve(problem)
    assert cut.static_value >= best.static_value - 1e-12
    other = random_problem(2, n_states=4)
    with pytest.raises(InputError, match="labels or order"):
        Exact(start=other.uniform_policy()).solve(problem)
