"""What a person reads in the terminal: after a solve, and after an update.

At most 25 lines: what to do, what it is worth, what speaks against it, and what it rests on. All
else is asked for (`details`), on the page, and in `solution.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.arrays import IntArray
from softrobust.data.labels import Labels
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.report.continuous import bands
from softrobust.report.data_words import TEXTS
from softrobust.report.policy import (
    MOST_CHANGES,
    MOST_MIXED,
    by_chance,
    changes,
    mixed,
    timed_rows,
    to_do,
)
from softrobust.report.sentences import MOST_TOLD, in_words, sorted_notes, speaks_against
from softrobust.report.study_words import validation_line, validation_sentences
from softrobust.report.verdict import (
    bound_sentence,
    certificate_sentences,
    earns,
    first_sentences,
    nominal_sentence,
    promise_sentences,
)
from softrobust.report.words import (
    STATUS,
    Figures,
    count,
    label,
    measure,
    measured,
    rows_and_dates,
)
from softrobust.solvers.baselines.behaviour import behaviour_policy

if TYPE_CHECKING:
    from softrobust.certificate import Certificate

TRAINED_FOR = TEXTS["trained_for"]
MOST_UPDATES = 8  # changed states that are listed
MOST_COLUMNS = 4  # measurements that are named
Lines = Iterator[tuple[str, str]]
Run = Any  # a run, which is made in a later stage


def summary_lines(
    run: Run, details: bool = False, most: int = MOST_TOLD, rows: int = MOST_CHANGES
) -> Lines:
    """(kind, text) pairs: kind is "head", "text", "caution" (`most`), "note" or "row" (`rows`)."""
    c = run.certificate
    yield "head", "In a sentence"
    yield "text", next(iter([*first_sentences(c, run.solution.solver), earns(c)]))
    yield "head", to_do(c.promise)
    yield from _by_measurement(run) if run.continuous else _policy_rows(run, rows)
    against = speaks_against(run.notes, most=most)
    if against or run.validation is not None:
        yield "head", f"What speaks {'for and ' * (run.validation is not None)}against it"
    if run.validation is not None:
        yield "text", validation_line(run.validation)
    for text in against:
        yield "caution", text
    yield "head", "What it rests on"
    yield "text", file_sentence(run.source, run.log, run.problem, run.notes, run.visits)
    yield "text", _question(run)
    if c.promise is None and c.practice is None:
        yield from _on_models(run)
    if details:
        yield from _details(run)


def _details(run: Run) -> Lines:
    """How it was found, what the models say, and every note."""
    c, solver = run.certificate, run.solution.solver
    cautions, assumed, promise = sorted_notes(run.notes)
    yield "head", "Details"
    drawn = "drawn" if run.log is not None else "given"
    models = count(run.problem.n_models, "model")
    yield "text", f"{solver}: {STATUS[run.solution.status]}; {models} {drawn}."
    if solver in TRAINED_FOR:
        yield "text", TRAINED_FOR[solver]
    judged = [] if c.promise is None else promise_sentences(c.promise, solver)[1:]
    held = [] if run.validation is None else validation_sentences(run.validation)
    for text in [*judged, *held, *certificate_sentences(c)]:
        yield "text", text
    for text in in_words([*cautions, *promise, *assumed]):
        yield "note", text


def file_sentence(source: str, log: Any, problem: Any, notes: Any, visits: Any = None) -> str:
    """The file, its dates and rows, and what there is in it to decide.

    `visits` is how a table of visits was read: which columns states and actions come from.
    """
    rules = (visits or {}).get("rules", {})
    of, by = (f" ({label(rules['action'])})", _columns(rules)) if "action" in rules else ("", "")
    what = f"{count(problem.n_actions, 'action')}{of}"
    if hasattr(problem, "variables"):
        what = f"{', '.join(problem.variables)}, {what}, episodes of {problem.horizon} steps"
    else:
        what = f"{count(problem.n_states, 'state')}{by}, {what}"
        what += "" if problem.horizon is None else f", episodes of {problem.horizon} steps"
    rows = count(problem.n_models, "model") if log is None else rows_and_dates(log, notes)
    return f"{source + ': ' if source else ''}{rows}; {what}."


def _columns(rules: Any) -> str:
    """The measurements that states are made of."""
    names = [label(name) for name in rules.get("measurements", ())]
    more = f" and {len(names) - MOST_COLUMNS} more" if len(names) > MOST_COLUMNS else ""
    return f" ({', '.join(names[:MOST_COLUMNS])}{more})" if names else ""


def _question(run: Run) -> str:
    """What was asked, in words and letters."""
    objective, gamma, horizon = run.problem.objective, run.problem.gamma, run.problem.horizon
    late = f"a reward a step later counts {100 * (1 - gamma):.3g} % less"
    if horizon is not None and gamma == 1:
        late = f"all of {horizon} steps count alike"
    goal = f", {objective.words} {100 * objective.lam:g} % (λ = {objective.lam:g})."
    if objective.criterion == "percentile":
        goal = (
            f"; the goal is the {measure(objective)} that {100 * objective.alpha:g} % of models "
            "reach."
        )
    of = measured(objective)
    earned = [n["formula"] for n in run.notes if n.code == "rewards_formula" and n["formula"]]
    paid = f"rewards are {earned[0]}, " if earned else ""
    return f"Asked: {paid}{late} (γ = {gamma:g}){goal}{' ' if of else ''}{of}"


def _on_models(run: Run) -> Lines:
    """How far from the best, of models that were given."""
    c = run.certificate
    if run.continuous:
        return
    yield "text", bound_sentence(c)
    if c.nominal is not None or run.solution.solver == "nominal":
        spread = [0.0, 1.0] if c.nominal is None else c.nominal.about["range"]
        yield "text", nominal_sentence(c.nominal, Figures.of([np.array(spread)]))


def _policy_rows(run: Run, most: int) -> Lines:
    """What changes; without a log, what is done in each stretch of neighbouring states."""
    policy, log = run.solution.policy, run.log
    if isinstance(policy, TimedPolicy):
        rows, left = timed_rows(policy)
        yield from (("row", f"{where} → {what}") for where, what in rows)
        yield from [("text", left)] if left else []
        return
    practice = None if log is None else behaviour_policy(run.problem, log)[0]
    counts = None if log is None else np.asarray(log.pair_counts)
    yield from _told(policy, practice, counts, most)


def _told(
    policy: Policy, practice: Policy | None, counts: IntArray | None, most: int = MOST_CHANGES
) -> Lines:
    told, rest = changes(policy, practice, most=most)
    for where, what, states in told:
        seen = "" if counts is None else f"   ({_seen(counts, policy, states)} there)"
        yield "row", f"{where} → {what}{seen}"
    if rest:
        yield "text", rest


def _seen(counts: IntArray, policy: Policy, states: list[int]) -> str:
    """How often the action was seen; of a mixture, every one of its actions by itself."""
    spans = []
    for a in by_chance(policy.probs[states[0]])[:MOST_MIXED]:
        times = counts[states, a]
        low, high = int(times.min()), int(times.max())
        spans.append(f"{low}" if low == high else f"{low} to {high}")
    return f"seen {' and '.join(spans)} time{'' if spans == ['1'] else 's'}"


def _by_measurement(run: Run) -> Lines:
    """What a policy for vectors changes, by ranges of a measurement; without a log, at a start."""
    policy, problem = run.solution.policy, run.problem
    if run.log is not None:
        own, practice, counts = bands(run.log, policy)
        yield from _told(own, practice, counts)
        return
    s = problem.sample_start(1, np.random.default_rng(0))[0]
    where = ", ".join(f"{v} = {x:.4g}" for v, x in zip(problem.variables, s, strict=True))
    start = Policy(policy.probs(s[None]), Labels.of([where], "start"), problem.actions)
    yield "row", f"at a start ({where}) → {mixed(start, 0)}"


# -- an update -----------------------------------------------------------------------------------


def update_lines(record: dict[str, Any], certificate: Certificate | None) -> list[str]:
    """What new rows changed, one sentence a line; `record` is the update's own."""
    again = record.get("known_rows", 0)  # older records have none
    if certificate is None and again:
        return [f"All {again:,} rows are in the run already: nothing changes."]
    if certificate is None:
        return ["The new file has no rows: nothing changes."]
    lines = _changes(record["changes"], record["kept"])
    lines += first_sentences(certificate, "")[:1]
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
    return lines


def _changes(changed: list[dict[str, Any]], kept: int) -> list[str]:
    lines = ["The policy stays as it is."]
    if changed:
        lines = [f"The policy changes in {count(len(changed), 'state')}:"]
        lines += [f"  {_change(change)}" for change in changed[:MOST_UPDATES]]
    if (left := len(changed) - MOST_UPDATES) > 0:
        lines.append(f"  {count(left, 'more state')}: `--json` has them all.")
    if kept:
        lines.append(f"{kept} more changes were proposed that gain no more than the margin.")
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
        parts.append(f"transitions: {count(d['rows'], 'row')}, p = {d['p_value']:.2g}")
    if d["impossible"]:
        parts.append(f"{count(d['impossible'], 'row')} with transitions that it did not know of")
    if d["reward_p"] is not None:
        parts.append(f"rewards: p = {d['reward_p']:.2g}")
    return f"{head} ({'; '.join(parts) or 'nothing to compare'})."
