"""What a person reads in the terminal after a solve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from softrobust.certificate import compare_policies
from softrobust.report.trust import misfits
from softrobust.report.verdict import judged
from softrobust.report.words import Figures, count, grouped
from softrobust.returns import policy_return
from softrobust.run.line import Run, diagnosed, thin_data
from softrobust.solvers.baselines.behaviour import unmasked

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.objective import Objective

SHOWN_ROWS = 16


def summary_lines(run: Run) -> Iterator[tuple[str, str]]:
    """(kind, text) pairs: kind is "head", "text", "note" or "row"."""
    for kind, line in _lines(run):
        yield kind, grouped(line)


def _lines(run: Run) -> Iterator[tuple[str, str]]:
    practice = run.certificate.practice
    if practice is not None:  # the first thing that anybody asks
        yield "head", "In a sentence"
        yield "text", practice.sentence()
        for caution in cautions(run):
            yield "text", caution
        yield "text", _against_nominal(run)
    yield from _question(run)
    status = run.solution.status.replace("_", " ")
    yield "head", f"The answer, by {run.solution.solver} ({status})"
    yield from _policy_rows(run)
    yield "head", "What can be promised"
    for sentence in replace(run.certificate, practice=None).sentences():
        yield "text", sentence
    if practice is None:
        yield "text", _against_nominal(run)


def cautions(run: Run) -> list[str]:
    """What to know before believing the first sentence: as the page has it, less its markup."""
    found = diagnosed(run.setup.posterior)
    lines = thin_data(run.setup.problem, run.solution.policy, run.setup.log)
    lines += [] if found is None else misfits(found)
    return [line.replace("`", "") for line in lines]


def _question(run: Run) -> Iterator[tuple[str, str]]:
    problem = run.setup.problem
    states = count(problem.n_states, "state")
    actions = count(problem.n_actions, "action")
    models = count(problem.n_models, "model")
    yield "head", "The question"
    if run.setup.log is not None:
        rows = count(run.setup.log.n_rows, "transition")
        yield "text", f"{rows}, {states}, {actions}; {models} drawn from the posterior."
    else:
        yield "text", f"{models} of {states} and {actions}."
    yield "text", f"Discount γ = {problem.gamma:g}. {_goal(problem.objective)}"
    for note in run.notes:
        yield "note", note


def _goal(objective: Objective) -> str:
    """What is maximised, in words and letters."""
    if objective.criterion == "percentile":
        return (
            f"The goal is the return that {100 * objective.alpha:g} % of models reach "
            f"(the percentile criterion, α = {objective.alpha:g})."
        )
    return (
        f"The bad case is {objective.words} (α = {objective.alpha:g}) and counts "
        f"{100 * objective.lam:g} % (λ = {objective.lam:g})."
    )


def _policy_rows(run: Run) -> Iterator[tuple[str, str]]:
    """One row for each stretch of neighbouring states with the same action."""
    policy = run.solution.policy
    shown = [s for s in range(len(policy.states)) if np.asarray(policy.decided)[s]]
    # Neighbours in the order of states: a state without a recommendation ends a stretch.
    same = [(tuple(policy.probs[s]), s - i) for i, s in enumerate(shown)]
    stretches = [
        [s for _, s in group] for _, group in groupby(zip(same, shown, strict=True), lambda x: x[0])
    ]
    for stretch in stretches[:SHOWN_ROWS]:
        first, last = policy.states[stretch[0]], policy.states[stretch[-1]]
        where = {1: first, 2: f"{first}, {last}"}.get(len(stretch), f"{first} … {last}")
        yield "row", f"{where} → {_action(policy, stretch[0])}{_seen(run, stretch)}"
    if len(stretches) > SHOWN_ROWS:
        rest = sum(len(stretch) for stretch in stretches[SHOWN_ROWS:])
        yield "text", f"… and {count(rest, 'more state')} (policy.csv has them all)."


def _action(policy: Policy, s: int) -> str:
    mix = np.flatnonzero(policy.probs[s])
    if mix.size == 1:
        return policy.actions[int(mix[0])]
    return " or ".join(f"{policy.actions[a]} ({policy.probs[s, a]:.0%})" for a in mix)


def _seen(run: Run, stretch: list[int]) -> str:
    """How often the chosen action was seen in these states: the least, where they are several."""
    if run.setup.log is None:
        return ""
    chosen = run.solution.policy.probs[stretch] > 0
    times = (np.asarray(run.setup.log.pair_counts)[stretch] * chosen).sum(axis=1)
    low, high = int(times.min()), int(times.max())
    span = f"{low}" if low == high else f"{low} to {high}"
    return f"   (seen {span} time{'' if high == 1 else 's'} there)"


def _against_nominal(run: Run) -> str:
    """On held-out models where there are any: on its own models it is ahead by construction."""
    if run.nominal is run.solution:
        return "This is the nominal policy: optimal for the average model."
    gain = run.solution.static_value - run.nominal.static_value
    if run.heldout is not None:
        problem, policy = run.setup.problem, run.solution.policy
        found = compare_policies(problem, policy, run.nominal.policy, run.heldout, "nominal")
        number = Figures.of(
            policy_return(unmasked(problem), p) for p in (policy, run.nominal.policy)
        )
        judgement = judged(found, number, gain, problem.n_models)
        return (
            "Against the nominal policy (best for the average model), on "
            f"{count(run.heldout.n_models, 'held-out model')}, "
            f"{judgement[0].lower()}{judgement[1:]}"
        )
    if abs(gain) <= 1e-9 * abs(run.nominal.static_value):
        return "The nominal policy (solving the average model) earns the same by the objective."
    word = "more" if gain >= 0 else "less"
    return (
        f"By the objective that is {abs(gain):.4g} {word} than the nominal policy "
        f"(solving the average model), which earns {run.nominal.static_value:.6g}."
    )
