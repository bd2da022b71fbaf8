"""What a person reads in the terminal: after a solve, and after an update.

At most 25 lines: what to do, what it is worth, what speaks against it, and what it rests on. All
else is on the page and in `solution.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.notes import Level
from softrobust.models.policy import TimedPolicy
from softrobust.report.policy import MOST_MIXED, by_chance, changes, timed_rows, to_do
from softrobust.report.sentences import in_words, sorted_notes
from softrobust.report.study_words import validation_sentences
from softrobust.report.verdict import (
    against_practice,
    bound_sentence,
    comparison_sentence,
    earns,
    first_sentences,
    nominal_sentence,
)
from softrobust.report.words import Figures, bad_case, count, measure, measured
from softrobust.solvers.baselines.behaviour import behaviour_policy

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.data import TransitionLog
    from softrobust.models.policy import Policy
    from softrobust.objective import Objective

_JUDGED_BY = "λ and α do not enter its training; they judge what came out."
TRAINED_FOR = {
    "sr-sac": f"sr-sac is trained for the average over models. {_JUDGED_BY}",
    "r-sac": f"r-sac is trained for the worst model in every state and action. {_JUDGED_BY}",
    "sac": f"sac is trained in the mean model alone. {_JUDGED_BY}",
}
# What was assumed or happened that a reader must act on, or know at once.
TOLD = frozenset({"prior_learned", "search_open", "search_resumed", "policy_silent",
                  "policy_forbidden", "start_unknown", "no_pair_free", "log_earned",
                  "action_seen_too_rarely", "quantile_saturated", "promise_by_learned",
                  "promise_unseen", "improve_not_allowed", "cut_by_time"})  # fmt: skip
MOST_CAUTIONS = 6  # on the screen
Lines = Iterator[tuple[str, str]]
Run = Any  # a run, which is made in a later stage


def summary_lines(run: Run) -> Lines:
    """(kind, text) pairs: kind is "head", "text", "caution", "note" or "row"."""
    c, solver = run.certificate, run.solution.solver
    cautions, assumed, promise = sorted_notes(run.notes)
    yield "head", "In a sentence"
    yield "text", next(iter([*first_sentences(c, solver), earns(c)]))
    if run.validation is not None:
        for text in validation_sentences(run.validation):
            yield "text", text
    first = sorted(cautions, key=lambda note: note.level is not Level.ALARM)
    for caution in in_words(first[:MOST_CAUTIONS]):
        yield "caution", caution
    if (more := len(cautions) - MOST_CAUTIONS) > 0:
        yield "caution", f"{count(more, 'more caution')}: in report.html (`--json`)."
    by = ", ".join(dict.fromkeys([solver, run.solution.status.replace("_", " ")]))
    yield "head", f"{to_do(c.promise)} ({by})"
    yield from _at_a_start(run) if run.continuous else _policy_rows(run)
    yield "head", "What it rests on"
    yield "text", _question(run)
    yield from _models_say(run)
    told = [note for note in [*assumed, *promise] if note.code in TOLD]
    for note in [TRAINED_FOR[solver]] if solver in TRAINED_FOR else []:
        yield "note", note
    for note in in_words(told):
        yield "note", note
    left = len(assumed) + len(promise) - len(told)
    if left:
        yield "note", f"{count(left, 'more note')} on what was assumed: in report.html (`--json`)."


def _question(run: Run) -> str:
    problem, what = run.problem, count(run.problem.n_actions, "action")
    if run.continuous:
        what = f"{', '.join(problem.variables)}, {what}, episodes of {problem.horizon} steps"
    else:
        what = f"{count(problem.n_states, 'state')}, {what}"
        what += "" if problem.horizon is None else f", episodes of {problem.horizon} steps"
    models, source = count(problem.n_models, "model"), run.source and f"{run.source}: "
    if run.log is not None:
        rows = count(len(run.log) if run.continuous else run.log.n_rows, "transition")
        models = f"{rows}, {models} drawn"
    goal, of = _goal(problem.objective), measured(problem.objective)
    return f"{source}{models}; {what}. γ = {problem.gamma:g}. {goal}{' ' if of else ''}{of}"


def _goal(objective: Objective) -> str:
    """What is maximised, in words and letters."""
    if objective.criterion == "percentile":
        return (
            f"The goal is the {measure(objective)} that {100 * objective.alpha:g} % of models "
            f"reach (the percentile criterion, α = {objective.alpha:g})."
        )
    return (
        f"The bad case is {bad_case(objective)} (α = {objective.alpha:g}) and counts "
        f"{100 * objective.lam:g} % (λ = {objective.lam:g})."
    )


def _models_say(run: Run) -> Lines:
    """What holds under the posterior alone, or of the models that were given."""
    c, practice = run.certificate, run.certificate.practice
    if c.promise is not None and practice is not None:
        yield "text", f"By the posterior alone: {against_practice(practice)}"
    elif practice is not None:
        yield "text", earns(c)
    if run.continuous or practice is not None:
        return
    yield "text", bound_sentence(c)
    if c.nominal is not None or run.solution.solver == "nominal":
        spread = [0.0, 1.0] if c.nominal is None else c.nominal.about["range"]
        yield "text", nominal_sentence(c.nominal, Figures.of([np.array(spread)]))


def _policy_rows(run: Run) -> Lines:
    """What changes; without a log, what is done in each stretch of neighbouring states."""
    policy, log = run.solution.policy, run.log
    if isinstance(policy, TimedPolicy):
        rows, left = timed_rows(policy)
        yield from (("row", f"{where} → {what}") for where, what in rows)
        yield from [("text", left)] if left else []
        return
    practice = None if log is None else behaviour_policy(run.problem, log)[0]
    told, rest = changes(policy, practice)
    for where, what, states in told:
        seen = "" if log is None else f"   ({_seen(log, policy, states)} there)"
        yield "row", f"{where} → {what}{seen}"
    if rest:
        yield "text", rest


def _seen(log: TransitionLog, policy: Policy, states: list[int]) -> str:
    """How often the action was seen; of a mixture, every one of its actions by itself."""
    spans = []
    for a in by_chance(policy.probs[states[0]])[:MOST_MIXED]:
        times = np.asarray(log.pair_counts)[states, a]
        low, high = int(times.min()), int(times.max())
        spans.append(f"{low}" if low == high else f"{low} to {high}")
    return f"seen {' and '.join(spans)} time{'' if spans == ['1'] else 's'}"


def _at_a_start(run: Run) -> Lines:
    """What a policy for vectors does at a start."""
    problem = run.problem
    s = problem.sample_start(1, np.random.default_rng(0))[0]
    probs = run.solution.policy.probs(s[None])[0]
    where = ", ".join(f"{v} = {x:.4g}" for v, x in zip(problem.variables, s, strict=True))
    mix = " or ".join(
        problem.actions[int(a)] + ("" if probs[a] == 1 else f" ({probs[a]:.0%})")
        for a in np.flatnonzero(probs > 5e-3)
    )
    yield "row", f"at a start ({where}) → {mix}"


# -- an update -----------------------------------------------------------------------------------


def update_lines(record: dict[str, Any], certificate: Certificate | None) -> list[str]:
    """What new rows changed, one sentence a line; `record` is the update's own."""
    again = record.get("known_rows", 0)  # older records have none
    if certificate is None and again:
        return [f"All {again:,} rows are in the run already: nothing changes."]
    if certificate is None:
        return ["The new file has no rows: nothing changes."]
    practice, changed = certificate.practice, record["changes"]
    lines = [] if practice is None else [comparison_sentence(practice)]
    besides = f" ({again:,} more are in the run already and count once)" if again else ""
    lines += [f"{count(record['new_rows'], 'new row')}{besides}.", _drift(record["drift"])]
    if absent := record.get("absent_rows"):
        lines.append(
            f"{count(absent, 'row')} of the run {'is' if absent == 1 else 'are'} not in the file, "
            "though most are: changed or removed since? They still count. If rows were corrected, "
            "solve the new file afresh."
        )
    if record["added_states"]:
        lines.append(f"New states: {', '.join(record['added_states'][:8])}.")
    if changed:
        lines.append(f"The policy changes in {count(len(changed), 'state')}:")
        lines += [f"  {_change(change)}" for change in changed]
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
        f"{c['state']}: {_taken(c, 'before')} → {_taken(c, 'after')}, gains {c['gain']:.3g} by the "
        "objective"
        f"{' (its share of changes that pay together)' if c['together'] else ''} "
        f"({c['before']} seen {b0} → {b1} times, {c['after']} seen {a0} → {a1} times)"
    )


def _taken(c: dict[str, Any], when: str) -> str:
    """What is done in a state, of a mixture every action."""
    mix = c.get(f"mix_{when}", {})
    if len(mix) < 2:
        return str(c[when])
    return " or ".join(f"{name} ({100 * share:.2g} %)" for name, share in mix.items())


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
