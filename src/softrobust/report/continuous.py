"""The page for continuous states: the sections that apply, and two of its own.

It is the page of `page` with other contents: what is shown there exactly is simulated here, the
table of states is a picture of where what is done, and reasons are the course that episodes take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.notes import Note, read_notes
from softrobust.certificate import PRACTICE, Sample, sample_of
from softrobust.report import plots, words
from softrobust.report.sections import (
    HASHED,
    ComparedRow,
    figure_names,
    panel,
    plain,
    versions,
    without_folder,
)
from softrobust.report.sentences import in_words, sorted_notes
from softrobust.report.svg import LETTER, Scale, axis_below, dot, line, path, picture, text
from softrobust.report.verdict import certificate_sentences, comparison_sentence
from softrobust.report.words import Figures, bad_case, count, percent
from softrobust.solvers.base import Status

if TYPE_CHECKING:
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.problem import ContinuousProblem
    from softrobust.returns import Paths
    from softrobust.study.rivals import VectorReview

MOST_COURSES = 8
FIGURES = ("objective", "mean", "cvar")
CONTENTS = (
    ("asked", "What was asked"),
    ("returns", "How good, how bad"),
    ("policy", "What to do"),
    ("why", "How it goes"),
    ("certificate", "What can be promised"),
    ("rerun", "To rerun it"),
)


def vector_context(
    found: VectorReview,
    notes: Iterable[Note | str],
    cautions: Iterable[Note | str],
    settings: Mapping[str, object],
) -> dict[str, Any]:
    """What the template needs."""
    problem = found.problem
    number = Figures.of([found.own.x, *(rival.x for rival in found.rivals.values())][:2])
    _, assumed, promise = sorted_notes(read_notes(notes))
    return {
        "words": bad_case(problem.objective),
        "margin": plots.MARGIN,
        "suppressed": False,
        "hint": "",
        "answer": _answer(found, number) | {"cautions": in_words(cautions)},
        "asked": _asked(found),
        "notes": in_words(assumed),
        "returns": _returns(found, number),
        "policy": _policy(problem, found.solution.policy, next(iter(found.paths.values()))),
        "why": _course(problem, found.paths),
        "certificate": [*certificate_sentences(found.certificate, brief=True), *in_words(promise)],
        "rerun": _rerun(found, settings),
        "contents": CONTENTS,
    }


def _answer(found: VectorReview, number: Figures) -> dict[str, Any]:
    c, goal, rivals = found.certificate, found.problem.objective, found.rivals
    own = c.sample if c.heldout is None else c.heldout
    others = {
        name: sample_of(rival, goal, given=False)
        for name, rival in rivals.items()
        if len(rivals) == 1 or c.practice is None or name == PRACTICE
    }
    fair = "models it was chosen on" if c.heldout is None else "held-out models"
    earns = (
        f"This policy earns {number(own.mean.value)} on average over {own.n_models:,} {fair}, and "
        f"{number(own.cvar.value)} in {bad_case(goal)}."
    )
    names = {"mean": "on average", "cvar": f"in {bad_case(goal)}", "objective": "by the objective"}
    tiles = [
        {
            "name": name,
            "value": number(getattr(own, key).value),
            "beside": [f"{other} {number(getattr(s, key).value)}" for other, s in others.items()],
        }
        for key, name in list(names.items())[: 3 if goal.tail < 1 and own.n_models > 1 else 1]
    ]
    lead, more = (earns, []) if c.practice is None else (comparison_sentence(c.practice), [earns])
    more.append("All of these figures are simulated; their noise is told apart below.")
    return {"lead": lead, "more": more, "tiles": tiles}


def _asked(found: VectorReview) -> list[tuple[str, str]]:
    problem, solution, fresh = found.problem, found.solution, found.fresh
    models = f"{problem.n_models:,} to choose on"
    if fresh is not None:
        models += f", {fresh.f.size:,} held out to check on"
    status = words.STATUS[solution.status]
    if solution.status == Status.ITERATION_LIMIT:  # the last policy, not the best of several
        status = "stopped at its number of iterations"
    rows = [] if found.log is None else [("Data", count(len(found.log), "observed transition"))]
    return [
        *rows,
        ("Measured", ", ".join(words.label(v) for v in problem.variables)),
        ("Actions", ", ".join(words.label(a) for a in problem.actions)),
        ("Episode", count(problem.horizon, "step")),
        ("Discount γ", words.discount_words(problem.gamma)),
        ("Caution λ", words.weight_words(problem.objective)),
        ("Bad case α", words.tail_words(problem.objective)),
        ("Models", models),
        ("Solver", f"{solution.solver}: {status}"),
    ]


def _returns(found: VectorReview, number: Figures) -> dict[str, Any]:
    """Densities of the models' average returns, and the figures with their intervals."""
    goal, own, given = found.problem.objective, found.own, found.fresh is None
    title = f"On {count(own.f.size, 'held-out model')}"
    if given:
        title = f"On the {count(own.f.size, 'model')} it was chosen on"
    every = {found.solution.solver: own, **found.rivals}
    names = list(every)[: plots.MOST_CURVES]
    curves = [plots.Curve(every[name].x, every[name].f) for name in names]
    limits = plots.shared_axis([[curve] for curve in curves])
    samples = {name: sample_of(x, goal, given=given) for name, x in every.items()}
    shown = panel("test", title, curves, names, goal, limits, number) | {
        "alt": "Density of the simulated average return over models, for each policy.",
        "rows": [_row(i, name, sample, number) for i, (name, sample) in enumerate(samples.items())],
    }
    return {
        "panels": [shown],
        "heads": [head for head in figure_names(goal) if not head[0].startswith("VaR")],
        "undrawn": [
            f"{name} has no curve: {len(names)} are drawn." for name in every if name not in names
        ],
        "tail": 0 < goal.tail < 1 and not curves[0].flat,
    }


def _row(i: int, name: str, sample: Sample, number: Figures) -> ComparedRow:
    figures = [getattr(sample, key) for key in FIGURES]
    cells = tuple((number(e.value), number.interval(e)) for e in figures)
    return ComparedRow(name, i == 0, f"k{i + 1}" if i < plots.MOST_CURVES else "", cells)


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
        "alt": f"Simulated states by {names[pair[0]]} and {names[pair[1]]}; the ink is the action.",
        "pair": [names[j] for j in dict.fromkeys(pair)],
        "legend": [(inks[a], problem.actions[a], percent(float(shares[a]))) for a in ranked],
        "mixed": percent(mixed) if mixed > 0 else "",
        "influence": [(names[j], percent(float(weight[j]))) for j in order],
        "n": paths.actions.size,
    }


def _course(problem: ContinuousProblem, paths: Mapping[str, Paths]) -> dict[str, Any]:
    """How episodes go: every variable, and how often each action is taken."""
    shown, names = list(paths.values())[: plots.MOST_CURVES], list(paths)[: plots.MOST_CURVES]
    figures = []
    actions = range(problem.n_actions) if problem.n_actions > 2 else (1,)
    for a in list(actions)[-MOST_COURSES:] if problem.n_actions > 1 else ():
        title = f"How often ‘{problem.actions[a]}’ is chosen, in %"
        figures.append({"title": title, "svg": share_svg(shown, a)})
    for j in range(min(problem.n_variables, MOST_COURSES)):
        limits = band_limits(shown, j)
        figures.append({"title": problem.variables[j], "svg": band_svg(shown, j, limits)})
    left = max(problem.n_variables - MOST_COURSES, 0)
    return {
        "figures": figures,
        "legend": [(f"k{i + 1}", name) for i, name in enumerate(names)],
        "left": count(left, "variable") if left else "",
    }


def _rerun(found: VectorReview, settings: Mapping[str, object]) -> list[tuple[str, str]]:
    problem, s = found.problem, found.solution
    out = [(str(key), without_folder(value)) for key, value in settings.items()]
    out += [
        ("solver", s.solver),
        ("gamma", repr(problem.gamma)),
        ("horizon", str(problem.horizon)),
        ("lambda", repr(problem.objective.lam)),
        ("alpha", repr(problem.objective.alpha)),
        ("models", str(problem.n_models)),
    ]
    if found.log is not None:
        out.append((HASHED, found.log.data_hash))
    return out + [(f"solver: {key}", plain(value)) for key, value in s.stats.items()] + versions()


# --------------------------------------------------------------------------------------------------
# Pictures of policies for vectors, as inline SVG.
#
# How an episode goes (a band over steps for every variable, shares of the actions below) and where
# what is done: simulated states in the plane of the two variables that decisions depend on most. A
# scatter of states that occur, and no slice through the others' averages: most corners of a slice
# are places that no episode visits.

WIDTH, HEIGHT = 460.0, 150.0
LEFT, RIGHT, TOP = 52.0, 8.0, 10.0
MOST_INKS = 4


def band_svg(paths: Sequence[Paths], j: int, limits: tuple[float, float]) -> str:
    """Variable j over the steps: the middle of episodes, and for the first policy 10 to 90 %."""
    T = paths[0].bands.shape[0]
    x, y = _frame(T, limits)
    parts = _grid(x, y)
    low, high = paths[0].bands[:, j, 0], paths[0].bands[:, j, 2]
    around = [(x(t), y(float(v))) for t, v in enumerate(high)]
    around += [(x(t), y(float(low[t]))) for t in reversed(range(T))]
    parts.append(path(around, "tail", close=True))
    for i, p in reversed(list(enumerate(paths))):
        points = [(x(t), y(float(v))) for t, v in enumerate(p.bands[:, j, 1])]
        parts.append(path(points, f"curve k{i + 1}"))
    return picture(WIDTH, HEIGHT + 24, parts, "course")


def share_svg(paths: Sequence[Paths], a: int) -> str:
    """How often action a is taken at each step."""
    T = paths[0].shares.shape[0]
    x, y = _frame(T, (0.0, 100.0))
    parts = _grid(x, y)
    for i, p in reversed(list(enumerate(paths))):
        points = [(x(t), y(100 * float(v))) for t, v in enumerate(p.shares[:, a])]
        parts.append(path(points, f"curve k{i + 1}"))
    return picture(WIDTH, HEIGHT + 24, parts, "course")


def _frame(T: int, limits: tuple[float, float]) -> tuple[Scale, Scale]:
    return Scale(0, max(T - 1, 1), LEFT, WIDTH - RIGHT), Scale(limits[0], limits[1], HEIGHT, TOP)


def _grid(x: Scale, y: Scale) -> list[str]:
    parts = []
    for value, label in y.ticks(4):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, label, "soft", "end"))
    return parts + axis_below(x, HEIGHT, 6)


def band_limits(paths: Sequence[Paths], j: int) -> tuple[float, float]:
    """An axis for variable j, never empty."""
    low = min(float(p.bands[:, j].min()) for p in paths)
    high = max(float(p.bands[:, j].max()) for p in paths)
    pad = 0.05 * (high - low) or 0.1 * max(abs(high), 1.0)
    return low - pad, high + pad


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
    height = 260.0
    x = Scale(*_range(states[:, i]), LEFT, WIDTH - RIGHT)
    y = Scale(*_range(states[:, j]), height, 24.0)
    parts = []
    for value, label in y.ticks(5):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, label, "soft", "end"))
    parts.append(text(4, 12, _short(variables[j]), "soft"))
    for s, a in zip(states, actions, strict=True):
        inside = x.low <= s[i] <= x.high and y.low <= s[j] <= y.high
        if inside:
            parts.append(dot(x(float(s[i])), y(float(s[j])), 2.6, f"seen {inks[int(a)]}"))
    parts += axis_below(x, height, 6)
    parts.append(text(x.end, height + 36, _short(variables[i]), "soft", "end"))
    return picture(WIDTH, height + 42, parts, "where")


def _range(values: FloatArray) -> tuple[float, float]:
    """The central 98 %, widened a little: a stray state must not press the rest together."""
    low, high = (float(v) for v in np.quantile(values, [0.01, 0.99]))
    pad = 0.05 * (high - low) or 0.1 * max(abs(high), 1.0)
    return low - pad, high + pad


def _short(name: str) -> str:
    most = int(WIDTH / 2 / LETTER)
    return name if len(name) <= most else name[: most - 1] + "…"


def inks_of(shares: FloatArray) -> dict[int, str]:
    """An ink for each action: the three most frequent have their own, or four if that is all."""
    order = [int(a) for a in np.argsort(-shares, kind="stable")]
    own = len(order) if len(order) <= MOST_INKS else MOST_INKS - 1
    return {a: f"k{min(rank, own) + 1}" for rank, a in enumerate(order)}
