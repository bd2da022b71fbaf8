"""Pictures of policies for vectors, as inline SVG.

How an episode goes (a band over steps for every variable, shares of the actions below) and where
what is done: simulated states in the plane of the two variables that decisions depend on most. A
scatter of states that occur, and no slice through the others' averages: most corners of a slice are
places that no episode visits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.reporting.svg import (
    LETTER,
    Scale,
    axis_below,
    dot,
    line,
    path,
    picture,
    text,
)

if TYPE_CHECKING:
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.returns.paths import Paths

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
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
    for value, words in y.ticks(4):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, words, "soft", "end"))
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
    for value, words in y.ticks(5):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, words, "soft", "end"))
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
