"""The sections that a full page adds: frontier, reasons, value of data, trust, rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import Percentile, SoftRobust
from softrobust.posterior import Diagnostics, FittedDirichlet
from softrobust.posterior.diagnostics import Parameter
from softrobust.problem import Problem
from softrobust.report import DataFound, make_report
from softrobust.report.caution import caution
from softrobust.report.compare import compare
from softrobust.report.counts import Seen
from softrobust.report.policy import rule_list, rules_within, time_share
from softrobust.report.trust import more_data, trust
from softrobust.report.why import why
from softrobust.report.words import Figures, evaluation_seconds, percent, signed
from softrobust.solvers import LocalSearch, Nominal
from softrobust.solvers.base import Solution
from softrobust.study.explain import explain_many
from softrobust.study.frontier import frontier
from softrobust.study.value_of_data import DataValue
from tests.report.builders import HOSTILE, first_actions, from_log, ring, stock_log, uniform
from tests.report.test_page import svgs, words

Case = tuple[TransitionLog, Problem, ModelSet, FittedDirichlet, Solution]


@pytest.fixture(scope="module")
def stock() -> Case:
    log = stock_log()
    problem, test, posterior = from_log(log)
    return log, problem, test, posterior, LocalSearch().solve(problem)


def test_practice_is_compared_even_where_it_leaves_the_mask(stock: Case) -> None:
    log, problem, test, _, _ = stock
    allowed = problem.allowed.copy()
    allowed[:, 0] = False
    strict = replace(problem, allowed=allowed)
    found = compare(strict, first_actions(strict), test, log)
    assert [c.name for c in found] == ["first", "nominal", "current practice"]
    assert found[2].practice
    loose = compare(problem, first_actions(problem), test, log)[2]
    np.testing.assert_allclose(found[2].train, loose.train)
    assert found[2].heldout is not None


def test_the_frontier_is_drawn_with_the_chosen_policy_on_it(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    page = make_report(problem, solution, test, log, posterior, frontier=made)
    text = words(page)
    assert "What caution costs" in text
    number = Figures.of([compare(problem, solution, test, log)[0].train])
    section = caution(problem, compare(problem, solution, test, log), made, number)
    assert section is not None
    assert sum(step.chosen for step in section.steps) <= 1
    if len(section.steps) > 1:
        assert len(svgs(page, "frontier")) == 1
        assert section.steps[0].lams.startswith("0")
        assert all(step.said.startswith(f"λ {step.lams}") for step in section.steps)


def test_the_slider_goes_by_the_value_of_lambda() -> None:
    log = stock_log(60, seed=5)
    problem, test, posterior = from_log(log)
    solution = LocalSearch().solve(problem)
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    compared = compare(problem, solution, test, log)
    section = caution(problem, compared, made, Figures(2))
    assert section is not None
    assert [(step.low, step.high) for step in section.steps] == [(0, 0), (0.5, 0.5), (1, 1)]
    assert (section.lams, section.own) == ((0.0, 1.0), 0.5)
    assert "on the 40 models it was chosen on" in section.where
    html = make_report(problem, solution, test, log, posterior, frontier=made).html
    assert 'min="0.0" max="1.0" value="0.5"' in html


def test_a_frontier_of_one_policy_and_one_for_another_alpha() -> None:
    P = np.full((3, 2, 2, 2), 0.5)
    problem = Problem(ModelSet.from_dense(P), rewards=np.array([[1.0, 0], [0, 1]]), gamma=0.5)
    solution = Nominal().solve(problem)
    made = frontier(problem, (0.0, 1.0), (0.9,), LocalSearch())
    assert "nothing to trade" in words(make_report(problem, solution, frontier=made))
    other = replace(problem, objective=SoftRobust(0.5, 0.5))
    with pytest.raises(InputError, match=r"The frontier is for α = 0\.9"):
        make_report(other, solution, frontier=made)
    assert "no frontier today" in words(
        make_report(problem, solution, frontier="There is no frontier today.")
    )


def test_reasons_are_those_of_explain(stock: Case) -> None:
    log, problem, test, _, solution = stock
    compared = compare(problem, solution, test, log)
    number = Figures.of([c.train for c in compared])
    time = time_share(problem, solution.policy)
    section = why(problem, compared, log, Seen.of(log), number, time, seconds=60.0)
    keys = [state.key for state in section.states]
    assert keys == [s for s in range(problem.n_states) if problem.allowed[s].sum() > 1]
    assert section.left_out == ""
    for state, e in zip(
        section.states, explain_many(problem, solution.policy, keys, log), strict=True
    ):
        assert [row.action for row in state.rows] == [o.action for o in e.options]
        assert [row.mean for row in state.rows] == [number(o.q_mean) for o in e.options]
        assert [row.worst for row in state.rows] == [number(o.q_worst) for o in e.options]
        assert [row.change_bad for row in state.rows if row.change] == [
            signed(o.cvar - e.cvar, number) for o in e.options if o.chosen < 1
        ]
        assert state.visits == percent(float(time[state.key]))  # one "share of time" on the page
        assert [row.seen for row in state.rows] == [str(o.seen) for o in e.options]
    xi = problem.objective.worst_case(compared[0].train, problem.models.f)
    worst = int(np.argmin(compared[0].train))
    assert section.models[0][0] == str(worst)
    assert f"{(xi > problem.models.f).sum()} of {problem.n_models} models" in section.lead
    less = why(problem, compared, log, None, number, time, seconds=0.0)
    assert less.states == ()
    assert "too large" in less.left_out


@pytest.mark.parametrize("objective", [SoftRobust(0.0, 0.9), SoftRobust(0.5, 0.0)])
def test_without_caution_no_model_weighs_more(objective: SoftRobust) -> None:
    problem, _, _ = from_log(stock_log(), objective)
    text = words(make_report(problem, uniform(problem)))
    assert "No model counts more than its own weight" in text


def test_what_is_explained_depends_on_sizes_alone() -> None:
    small, large = ring(20), ring(2000, n_models=30)
    assert evaluation_seconds(small) < 1e-3 < evaluation_seconds(large)


def value(s: int, a: int, v: float, size: float = 50.0) -> DataValue:
    return DataValue(s, a, v, 0.5 * v, 1.5 * v, 0.25, size)


def test_data_is_ranked_with_intervals(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    found = DataFound(10, tuple(value(1, 0, 9.0 - i, 10.0) for i in range(9)) * 2)
    page = make_report(problem, solution, test, log, posterior, data=found)
    text = words(page)
    assert "What 10 more observations of one pair" in text
    assert "6 more pairs with a value are not shown" in text
    assert "12 values rest on few effective models" in text
    assert len(svgs(page, "bar")) == 12
    number = Figures.of([c.train for c in compare(problem, solution, test, log)])
    assert f"{number(4.5)} to {number(13.5)}" in text
    decision = solution.policy.decision.tolist()
    nothing = more_data(problem, decision, DataFound(5, (value(0, 0, 0.0),)), None, number)
    assert nothing is not None
    assert "No pair is worth 5 more observations" in nothing.reason
    assert more_data(problem, decision, None, None, number) is None
    assert "no time" in words(make_report(problem, solution, data="There was no time."))


def test_checks_and_diagnostics_are_shown_and_escaped(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    checks = [
        {"name": "replay", "verdict": "fine", "sentence": "It fits."},
        {"name": HOSTILE, "verdict": "caution", "sentence": HOSTILE},
        {"name": "off-policy", "verdict": "cannot tell", "sentence": "Cannot tell: too few."},
    ]
    page = make_report(
        problem, solution, test, log, posterior, checks=checks, diagnostics=posterior.diagnostics()
    )
    text = words(page)
    assert "exact and independent draws" in text
    assert "Too few." in text
    assert HOSTILE in text
    assert page.html.count("<script") == 1
    asked = make_report(problem, solution, log=log, ask_for_checks=True)
    assert "softrobust check RUN" in words(asked)
    with pytest.raises(InputError, match="name, verdict and sentence"):
        make_report(problem, solution, checks=[{"name": "x"}])


def test_words_of_the_trade_are_explained(stock: Case) -> None:
    checks = [
        {"name": "a", "verdict": "fine", "sentence": "WIS 1.0; PDIS 2.0."},
        {"name": "b", "verdict": "fine", "sentence": "odds (marginal sensitivity model)."},
        {"name": "c", "verdict": "fine", "sentence": "Plain."},
    ]
    found = trust(None, checks, False, False)
    assert found is not None
    assert [bool(line.gloss) for line in found.checks] == [True, True, False]
    page = make_report(stock[1], stock[4], checks=checks)
    assert "fitting values to the steps (FQE)" in words(page)


def test_one_observation_and_one_value_are_singular(stock: Case) -> None:
    _, problem, _, _, solution = stock
    decision = solution.policy.decision.tolist()
    one = more_data(problem, decision, DataFound(1, (value(0, 0, 1.0, 5.0),)), None, Figures(1))
    assert one is not None
    assert "What 1 more observation of one pair" in one.lead
    assert "1 value rests on few" in one.more


def test_problems_of_the_posterior_stand_under_the_first_sentence(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    bad = Diagnostics.of_exact({"transitions": 0.0})
    html = make_report(
        problem, solution, test, log, posterior, diagnostics=bad, cautions=[HOSTILE, HOSTILE]
    ).html
    start, end = html.index('<ul class="cautions"'), html.index('class="tiles"')
    assert html[start:end].count("<li>") == 2
    assert "surer of next states than the log is" in html[start:end]
    assert "&lt;script&gt;" in html[start:end]
    fine = make_report(problem, solution, test, log, posterior, diagnostics=posterior.diagnostics())
    if not posterior.diagnostics().problems:
        assert 'class="cautions"' not in fine.html


def test_a_sampler_shows_its_worst_parameters() -> None:
    bad = Parameter(1.0, 0.1, 1.2, 80.0, 90.0)
    good = Parameter(2.0, 0.1, 1.0, 900.0, 900.0)
    section = trust(Diagnostics(False, {"a": good, "b": bad}, 2, 1000), None, False, False)
    assert section is not None
    assert section.parameters[0][0] == "b"
    assert any("R-hat of 'b'" in line for line in section.draws)
    assert trust(None, None, False, False) is None
    misfit = trust(Diagnostics.of_exact({"transitions": 0.0}), None, False, False)
    assert misfit is not None
    assert any("surer of next states" in line for line in misfit.draws)
    assert not any("reproduces" in line for line in misfit.draws)


def test_rules_are_listed_where_they_say_nearly_the_same(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    found = rules_within(problem, solution.policy, 1e-5, 2.0)
    assert found is not None
    listed = rule_list(problem, found)
    if listed is not None and listed.lines:
        text = words(make_report(problem, solution, test, log, posterior))
        assert listed.sentence.split(":")[0] in text
    assert rules_within(problem, solution.policy, 1.0, 2.0) is None
    assert rules_within(problem, uniform(problem).policy, 1e-5, 2.0) is None
    one = ring(20, n_actions=1)
    assert rules_within(one, first_actions(one).policy, 1e-5, 2.0) is None


def test_nominal_is_called_better_only_where_the_objective_says_so() -> None:
    # Action 0 is worse on average and in the worst 40 % of models, and reached by 60 % with 3.
    earned = np.array([[-10.0, 3, 3, 3, 3], [1.0, 1, 1, 1, 10]])
    models = ModelSet.from_dense(
        np.ones((5, 1, 2, 1)), rewards=Rewards.of_models(earned.reshape(-1), 1, 2)
    )
    mean, percentile = (
        words(make_report(problem, first_actions(problem)))
        for objective in (SoftRobust(0.0, 0.6), Percentile(0.6))
        for problem in [Problem(models, gamma=0.5, objective=objective)]
    )
    assert "nominal is the better of the two" in mean
    assert "less in the bad case, and more by the objective" in percentile
