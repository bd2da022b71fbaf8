"""Figure 1 in a tiny setting, and the law behind it: optimism shrinks as draws are added."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softrobust.domains import random_mdp
from softrobust.errors import InputError
from softrobust.models import ModelSet
from softrobust.objective import SoftRobust
from softrobust.paper.claims import mean_interval
from softrobust.paper.optimizers_curse import OptimizersCurse, repetitions
from softrobust.paper.page import FILES, read_results
from softrobust.paper.reproduce import reproduce
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers import Exact, Nominal

TINY = {"repetitions": 8, "block": 4, "sizes": [5, 10], "main": 10, "fresh": 20}


def test_end_to_end(tmp_path: Path) -> None:
    done = reproduce(OptimizersCurse(), tmp_path, workers=0, settings=TINY, progress=False)
    assert not done.failed
    assert {p.name for p in done.out.iterdir()} == {*FILES, "page.md", "tasks"}
    results = read_results(done.out / "results.json")
    assert results["settings"]["repetitions"] == 8
    assert len(results["claims"]) == 5
    assert len(results["numbers"]["block_averages"]["static/own"]) == 2
    # The static method announces the training value; so own and training surprises agree.
    own, training = (results["numbers"]["average"][f"static/{e}"] for e in ("own", "training"))
    assert own == training
    # The picture shows the surprise that the verdict on the dynamic method rests on.
    judged = results["claims"][1]["measured"][1]
    assert results["numbers"]["dynamic"]["value"] == pytest.approx(-judged["value"])


def test_resume_gives_the_same_file(tmp_path: Path) -> None:
    first = reproduce(OptimizersCurse(), tmp_path / "a", workers=0, settings=TINY, progress=False)
    again = reproduce(OptimizersCurse(), tmp_path / "b", workers=0, settings=TINY, progress=False)
    for task in sorted((again.out / "tasks" / "results").iterdir())[:1]:
        task.unlink()
    again = reproduce(
        OptimizersCurse(), tmp_path / "b", workers=0, settings=TINY, progress=False, resume=True
    )
    assert (again.out / "results.json").read_bytes() == (first.out / "results.json").read_bytes()
    assert (again.out / "figure.svg").read_bytes() == (first.out / "figure.svg").read_bytes()
    known = again.out / "run.json"  # what it took is kept, and read like any input
    whole = known.read_text(encoding="utf-8")
    for text, word in (("{", "cannot be read as JSON"), (whole.replace("{}", "3", 1), "failed"),
                       (whole.replace('"numpy"', '"numpy_"', 1), "versions.numpy"),
                       (re.sub('"tasks": .', '"tasks": 0', whole), "tasks")):  # fmt: skip
        known.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=rf"run\.json.*{word}.*Remove it"):
            reproduce(
                OptimizersCurse(), tmp_path / "b", workers=0, settings=TINY, progress=False,
                resume=True,
            )  # fmt: skip


def optimism(i: int, sizes: tuple[int, ...]) -> list[float]:
    """Training value less fresh value of the static policy on the first n draws, for every n.

    A policy that was chosen without the draws has no optimism; its own difference on the same draws
    is subtracted, which changes no expectation and takes out most of the noise.
    """
    world = random_mdp("dirichlet", 5, 3, gamma=0.9, steps=100, seed=i)
    fitted = world.posterior().fit(world.collect(i + 1))
    frame = world.frame()
    draws, other = fitted.sample(max(sizes), i + 2), fitted.sample(400, i + 3)

    def on(models: ModelSet) -> Problem:
        return Problem(models, frame.rewards, frame.p0, 0.9, SoftRobust(0.0, 0.9))

    fixed, test = Nominal().solve(on(fitted.mean())).policy, on(other)
    out = []
    for n in sizes:
        train = on(draws if n == draws.n_models else draws.split(n)[0])
        best = Exact().solve(train).policy
        too_much = static_return(train, best) - static_return(test, best)
        out.append(too_much - (static_return(train, fixed) - static_return(test, fixed)))
    return out


def test_training_surprise_shrinks_with_the_number_of_draws() -> None:
    found = np.array([optimism(10 * i, (4, 20, 100)) for i in range(150)])
    few, some, many = found.mean(axis=0)
    assert 0 < many < some < few
    assert mean_interval(found[:, 0] - found[:, 2]).low > 0
    assert many < 0.2 * few


def test_the_empirical_method_is_cursed_and_fresh_draws_are_not() -> None:
    surprises = repetitions(0, 120, [4], 40, 300, 0.5, 0.9, 0.9, 100, 11)
    assert mean_interval(surprises["empirical/own"]).high < 0
    for name in ("empirical", "dynamic", "static"):
        i = mean_interval(surprises[f"{name}/fresh"])
        assert i.low - (i.high - i.low) < 0 < i.high + (i.high - i.low)
    assert mean_interval(surprises["static-robust/own"]).low > 0
