"""Against nominal: held-out differences decide, and the page says plainly who wins."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from softrobust.certificate import Comparison, Estimate, certify
from softrobust.certificate.comparison import paired
from softrobust.data import Rewards
from softrobust.models.model_set import ModelSet
from softrobust.objective import Objective, Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.report.sections import answer
from softrobust.report.verdict import (
    certificate_sentences,
    chance,
    difference,
    nominal_sentence,
    sign,
)
from softrobust.report.words import Figures
from softrobust.returns import Returns
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.study.review import review
from tests.report.builders import first_actions, make_page
from tests.report.test_page import words

F = np.full(400, 1 / 400)


def choices(safe: list[float], bold: list[float]) -> ModelSet:
    """One state; 'safe' (0) or 'bold' (1) earns a reward that the model sets."""
    n, earned = len(safe), np.array([safe, bold])
    return ModelSet.from_dense(
        np.ones((n, 1, 2, 1)), rewards=Rewards.of_models(earned.reshape(-1), 1, 2)
    )


def lucky() -> tuple[Problem, ModelSet]:
    """On its own models 'safe' wins by the objective; on held-out ones 'bold' does."""
    rng = np.random.default_rng(0)
    train = choices([4.0] * 10, [9.0] * 9 + [-10.0])
    noise = rng.normal(size=600)
    test = choices(list(4 + 0.1 * noise), list(6 + 0.1 * noise))
    return Problem(train, gamma=0.5, objective=SoftRobust(0.5, 0.9)), test


def test_nominal_wins_on_held_out_models_and_the_page_says_so() -> None:
    problem, test = lucky()
    solution = first_actions(problem)  # 'safe'
    assert solution.static_value > Nominal().solve(problem).static_value
    found = review(problem, solution, test)
    assert found.nominal is not None
    assert found.nominal.versus is not None
    assert sign(found.nominal.versus.objective) == -1
    number = Figures.of([c.train for c in found.compared])
    text = " ".join(words(make_page(problem, solution, test)).split())
    assert " ".join(nominal_sentence(found.nominal.versus, number).split()) in text
    tiles = answer(found, number)["tiles"]
    assert tiles[0]["value"] == number(found.chosen.figure("mean"))
    assert tiles[1]["value"] == number(found.chosen.figure("cvar"))
    assert found.chosen.figure("mean") == found.chosen.heldout.mean.value  # type: ignore[union-attr]


@pytest.mark.parametrize(("more", "told"), [(2e-13, ""), (-0.5, "; training was 0.5 pessimistic")])
def test_optimism_that_is_rounding_is_not_told(more: float, told: str) -> None:
    problem, test = lucky()
    made = certify(problem, problem.uniform_policy(), test)
    assert made.heldout is not None
    held = replace(made.heldout, optimism=more)
    said = certificate_sentences(replace(made, heldout=held))
    (line,) = (x for x in said if x.startswith("On 600 held-out"))
    assert ("training" in line) == bool(told)
    assert line.endswith(f"{told}.")


def compared(by: float, goal: Objective | None = None, spread: float = 1.0) -> Comparison:
    """A policy that earns `by` more than nominal on 400 held-out models, give or take."""
    rng = np.random.default_rng(1)
    old = rng.normal(100, 10, 400)
    new = old + by + rng.normal(0, spread, 400)
    chosen = SoftRobust(0.5, 0.9) if goal is None else goal
    return paired(Returns(new, F), Returns(old, F), chosen, "nominal", True)


@pytest.mark.parametrize(("by", "who"), [(3.0, 1), (-3.0, -1), (0.0, 0)])
def test_who_is_better_follows_the_interval(by: float, who: int) -> None:
    c = compared(by)
    assert sign(c.objective) == who
    text = nominal_sentence(c, Figures(2))
    assert all(difference(e, Figures(2)) in text for e in (c.objective, c.mean, c.cvar))
    assert {-1: "Nominal is the better", 0: "No difference", 1: "It is the better"}[who] in text


def test_no_interval_and_no_difference() -> None:
    assert sign(compared(3.0, Percentile(0.9)).objective) is None
    same = paired(Returns(F, F), Returns(F, F), SoftRobust(0.5, 0.9), "nominal", True)
    assert same.ties == pytest.approx(1.0)
    for alone in (nominal_sentence(same, Figures(2)), nominal_sentence(None, Figures(2))):
        assert not re.search(r"\d", alone)
    assert difference(Estimate(-1.5, None, None), Figures(1)) == "−1.5"
    assert difference(Estimate(0.0, -1.0, 1.0), Figures(1)) == "same"


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (1.0, "100 %"),
        (1 - 2e-16, "100 %"),
        (0.9999, "more than 99.9 %"),
        (0.5, "50 %"),
        (0.9975 - 2e-16, "99.8 %"),
        (0.00001, "less than 0.1 %"),
        (1e-300, "less than 0.1 %"),
    ],
)
def test_chances_in_words(p: float, words: str) -> None:
    assert chance(p) == words
