"""The sections that a full page adds: frontier, reasons, value of data, trust, rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust._core.notes import Note
from softrobust.data import Rewards, TransitionLog
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import Percentile, SoftRobust
from softrobust.posterior import Diagnostics, FittedDirichlet
from softrobust.posterior.diagnostics import Parameter
from softrobust.problem import Problem
from softrobust.report.counts import Seen
from softrobust.report.policy import changes, rule_list
from softrobust.report.sections import caution, more_data, trust, why
from softrobust.report.sentences import in_words, sentence
from softrobust.report.study_words import check_sentence
from softrobust.report.verdict import nominal_sentence
from softrobust.report.words import Figures
from softrobust.solvers import LocalSearch, Nominal
from softrobust.solvers.base import Solution, Status, finish
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.study.checks import Check, Verdict
from softrobust.study.compare import compare
from softrobust.study.explain import explain_many
from softrobust.study.frontier import frontier
from softrobust.study.review import Review, review, rules_within
from softrobust.study.solved import evaluation_seconds
from softrobust.study.value_of_data import DataFound, DataValue
from tests.report.builders import (
    HOSTILE,
    first_actions,
    from_log,
    make_page,
    ring,
    stock_log,
    uniform,
)
from tests.report.test_page import svgs, words

Case = tuple[TransitionLog, Problem, ModelSet, FittedDirichlet, Solution]


@pytest.fixture(scope="module")
def stock() -> Case:
    log = stock_log()
    problem, test, posterior = from_log(log)
    return log, problem, test, posterior, LocalSearch().solve(problem)


def test_always_is_said_only_where_one_action_is_left() -> None:
    def policy(*rules: list[float]) -> Policy:
        names = Labels(("A", "B", "C")), Labels(("usual", "rare", "worst"))
        return Policy(np.array(rules, float), *names)

    now, mixed, nearly = [0.68, 0.27, 0.05], [0.73, 0.27, 0], [0.95, 0.05, 0]
    practice = policy(now, now, nearly)
    found, rest = changes(policy(mixed, mixed, [1, 0, 0]), practice)
    assert not found
    told = rest.replace("\u202f", " ")
    assert told == (
        "A little other than now in A, B: usual 73 % (now 68 %), worst 0 % (now 5 %). "
        "Elsewhere: what is usually done now, and always so in C."
    )
    _, rest = changes(policy(mixed, mixed, nearly), practice)
    assert rest.endswith("Elsewhere: what is usually done now.")
    # A difference that no figure would show is none, and makes no rule.
    close = [0.68001, 0.26999, 0.05]
    _, rest = changes(policy(close, close, nearly), practice)
    assert rest == "In every state: what is usually done now."
    # With small counts hidden, shares of practice are not told.
    seen = Seen(np.full((3, 3), 3), suppress=True)
    _, rest = changes(policy(mixed, mixed, [1, 0, 0]), practice, seen)
    assert rest == "In every state: what is usually done now."


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


def reviewed(case: Case, **more: object) -> Review:
    log, problem, test, posterior, solution = case
    return review(problem, solution, test, log, posterior, **more)  # type: ignore[arg-type]


def test_the_frontier_is_drawn_with_the_chosen_policy_on_it(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    section = caution(reviewed(stock, frontier=made), Figures(2))
    assert section is not None
    assert sum(step["chosen"] for step in section["steps"]) <= 1
    page = make_page(problem, solution, test, log, posterior, frontier=made)
    assert len(svgs(page, "frontier")) == (len(section["steps"]) > 1)
    assert all(step["told"].startswith(f"λ {step['lams']}") for step in section["steps"])


def test_the_slider_goes_by_the_value_of_lambda() -> None:
    log = stock_log(60, seed=5)
    problem, test, posterior = from_log(log)
    solution = LocalSearch().solve(problem)
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    case = (log, problem, test, posterior, solution)
    section = caution(reviewed(case, frontier=made), Figures(2))
    assert section is not None
    steps = [(step["low"], step["high"]) for step in section["steps"]]
    assert steps == [(0, 0), (0.5, 0.5), (1, 1)]
    assert (section["lams"], section["own"]) == ((0.0, 1.0), 0.5)
    html = make_page(problem, solution, test, log, posterior, frontier=made).html
    assert 'min="0.0" max="1.0" value="0.5"' in html


def test_a_frontier_of_one_policy_and_one_for_another_alpha() -> None:
    P = np.full((3, 2, 2, 2), 0.5)
    problem = Problem(ModelSet.from_dense(P), rewards=np.array([[1.0, 0], [0, 1]]), gamma=0.5)
    solution = Nominal().solve(problem)
    made = frontier(problem, (0.0, 1.0), (0.9,), LocalSearch())
    section = caution(review(problem, solution, frontier=made), Figures(2))
    assert section is not None
    assert section["steps"] == ()
    other = replace(problem, objective=SoftRobust(0.5, 0.5))
    with pytest.raises(InputError, match=r"The frontier is for α = 0\.9"):
        make_page(other, solution, frontier=made)
    note = Note("frontier_without_trade")
    assert sentence(note) in words(make_page(problem, solution, frontier=note))


def test_reasons_are_those_of_explain(stock: Case) -> None:
    log, problem, _, _, solution = stock
    found = reviewed(stock, seconds=60.0)
    keys = list(found.reasons)
    assert keys == [s for s in range(problem.n_states) if problem.allowed[s].sum() > 1]
    assert found.every_state
    for s, e in zip(keys, explain_many(problem, solution.policy, keys, log), strict=True):
        assert found.reasons[s] == e
        assert e.visits == pytest.approx(found.visits[s])  # one "share of time" on the page
    section = why(found, Seen.of(log), Figures(2))
    assert section["left_out"] == ""
    less = why(reviewed(stock, seconds=0.0), None, Figures(2))
    assert less["states"] == []
    assert "softrobust explain" in less["left_out"]


def test_what_is_explained_depends_on_sizes_alone() -> None:
    small, large = ring(20), ring(2000, n_models=30)
    assert evaluation_seconds(small) < 1e-3 < evaluation_seconds(large)
    assert evaluation_seconds(replace(small, horizon=10**5)) > 1e-3


def value(s: int, a: int, v: float, size: float = 50.0) -> DataValue:
    return DataValue(s, a, v, 0.5 * v, 1.5 * v, 0.25, size)


def test_data_is_ranked_with_intervals(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    data = DataFound(10, tuple(value(1, 0, 9.0 - i, 10.0) for i in range(9)) * 2)
    page = make_page(problem, solution, test, log, posterior, data=data)
    section = more_data(reviewed(stock, data=data))
    assert section is not None
    assert [v.value for v, _ in section["rows"]] == [v.value for v in data.values[:12]]
    assert "6 more pairs" in section["more"]
    assert "12 values" in section["more"]
    assert len(svgs(page, "bar")) == 12
    number = Figures.of([c.train for c in compare(problem, solution, test, log)])
    assert f"{number(4.5)} to {number(13.5)}" in words(page)
    nothing = more_data(reviewed(stock, data=DataFound(5, (value(0, 0, 0.0),))))
    assert nothing is not None
    assert "5 more observations" in nothing["reason"]
    assert more_data(reviewed(stock)) is None
    note = Note("data_without_decision")
    assert sentence(note) in words(make_page(problem, solution, data=note))
    one = more_data(reviewed(stock, data=DataFound(1, (value(0, 0, 1.0, 5.0),))))
    assert one is not None
    assert "1 more observation " in one["lead"]
    assert "1 value " in one["more"]


def test_checks_and_diagnostics_are_shown_and_escaped(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    checks = [
        Check("confounding", Verdict.FINE, {"tipping": 3.0}),
        Check("recorded", Verdict.CAUTION, {"name": HOSTILE, "text": HOSTILE}),
        Check("goal", Verdict.CANNOT_TELL, {"why": "no_lambda"}),
    ]
    quality = posterior.diagnostics()
    page = make_page(problem, solution, test, log, posterior, checks=checks, diagnostics=quality)
    text = words(page)
    for check in checks:
        assert check_sentence(check) in text
    assert page.html.count("<script") == 1
    section = trust(reviewed(stock, checks=checks), False, False)
    assert section is not None
    assert [bool(line["gloss"]) for line in section["checks"]] == [True, False, True]
    asked = make_page(problem, solution, log=log, ask_for_checks=True)
    assert "softrobust check RUN" in words(asked)
    assert trust(reviewed(stock), False, False) is None


def test_problems_of_the_posterior_stand_under_the_first_sentence(stock: Case) -> None:
    log, problem, test, posterior, solution = stock
    bad = Diagnostics.of_exact({"transitions": 0.0})
    html = make_page(
        problem, solution, test, log, posterior, diagnostics=bad, cautions=[HOSTILE, HOSTILE]
    ).html
    start, end = html.index('<ul class="cautions"'), html.index('<section id="policy"')
    assert html[start:end].count("<li>") == 2
    assert in_words(bad.problems)[0].split("`")[0] in html[start:end]
    assert "&lt;script&gt;" in html[start:end]
    fine = make_page(problem, solution, test, log, posterior, diagnostics=posterior.diagnostics())
    assert ('class="cautions"' in fine.html) == bool(posterior.diagnostics().problems)


def test_a_sampler_shows_its_worst_parameters(stock: Case) -> None:
    bad = Parameter(1.0, 0.1, 1.2, 80.0, 90.0)
    good = Parameter(2.0, 0.1, 1.0, 900.0, 900.0)
    quality = Diagnostics(False, {"a": good, "b": bad}, 2, 1000)
    section = trust(reviewed(stock, diagnostics=quality), False, False)
    assert section is not None
    assert [name for name, _ in section["parameters"]] == ["b", "a"]
    assert section["draws"][-3:] == in_words(quality.problems)
    misfit = Diagnostics.of_exact({"transitions": 0.0})
    section = trust(reviewed(stock, diagnostics=misfit), False, False)
    assert section is not None
    assert section["draws"][1:] == in_words(misfit.problems)  # and no word of reproducing it


def test_rules_are_listed_where_they_say_nearly_the_same(stock: Case) -> None:
    _, problem, _, _, solution = stock
    found = reviewed(stock)
    assert found.rules is not None
    listed = rule_list(found)
    gain = found.rules.full_value - found.certificate.uniform_value
    close = found.rules.loss <= 0.1 * gain
    assert listed is None or bool(listed["lines"]) == close
    assert rules_within(problem, solution, None, 0.0) is None
    assert rules_within(problem, uniform(problem)) is None
    one = ring(20, n_actions=1)
    assert rules_within(one, first_actions(one)) is None


def test_nominal_is_called_better_only_where_the_objective_says_so() -> None:
    # Action 0 is worse on average and in the worst 40 % of models, and reached by 60 % with 3.
    earned = np.array([[-10.0, 3, 3, 3, 3], [1.0, 1, 1, 1, 10]])
    models = ModelSet.from_dense(
        np.ones((5, 1, 2, 1)), rewards=Rewards.of_models(earned.reshape(-1), 1, 2)
    )
    mean, percentile = (
        nominal_sentence(found.nominal and found.nominal.versus, Figures(2))
        for objective in (SoftRobust(0.0, 0.6), Percentile(0.6))
        for problem in [Problem(models, gamma=0.5, objective=objective)]
        for found in [review(problem, first_actions(problem))]
    )
    assert "Nominal is the better" in mean
    assert "Nominal is the better" not in percentile


def test_a_state_where_practice_goes_on_does_not_differ_from_it(stock: Case) -> None:
    log, problem, *_ = stock
    usual, _ = behaviour_policy(problem, log)
    kept = finish(problem, solver="behaviour", policy=usual, status=Status.GIVEN)
    found = review(problem, kept, log=log)
    section = why(found, None, Figures.of([np.array([0.0, 1.0])]))
    assert section["states"]
    assert all("practice" not in state["differs"] for state in section["states"])
    mixed = [state for state in section["states"] if " or " in state["does"]]
    assert len(mixed) == sum((usual.probs[state["key"]] > 0).sum() > 1 for state in mixed) > 0
