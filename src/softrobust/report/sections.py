"""The policies side by side in figures: objective, mean, VaR and CVaR."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust import __version__
from softrobust.report import plots, verdict, words
from softrobust.report.counts import SMALL, notes_said
from softrobust.report.words import Figures

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.objective import Objective
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem
    from softrobust.report.compare import Compared


@final
@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One policy in the table of figures; each cell is (value, ends of the interval)."""

    name: str
    chosen: bool
    ink: str
    cells: tuple[tuple[str, tuple[str, ...]], ...]


def figures_table(
    compared: Sequence[Compared], number: Figures, *, fresh: bool, inks: Sequence[str]
) -> tuple[ComparedRow, ...]:
    """objective, mean, VaR and CVaR of every policy, on training or held-out models."""
    rows = []
    for i, c in enumerate(compared):
        keys = ("objective", "mean", "var", "cvar")
        if fresh:
            assert c.heldout is not None  # asked for only where there are held-out models
            estimates = [getattr(c.heldout, key) for key in keys]
            cells = tuple((number(e.value), number.interval(e)) for e in estimates)
        else:
            cells = tuple((number(c.static[key]), ()) for key in keys)
        rows.append(ComparedRow(c.name, c.chosen, inks[i] if i < len(inks) else "", cells))
    return tuple(rows)


def figure_names(objective: Objective) -> tuple[tuple[str, str], ...]:
    """Heads of the columns of `figures_table`, and what they mean."""
    if objective.tail == 0:
        edge = bad = objective.words
    elif objective.tail == 1:
        edge, bad = "the best model", "average over all models"
    else:
        edge, bad = f"where {objective.words} end", "average of these"
    return (
        ("objective", "what was maximised"),
        ("mean ●", "average over all models"),
        ("VaR ▲", edge),
        ("CVaR ◆", bad),
    )


# --------------------------------------------------------------------------------------------------
# The sections of the page as plain values: one function each, in the order of the page.
#
# A new section is a function here, an entry of the context in `page`, and a block of the template.

PACKAGES = ("numpy", "scipy", "numba", "highspy")
LONGEST_STAT = 80
HASHED = "SHA-256 of the log as it was read (transitions, rewards, episodes, labels, start)"
_LEAST = re.compile(r"(--min-count) [2-4]\b")
Pairs = list[tuple[str, str]]


def answer(
    problem: Problem,
    compared: Sequence[Compared],
    certificate: Certificate,
    number: words.Figures,
    cautions: Sequence[str] = (),
) -> dict[str, Any]:
    """The answer, in words and three figures; `cautions` stand right under its first sentence."""
    objective, chosen = problem.objective, compared[0]
    nominal = next((c for c in compared[1:] if c.nominal), None)
    others = [c for c in compared[1:] if c.nominal or c.practice]
    more = [
        words.no_choice(problem),
        verdict.against(chosen, nominal, number),
        words.best_possible(certificate, number),
        words.chosen_on(chosen, objective, number),
    ]
    shown = [
        {
            "name": name,
            "value": number(chosen.figure(key)),
            "beside": [f"{c.name} {number(c.figure(key))}" for c in others],
        }
        for name, key in _tile_names(chosen, objective)
    ]
    shown.append(_room(certificate, number))
    lead = words.earns(chosen, objective, number)
    if certificate.practice is not None:  # the first thing that anybody asks
        lead, more = certificate.practice.sentence(), [lead, *more]
    return {
        "lead": lead,
        "cautions": list(cautions),
        "more": [line for line in more if line],
        "tiles": shown,
    }


def _tile_names(chosen: Compared, objective: Objective) -> Pairs:
    """(name, figure) of the tiles; they say so where they are held out."""
    held = chosen.heldout
    n, over = (chosen.train.size, "") if held is None else (held.n_models, ", held out")
    tiles = [(f"on average{over}", "mean")]
    if objective.tail < 1 and n > 1:
        tiles.append((f"in {objective.words}{over}", "cvar"))
    return tiles


def _room(certificate: Certificate, number: words.Figures) -> dict[str, Any]:
    """The tile on how far from the best possible."""
    own = words.count(certificate.n_models, "model")
    name, share = f"at most this much better on the {own} it was chosen on", certificate.gap_share
    if certificate.nothing_better:
        return {"name": name, "value": number(0.0), "beside": ["the best possible there"]}
    beside = "" if share is None else f"{words.percent(share)} of the way up from chance"
    if share is not None and share > 1:
        beside = "acting at random is better"
    return {
        "name": name,
        "value": number.gap(certificate.gap_abs),
        "beside": [beside] if beside else [],
    }


def asked(
    problem: Problem,
    chosen: Compared,
    heldout: ModelSet | None,
    log: TransitionLog | None,
    settings: Mapping[str, object] | None,
    suppress: bool,
) -> Pairs:
    """The question."""
    solution, objective = chosen.solution, problem.objective
    out: Pairs = []
    if log is not None:
        out += _data(log, suppress)
    out += [
        (
            "Size",
            f"{words.count(problem.n_states, 'state')}, {words.count(problem.n_actions, 'action')}",
        ),
        ("Discount γ", words.discount_words(problem.gamma)),
        ("Caution λ", words.weight_words(objective)),
        ("Bad case α", words.tail_words(objective)),
        ("Models", _models_words(problem, heldout)),
        ("Solver", f"{chosen.name}: {words.STATUS[solution.status]}"),
    ]
    seed = (settings or {}).get("seed", solution.stats.get("seed"))
    if seed is not None:
        out.append(("Seed", str(seed)))
    return out


def _data(log: TransitionLog, suppress: bool) -> Pairs:
    """How much was seen; with `suppress` what pairs seen five times or more add up to."""
    counts = np.asarray(log.pair_counts)
    left = f"of {int((~log.sinks).sum()) * log.n_actions:,} pairs of state and action"
    if not suppress:
        seen = int((counts > 0).sum())
        rows = words.count(log.n_rows, "observed transition")
        return [("Data", rows), ("Pairs seen", f"{seen:,} {left}")]
    often = counts[counts >= SMALL]
    return [
        (
            "Data",
            f"at least {int(often.sum()):,} observed transitions (pairs seen rarely not counted)",
        ),
        (f"Seen {SMALL} times or more", f"{often.size:,} {left}"),
    ]


def _models_words(problem: Problem, heldout: ModelSet | None) -> str:
    text = f"{problem.n_models:,} to choose on"
    if heldout is not None:
        text += f", {heldout.n_models:,} held out to check on"
    return text


def notes(
    problem: Problem,
    compared: Sequence[Compared],
    log: TransitionLog | None,
    notes: Sequence[str],
    suppress: bool,
) -> list[str]:
    """What was assumed, each sentence once."""
    own = () if log is None else log.notes
    every = [*own, *problem.models.notes, *words.notes_of(problem, compared), *notes]
    return notes_said(dict.fromkeys(every), log, suppress)


def returns(
    problem: Problem,
    compared: Sequence[Compared],
    heldout: ModelSet | None,
    number: words.Figures,
) -> dict[str, Any]:
    """Densities and figures, on training and held-out models."""
    drawn = [c for i, c in enumerate(compared) if not any(c.same_policy(d) for d in compared[:i])][
        : plots.MOST_CURVES
    ]
    inks = [f"k{drawn.index(c) + 1}" if c in drawn else "" for c in compared]
    train = [plots.Curve(c.train, problem.models.f) for c in drawn]
    sets = [("train", f"On the {words.count(problem.n_models, 'model')} it was chosen on", train)]
    if heldout is not None:
        test = [plots.Curve(c.test, heldout.f) for c in drawn if c.test is not None]
        sets.append(("test", f"On {words.count(heldout.n_models, 'held-out model')}", test))
    limits = plots.shared_axis([[s[2][i] for s in sets] for i in range(len(drawn))])
    panels = [_panel(problem, compared, drawn, number, inks, limits, found) for found in sets]
    return {
        "panels": panels,
        "heads": figure_names(problem.objective),
        "undrawn": _undrawn(compared, drawn),
        "tail": 0 < problem.objective.tail < 1 and not train[0].flat,
    }


def _panel(
    problem: Problem,
    compared: Sequence[Compared],
    drawn: Sequence[Compared],
    number: words.Figures,
    inks: Sequence[str],
    limits: tuple[float, float],
    found: tuple[str, str, list[plots.Curve]],
) -> dict[str, Any]:
    """One picture with its words, its table, and what a pointer needs to read shares off it."""
    key, title, curves = found
    names = [c.short for c in drawn]
    return {
        "key": key,
        "title": title,
        "svg": plots.density_svg(curves, names, problem.objective, limits),
        "alt": _alt(compared, number, fresh=key == "test"),
        "scaled": plots.scaled(curves),
        "flat": all(curve.flat for curve in curves),
        "rows": figures_table(compared, number, fresh=key == "test", inks=inks),
        "limits": limits,
        "decimals": 0 if number.scientific else number.decimals,
        "below": [
            {"name": name, "shares": " ".join(map(str, plots.shares_below(curve, limits)))}
            for name, curve in zip(names, curves, strict=True)
        ],
    }


def _undrawn(compared: Sequence[Compared], drawn: Sequence[Compared]) -> list[str]:
    """Why a policy has no curve: it is another one's twin, or there are too many."""
    out = []
    for c in compared:
        if c in drawn:
            continue
        twin = next((d.name for d in drawn if c.same_policy(d)), None)
        out.append(
            f"{c.name} has no curve: {len(drawn)} are drawn at most."
            if twin is None
            else f"{c.name} has no curve of its own: it is the same policy as {twin}."
        )
    return out


def _alt(compared: Sequence[Compared], number: words.Figures, *, fresh: bool) -> str:
    """The picture in words."""
    parts = []
    for c in compared:
        z = c.test if fresh else c.train
        assert z is not None  # held-out panels exist only with held-out returns
        parts.append(f"{c.name}: returns from {number(float(z.min()))} to {number(float(z.max()))}")
    return "Density of the return over models. " + "; ".join(parts) + "."


def promises(certificate: Certificate) -> list[str]:
    """The certificate in words, less what the page says elsewhere.

    How it fares against practice came first of all; limits under the posterior and the paper's
    error terms are listed as figures (`under_posterior`).
    """
    under = certificate.posterior
    listed = under is not None and under.upper is not None
    left = replace(certificate, practice=None, indicative=None, posterior=None if listed else under)
    return left.sentences()


def rerun(
    problem: Problem,
    chosen: Compared,
    log: TransitionLog | None,
    posterior: FittedPosterior | None,
    settings: Mapping[str, object] | None,
    suppress: bool = False,
) -> Pairs:
    """What it takes to get the same page again: the command first, where it is known."""
    s, given = chosen.solution, dict(settings or {})
    command = str(given.pop("command", ""))
    if suppress:  # the least count of a pair that is considered can give one away
        command = _LEAST.sub(r"\1 …", command)
    out: Pairs = [("command", command)] if command else []
    out += [
        ("solver", s.solver),
        ("gamma", repr(problem.gamma)),
        ("lambda", repr(problem.objective.lam)),
        ("alpha", repr(problem.objective.alpha)),
        ("models", str(problem.n_models)),
    ]
    out += [(str(key), without_folder(value)) for key, value in given.items()]
    if posterior is not None:
        known = {key: v for key, v in posterior.describe().items() if key != "data_hash"}
        if suppress and 1 < known.get("min_count", 0) < SMALL:
            known["min_count"] = "not shown"
        out += [(key, str(v)) for key, v in known.items() if v is not None]
    if log is not None:
        out.append((HASHED, log.data_hash))
    figures = {key: value for key, value in s.stats.items() if isinstance(value, (int, float, str))}
    out += [(f"solver: {key}", plain(value)) for key, value in figures.items()]
    out += [("softrobust", __version__), ("python", platform.python_version())]
    return out + [(name, package_version(name)) for name in PACKAGES]


def plain(value: object) -> str:
    """A figure of the solver's, shortened where it is a long list."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_STAT else text[: LONGEST_STAT - 1] + "…"


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
