"""Sections of the page as plain values: the answer, the question, the returns, the rerun.

A new section is a function that takes a `Review`, an entry of the context in `page`, and a block of
the template. What pages of tables and of vectors share takes the run's parts instead.
"""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from softrobust._core import __version__
from softrobust._core.notes import SMALL, Note
from softrobust.certificate import Certificate
from softrobust.errors import InputError
from softrobust.models.policy import TimedPolicy
from softrobust.objective import Objective, cvar
from softrobust.posterior import Diagnostics
from softrobust.problem import Problem
from softrobust.report import pictures, plots, study_words, svg, verdict, words
from softrobust.report.counts import Seen, command_shown
from softrobust.report.policy import changed, picture_changes, spans, what_to_do
from softrobust.report.sentences import TEXTS, in_words, phrase, sentence
from softrobust.report.words import Figures, bad_case, count, label, percent
from softrobust.returns import returns_of
from softrobust.returns.evaluation import AnyPolicy, rules_of
from softrobust.returns.reference import unmasked
from softrobust.solvers.base import Solution
from softrobust.study.checks import Check, Verdict
from softrobust.study.compare import SAME, Compared, Reading
from softrobust.study.explain import Explanation
from softrobust.study.foreign import ForeignRehearsal
from softrobust.study.frontier import FrontierPoint
from softrobust.study.rehearsal import Rehearsal
from softrobust.study.review import Review, first_of
from softrobust.study.value_of_data import DataValue

PACKAGES = ("numpy", "scipy", "numba", "highspy")
LONGEST_STAT = 80
HASHED = "SHA-256 of the log as it was read (transitions, rewards, episodes, labels, start)"
PAGE = TEXTS["page"]
Pairs = list[tuple[str, str]]
SHOWN_CHANGES = 6  # states in which a point of the frontier acts otherwise
Group = list[FrontierPoint]


# -- the answer --------------------------------------------------------------------------------


def answer(
    found: Review, number: Figures, against: Sequence[str] = (), seen: Seen | None = None
) -> dict[str, Any]:
    """What to do, what it is worth and what speaks against it, in a few words and pictures."""
    objective, chosen, certificate = found.problem.objective, found.chosen, found.certificate
    lead = verdict.opening(certificate, chosen.solution.solver, found.problem, number)
    promised, practice = certificate.promise, found.practice
    others = [c for c in (found.nominal if promised is None else None, practice) if c]
    held = chosen.heldout  # then the tiles say so
    n, over = (chosen.train.size, "") if held is None else (held.n_models, ", held-out models")
    of = "" if objective.against is None else f"{words.measure(objective)} "
    names = {"mean": f"{of}on average{over}", "cvar": f"{of}in {bad_case(objective)}{over}"}
    tiles = [
        {
            "name": names[key],
            "value": number(chosen.figure(key)),
            "beside": [f"{c.name} {number(c.figure(key))}" for c in others],
        }
        for key in (names if objective.tail < 1 and n > 1 else ["mean"])
    ]
    alone = practice is None or chosen.same_policy(practice)
    now = None if alone or practice is None else practice.policy
    return {
        "lead": lead.replace(" %", f"{words.NARROW}%"),
        "against": list(against),
        "do": what_to_do(found, seen),
        "strip": picture_changes(chosen.policy, now, seen),
        "gain": "" if alone else _gain(found),
        "earned": PAGE["earned_alike" if found.problem.gamma == 1 else "earned"],
        "more": [line for line in (words.no_choice(found.problem),) if line],
        # What is promised stands in the first sentence, and models say more than is promised.
        "tiles": [*tiles, _room(certificate, number)] if promised is None else [],
    }


def _gain(found: Review) -> svg.Picture:
    """The gain over practice on held-out models, else on those that it was chosen on."""
    own, usual, p = found.chosen, found.practice, found.certificate.promise
    assert usual is not None  # the caller looked
    x, f = own.train - usual.train, found.problem.models.f
    if own.test is not None and usual.test is not None and found.heldout is not None:
        x, f = own.test - usual.test, found.heldout.f
    promised = None
    if p is not None and p.return_low is not None and p.chance > 0:
        promised = (p.level, p.gain.value, p.gain.low)
    return pictures.gain_svg(x, f, found.problem.objective, promised)


def _room(certificate: Certificate, number: Figures) -> dict[str, Any]:
    """The tile on how far from the best possible."""
    own = count(certificate.n_models, "model")
    name, share = f"at most this much better on the {own} it was chosen on", certificate.gap_share
    if certificate.nothing_better:
        return {"name": name, "value": number(0.0), "beside": ["the best possible there"]}
    beside = [] if share is None else [f"{percent(share)} of the way up from chance"]
    if share is not None and share > 1:
        beside = ["acting at random is better"]
    return {"name": name, "value": number.gap(certificate.gap_abs), "beside": beside}


# -- the question ------------------------------------------------------------------------------


def asked(
    problem: Any, solution: Solution[Any], size: Pairs, n_heldout: int | None, seed: object = None
) -> Pairs:
    """The question, of tables or vectors: `size` says what was seen."""
    models = f"{problem.n_models:,} to choose on"
    if n_heldout is not None:
        models += f", {n_heldout:,} held out to check on"
    return [
        *size,
        *words.question(problem.gamma, problem.objective, problem.horizon),
        ("Models", models),
        ("Solver", f"{solution.solver}: {words.STATUS[solution.status]}"),
        *([] if seed is None else [("Seed", str(seed))]),
    ]


def table_size(found: Review, suppress: bool) -> Pairs:
    """States and actions, and how much was seen: with `suppress` of pairs seen often alone."""
    problem, log = found.problem, found.log
    size = ("Size", f"{count(problem.n_states, 'state')}, {count(problem.n_actions, 'action')}")
    if log is None:
        return [size]
    counts = np.asarray(log.pair_counts)
    left = f"of {int((~log.sinks).sum()) * log.n_actions:,} pairs of state and action"
    if not suppress:
        seen = f"{int((counts > 0).sum()):,} {left}"
        return [("Data", words.rows_and_dates(log, log.remarks)), ("Pairs seen", seen), size]
    often = counts[counts >= SMALL]
    rows = f"at least {int(often.sum()):,} observed transitions (pairs seen rarely not counted)"
    return [("Data", rows), (f"Seen {SMALL} times or more", f"{often.size:,} {left}"), size]


# -- how good, how bad -------------------------------------------------------------------------


Row = dict[str, Any]  # of the table of figures; each cell is (value, ends of the interval)


def figure_names(objective: Objective) -> tuple[tuple[str, str], ...]:
    """Heads of the columns of figures, and what they mean."""
    if objective.tail == 0:
        edge = bad = bad_case(objective)
    elif objective.tail == 1:
        edge, bad = "the best model", "average over all models"
    else:
        edge, bad = f"where {bad_case(objective)} end", "average of these"
    return (
        ("objective", "what was maximised"),
        ("mean ●", "average over all models"),
        ("VaR ▲", edge),
        ("CVaR ◆", bad),
    )


def returns(found: Review, number: Figures) -> dict[str, Any]:
    """Densities and figures, on training and held-out models."""
    compared, problem = found.compared, found.problem
    distinct = [
        c for i, c in enumerate(compared) if not any(c.same_policy(d) for d in compared[:i])
    ]
    drawn = distinct[: plots.MOST_CURVES]
    train = [plots.Curve(c.train, problem.models.f) for c in drawn]
    sets = [("train", f"On the {count(problem.n_models, 'model')} it was chosen on", train)]
    if found.heldout is not None:
        test = [plots.Curve(c.test, found.heldout.f) for c in drawn if c.test is not None]
        sets.append(("test", f"On {count(found.heldout.n_models, 'held-out model')}", test))
    limits = plots.shared_axis([[s[2][i] for s in sets] for i in range(len(drawn))])
    return {
        "panels": [
            panel(key, title, curves, [c.short for c in drawn], problem.objective, limits, number)
            | {"rows": [_figures(c, drawn, number, fresh=key == "test") for c in compared]}
            for key, title, curves in sets
        ],
        "heads": figure_names(problem.objective),
        "tail": 0 < problem.objective.tail < 1 and not train[0].flat,
        "measure": words.measure(problem.objective),
        "readings": read(found.readings),
    }


def read(found: Sequence[Reading]) -> dict[str, Any] | None:
    """The readings side by side; None where there is but one."""
    kinds = list(dict.fromkeys(r.of for r in found))
    if len(kinds) < 2:
        return None
    x = {of: np.array([(r.mean, r.cvar) for r in found if r.of == of]) for of in kinds}
    nothing = 1e-9 * max(float(np.abs(part).max()) for part in x.values())  # what rounding leaves
    x = {of: np.where(np.abs(part) <= nothing, 0.0, part) for of, part in x.items()}
    number = {of: Figures.of([part.ravel()]) for of, part in x.items()}
    rows: dict[str, Row] = {}
    for r in found:
        row = rows.setdefault(r.policy, {"name": r.policy, "chosen": r.chosen, "cells": []})
        own = x[r.of][len(rows) - 1]
        row["cells"] += [number[r.of](float(value)) for value in own]
    return {
        "title": f"Side by side: {', '.join(kinds[:-1])} and {kinds[-1]}",
        "kinds": [(of, TEXTS["readings"][of]) for of in kinds],
        "rows": list(rows.values()),
        "gain": "gain" in kinds,
    }


def panel(
    key: str, title: str, curves: list[plots.Curve], names: list[str], objective: Objective,
    limits: tuple[float, float], number: Figures,
) -> dict[str, Any]:  # fmt: skip
    """One picture, in words too."""
    ends = [(number(float(c.z.min())), number(float(c.z.max()))) for c in curves]
    spans = [f"{name}: from {a} to {b}" for name, (a, b) in zip(names, ends, strict=True)]
    return {
        "key": key,
        "title": title,
        "svg": plots.density_svg(curves, names, objective, limits, f"{'; '.join(spans)}."),
        "scaled": plots.scaled(curves),
        "flat": all(curve.flat for curve in curves),
    }


def _figures(c: Compared, drawn: list[Compared], number: Figures, *, fresh: bool) -> Row:
    """objective, mean, VaR and CVaR of a policy, on training or held-out models."""
    keys = ("objective", "mean", "var", "cvar")
    if fresh:
        estimates = [getattr(c.heldout, key) for key in keys]
        cells = tuple((number(e.value), number.interval(e)) for e in estimates)
    else:
        cells = tuple((number(c.static[key]), ()) for key in keys)
    ink = f"k{drawn.index(c) + 1}" if c in drawn else ""
    return {"name": c.name, "chosen": c.chosen, "ink": ink, "cells": cells}


# -- what caution costs ------------------------------------------------------------------------
#
# Each point of the frontier of mean against CVaR is the best policy found for one λ; neighbouring λ
# with the same policy are one point. The page marks where the chosen policy, nominal and practice
# lie, and lists for every point what it earns and where it acts otherwise than the chosen one.


def caution(found: Review, number: Figures) -> dict[str, Any] | None:
    """The section; None where nothing was asked for."""
    if found.frontier is None:
        return None
    if isinstance(found.frontier, Note):
        return {"reason": sentence(found.frontier)}
    alpha, alphas = found.problem.objective.alpha, found.frontier.alphas
    if alpha not in alphas:
        raise InputError(
            f"The frontier is for α = {', '.join(f'{a:g}' for a in alphas)}, and the "
            f"problem has α = {alpha:g}. Compute it with alphas=({alpha:g},)."
        )
    points = found.frontier.column(alphas.index(alpha))
    groups = pictures.alike(points)
    if len(groups) == 1:
        one = TEXTS["page"]["one_policy"]
        return {"reason": "", "lead": one, "steps": (), "small": _proven(points)}
    n = points[0].certificate.n_models
    # (mean, bad case) of every policy of the page on the models of the frontier
    where = [(c.static["mean"], c.static["cvar"]) for c in found.compared]
    if n < found.problem.n_models:
        there = unmasked(first_of(found.problem, n))
        made = [returns_of(there, c.solution.policy) for c in found.compared]
        where = [(float(x.f @ x.x), cvar(x.x, x.f, alpha)) for x in made]
    steps = [_step(found, group, where[0], number) for group in groups]
    first, last = groups[0][0], groups[-1][-1]
    own = next((step for step in steps if step["chosen"]), None)
    lam = found.problem.objective.lam
    return {
        "reason": "",
        "lead": phrase(
            "frontier.lead", first=first, last=last, words=bad_case(found.problem.objective),
            means=[number(first.mean), number(last.mean)],
            bads=[number(first.cvar), number(last.cvar)],
        ),
        "svg": _picture(found, points, where),
        "steps": steps,
        "lams": (points[0].lam, points[-1].lam),
        # Where the slider starts: the question's own λ, or one that this policy is the best for.
        "own": lam if own is None else float(min(max(lam, own["low"]), own["high"])),
        "small": phrase(
            "frontier.small", n=n, proven=_proven(points), fewer=n < found.problem.n_models
        ),
    }  # fmt: skip


def _picture(found: Review, points: Group, where: Sequence[tuple[float, float]]) -> svg.Picture:
    """The frontier, with this policy, nominal and practice on it."""
    goal, chosen = found.problem.objective, found.chosen
    own = pictures.Spot("this policy", *where[0])
    others = [
        pictures.Spot(c.name, *at)
        for c, at in zip(found.compared[1:], where[1:], strict=True)
        if not c.same_policy(chosen)
    ]
    return pictures.frontier_svg(
        [(goal.words, pictures.spots(points))], others, own, words.measure(goal)
    )


def _does(policy: AnyPolicy, s: int) -> str:
    if isinstance(policy, TimedPolicy):
        return spans(policy, s)
    return label(policy.actions[int(policy.decision[s])])


def _step(
    found: Review, group: Group, here: tuple[float, float], number: Figures
) -> dict[str, Any]:
    """One policy of the frontier: the λ it is best for, what it earns, what it does otherwise."""
    p, chosen, own = group[0], found.chosen, pictures.lams(group)
    apart = np.abs(rules_of(chosen.solution.policy) - rules_of(p.policy)) > SAME
    changed = np.flatnonzero(apart.any(axis=(0, 2)) & found.problem.decided)
    states, shown = found.problem.models.states, changed[:SHOWN_CHANGES].tolist()
    names = [f"{label(states[s])}: {_does(p.policy, s)}" for s in shown]
    mean, bad = number.signed(p.mean - here[0]), number.signed(p.cvar - here[1])
    told = phrase(
        "frontier.other" if changed.size else "frontier.this", own=own, mean=mean, bad=bad,
        names="; ".join(names), more=changed.size - len(names),
    )  # fmt: skip
    return {
        "lams": own, "low": group[0].lam, "high": group[-1].lam, "mean": number(p.mean),
        "bad": number(p.cvar), "more_mean": mean, "more_bad": bad, "n_changes": int(changed.size),
        "chosen": not changed.size, "dominated": p.dominated, "told": told,
    }  # fmt: skip


def _proven(points: Group) -> str:
    """What no proof excludes at some point, as a share of what is to be gained."""
    left = [p.certificate for p in points if not p.certificate.nothing_better]
    most = max((1.0 if c.gap_share is None else c.gap_share for c in left), default=0.0)
    return phrase("frontier.proven" if most <= 1e-3 else "frontier.found", most=percent(most))


# -- why ---------------------------------------------------------------------------------------


def why(found: Review, seen: Seen | None, number: Figures) -> dict[str, Any]:
    """Each state's alternatives, with exact changes, and what it is protected against."""
    usual = changed(found.chosen.policy, found.practice and found.practice.policy, seen)
    states = [_state(s, e, bool(usual[s]), found.problem, seen) for s, e in found.reasons.items()]
    apart = [state["key"] for state in states if "nominal" in state["differs"]]
    return {
        "nominal": verdict.nominal_sentence(found.nominal and found.nominal.versus, number),
        "states": states,
        # The state that stands open: the first that differs from nominal, else the first.
        "first": next(iter([*apart, *found.reasons]), None),
        "left_out": ""
        if found.every_state
        else PAGE["some_states" if states else "by_step" if found.chosen.timed else "too_large"],
    }


def _state(
    s: int, e: Explanation, unusual: bool, problem: Problem, seen: Seen | None
) -> dict[str, Any]:
    """One state; with suppressed counts, nothing that gives one of them away."""
    nominal = next((o for o in e.options if o.nominal), None)
    apart = {"nominal": nominal is not None and nominal.chosen < 1 - SAME, "practice": unusual}
    hidden = seen is not None and seen.hides(s)
    shifts = (f"{label(x.next_state)} {percent(x.mean)} → {percent(x.worst)}" for x in e.shifts)
    moves = "; ".join(shifts)
    taken = map(problem.models.actions.index, e.mix)
    if seen is not None and seen.suppress and any(seen.few(s, a) for a in taken):
        moves = ""  # (prior + count)/(strength + all counts) gives the counts away
    return {
        "key": s,
        "about": e,
        "does": " or ".join(
            label(name) + ("" if e.action or hidden else f" ({percent(p)})")
            for name, p in e.mix.items()
        ),
        "differs": " and ".join(name for name, differs in apart.items() if differs),
        "practice": seen is not None and not hidden,
        "moves": moves,
    }


# -- can it be trusted: draws of the posterior, and checks -------------------------------------

MARKS = {"fine": "✓", "caution": "⚠", "cannot tell": "?"}
SHOWN_PARAMETERS = 12


def trust(found: Review, suppress: bool, ask_for_checks: bool) -> dict[str, Any] | None:
    """The section; None where nothing is known and nothing can be asked for."""
    d, again = found.diagnostics, found.rehearsal
    if d is None and found.checks is None and again is None and not ask_for_checks:
        return None
    checks = [_check(check, suppress) for check in found.checks or ()]
    # A parameter that never moved has no R-hat.
    known = {} if d is None else d.parameters
    worst = sorted(known.items(), key=lambda item: -np.nan_to_num(item[1].rhat))
    return {
        "draws": [] if d is None else _draws(d, suppress),
        "parameters": worst[:SHOWN_PARAMETERS],
        "checks": checks,
        "worlds": pictures.picture_rehearsal(again) if isinstance(again, ForeignRehearsal) else "",
        "missing": "" if checks or not ask_for_checks else TEXTS["page"]["no_checks"],
    }


def beside(found: Review, suppress: bool) -> list[dict[str, str]]:
    """What was looked into beyond the posterior, one line each, to stand beside the promise."""
    lines = []
    if found.validation is not None:
        told = " ".join(study_words.validation_sentences(found.validation))
        lines.append(_line("held-out data", found.validation.verdict, told))
    if found.rehearsal is not None:
        lines.append(rehearsal_lines(found.rehearsal))
    own = (check for check in found.checks or () if check.code in study_words.BESIDE)
    return [*lines, *(_check(check, suppress, brief=True) for check in own)]


def rehearsal_lines(found: Rehearsal | ForeignRehearsal) -> dict[str, str]:
    """A rehearsal beside the promise."""
    return _line("rehearsal", found.verdict, study_words.rehearsal_line(found))


def check_lines(check: Check) -> list[dict[str, str]]:
    """A check in its section, and beside the promise where it belongs there."""
    places = (False, True) if check.code in study_words.BESIDE else (False,)
    return [_check(check, suppress=False, brief=brief) for brief in places]


def _line(name: str, verdict: Verdict, told: str, gloss: str = "") -> dict[str, str]:
    style = verdict.split()[0]
    return {"name": name, "verdict": str(verdict), "mark": MARKS[verdict], "style": style,
            "sentence": told, "gloss": gloss}  # fmt: skip


def _check(check: Check, suppress: bool, brief: bool = False) -> dict[str, str]:
    shown = check.without_small_counts() if suppress else check
    told = study_words.check_sentence(shown, brief=brief)
    gloss = (study_words.check_rule(check), study_words.CHECK_GLOSS.get(check.code, ""))
    more = "" if brief else " ".join(filter(None, gloss))
    return _line(study_words.check_name(check), check.verdict, told, more)


def _draws(d: Diagnostics, suppress: bool) -> list[str]:
    lines = [phrase("trust.exact" if d.exact else "trust.sampler", d=d)]
    seen = ((name, p) for name, p in d.predictive.items() if name not in d.missed)
    lines += [phrase("trust.reproduced", name=name, p=p) for name, p in seen]
    return [*lines, *in_words(d.problems, suppress)]


# -- section: what data would help. Pairs ranked by the value of more observations -------------

MOST_PAIRS = 12
THIN = 20.0  # effective models after the data below which a value is rough
WIDTH, HEIGHT = 150.0, 16.0


def more_data(found: Review) -> dict[str, Any] | None:
    """The section; None where nothing was asked for."""
    data = found.data
    if data is None:
        return None
    if isinstance(data, Note):
        return {"reason": sentence(data)}
    worth = [v for v in data.values if v.value > 0 and v.high > 0]
    if not worth:
        return {"reason": phrase("trust.no_data", n=data.observations)}
    top = worth[:MOST_PAIRS]
    reach = max(v.high for v in top)
    more = {"more_pairs": len(worth) - len(top), "thin": sum(v.effective_size < THIN for v in top)}
    return {
        "reason": "",
        "lead": phrase("trust.data", n=data.observations),
        "rows": [(v, _bar(v, reach)) for v in top],
        "own": found.chosen.policy.decision.tolist(),
        "more": " ".join(phrase(f"trust.{name}", n=n) for name, n in more.items() if n),
    }


def _bar(v: DataValue, reach: float) -> str:
    x = svg.Scale(0.0, reach, 4.0, WIDTH - 4.0)
    middle = HEIGHT / 2
    parts = [
        svg.line(x.start, 1, x.start, HEIGHT - 1, "axis"),
        svg.line(x(v.low), middle, x(v.high), middle, "span"),
        svg.dot(x(v.value), middle, 3.6, "own"),
    ]
    return svg.picture(
        WIDTH, HEIGHT, parts, "bar", f"{v.value:.3g}, from {v.low:.3g} to {v.high:.3g}"
    )


# -- to rerun it -------------------------------------------------------------------------------


def rerun(
    problem: Any, solution: Solution[Any], log: Any, posterior: Any,
    settings: Mapping[str, object], suppress: bool = False,
) -> Pairs:  # fmt: skip
    """What it takes to get the same page again: the command first, where it is known."""
    given, stats = dict(settings), solution.stats
    command = str(given.pop("command", ""))
    out: Pairs = [("command", command_shown(command, suppress))] if command else []
    horizon = getattr(problem, "horizon", None)
    out += [
        ("solver", solution.solver),
        ("gamma", repr(problem.gamma)),
        *([] if horizon is None else [("horizon", str(horizon))]),
        ("lambda", repr(problem.objective.lam)),
        ("alpha", repr(problem.objective.alpha)),
        *([] if (name := problem.objective.against) is None else [("reference", name)]),
        ("models", str(problem.n_models)),
    ]
    out += [(str(key), without_folder(value)) for key, value in given.items()]
    if posterior is not None:
        known = {k: v for k, v in posterior.describe().items() if k != "data_hash"}
        if suppress and 1 < known.get("min_count", 0) < SMALL:
            known["min_count"] = "not shown"
        out += [(key, str(v)) for key, v in known.items() if v is not None]
    if log is not None:
        out.append((HASHED, log.data_hash))
    figures = {k: v for k, v in stats.items() if isinstance(v, (int, float, str))}
    out += [(f"solver: {key}", _plain(value)) for key, value in figures.items()]
    return out + versions()


def versions() -> Pairs:
    """Of this package and those that its figures depend on."""
    found = [("softrobust", __version__), ("python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "not installed"))
    return found


def _plain(value: object) -> str:
    """A figure of the solver's, shortened where it is a long list."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return words.shorten(text, LONGEST_STAT)


def without_folder(value: object) -> str:
    """An absolute path says more of a machine than of the run: keep its last part."""
    text = str(value)
    for kind in (PurePosixPath, PureWindowsPath):
        if kind(text).is_absolute():
            return kind(text).name
    return text
