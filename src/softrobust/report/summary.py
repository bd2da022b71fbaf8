"""What a person reads in the terminal: after a solve, and after an update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.report.sentences import in_words, sorted_notes
from softrobust.report.study_words import validation_sentences
from softrobust.report.verdict import (
    certificate_sentences,
    comparison_sentence,
    judged,
    promise_sentences,
)
from softrobust.report.words import Figures, bad_case, count

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.models.policy import Policy
    from softrobust.objective import Objective

SHOWN_ROWS = 16
_JUDGED_BY = "λ and α do not enter its training; they judge what came out."
TRAINED_FOR = {
    "sr-sac": f"sr-sac is trained for the average over models. {_JUDGED_BY}",
    "r-sac": f"r-sac is trained for the worst model in every state and action. {_JUDGED_BY}",
    "sac": f"sac is trained in the mean model alone. {_JUDGED_BY}",
}
PERCENTS = ("last_change_share", "batch_change_share", "fit_r2", "policy_disagreement")
OF_ITSELF = {  # what solvers for vectors say of themselves, where their stats have the first figure
    "last_entropy": "After {iterations} iterations its episodes in the mean model earn "
    "{last_return:.4g} on average, and its choices have an entropy of {last_entropy:.2g} (at most "
    "{most_entropy:.2g}).",
    "last_change_share": "In iteration {iterations} the value function changes by "
    "{last_change_share:.2g} % of its size ({batch_change_share:.2g} % where the policy goes); its "
    "features explain {fit_r2:.4g} % of an update.",
    "policy_disagreement": "The saved policy is a {policy}; it decides otherwise than the "
    "lookahead in {policy_disagreement:.2g} % of states.",
    "sampling_bias": "With {samples} drawn next states an update is off by {sampling_bias:.2g} on "
    "average ({sampling_bias_against}).",
}
Lines = Iterator[tuple[str, str]]
Run = Any  # a run, which is made in a later stage


def summary_lines(run: Run) -> Lines:
    """(kind, text) pairs: kind is "head", "text", "caution", "note" or "row"."""
    c, (cautions, _, promise) = run.certificate, sorted_notes(run.notes)
    if c.practice is not None:  # the first thing that anybody asks
        yield "head", "In a sentence"
        if c.promise is not None:
            for text in promise_sentences(c.promise, run.solution.solver):
                yield "text", text
            yield "text", f"Under the posterior alone: {comparison_sentence(c.practice)}"
        else:
            yield "text", comparison_sentence(c.practice)
    if run.validation is not None:
        for text in validation_sentences(run.validation):
            yield "text", text
    for caution in in_words(cautions):
        yield "caution", caution
    if c.practice is not None:
        yield from _against_nominal(run)
    yield from _question(run)
    status = run.solution.status.replace("_", " ")
    yield "head", f"The answer, by {run.solution.solver} ({status})"
    yield from _at_a_start(run) if run.continuous else _policy_rows(run)
    yield "head", "What can be promised"
    shown = c if run.continuous else replace(c, practice=None)
    for text in [*certificate_sentences(shown, brief=run.continuous), *in_words(promise)]:
        yield "text", text
    if c.practice is None:
        yield from _against_nominal(run)


def _question(run: Run) -> Lines:
    problem = run.problem
    what = count(problem.n_actions, "action")
    models = count(problem.n_models, "model")
    if run.continuous:
        what = f"{', '.join(problem.variables)}, {what}"
        episode = f", episodes of {problem.horizon} steps"
    else:
        what = f"{count(problem.n_states, 'state')}, {what}"
        episode = ""
    yield "head", "The question"
    if run.log is not None:
        rows = count(len(run.log) if run.continuous else run.log.n_rows, "transition")
        of = " of " if run.continuous else ", "
        yield "text", f"{rows}{of}{what}; {models} drawn from the posterior."
    else:
        yield "text", f"{models} of {what}."
    yield "text", f"Discount γ = {problem.gamma:g}{episode}. {_goal(problem.objective)}"
    if "entropy_coef" in run.solution.stats:
        yield "note", TRAINED_FOR[run.solution.solver]
    for note in in_words(sorted_notes(run.notes)[1]):
        yield "note", note


def _goal(objective: Objective) -> str:
    """What is maximised, in words and letters."""
    if objective.criterion == "percentile":
        return (
            f"The goal is the return that {100 * objective.alpha:g} % of models reach "
            f"(the percentile criterion, α = {objective.alpha:g})."
        )
    return (
        f"The bad case is {bad_case(objective)} (α = {objective.alpha:g}) and counts "
        f"{100 * objective.lam:g} % (λ = {objective.lam:g})."
    )


def _policy_rows(run: Run) -> Lines:
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
    if run.log is None:
        return ""
    chosen = run.solution.policy.probs[stretch] > 0
    times = (np.asarray(run.log.pair_counts)[stretch] * chosen).sum(axis=1)
    low, high = int(times.min()), int(times.max())
    span = f"{low}" if low == high else f"{low} to {high}"
    return f"   (seen {span} time{'' if high == 1 else 's'} there)"


def _against_nominal(run: Run) -> Lines:
    """On held-out models where there are any: on its own models it is ahead by construction."""
    found = run.certificate.nominal
    if found is None:  # it is that policy, or an older version kept no comparison
        if run.solution.solver == "nominal":
            yield "text", "This is the nominal policy: optimal for the average model."
        return
    lead, value = found.about["lead"], found.about["value"]
    if found.heldout:
        number = Figures.of([np.array(found.about["range"])])
        judgement = judged(found, number, lead, run.certificate.n_models)
        text = (
            "Against the nominal policy (best for the average model), on "
            f"{count(found.n_models, 'held-out model')}, {judgement[0].lower()}{judgement[1:]}"
        )
    elif abs(lead) <= 1e-9 * abs(value):
        text = "The nominal policy (solving the average model) earns the same by the objective."
    else:
        text = (
            f"By the objective that is {abs(lead):.4g} {'more' if lead >= 0 else 'less'} than the "
            f"nominal policy (solving the average model), which earns {value:.6g}."
        )
    yield "text", text


def _at_a_start(run: Run) -> Lines:
    """What a policy for vectors does at a start, and what its solver says of itself."""
    stats, problem = run.solution.stats, run.problem
    s = problem.sample_start(1, np.random.default_rng(0))[0]
    probs = run.solution.policy.probs(s[None])[0]
    where = ", ".join(f"{v} = {x:.4g}" for v, x in zip(problem.variables, s, strict=True))
    mix = " or ".join(
        problem.actions[int(a)] + ("" if probs[a] == 1 else f" ({probs[a]:.0%})")
        for a in np.flatnonzero(probs > 5e-3)
    )
    yield "row", f"at a start ({where}) → {mix}"
    percents = {k: 100 * v for k, v in stats.items() if k in PERCENTS}
    facts = {**stats, **percents, "most_entropy": np.log(problem.n_actions)}
    for key, text in OF_ITSELF.items():
        if key in stats:
            yield "text", text.format(**facts)


# -- an update -----------------------------------------------------------------------------------


def update_lines(record: dict[str, Any], certificate: Certificate | None) -> list[str]:
    """What new rows changed, one sentence a line; `record` is the update's own."""
    if certificate is None:
        return ["The new file has no rows: nothing changes."]
    practice, changes = certificate.practice, record["changes"]
    lines = [] if practice is None else [comparison_sentence(practice)]
    lines += [f"{count(record['new_rows'], 'new row')}.", _drift(record["drift"])]
    if record["added_states"]:
        lines.append(f"New states: {', '.join(record['added_states'][:8])}.")
    if changes:
        lines.append(f"The policy changes in {count(len(changes), 'state')}:")
        lines += [f"  {_change(change)}" for change in changes]
    else:
        lines.append("The policy stays as it is.")
    if record["kept"]:
        lines.append(
            f"{record['kept']} more changes were proposed and gain no more than the margin: kept."
        )
    return lines


def _change(c: dict[str, Any]) -> str:
    """Old and new action, what the change gains, and what the new rows showed."""
    (b0, a0), (b1, a1) = c["seen_before"], c["seen_after"]
    return (
        f"{c['state']}: {c['before']} → {c['after']}, gains {c['gain']:.3g} by the objective"
        f"{' (its share of changes that pay together)' if c['together'] else ''} "
        f"({c['before']} seen {b0} → {b1} times, {c['after']} seen {a0} → {a1} times)"
    )


def _drift(d: dict[str, Any]) -> str:
    head = "The new rows are what the old model expects"
    if d["changed"]:
        head = "The new rows differ from what the old model expects: has something changed?"
    elif d["p_value"] is None:
        head = "No new row can be compared with the old model"
    parts = []
    if d["p_value"] is not None:
        parts.append(f"transitions: {d['rows']} rows, p = {d['p_value']:.2g}")
    if d["impossible"]:
        parts.append(f"{d['impossible']} rows with transitions that it did not know of")
    if d["reward_p"] is not None:
        parts.append(f"rewards: p = {d['reward_p']:.2g}")
    return f"{head} ({'; '.join(parts) or 'nothing to compare'})."
