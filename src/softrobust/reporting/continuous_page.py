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
from softrobust.certificate.simulated import figures_on_models, figures_on_posterior
from softrobust.reporting import plots, words
from softrobust.reporting.continuous_plots import (
    band_limits,
    band_svg,
    influence,
    inks_of,
    share_svg,
    where_svg,
)
from softrobust.reporting.figures import ComparedRow, figure_names
from softrobust.reporting.page import Report, render
from softrobust.reporting.sections import PACKAGES, package_version, plain, without_folder
from softrobust.solvers.base import Status

if TYPE_CHECKING:
    from softrobust.certificate.comparison import Comparison
    from softrobust.certificate.simulated import SimulatedCertificate
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.returns.paths import Paths
    from softrobust.returns.simulation import Simulation
    from softrobust.solvers.continuous_base import ContinuousSolution

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
