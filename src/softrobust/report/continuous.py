"""The page for continuous states: the sections that apply, and two of its own.

It is the page of `page` with other contents: what is shown there exactly is simulated here, the
table of states is a picture of where what is done, and reasons are the course that episodes take.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.notes import Note, read_notes
from softrobust.certificate import PRACTICE, Sample, sample_of
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.models.continuous_policy import ContinuousPolicy
from softrobust.models.policy import Policy
from softrobust.problem import ContinuousProblem
from softrobust.report import plots, words
from softrobust.report.counts import Seen
from softrobust.report.pictures import coverage_svg, gain_svg, padded
from softrobust.report.policy import changes, picture_changes, to_do
from softrobust.report.sections import Row, asked, figure_names, panel, read, rerun
from softrobust.report.sentences import TEXTS, in_words, sorted_notes, speaks_against
from softrobust.report.svg import LETTER, Scale, dot, grid, path, picture, text
from softrobust.report.verdict import certificate_sentences, opening
from softrobust.returns import Paths
from softrobust.returns.simulation import less
from softrobust.study.compare import Reading
from softrobust.study.review import VectorReview

MOST_COURSES = 8
FIGURES = ("objective", "mean", "cvar")
Bands = tuple[Policy, Policy, IntArray]


def vector_context(
    found: VectorReview,
    notes: Iterable[Note | str],
    cautions: Iterable[Note | str],
    settings: Mapping[str, object],
) -> dict[str, Any]:
    """What the template needs."""
    problem = found.problem
    number = words.Figures.of([found.own.x, *(rival.x for rival in found.rivals.values())][:2])
    given = [*read_notes(cautions), *read_notes(notes)]
    _, assumed, promise = sorted_notes(given)
    n_fresh = None if found.fresh is None else found.fresh.f.size
    by_band, coverage = None if found.log is None else bands(found.log, found.solution.policy), ""
    if by_band is not None:
        own, practice, counts = by_band
        usual = np.asarray(practice.decision, np.int64)
        names = list(own.states), list(own.actions)
        coverage = coverage_svg(*names, Seen(counts), counts > 0, own.probs, usual=usual)
    return {
        "words": words.bad_case(problem.objective),
        "suppressed": False,
        "hint": "",
        "answer": _answer(found, number, by_band) | {"against": speaks_against(given)},
        "asked": asked(problem, found.solution, _size(found, given), n_fresh),
        "notes": in_words(assumed),
        "returns": _returns(found, number),
        "policy": _policy(problem, found.solution.policy, next(iter(found.paths.values())))
        | {"map": coverage},
        "why": _course(problem, found.paths),
        "certificate": [*certificate_sentences(found.certificate), *in_words(promise)],
        "rerun": rerun(problem, found.solution, found.log, None, settings),
    }


def _answer(found: VectorReview, number: words.Figures, by_band: Bands | None) -> dict[str, Any]:
    c, goal, rivals = found.certificate, found.problem.objective, found.rivals
    own = c.sample if c.heldout is None else c.heldout
    others = {
        name: sample_of(rival, goal, given=False)
        for name, rival in rivals.items()
        if len(rivals) == 1 or c.practice is None or name == PRACTICE
    }
    names = {"mean": "on average", "cvar": f"in {words.bad_case(goal)}"}
    tiles = [
        {
            "name": name,
            "value": number(getattr(own, key).value),
            "beside": [f"{other} {number(getattr(s, key).value)}" for other, s in others.items()],
        }
        for key, name in list(names.items())[: 2 if goal.tail < 1 and own.n_models > 1 else 1]
    ]
    lead = opening(c, found.solution.solver, found.problem, number)
    gain, usual = "", rivals.get(PRACTICE)
    if usual is not None:
        more = less(found.own.itself, usual.itself)
        gain = gain_svg(more.x, more.f, goal)
    earned = TEXTS["page"]["earned_alike" if found.problem.gamma == 1 else "earned"]
    told = {
        "lead": lead, "more": ["All of these figures are simulated."], "tiles": tiles,
        "earned": earned,
    }  # fmt: skip
    do, strip = None, ""
    if by_band is not None:
        rows, rest = changes(*by_band[:2], most=N_BANDS)
        do = {"title": to_do(c, found.problem), "rows": [r[:2] for r in rows], "rest": rest}
        do |= {"rules": ()}
        strip = picture_changes(*by_band[:2])
    return told | {"do": do, "strip": strip, "gain": gain}


N_BANDS, MOST_BANDED = 6, 5000


def bands(log: ContinuousLog, policy: ContinuousPolicy) -> Bands:
    """Policy and practice as tables, with their counts (bands × actions).

    A band is a range of the measurement that decisions depend on most; bands have alike many rows.
    """
    s = log.s[:: -(-len(log) // MOST_BANDED)]
    j = int(np.argmax(influence(policy, s)))
    edges = np.unique(np.quantile(s[:, j], np.arange(1, N_BANDS) / N_BANDS))
    edges = edges[(edges > s[:, j].min()) & (edges <= s[:, j].max())]
    digits = 3  # as many as tell the edges apart
    while digits < 12 and len({f"{e:.{digits}g}" for e in edges}) < edges.size:
        digits += 1
    ends, name = [f"{e:.{digits}g}" for e in edges], words.label(log.variables[j])
    names = [f"{name} {low} to {high}" for low, high in pairwise(ends)]
    names = [f"{name} < {ends[0]}", *names, f"{name} ≥ {ends[-1]}"] if ends else [f"any {name}"]
    n, n_actions = len(names), len(log.actions)
    counts = np.zeros((n, n_actions), np.int64)
    np.add.at(counts, (np.searchsorted(edges, log.s[:, j], "right"), log.a), 1)
    place, probs = np.searchsorted(edges, s[:, j], "right"), policy.probs(s)
    own = np.array([probs[place == b].mean(axis=0) for b in range(n)])
    own = np.where(own < 5e-3, 0.0, own)  # a rare draw is no advice
    made = [
        Policy(x / x.sum(axis=1, keepdims=True), Labels.of(names, "band"), log.actions)
        for x in (own, counts)
    ]
    return made[0], made[1], counts


def _size(found: VectorReview, notes: Iterable[Note]) -> list[tuple[str, str]]:
    problem = found.problem
    rows = [] if found.log is None else [("Data", words.rows_and_dates(found.log, notes))]
    return [
        *rows,
        ("Measured", ", ".join(words.label(v) for v in problem.variables)),
        ("Actions", ", ".join(words.label(a) for a in problem.actions)),
        ("Episode", words.count(problem.horizon, "step")),
    ]


def _returns(found: VectorReview, number: words.Figures) -> dict[str, Any]:
    """Densities of the models' average returns, and the figures with their intervals."""
    goal, own, given = found.problem.objective, found.own, found.fresh is None
    title = f"On {words.count(own.f.size, 'held-out model')}"
    if given:
        title = f"On the {words.count(own.f.size, 'model')} it was chosen on"
    every = {found.solution.solver: own, **found.rivals}
    names = list(every)[: plots.MOST_CURVES]
    curves = [plots.Curve(every[name].x, every[name].f) for name in names]
    limits = plots.shared_axis([[curve] for curve in curves])
    samples = {name: sample_of(x, goal, given=given) for name, x in every.items()}
    shown = panel("test", title, curves, names, goal, limits, number) | {
        "rows": [_row(i, name, sample, number) for i, (name, sample) in enumerate(samples.items())]
    }
    return {
        "panels": [shown],
        "heads": [head for head in figure_names(goal) if not head[0].startswith("VaR")],
        "tail": 0 < goal.tail < 1 and not curves[0].flat,
        "measure": words.measure(goal),
        "readings": read(_readings(found)),
    }


def _readings(found: VectorReview) -> list[Reading]:
    """Return and gain of the policy and of practice; the optimum of a model is not known."""
    every = {found.solution.solver: found.own}
    every |= {name: x for name, x in found.rivals.items() if name == PRACTICE}
    goal, given, out = found.problem.objective, found.fresh is None, []
    usual = found.rivals.get(PRACTICE)
    for i, (name, own) in enumerate(every.items()):
        kinds = {"return": own.itself}
        kinds |= {} if usual is None else {"gain": less(own.itself, usual.itself)}
        for of, x in kinds.items():
            s = sample_of(x, goal, given=given)
            out.append(Reading(name, i == 0, of, s.mean.value, s.cvar.value))
    return out


def _row(i: int, name: str, sample: Sample, number: words.Figures) -> Row:
    figures = [getattr(sample, key) for key in FIGURES]
    cells = tuple((number(e.value), number.interval(e)) for e in figures)
    ink = f"k{i + 1}" if i < plots.MOST_CURVES else ""
    return {"name": name, "chosen": i == 0, "ink": ink, "cells": cells}


def _policy(problem: ContinuousProblem, policy: ContinuousPolicy, paths: Paths) -> dict[str, Any]:
    """Where what is done."""
    names = list(problem.variables)
    weight = influence(policy, paths.states)
    order = [int(j) for j in np.argsort(-weight, kind="stable")]
    shares = np.bincount(paths.actions, minlength=problem.n_actions) / paths.actions.size
    inks = inks_of(shares)
    pair = (order[0], order[1] if len(order) > 1 else order[0])
    ranked = [int(a) for a in np.argsort(-shares, kind="stable")]
    mixed = float((policy.probs(paths.states).max(axis=1) < 1 - 1e-9).mean())
    return {
        "svg": where_svg(paths.states, paths.actions, pair, names, inks),
        "pair": [names[j] for j in dict.fromkeys(pair)],
        "legend": [(inks[a], problem.actions[a], words.percent(float(shares[a]))) for a in ranked],
        "mixed": words.percent(mixed) if mixed > 0 else "",
        "influence": [(names[j], words.percent(float(weight[j]))) for j in order],
        "n": paths.actions.size,
    }


def _course(problem: ContinuousProblem, paths: Mapping[str, Paths]) -> dict[str, Any]:
    """How episodes go: every variable, and how often each action is taken."""
    shown, names = list(paths.values())[: plots.MOST_CURVES], list(paths)[: plots.MOST_CURVES]
    figures = []
    actions = range(problem.n_actions) if problem.n_actions > 2 else (1,)
    for a in list(actions)[-MOST_COURSES:] if problem.n_actions > 1 else ():
        title = f"How often ‘{problem.actions[a]}’ is chosen, in %"
        curves = [100 * p.shares[:, a] for p in shown]
        figures.append({"title": title, "svg": _course_svg(title, curves, (0.0, 100.0))})
    for j in range(min(problem.n_variables, MOST_COURSES)):
        bands, title = [p.bands[:, j] for p in shown], problem.variables[j]
        limits = padded([float(end) for x in bands for end in (x.min(), x.max())], 0.05)
        # The middle of episodes, and for the first policy 10 to 90 %.
        svg = _course_svg(title, [x[:, 1] for x in bands], limits, (bands[0][:, 0], bands[0][:, 2]))
        figures.append({"title": title, "svg": svg})
    left = max(problem.n_variables - MOST_COURSES, 0)
    return {
        "figures": figures,
        "legend": [(f"k{i + 1}", name) for i, name in enumerate(names)],
        "left": words.count(left, "variable") if left else "",
    }


# --------------------------------------------------------------------------------------------------
# Pictures of policies for vectors, as inline SVG.
#
# How an episode goes (a band over steps for every variable, shares of the actions below) and where
# what is done: simulated states in the plane of the two variables that decisions depend on most. A
# scatter of states that occur, and no slice through the others' averages: most corners of a slice
# are places that no episode visits.

HEIGHT = 130.0
WIDTH, LEFT, RIGHT, TOP = plots.WIDTH, 52.0, 8.0, 10.0
MOST_INKS = 4
LONGEST = int(WIDTH / 2 / LETTER)


def _course_svg(
    title: str, curves: Sequence[FloatArray], limits: tuple[float, float],
    band: tuple[FloatArray, FloatArray] | None = None,
) -> str:  # fmt: skip
    """A curve for each policy over the steps, the first on top, with a band around it."""
    x = Scale(0, max(curves[0].size - 1, 1), LEFT, WIDTH - RIGHT)
    y = Scale(*limits, HEIGHT, TOP)
    parts = grid(x, y, 4)
    if band is not None:
        low, high = ([(x(t), y(float(v))) for t, v in enumerate(side)] for side in band)
        parts.append(path([*high, *reversed(low)], "tail", close=True))
    for i, curve in reversed(list(enumerate(curves))):
        points = [(x(t), y(float(v))) for t, v in enumerate(curve)]
        parts.append(path(points, f"curve k{i + 1}"))
    return picture(WIDTH, HEIGHT + 24, parts, "course", f"{title}, step by step")


def influence(policy: ContinuousPolicy, states: FloatArray, seed: int = 0) -> FloatArray:
    """(n_variables,) how many decisions change if a variable is read from another state.

    Half the sum of absolute changes of probabilities, averaged over states: 0 where a variable
    does not matter, at most 1.
    """
    base = policy.probs(states)
    order = np.random.default_rng(seed).permutation(states.shape[0])
    out = np.zeros(states.shape[1])
    for j in range(states.shape[1]):
        other = states.copy()
        other[:, j] = states[order, j]
        out[j] = 0.5 * float(np.abs(policy.probs(other) - base).sum(axis=1).mean())
    return out


def where_svg(
    states: FloatArray, actions: IntArray, pair: tuple[int, int], variables: Sequence[str],
    inks: dict[int, str],
) -> str:  # fmt: skip
    """States that occur, in the plane of two variables; the ink is what is done there."""
    i, j = pair
    height = 220.0
    x = Scale(*_range(states[:, i]), LEFT, WIDTH - RIGHT)
    y = Scale(*_range(states[:, j]), height, 24.0)
    parts = [*grid(x, y, 5), text(4, 12, words.shorten(variables[j], LONGEST), "soft")]
    for s, a in zip(states, actions, strict=True):
        if x.low <= s[i] <= x.high and y.low <= s[j] <= y.high:
            parts.append(dot(x(float(s[i])), y(float(s[j])), 2.6, f"seen {inks[int(a)]}"))
    parts.append(text(x.end, height + 36, words.shorten(variables[i], LONGEST), "soft", "end"))
    title = f"What is done, by {variables[i]} and {variables[j]}"
    about = "Simulated states; the ink of a point is the action."
    return picture(WIDTH, height + 42, parts, "where", title, about)


def _range(values: FloatArray) -> tuple[float, float]:
    """The central 98 %, widened a little: a stray state must not press the rest together."""
    return padded([float(v) for v in np.quantile(values, [0.01, 0.99])], 0.05)


def inks_of(shares: FloatArray) -> dict[int, str]:
    """An ink for each action: the three most frequent have their own, or four if that is all."""
    order = [int(a) for a in np.argsort(-shares, kind="stable")]
    own = len(order) if len(order) <= MOST_INKS else MOST_INKS - 1
    return {a: f"k{min(rank, own) + 1}" for rank, a in enumerate(order)}
