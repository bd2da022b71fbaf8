"""Against nominal: held-out differences decide, and the page says plainly who wins."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from softrobust.certificate import Estimate
from softrobust.certificate.comparison import paired
from softrobust.data import Rewards
from softrobust.models.model_set import ModelSet
from softrobust.objective import Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.report import make_report
from softrobust.report.compare import compare
from softrobust.report.verdict import against, difference, judged, price
from softrobust.report.words import Figures
from softrobust.solvers.baselines.nominal import Nominal
from tests.report.builders import first_actions
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
    page = make_report(problem, solution, test)
    text = words(page)
    assert "The nominal policy is the better of the two: −4.0" in text
    assert "ahead, which did not hold: choose on more models" in text
    assert "gives up" not in text
    compared = compare(problem, solution, test)
    tiles = re.findall(r'class="name">([^<]*)<.*?class="value">([^<]*)<', page.html)
    number = Figures.of([c.train for c in compared])
    assert tiles[0] == ("on average, held out", number(compared[0].heldout.mean.value))  # type: ignore[union-attr]
    assert tiles[1][1] == number(compared[0].figure("cvar"))
    assert "better on the 10 models it was chosen on" in tiles[2][0]


def test_without_held_out_models_the_exact_trade_is_said() -> None:
    problem, _ = lucky()
    text = words(make_report(problem, first_actions(problem)))
    assert "gives up 6.20 on average and gains 28.00 in the bad case" in text
    assert "0.22 on average for each 1 gained" in text


def shifted(by: float, spread: float = 1.0, goal: SoftRobust | Percentile | None = None) -> str:
    rng = np.random.default_rng(1)
    old = rng.normal(100, 10, 400)
    new = old + by + rng.normal(0, spread, 400)
    chosen = SoftRobust(0.5, 0.9) if goal is None else goal
    return judged(paired(new, old, F, chosen, "nominal", True), Figures(2), 0.5, 100)


@pytest.mark.parametrize(
    ("by", "phrase"),
    [
        (3.0, "This policy is the better of the two: +"),
        (-3.0, "The nominal policy is the better of the two: −"),
        (0.0, "No difference is proven: "),
    ],
)
def test_who_is_better_follows_the_interval(by: float, phrase: str) -> None:
    text = shifted(by)
    assert text.startswith(phrase)
    assert ("may be luck" in text) == (by == 0.0)
    assert ("did not hold" in text) == (by < 0)
    assert re.search(r"by the objective, [+−][\d.]+ \[", text)


def test_no_interval_and_no_difference() -> None:
    assert "ahead of it, how surely is not known" in shifted(3.0, goal=Percentile(0.9))
    assert "behind it" in shifted(-3.0, goal=Percentile(0.9))
    same = paired(F, F, F, SoftRobust(0.5, 0.9), "nominal", True)
    assert judged(same, Figures(2), 0.0, 100) == "The two earn the same on every held-out model."
    assert difference(Estimate(-1.5, None, None), Figures(1)) == "−1.5"
    assert difference(Estimate(0.0, -1.0, 1.0), Figures(1)) == "same"


def test_the_price_is_held_out_and_a_rate_needs_both_signs() -> None:
    problem, test = lucky()
    chosen, nominal = compare(problem, first_actions(problem), test)
    text = price(chosen, nominal, problem.objective, Figures(2))
    assert "on held-out models: −4.00" in text
    assert "bought nothing" in text
    bought = choices([4.0] * 600, list(np.linspace(-10.0, 20.0, 600)))
    chosen, nominal = compare(problem, first_actions(problem), bought)
    assert "on average for each 1 gained" in price(chosen, nominal, problem.objective, Figures(2))
    assert "is the better of the two" in against(chosen, nominal, Figures(2))
    assert "costs nothing" in price(chosen, None, problem.objective, Figures(2))
    twin = replace(nominal, solution=chosen.solution)
    assert "is the same policy here" in against(chosen, twin, Figures(2))
