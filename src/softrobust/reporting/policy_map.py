"""The policy as a map: a column for each state, a row for each action.

The shade of a cell says how often the action was seen there (no shade: never). A filled disc is
what the policy does, a ring what nominal would do, a bar what is usually done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.reporting.svg import LETTER, dot, line, picture, rect, text
from softrobust.reporting.words import percent

if TYPE_CHECKING:
    from softrobust.data.labels import Labels
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem
    from softrobust.reporting.counts import Seen

MOST_STATES, MOST_ACTIONS = 120, 45
FEWEST_STATES = 2
WIDTH, LEAST_WIDTH = 920.0, 160.0
SHADES = (5, 10, 20, 50, 100)  # a cell is one shade stronger from each of these counts on
LONGEST = 22


def policy_map(
    problem: Problem, policy: Policy, nominal: Policy | None, practice: Policy | None,
    seen: Seen | None,
) -> str:  # fmt: skip
    """The map as SVG; empty where there are too many states or actions to see any."""
    index = np.flatnonzero(np.asarray(policy.decided))
    n_actions = problem.n_actions
    if not FEWEST_STATES <= index.size <= MOST_STATES or n_actions > MOST_ACTIONS:
        return ""
    states, actions = problem.models.states, problem.models.actions
    names = [_short(actions[a]) for a in range(n_actions)]
    gutter = 12 + LETTER * max(len(name) for name in names)
    cell = min((WIDTH - gutter) / index.size, 44.0)
    height = min(26.0, max(12.0, 360.0 / n_actions))
    width = gutter + cell * index.size
    every = max(1, int(np.ceil(13 / height)))
    parts = []
    for a in range(n_actions):
        if a % every == 0:
            parts.append(text(gutter - 8, 4 + (a + 0.5) * height + 4, names[a], anchor="end"))
        for i, s in enumerate(index):
            x, y = gutter + i * cell, 4 + a * height
            parts.append(_cell(problem, int(s), a, x, y, cell, height, seen))
    for i, s in enumerate(index):
        x = gutter + (i + 0.5) * cell
        parts += _marks(int(s), x, cell, height, policy, nominal, practice)
    bottom = 4 + n_actions * height
    parts += _below(states, index, gutter, cell, bottom)
    return picture(max(width, gutter + LEAST_WIDTH), bottom + 22, parts, "map")


def _cell(
    problem: Problem, s: int, a: int, x: float, y: float, w: float, h: float, seen: Seen | None
) -> str:
    state, action = problem.models.states[s], problem.models.actions[a]
    allowed = bool(problem.models.available[s, a])
    hover = f"{state}, {action}"
    shade = "n0" if not allowed else "n1"
    if seen is not None:
        hover += f": seen {seen.times(s, a)}"
        rank = seen.rank(s, a)
        if rank > 0 or seen.suppress:
            shade = f"n{1 + sum(rank >= edge for edge in SHADES)}"
        else:
            shade = "n0"
    return rect(x + 0.5, y + 0.5, w - 1, h - 1, f"cell {shade}", hover)


def _marks(
    s: int, x: float, cell: float, height: float, policy: Policy, nominal: Policy | None,
    practice: Policy | None,
) -> list[str]:  # fmt: skip
    r = min(cell, height) * 0.27
    parts = []

    def middle(a: int) -> float:
        return 4 + (a + 0.5) * height

    if practice is not None and practice.decided[s]:
        y = middle(int(practice.decision[s])) + min(cell, height) * 0.42
        parts.append(line(x - cell * 0.3, y, x + cell * 0.3, y, "usual"))
    if nominal is not None:
        parts.append(dot(x, middle(int(nominal.decision[s])), r + 2, "ring"))
    for a in np.flatnonzero(policy.probs[s] > 0):
        p = float(policy.probs[s, a])
        hover = "" if p == 1 else percent(p)
        parts.append(dot(x, middle(int(a)), r * float(np.sqrt(p)), "own", hover))
    return parts


def _below(
    states: Labels, index: NDArray[np.intp], gutter: float, cell: float, y: float
) -> list[str]:
    """Names of states, as many as have room, inside the picture."""
    names = [_short(states[int(s)]) for s in index]
    room = LETTER * max(len(name) for name in names) + 6
    every = max(1, int(np.ceil(room / cell)))
    end = gutter + max(cell * index.size, LEAST_WIDTH)
    parts = []
    for i in range(0, len(names), every):
        half = LETTER * len(names[i]) / 2
        at = max(half, min(gutter + (i + 0.5) * cell, end - half))
        parts.append(text(at, y + 16, names[i], anchor="middle"))
    return parts


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
