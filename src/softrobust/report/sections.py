"""Sections of the page as plain values: the answer, the question, the returns, the rerun.

A new section is a function that takes a `Review`, an entry of the context in `page`, and a block of
the template. What pages of tables and of vectors share takes the run's parts instead.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core import __version__
from softrobust._core.notes import SMALL
from softrobust.report import plots, verdict, words
from softrobust.report.counts import command_shown
from softrobust.report.data_words import TEXTS
from softrobust.report.pictures import gain_svg
from softrobust.report.policy import changed, picture_changes, what_to_do
from softrobust.report.words import Figures, bad_case, count, label, percent
from softrobust.study.compare import SAME

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.data import TransitionLog
    from softrobust.objective import Objective
    from softrobust.problem import Problem
    from softrobust.report.counts import Seen
    from softrobust.report.svg import Picture
    from softrobust.solvers.base import Solution
    from softrobust.study.compare import Compared, Reading
    from softrobust.study.explain import Explanation
    from softrobust.study.review import Review

PACKAGES = ("numpy", "scipy", "numba", "highspy")
LONGEST_STAT = 80
HASHED = "SHA-256 of the log as it was read (transitions, rewards, episodes, labels, start)"
PAGE = TEXTS["page"]
Pairs = list[tuple[str, str]]


# -- the answer --------------------------------------------------------------------------------


def answer(
    found: Review, number: Figures, against: Sequence[str] = (), seen: Seen | None = None
) -> dict[str, Any]:
    """What to do, what it is worth and what speaks against it, in a few words and pictures."""
    objective, chosen, certificate = found.problem.objective, found.chosen, found.certificate
    lead, *_ = [
        *verdict.first_sentences(certificate, chosen.solution.solver),
        verdict.earns(certificate, number),
    ]
    promised, practice = certificate.promise, found.practice
    others = [c for c in (found.nominal if promised is None else None, practice) if c]
    tiles = [
        {
            "name": name,
            "value": number(chosen.figure(key)),
            "beside": [f"{c.name} {number(c.figure(key))}" for c in others],
        }
        for name, key in _tile_names(chosen, objective)
    ]
    alone = practice is None or chosen.same_policy(practice)
    now = None if alone or practice is None else practice.policy
    return {
        "lead": lead.replace(" %", f"{words.NARROW}%"),
        "against": list(against),
        "do": what_to_do(found, seen),
        "strip": picture_changes(chosen.policy, now, seen),
        "gain": "" if alone else _gain(found),
        "more": [line for line in (words.no_choice(found.problem),) if line],
        # What is promised stands in the first sentence, and models say more than is promised.
        "tiles": [*tiles, _room(certificate, number)] if promised is None else [],
    }


def _gain(found: Review) -> Picture:
    """The gain over practice on held-out models, else on those that it was chosen on."""
    own, usual, p = found.chosen, found.practice, found.certificate.promise
    assert usual is not None  # the caller looked
    x, f = own.train - usual.train, found.problem.models.f
    if own.test is not None and usual.test is not None and found.heldout is not None:
        x, f = own.test - usual.test, found.heldout.f
    promised = None
    if p is not None and p.return_low is not None and p.chance > 0:
        promised = (p.level, p.gain.value, p.gain.low)
    return gain_svg(x, f, found.problem.objective, promised)


def _tile_names(chosen: Compared, objective: Objective) -> Pairs:
    """(name, figure) of the tiles; they say so where they are held out."""
    held = chosen.heldout
    n, over = (chosen.train.size, "") if held is None else (held.n_models, ", held-out models")
    of = "" if objective.against is None else f"{words.measure(objective)} "
    tiles = [(f"{of}on average{over}", "mean")]
    if objective.tail < 1 and n > 1:
        tiles.append((f"{of}in {bad_case(objective)}{over}", "cvar"))
    return tiles


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
    """Rows, pairs, states and actions."""
    problem = found.problem
    size = f"{count(problem.n_states, 'state')}, {count(problem.n_actions, 'action')}"
    return [*([] if found.log is None else _data(found.log, suppress)), ("Size", size)]


def _data(log: TransitionLog, suppress: bool) -> Pairs:
    """How much was seen; with `suppress` what pairs seen five times or more add up to."""
    counts = np.asarray(log.pair_counts)
    left = f"of {int((~log.sinks).sum()) * log.n_actions:,} pairs of state and action"
    if not suppress:
        seen = f"{int((counts > 0).sum()):,} {left}"
        return [("Data", words.rows_and_dates(log, log.remarks)), ("Pairs seen", seen)]
    often = counts[counts >= SMALL]
    rows = f"at least {int(often.sum()):,} observed transitions (pairs seen rarely not counted)"
    return [("Data", rows), (f"Seen {SMALL} times or more", f"{often.size:,} {left}")]


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
        "left_out": "" if found.every_state else PAGE["some_states" if states else "too_large"],
    }


def _state(
    s: int, e: Explanation, unusual: bool, problem: Problem, seen: Seen | None
) -> dict[str, Any]:
    """One state; with suppressed counts, nothing that gives one of them away."""
    nominal = next((o for o in e.options if o.nominal), None)
    apart = {"nominal": nominal is not None and nominal.chosen < 1 - SAME, "practice": unusual}
    hidden = seen is not None and seen.hides(s)
    moves = "; ".join(
        f"{label(x.next_state)} {percent(x.mean)} → {percent(x.worst)}" for x in e.shifts
    )
    taken = [problem.models.actions.index(name) for name in e.mix]
    if seen is not None and any(seen.hides_pair(s, a) for a in taken):
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
    own = [("softrobust", __version__), ("python", platform.python_version())]
    return own + [(name, package_version(name)) for name in PACKAGES]


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


def package_version(package: str) -> str:
    """Of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
