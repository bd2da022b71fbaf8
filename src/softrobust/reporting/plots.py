"""Pictures as inline SVG: densities of the return over models.

The density of returns z_ω with weights f_ω is a Gaussian kernel estimate with Silverman's width,
n_eff = 1/Σf². Below the curves each policy has a lane with its mean, VaR and CVaR, so that marks
never hide one another; the tail that CVaR averages is shaded for the chosen policy.

Colours are placeholders that become CSS variables: one picture serves light, dark and print. Words
inside pictures are ours alone (labels of the data stay in HTML, where they are escaped).
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.objective import Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]

# Placeholder → CSS colour. Chosen, nominal, two others; then text and thin lines.
INKS = {
    "#a10001": "var(--c1)",
    "#a10002": "var(--c2)",
    "#a10003": "var(--c3)",
    "#a10004": "var(--c4)",
    "#a10005": "var(--ink)",
    "#a10006": "var(--line)",
}
CURVES = tuple(INKS)[:4]
INK, LINE = tuple(INKS)[4:]
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
SIZE = (4.6, 2.9)  # inches at 100 px: one panel fits a phone without shrinking its text
FLAT = 1e-9  # a spread below this share of the size is all-equal
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
        h, live = self.width, self.f > 0
        out = np.zeros_like(x)
        for z, f in zip(
            np.array_split(self.z[live], 32), np.array_split(self.f[live], 32), strict=True
        ):
            out += np.exp(-0.5 * ((x[:, None] - z) / h) ** 2) @ f
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


def density_svg(
    curves: Sequence[Curve], objective: Objective, limits: tuple[float, float], prefix: str
) -> str:
    """One panel as an SVG element without size, coloured by CSS variables.

    Parameters
    ----------
    curves : sequence of Curve
        At most four; the first is the chosen policy.
    prefix : str
        Set before every id, so that several pictures share a page.
    """
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context():
        rcdefaults()  # whatever style the user has set, the same page comes out
        rcParams["svg.fonttype"] = "none"
        rcParams["svg.hashsalt"] = prefix
        rcParams["font.size"] = 9.5
        figure = Figure(figsize=SIZE)
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.02, 0.13, 0.96, 0.85))
        _draw(axes, curves[: len(CURVES)], objective, limits)
        target = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", transparent=True, metadata=nothing)
    return _inline(target.getvalue(), prefix)


def scaled(curves: Sequence[Curve]) -> bool:
    """Whether curves are drawn to equal height, as their peaks differ too much for equal areas."""
    peaks = [1 / c.width for c in curves if not c.flat]
    return len(peaks) > 1 and max(peaks) > STEEP * min(peaks)


def _draw(
    axes: Axes, curves: Sequence[Curve], objective: Objective, limits: tuple[float, float]
) -> None:
    x = np.linspace(*limits, 400)
    shapes = [None if c.flat else c.density(x) for c in curves]
    peaks = [float(y.max()) for y in shapes if y is not None]
    top = max(peaks, default=1.0)
    equal = scaled(curves)
    for i in reversed(range(len(curves))):  # the chosen policy on top
        y = shapes[i]
        if y is None:
            at = float(curves[i].z[curves[i].f > 0][0])
            axes.plot([at, at], [0, 1], color=CURVES[i], lw=2.4, ls=DASHES[i])
            continue
        y = y / (y.max() if equal else top)
        axes.plot(x, y, color=CURVES[i], lw=2.0, ls=DASHES[i])
        if i == 0 and 0 < objective.tail < 1:
            edge = objective.summary(curves[0].z, curves[0].f)["var"]
            axes.fill_between(x, y, where=(x <= edge).tolist(), color=CURVES[0], alpha=0.30, lw=0)
    for i, c in enumerate(curves):
        _lane(axes, c, objective, CURVES[i], -0.12 * (i + 1))
    axes.axhline(0, color=LINE, lw=1)
    axes.set_xlim(*limits)
    axes.set_ylim(-0.12 * len(curves) - 0.1, 1.06)
    _style(axes)


def _lane(axes: Axes, c: Curve, objective: Objective, colour: str, y: float) -> None:
    """CVaR ◆, VaR ▲ and mean ● of one policy on a line of its own."""
    figures = objective.summary(c.z, c.f)
    marks = [("mean", "o", 7.0)]
    if objective.tail < 1:
        marks = [("cvar", "D", 6.5), ("var", "^", 7.5), *marks]
    at = [figures[name] for name, _, _ in marks]
    axes.plot([min(at), max(at)], [y, y], color=colour, lw=1.4)
    for (_, marker, size), value in zip(marks, at, strict=True):
        axes.plot([value], [y], marker=marker, ms=size, color=colour, mec=colour)


def _style(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=2))
    axes.tick_params(axis="x", colors=INK, length=3, color=LINE)
    axes.xaxis.get_offset_text().set_color(INK)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)


def _inline(svg: str, prefix: str) -> str:
    """The <svg> element alone: no prologue, no fixed size, own ids, CSS colours."""
    svg = svg[svg.index("<svg") :].strip()
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]+"', head)
    assert box is not None  # matplotlib always writes one
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box[0]} aria-hidden="true" focusable="false"'
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"font: [^;\"]*;? ?", "", body)  # the page's own font
    for placeholder, colour in INKS.items():
        body = body.replace(placeholder, colour)
    return re.sub(r"\n\s*", "\n", f"{head}>{body}")
