"""The page for continuous states: the sections that apply, and two of its own.

It is the page of `page` with other contents: what is shown there exactly is simulated here, the
table of states is a picture of where what is done, and reasons are the course that episodes take.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust import __version__
from softrobust._core.arrays import FloatArray, IntArray
from softrobust.certificate.simulated import figures_on_models, figures_on_posterior
from softrobust.report import plots, words
from softrobust.report.page import Report, render
from softrobust.report.sections import (
    PACKAGES,
    ComparedRow,
    figure_names,
    package_version,
    plain,
    without_folder,
)
from softrobust.report.svg import LETTER, Scale, axis_below, dot, line, path, picture, text
from softrobust.solvers.base import Status

if TYPE_CHECKING:
    from softrobust.certificate.comparison import Comparison
    from softrobust.certificate.simulated import SimulatedCertificate
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.returns.simulation import Paths, Simulation
    from softrobust.solvers.continuous.base import ContinuousSolution


MOST_COURSES = 8
CONTENTS = (
    ("asked", "What was asked"),
    ("returns", "How good, how bad"),
    ("policy", "What to do"),
    ("why", "How it goes"),
    ("certificate", "What can be promised"),
    ("rerun", "To rerun it"),
)


def continuous_report(
    problem: ContinuousProblem,
    solution: ContinuousSolution,
    certificate: SimulatedCertificate,
    train: Simulation,
    fresh: Simulation | None,
    rivals: Mapping[str, Simulation],
    paths: Mapping[str, Paths],
    practice: Comparison | None = None,
    more: Sequence[str] = (),
    notes: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    cautions: Sequence[str] = (),
    title: str | None = None,
    n_rows: int | None = None,
) -> Report:
    """Write what was found for continuous states as one HTML page.

    Parameters
    ----------
    train, fresh : Simulation
        Of the policy, on the problem's models and on held-out ones.
    rivals : mapping name → Simulation
        Other policies on the held-out models, or on the problem's where there are none.
    paths : mapping name → Paths
        How episodes go, under the policy first.
    practice : Comparison, optional
        Against current practice: the first sentence.
    more : sequence of str
        Further sentences of the certificate.
    cautions : sequence of str
        What may make every figure wrong: said right under the answer.
    n_rows : int, optional
        Transitions of the log.
    """
    own = train if fresh is None else fresh
    number = words.Figures.of([own.means, *(s.means for s in rivals.values())][:2])
    context: dict[str, Any] = {
        "title": title or "Which policy, and how sure",
        "words": problem.objective.words,
        "margin": plots.MARGIN,
        "suppressed": False,
        "hint": "",
        "answer": _answer(problem, certificate, own, rivals, practice, number)
        | {"cautions": list(cautions)},
        "asked": _asked(problem, solution, fresh, n_rows),
        "notes": list(dict.fromkeys(notes)),
        "returns": _returns(problem, solution, train, fresh, rivals, number),
        "policy": _policy(problem, solution, next(iter(paths.values()))),
        "why": _course(problem, paths),
        "certificate": [*certificate.sentences(), *more],
        "rerun": _rerun(problem, solution, settings),
        "contents": CONTENTS,
    }
    return Report(render("continuous.html.j2", context))


def _answer(
    problem: ContinuousProblem,
    certificate: SimulatedCertificate,
    own: Simulation,
    rivals: Mapping[str, Simulation],
    practice: Comparison | None,
    number: words.Figures,
) -> dict[str, Any]:
    goal = problem.objective
    found = certificate.train if certificate.heldout is None else certificate.heldout
    others = {
        name: figures_on_posterior(sim, goal)
        for name, sim in rivals.items()
        if len(rivals) == 1 or practice is None or name == practice.rival
    }
    fair = "held-out models" if certificate.heldout is not None else "models it was chosen on"
    earns = (
        f"This policy earns {number(found.mean.value)} on average over {found.n_models} {fair}, "
        f"and {number(found.cvar.value)} in {goal.words}."
    )
    tiles = [
        ("on average", "mean"),
        (f"in {goal.words}", "cvar"),
        ("by the objective", "objective"),
    ]
    shown = [
        {
            "name": name,
            "value": number(getattr(found, key).value),
            "beside": [f"{other} {number(getattr(f, key).value)}" for other, f in others.items()],
        }
        for name, key in tiles[: 3 if goal.tail < 1 and problem.n_models > 1 else 1]
    ]
    lead, rest = (earns, []) if practice is None else (practice.sentence(), [earns])
    rest.append("All of these figures are simulated; their noise is told apart below.")
    return {"lead": lead, "more": rest, "tiles": shown}


def _asked(
    problem: ContinuousProblem,
    solution: ContinuousSolution,
    fresh: Simulation | None,
    n_rows: int | None,
) -> list[tuple[str, str]]:
    goal = problem.objective
    models = f"{problem.n_models:,} to choose on"
    if fresh is not None:
        models += f", {fresh.f.size:,} held out to check on"
    data = [] if n_rows is None else [("Data", words.count(n_rows, "observed transition"))]
    status = words.STATUS[solution.status]
    if solution.status == Status.ITERATION_LIMIT:  # the last policy, not the best of several
        status = "stopped at its number of iterations"
    return [
        *data,
        ("Measured", ", ".join(words.label(v) for v in problem.variables)),
        ("Actions", ", ".join(words.label(a) for a in problem.actions)),
        ("Episode", words.count(problem.horizon, "step")),
        ("Discount γ", words.discount_words(problem.gamma)),
        ("Caution λ", words.weight_words(goal)),
        ("Bad case α", words.tail_words(goal)),
        ("Models", models),
        ("Solver", f"{solution.solver}: {status}"),
    ]


def _returns(
    problem: ContinuousProblem,
    solution: ContinuousSolution,
    train: Simulation,
    fresh: Simulation | None,
    rivals: Mapping[str, Simulation],
    number: words.Figures,
) -> dict[str, Any]:
    """Densities of the models' average returns, and the figures with their intervals."""
    own = train if fresh is None else fresh
    title = f"On {words.count(own.f.size, 'held-out model')}"
    if fresh is None:
        title = f"On the {words.count(own.f.size, 'model')} it was chosen on"
    sims = {solution.solver: own, **rivals}
    drawn = list(sims.items())[: plots.MOST_CURVES]
    curves = [plots.Curve(s.means, s.f) for _, s in drawn]
    limits = plots.shared_axis([[curve] for curve in curves])
    names = [name for name, _ in drawn]
    panel = {
        "key": "test",
        "title": title,
        "svg": plots.density_svg(curves, names, problem.objective, limits),
        "alt": "Density of the simulated average return over models, for each policy.",
        "scaled": plots.scaled(curves),
        "flat": all(curve.flat for curve in curves),
        "rows": _rows(problem, sims, fresh is None, number),
        "limits": limits,
        "decimals": 0 if number.scientific else number.decimals,
        "below": [
            {"name": name, "shares": " ".join(map(str, plots.shares_below(curve, limits)))}
            for name, curve in zip(names, curves, strict=True)
        ],
    }
    heads = [head for head in figure_names(problem.objective) if not head[0].startswith("VaR")]
    return {
        "panels": [panel],
        "heads": heads,
        "undrawn": [f"{name} has no curve: {len(drawn)} are drawn." for name in sims
                    if name not in names],
        "tail": 0 < problem.objective.tail < 1 and not curves[0].flat,
    }  # fmt: skip


def _rows(
    problem: ContinuousProblem, sims: Mapping[str, Simulation], given: bool, number: words.Figures
) -> list[ComparedRow]:
    made = figures_on_models if given else figures_on_posterior
    rows = []
    for i, (name, sim) in enumerate(sims.items()):
        found = made(sim, problem.objective)
        cells = []
        for key in ("objective", "mean", "cvar"):
            figure = getattr(found, key)
            between = (
                () if figure.low is None else (f"{number(figure.low)} to", number(figure.high))
            )
            cells.append((number(figure.value), between))
        ink = f"k{i + 1}" if i < plots.MOST_CURVES else ""
        rows.append(ComparedRow(name, i == 0, ink, tuple(cells)))
    return rows


def _policy(
    problem: ContinuousProblem, solution: ContinuousSolution, paths: Paths
) -> dict[str, Any]:
    """Where what is done."""
    policy, names = solution.policy, list(problem.variables)
    weight = influence(policy, paths.states)
    order = [int(j) for j in np.argsort(-weight, kind="stable")]
    shares = np.bincount(paths.actions, minlength=problem.n_actions) / paths.actions.size
    inks = inks_of(shares)
    pair = (order[0], order[1] if len(order) > 1 else order[0])
    ranked = [int(a) for a in np.argsort(-shares, kind="stable")]
    legend = [(inks[a], problem.actions[a], words.percent(float(shares[a]))) for a in ranked]
    mixed = float((policy.probs(paths.states).max(axis=1) < 1 - 1e-9).mean())
    return {
        "svg": where_svg(paths.states, paths.actions, pair, names, inks),
        "alt": f"Simulated states by {names[pair[0]]} and {names[pair[1]]}; the ink is the action.",
        "pair": [names[j] for j in dict.fromkeys(pair)],
        "legend": legend,
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
        figures.append({"title": title, "svg": share_svg(shown, a)})
    for j in range(min(problem.n_variables, MOST_COURSES)):
        limits = band_limits(shown, j)
        figures.append({"title": problem.variables[j], "svg": band_svg(shown, j, limits)})
    left = max(problem.n_variables - MOST_COURSES, 0)
    return {
        "figures": figures,
        "legend": [(f"k{i + 1}", name) for i, name in enumerate(names)],
        "left": words.count(left, "variable") if left else "",
    }


def _rerun(
    problem: ContinuousProblem, solution: ContinuousSolution, settings: Mapping[str, object] | None
) -> list[tuple[str, str]]:
    out = [
        ("solver", solution.solver),
        ("gamma", repr(problem.gamma)),
        ("horizon", str(problem.horizon)),
        ("lambda", repr(problem.objective.lam)),
        ("alpha", repr(problem.objective.alpha)),
        ("models", str(problem.n_models)),
    ]
    out += [(str(key), without_folder(value)) for key, value in (settings or {}).items()]
    out += [(f"solver: {key}", plain(value)) for key, value in solution.stats.items()]
    out += [("softrobust", __version__), ("python", platform.python_version())]
    return out + [(name, package_version(name)) for name in PACKAGES]


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
