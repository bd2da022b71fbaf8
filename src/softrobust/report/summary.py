"""What a person reads in the terminal: after a solve, and after an update.

At most 25 lines: what to do, what it is worth, what speaks against it, and what it rests on. All
else is asked for (`details`), on the page, and in `solution.json`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from softrobust._core.arrays import IntArray
from softrobust.certificate import Certificate
from softrobust.data.labels import Labels
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.report import sentences, verdict, words
from softrobust.report.continuous import N_BANDS, bands
from softrobust.report.policy import MOST_CHANGES, changes, mixed, seen_there, timed_rows, to_do
from softrobust.report.study_words import validation_line, validation_sentences
from softrobust.solvers.baselines.behaviour import behaviour_policy

TRAINED_FOR = sentences.TEXTS["trained_for"]
MOST_UPDATES = 8  # changed states that are listed
MOST_COLUMNS = 4  # measurements that are named
Lines = Iterator[tuple[str, str]]
Run = Any  # a run, which is made in a later stage


def summary_lines(
    run: Run, details: bool = False, most: int = sentences.MOST_TOLD, rows: int = MOST_CHANGES
) -> Lines:
    """(kind, text) pairs: kind is "head", "text", "caution" (`most`), "note" or "row" (`rows`)."""
    c = run.certificate
    yield "head", "In a sentence"
    yield "text", verdict.opening(c, run.solution.solver, run.problem)
    yield "head", to_do(c, run.problem)
    yield from _by_measurement(run) if run.continuous else _policy_rows(run, rows)
    against = sentences.speaks_against(run.notes, most=most)
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
    cautions, assumed, promise = sentences.sorted_notes(run.notes)
    yield "head", "Details"
    drawn = "drawn" if run.log is not None else "given"
    models = words.count(run.problem.n_models, "model")
    yield "text", f"{solver}: {words.STATUS[run.solution.status]}; {models} {drawn}."
    if solver in TRAINED_FOR:
        yield "text", TRAINED_FOR[solver]
    judged = [] if c.promise is None else verdict.promise_sentences(c.promise, solver)[1:]
    held = [] if run.validation is None else validation_sentences(run.validation)
    for text in [*judged, *held, *verdict.certificate_sentences(c)]:
        yield "text", text
    for text in sentences.in_words([*cautions, *promise, *assumed]):
        yield "note", text


def file_sentence(source: str, log: Any, problem: Any, notes: Any, visits: Any = None) -> str:
    """The file, its dates and rows, and what there is in it to decide.

    `visits` is how a table of visits was read: which columns states and actions come from.
    """
    rules = (visits or {}).get("rules", {})
    of = f" ({words.label(rules['action'])})" if "action" in rules else ""
    what = f"{words.count(problem.n_actions, 'action')}{of}"
    if hasattr(problem, "variables"):
        steps = words.count(problem.horizon, "step")
        what = f"{', '.join(problem.variables)}, {what}, episodes of {steps}"
    else:
        what = f"{words.count(problem.n_states, 'state')}{_columns(rules)}, {what}"
        if problem.horizon is not None:
            what += f", episodes of {words.count(problem.horizon, 'step')}"
    models = words.count(problem.n_models, "model")
    rows = models if log is None else words.rows_and_dates(log, notes)
    return f"{source + ': ' if source else ''}{rows}; {what}."


def _columns(rules: Any) -> str:
    """The measurements that states are made of."""
    names = [words.label(str(name)) for name in rules.get("measurements", ())]
    more = f" and {len(names) - MOST_COLUMNS} more" if len(names) > MOST_COLUMNS else ""
    return f" ({', '.join(names[:MOST_COLUMNS])}{more})" if names else ""


def _question(run: Run) -> str:
    """What was asked, in words and letters."""
    goal, gamma, horizon = run.problem.objective, run.problem.gamma, run.problem.horizon
    whole = horizon is not None and gamma == 1
    late = sentences.phrase("summary.late", whole=whole, horizon=horizon, less=1 - gamma)
    earned = [n["formula"] for n in run.notes if n.code == "rewards_formula" and n["formula"]]
    return sentences.phrase(
        "summary.asked", formula=earned[0] if earned else "", late=late, gamma=gamma, goal=goal,
        measure=words.measure(goal), of=words.measured(goal),
    )  # fmt: skip


def _on_models(run: Run) -> Lines:
    """How far from the best, of models that were given."""
    c = run.certificate
    if run.continuous:
        return
    yield "text", verdict.bound_sentence(c)
    if c.nominal is not None or run.solution.solver == "nominal":
        spread = [0.0, 1.0] if c.nominal is None else c.nominal.about["range"]
        yield "text", verdict.nominal_sentence(c.nominal, words.Figures.of([np.array(spread)]))


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
        seen = "" if counts is None else f"   ({seen_there(counts, policy, states)})"
        yield "row", f"{where} → {what}{seen}"
    if rest:
        yield "text", rest


def _by_measurement(run: Run) -> Lines:
    """What a policy for vectors changes, by ranges of a measurement; without a log, at a start."""
    policy, problem = run.solution.policy, run.problem
    if run.log is not None:
        own, practice, counts = bands(run.log, policy)
        yield from _told(own, practice, counts, N_BANDS)
        return
    s = problem.sample_start(1, np.random.default_rng(0))[0]
    where = ", ".join(f"{v} = {x:.4g}" for v, x in zip(problem.variables, s, strict=True))
    start = Policy(policy.probs(s[None]), Labels.of([where], "start"), problem.actions)
    yield "row", f"at a start ({where}) → {mixed(start, 0)}"


# -- an update -----------------------------------------------------------------------------------


def update_lines(record: dict[str, Any], certificate: Certificate | None) -> list[str]:
    """What new rows changed, one sentence a line; `record` is the update's own."""
    again = record.get("known_rows", 0)  # older records have none
    if certificate is None:
        return [sentences.phrase("summary.known" if again else "summary.empty", again=again)]
    lines = _changes(record["changes"], record["kept"])
    lines += verdict.first_sentences(certificate, "")[:1]
    lines += [sentences.phrase("summary.new_rows", **record), _drift(record["drift"])]
    if absent := record.get("absent_rows"):
        lines.append(sentences.phrase("summary.absent", n=absent))
    if record["added_states"]:
        lines.append(f"New states: {', '.join(record['added_states'][:8])}.")
    return lines


def _changes(changed: list[dict[str, Any]], kept: int) -> list[str]:
    lines = [sentences.phrase("summary.changes" if changed else "summary.stays", n=len(changed))]
    for c in changed[:MOST_UPDATES]:  # what the change gains, and what the new rows showed
        taken = {"old": _taken(c, "before"), "new": _taken(c, "after")}
        other = c["before"] != c["after"]
        lines.append(sentences.phrase("summary.change", **c, **taken, other=other))
    if (left := len(changed) - MOST_UPDATES) > 0:
        lines.append(sentences.phrase("summary.more", n=left))
    return [*lines, sentences.phrase("summary.kept", n=kept)] if kept else lines


def _taken(c: dict[str, Any], when: str) -> str:
    """What is done in a state, of a mixture every action."""
    mix = c.get(f"mix_{when}", {})
    if len(mix) < 2:
        return str(c[when])
    return " or ".join(f"{name} ({words.two_digits(share)})" for name, share in mix.items())


def _drift(d: dict[str, Any]) -> str:
    known = {"drift_p": d["p_value"] is not None, "drift_new": d["impossible"],
             "drift_rewards": d["reward_p"] is not None}  # fmt: skip
    parts = [sentences.phrase(f"summary.{name}", **d) for name, there in known.items() if there]
    return sentences.phrase("summary.drift", **d, parts="; ".join(parts) or "nothing to compare")
