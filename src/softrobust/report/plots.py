"""Densities of the return over models, as inline SVG.

The density of returns z_ω with weights f_ω is a Gaussian kernel estimate with Silverman's width,
n_eff = 1/Σf². Below the curves each policy has a lane with its mean, VaR and CVaR and its name, so
that marks never hide one another and no legend is needed; the tail that CVaR averages is filled for
the chosen policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.objective import Objective
from softrobust.report import svg
from softrobust.report.words import measure, shorten

MOST_CURVES = 4  # chosen, nominal, practice and one more: beyond that a picture is a tangle
WIDTH, MARGIN = 360.0, 8.0  # units: a panel fits a phone without shrinking its text
TOP, FLOOR, LANE = 8.0, 138.0, 21.0
POINTS = 220
BINS = 4096  # of many returns
FLAT = 1e-9  # a spread below this share of the size is all-equal
WIDEN = 3.0  # how much an axis may grow to take in a policy that lies apart
STRAY = 0.002  # share of models at each end that may lie outside the picture
STEEP = 8.0  # above this ratio of peaks, equal areas would press one curve flat


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Returns of one policy on a set of models: `z` and weights `f`, both (n_models,)."""

    z: FloatArray
    f: FloatArray

    @property
    def flat(self) -> bool:
        """Whether all models give the same return (as with one model)."""
        live = self.z[self.f > 0]
        return bool(np.ptp(live) <= FLAT * max(float(np.abs(live).max()), 1e-300))

    @property
    def width(self) -> float:
        """Silverman's kernel width with weights."""
        mean = self.z @ self.f
        deviation = float(np.sqrt(self.f @ (self.z - mean) ** 2))
        order = np.argsort(self.z, kind="stable")
        at = np.interp([0.25, 0.75], np.cumsum(self.f[order]), self.z[order])
        quartiles = float(at[1] - at[0]) / 1.34
        spread = min(deviation, quartiles) if quartiles > 0.1 * deviation else deviation
        return float(0.9 * spread * np.square(self.f).sum() ** 0.2)

    def density(self, x: FloatArray) -> FloatArray:
        """The kernel estimate at x, (x.size,)."""
        h, z, f = self.width, self.z, self.f
        if z.size > 4 * BINS and np.ptp(z) < h * BINS / 4:  # bins are far narrower than kernels
            f, edges = np.histogram(z, BINS, weights=f)
            z = (edges[1:] + edges[:-1]) / 2
        out = np.zeros_like(x)
        for part in np.array_split(np.flatnonzero(f > 0), 32):
            out += np.exp(-0.5 * ((x[:, None] - z[part]) / h) ** 2) @ f[part]
        return np.asarray(out / (h * np.sqrt(2 * np.pi)))


def x_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """A common axis for all panels: every return and the kernels' tails, never empty."""
    lows, highs = [], []
    for c in curves:
        live = c.z[c.f > 0]
        reach = 0.0 if c.flat else 2.5 * c.width
        lows.append(float(live.min()) - reach)
        highs.append(float(live.max()) + reach)
    low, high = min(lows), max(highs)
    size = max(abs(low), abs(high))
    pad = 0.03 * (high - low)
    if high - low <= 10 * FLAT * size:  # one vertical line in the middle
        pad = 0.1 * size if size > 0 else 1.0
    return low - pad, high + pad


def shared_axis(policies: Sequence[Sequence[Curve]]) -> tuple[float, float]:
    """One axis for all panels: `policies[i]` has the curves of one policy, the chosen one first.

    A few stray models must not press the rest together, so the axis ends a little outside the
    central 99.6 % of each; and a policy that lies so far away that it would widen the axis
    threefold stays outside, to be named at the edge.
    """
    low, high = _central(policies[0])
    for curves in policies[1:]:
        a, b = _central(curves)
        if max(b, high) - min(a, low) <= WIDEN * (high - low):
            low, high = min(a, low), max(b, high)
    return low, high


def _central(curves: Sequence[Curve]) -> tuple[float, float]:
    low, high = x_range(curves)
    ends = []
    for c in curves:
        order = np.argsort(c.z, kind="stable")
        share = np.cumsum(c.f[order])
        at = np.searchsorted(share, [STRAY - 1e-12, 1 - STRAY - 1e-12])
        ends += [float(z) for z in c.z[order[np.minimum(at, c.z.size - 1)]]]
    pad = 0.15 * (max(ends) - min(ends))
    if pad <= FLAT * max(abs(low), abs(high)):
        return low, high
    return max(low, min(ends) - pad), min(high, max(ends) + pad)


def density_svg(
    curves: Sequence[Curve], names: Sequence[str], objective: Objective,
    limits: tuple[float, float], about: str = "",
) -> svg.Picture:  # fmt: skip
    """One panel: at most four curves, the chosen policy first, a lane of marks for each below."""
    curves, names = curves[:MOST_CURVES], names[:MOST_CURVES]
    x = svg.Scale(*limits, MARGIN, WIDTH - MARGIN)
    lanes = [FLOOR + 22 + LANE * i for i in range(len(curves))]
    bottom = lanes[-1] + 18
    parts = shapes(curves, objective, x)
    parts.append(svg.line(x.start, FLOOR, x.end, FLOOR, "axis"))
    for i, (curve, name) in enumerate(zip(curves, names, strict=True)):
        parts += _lane(curve, name, objective, x, lanes[i], f"k{i + 1}")
    parts += svg.axis_below(x, bottom, 7)
    title = f"How the {measure(objective)} spreads over the models"
    return svg.picture(WIDTH, bottom + 22, parts, "density", title, about)


def scaled(curves: Sequence[Curve]) -> bool:
    """Whether curves are drawn to equal height, as their peaks differ too much for equal areas."""
    peaks = [1 / c.width for c in curves if not c.flat]
    return len(peaks) > 1 and max(peaks) > STEEP * min(peaks)


def shapes(curves: Sequence[Curve], objective: Objective, x: svg.Scale) -> list[str]:
    """The curves, the chosen one last and with its tail filled."""
    at = np.linspace(x.low, x.high, POINTS)
    heights = [None if c.flat or _outside(c, x) else c.density(at) for c in curves]
    top = max((float(h.max()) for h in heights if h is not None), default=1.0)
    equal = scaled(curves)
    parts = []
    for i in reversed(range(len(curves))):
        height, look = heights[i], f"curve k{i + 1}"
        if _outside(curves[i], x):
            continue
        if height is None:
            place = x(float(curves[i].z[curves[i].f > 0][0]))
            parts.append(svg.line(place, TOP, place, FLOOR, look))
            continue
        y = FLOOR - (FLOOR - TOP) * height / ((float(height.max()) if equal else top) or 1.0)
        points = [(x(float(a)), float(b)) for a, b in zip(at, y, strict=True)]
        if i == 0:
            parts += _tail(points, curves[0], objective, x)
        parts.append(svg.path(points, look))
    return parts


def _tail(
    points: list[tuple[float, float]], curve: Curve, objective: Objective, x: svg.Scale
) -> list[str]:
    if not 0 < objective.tail < 1:
        return []
    edge = x(objective.summary(curve.z, curve.f)["var"])
    inside = [p for p in points if p[0] <= edge]
    if len(inside) < 2:
        return []
    xs, ys = zip(*points, strict=True)
    end = (edge, float(np.interp(edge, xs, ys)))
    return [svg.path([(inside[0][0], FLOOR), *inside, end, (edge, FLOOR)], "tail", close=True)]


def _figures(curve: Curve, objective: Objective) -> list[tuple[str, str, float]]:
    """(mark, name, value) of what is shown in a lane, from the left."""
    found = objective.summary(curve.z, curve.f)
    if objective.tail == 1:
        return [("●", "mean", found["mean"])]
    if objective.tail == 0:  # the worst model is its own edge
        return [("◆", "worst", found["cvar"]), ("●", "mean", found["mean"])]
    return [("◆", "CVaR", found["cvar"]), ("▲", "VaR", found["var"]), ("●", "mean", found["mean"])]


def _lane(
    curve: Curve, name: str, objective: Objective, x: svg.Scale, y: float, look: str
) -> list[str]:
    """CVaR ◆, VaR ▲ and mean ● of one policy on a line of its own, with its name beside them."""
    found = _figures(curve, objective)
    if _outside(curve, x):
        words = f"{shorten(name, 40)}, mean {found[-1][2]:.4g}"
        if found[-1][2] < x.low:
            return [svg.text(x.start, y + 4, f"← {words}", f"name {look}")]
        return [svg.text(x.end, y + 4, f"{words} →", f"name {look}", "end")]
    places = [x(value) for _, _, value in found]
    parts = [svg.line(min(places), y, max(places), y, f"curve lane {look}")]
    for place, (shape, words, value) in zip(places, found, strict=True):
        hover = f"{name}: {words} {value:.6g}"
        parts.append(svg.mark(place, y, shape, f"mark {look}", hover))
    room_left, room_right = min(places) - 10, WIDTH - max(places) - 10
    words = shorten(name, max(int(max(room_left, room_right) / svg.LETTER), 2))
    if room_left >= min(svg.LETTER * len(words), room_right):
        parts.append(svg.text(min(places) - 10, y + 4, words, f"name {look}", "end"))
    else:
        parts.append(svg.text(max(places) + 10, y + 4, words, f"name {look}"))
    return parts


def _outside(curve: Curve, x: svg.Scale) -> bool:
    """Whether the policy's mean lies beyond the ends of the axis."""
    return not x.low <= float(curve.z @ curve.f) <= x.high
