"""What changes, what it gains, what the log covers, what caution costs, what promises came to.

Every picture is drawn once, here, from labels and numbers, for the page, the app, a notebook and a
paper (`svg.Picture`). The functions at the end take a log, a frontier or a rehearsal instead.
"""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust.data import TransitionLog
from softrobust.objective import Objective, SoftRobust
from softrobust.report import svg
from softrobust.report.counts import Seen
from softrobust.report.plots import FLOOR, MARGIN, TOP, WIDTH, Curve, shapes, shared_axis
from softrobust.report.words import Figures, bad_case, count, measure, percent, shorten
from softrobust.study.foreign import ForeignRehearsal
from softrobust.study.frontier import Frontier, FrontierPoint

HEIGHT = 270.0
LONGEST = 22

# -- what changes: a strip of states -----------------------------------------------------------

MOST_STRIP = 480
GAP = 3.0  # between two names
LINE = 52.0  # a line of states with what is done above and its names below


def strip_svg(states: Sequence[str], now: Sequence[str], then: Sequence[str | None]) -> svg.Picture:
    """A cell for every state, filled where something else is to be done, with what above it.

    `now` is what is usually done, `then` what is to be done instead, None where that goes on.
    Empty where there are too many states to see any.
    """
    n = len(states)
    if not 0 < n <= MOST_STRIP:
        return svg.Picture("")
    columns = min(n, max(12, -(-n // 6)))
    cell = min(WIDTH / columns, 46.0)
    firsts = range(0, n, columns)
    told = [_changes(then[first : first + columns], cell) for first in firsts]
    above = 12.0 * any(tier for row in told for *_, tier in row)
    parts = []
    for row, first in enumerate(firsts):
        index = range(first, min(first + columns, n))
        y = row * (LINE + above) + above
        for i in index:
            style = "cell same" if then[i] is None else "cell changed"
            does = then[i] or now[i] or "no action"
            was = f" (now {now[i]})" if then[i] is not None and now[i] else ""
            x = (i - first) * cell
            hover = f"{states[i]}: {does}{was}" if n <= HOVERED or was else ""
            parts.append(svg.rect(x + 0.5, y + 16, cell - 1, 16, style, hover))
        for words, x, anchor, tier in told[row]:
            parts.append(svg.text(x, y + 11 - 12 * tier, words, "name k1", anchor))
        parts += _names([states[i] for i in index], 0.0, cell, y + 32, cell * columns)
    height = (LINE + above) * len(firsts)
    changes = [
        f"{states[i[0]]}{' to ' + states[i[-1]] if len(i) > 1 else ''}: {does}"
        for does, i in ((d, list(g)) for d, g in groupby(range(n), lambda i: then[i]))
        if does is not None
    ]
    what = "; ".join(changes[:12]) or "nothing changes"
    return svg.picture(WIDTH, height, parts, "strip", "What changes against what is done now", what)


def _changes(then: Sequence[str | None], cell: float) -> list[tuple[str, float, str, int]]:
    """What is done instead, where and how that is written, and its tier, where room is short."""
    runs = [
        (does, next(group) * cell) for does, group in groupby(range(len(then)), then.__getitem__)
    ]
    told = [(does, x) for does, x in runs if does is not None]
    out: list[tuple[str, float, str, int]] = []
    free = [0.0, 0.0]
    for (does, x), (_, end) in pairwise([*told, ("", np.inf)]):
        short = svg.LETTER * len(does) > min(end, WIDTH - free[0] + x) - x - GAP
        words = shorten(does.removeprefix("always ") if short else does, LONGEST)
        wide = svg.LETTER * len(words)
        at, anchor = (x, "start") if x + wide <= WIDTH else (WIDTH, "end")
        first = at if anchor == "start" else WIDTH - wide
        tier = next((k for k, taken in enumerate(free) if first >= taken), None)
        if tier is not None:  # else whoever points at the cell is told
            out.append((words, at, anchor, tier))
            free[tier] = first + wide + GAP
    return out


def _names(names: Sequence[str], x0: float, cell: float, y: float, width: float) -> list[str]:
    """Names below cells, as many as have room, inside the picture."""
    short = [shorten(name, LONGEST) for name in names]
    every = max(1, int(np.ceil((svg.LETTER * max(map(len, short)) + 6) / cell)))
    parts, free = [], 0.0
    for i in range(0, len(short), every):
        half = svg.LETTER * len(short[i]) / 2
        at = max(half, min(x0 + (i + 0.5) * cell, x0 + width - half))
        if at - half >= free:
            parts.append(svg.text(at, y + 15, short[i], "soft", "middle"))
            free = at + half + 6
    return parts


# -- what it is worth: the gain over practice --------------------------------------------------


def gain_svg(
    gains: FloatArray, weights: FloatArray, objective: Objective,
    promised: tuple[float, float, float] | None = None,
) -> svg.Picture:  # fmt: skip
    """How the gain over practice spreads over the models, with its bad case.

    `promised` is (level, about, at least): drawn below, as what is left of it in truth.
    """
    curve = Curve(np.asarray(gains), np.asarray(weights))
    number, found = Figures.of([curve.z]), objective.summary(curve.z, curve.f)
    lanes = [("●", f"by the models, on average: {number.signed(found['mean'])}", [found["mean"]])]
    if objective.tail < 1 and not curve.flat:
        bad = f"in {bad_case(objective)} for the change: {number.signed(found['cvar'])}"
        lanes.append(("◆", bad, [found["cvar"]]))
    if promised is not None:
        level, *limits = promised
        likely, limit = map(number.signed, limits)
        lanes.append(("●", f"promised: {likely}, at least {limit} ({percent(level)})", limits))
    ends = [value for *_, values in lanes for value in values]
    x = svg.Scale(*padded([0.0, *shared_axis([[curve]]), *ends], 0.02), MARGIN, WIDTH - MARGIN)
    parts = shapes([curve], objective, x)
    parts += [
        svg.line(x(0), TOP, x(0), FLOOR + 8, "zero"),
        svg.line(x.start, FLOOR, x.end, FLOOR, "axis"),
    ]
    y = FLOOR + 6
    for sign, told, (value, *least) in lanes:
        y, ink = y + 34, "k1" if least else "k2"
        for end in least:
            parts.append(svg.line(x(end), y, x(value), y, f"curve lane {ink}"))
            parts.append(svg.mark(x(end), y, "▲", f"mark {ink}"))
        parts.append(svg.mark(x(value), y, sign, f"mark {ink}", told))
        half = svg.LETTER * len(told) / 2
        at = min(max(x(value), x.start + half), x.end - half)
        parts.append(svg.text(at, y - 9, told, f"name {ink}", "middle"))
    n, above = count(int((curve.f > 0).sum()), "model"), float(curve.f @ (curve.z > 0))
    words = "; ".join(told for _, told, _ in lanes)
    about = f"{n}, with a gain in {percent(above)} of them; {words}."
    parts += svg.axis_below(x, y + 14, 7)
    return svg.picture(WIDTH, y + 36, parts, "gain", "Gain over current practice", about)


def padded(values: Sequence[float], share: float = 0.14) -> tuple[float, float]:
    """The ends of an axis, a little outside the values, never empty."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    pad = share * (high - low) if high - low > 1e-9 * size else (0.05 * size or 1.0)
    return low - pad, high + pad


# -- what the log covers, and what is done there: a map ----------------------------------------

MOST_STATES, MOST_ACTIONS, HOVERED = 1000, 45, 120
MAP_WIDTH, LEAST_WIDTH = 920.0, 160.0
SHADES = (5, 10, 20, 50, 100)  # a cell is one shade stronger from each of these counts on


def coverage_svg(
    states: Sequence[str],
    actions: Sequence[str],
    seen: Seen | None,
    available: NDArray[np.bool_],
    own: FloatArray | None = None,
    nominal: NDArray[np.int64] | None = None,
    usual: NDArray[np.int64] | None = None,
) -> svg.Picture:
    """A column for each state, a row for each action, shaded by how often the pair was seen.

    A disc is what the policy does (its size the probability, `own`), a ring what nominal would do,
    a bar what is usually done (−1 where nothing is). Where small counts are hidden, all of them
    have one shade. Empty where there are too many states or actions to see any.
    """
    n, n_actions = len(states), len(actions)
    if not 1 < n <= MOST_STATES or n_actions > MOST_ACTIONS:
        return svg.Picture("")
    names = [shorten(name, LONGEST) for name in actions]
    gutter = 12 + svg.LETTER * max(len(name) for name in names)
    cell = min((MAP_WIDTH - gutter) / n, 44.0)
    height = min(26.0, max(12.0, 360.0 / n_actions))
    every = max(1, int(np.ceil(13 / height)))
    parts = []
    for a in range(n_actions):
        y = 4 + a * height
        if a % every == 0:
            parts.append(svg.text(gutter - 8, y + height / 2 + 4, names[a], anchor="end"))
        shades = [_shade(s, a, seen, bool(available[s, a])) for s in range(n)]
        if n > HOVERED:  # neighbours of one shade are one box
            for style, group in groupby(range(n), lambda s: shades[s]):  # noqa: B023 (used at once)
                s, *more = group
                x = gutter + s * cell
                wide = cell * (1 + len(more))
                parts.append(svg.rect(x, y + 0.5, wide, height - 1, f"cell {style}"))
            continue
        for s in range(n):
            told = "" if seen is None else f": seen {seen.times(s, a)}"
            box = (gutter + s * cell + 0.5, y + 0.5, cell - 1, height - 1)
            parts.append(svg.rect(*box, f"cell {shades[s]}", f"{states[s]}, {actions[a]}{told}"))
    r, bars = min(cell, height) * 0.27, []
    for s in range(n):
        x, marks = gutter + (s + 0.5) * cell, (nominal, usual)
        at = [None if m is None or m[s] < 0 else 4 + (int(m[s]) + 0.5) * height for m in marks]
        if at[1] is not None:
            y = at[1] + min(cell, height) * 0.42
            bars.append(((x - cell * 0.3, y), (x + cell * 0.3, y)))
        if at[0] is not None and n <= HOVERED:
            parts.append(svg.dot(x, at[0], r + 2, "ring"))
        for a, p in enumerate([] if own is None else own[s].tolist()):
            if p > 0:
                parts.append(svg.dot(x, 4 + (a + 0.5) * height, r * float(np.sqrt(p)), "own"))
    parts.append(svg.lines(bars, "usual") if bars else "")
    bottom, width = 4 + n_actions * height, max(cell * n, LEAST_WIDTH)
    parts += _names(states, gutter, cell, bottom, width)
    about = f"{count(n, 'state')} by {count(n_actions, 'action')}."
    if seen is not None:
        often = int(sum(seen.rank(s, a) >= SHADES[0] for s in range(n) for a in range(n_actions)))
        about += f" {count(often, 'pair')} of them seen {SHADES[0]} times or more."
    title = "What the log covers" if own is None else "What is done, and what the log covers"
    return svg.picture(gutter + width, bottom + 22, parts, "map", title, about)


def _shade(s: int, a: int, seen: Seen | None, available: bool) -> str:
    if seen is None:
        return "n1" if available else "n0"
    rank = seen.rank(s, a)
    if rank == 0 and not seen.suppress:
        return "n0"
    return f"n{1 + sum(rank >= edge for edge in SHADES)}"


# -- promise against truth ---------------------------------------------------------------------


def rehearsal_svg(
    said: Sequence[float], true: Sequence[float], kept: Sequence[bool | None],
    kinds: Sequence[str] = (),
) -> svg.Picture:  # fmt: skip
    """A point for each known world: the gain that was promised, and the gain it then had.

    Above the line more came true than was said. Hollow points broke their promised limit.
    """
    ends = padded([*said, *true, 0.0])
    ticks = svg.Scale(*ends, 0, 1).ticks(5)
    x = svg.Scale(*ends, 10 + svg.LETTER * max(len(words) for _, words in ticks), WIDTH - 10)
    y = svg.Scale(*ends, HEIGHT - 44, 24)
    parts = [svg.text(0, 12, "gain that came true ↑", "soft"), *svg.grid(x, y, 5)]
    parts.append(svg.path([(x(ends[0]), y(ends[0])), (x(ends[1]), y(ends[1]))], "front"))
    parts.append(svg.text(x.end, HEIGHT - 6, "gain that was promised →", "soft", "end"))
    for i, (a, b, held) in enumerate(zip(said, true, kept, strict=True)):
        kind = f"{kinds[i]}: " if kinds else ""
        told = f"{kind}{a:.4g} promised, {b:.4g} true"
        style = "own" if held is None or held else "point broken"
        parts.append(svg.dot(x(a), y(b), 4, style, told))
    broken = sum(held is not None and not held for held in kept)
    about = (
        f"{count(len(kept), 'known world')}; in {broken} of them the promised limit was not kept. "
        f"On average {np.mean(said):.4g} promised, {np.mean(true):.4g} true."
    )
    return svg.picture(WIDTH, HEIGHT, parts, "frontier", "Promised and true gain", about)


# -- what caution costs ------------------------------------------------------------------------


@final
class Spot(NamedTuple):
    """A policy on a frontier: its name, its two figures, and how it is drawn."""

    name: str
    mean: float
    cvar: float
    dominated: bool = False


def frontier_svg(
    curves: Sequence[tuple[str, Sequence[Spot]]],
    others: Sequence[Spot] = (),
    own: Spot | None = None,
    of: str = "return",
) -> svg.Picture:
    """Average against bad case of the best policies, a curve for each of `curves` (name, spots).

    `own` is the policy that the page is about; others are drawn where they do not lie so far away
    that the curves would be pressed into a corner.
    """
    spots = [spot for _, points in curves for spot in points]
    known = [*spots, *([] if own is None else [own])]
    near = [
        c for c in others
        if _near(c.cvar, [p.cvar for p in known]) and _near(c.mean, [p.mean for p in known])
    ]  # fmt: skip
    (x_low, x_high), (y_low, y_high) = (
        padded([getattr(p, key) for p in (*known, *near)]) for key in ("cvar", "mean")
    )
    gutter = 10 + svg.LETTER * max(len(t) for _, t in svg.Scale(y_low, y_high, 0, 1).ticks(4))
    x, y = svg.Scale(x_low, x_high, gutter, WIDTH - 10), svg.Scale(y_low, y_high, HEIGHT - 44, 24)
    below = curves[0][0] if len(curves) == 1 else "the worst models"
    room = int(WIDTH / svg.LETTER) - len("average … over all models ↑")
    of = of if len(of) <= room else f"{of[: room - 1]}…"  # names of files may be long
    parts = [svg.text(0, 12, f"average {of} over all models ↑", "soft"), *svg.grid(x, y, 4)]
    across = f"average {of} over {below} →"
    across = across if svg.LETTER * len(across) <= WIDTH else f"average over {below} →"
    parts.append(svg.text(x.end, HEIGHT - 6, across, "soft", "end"))
    labels = svg.Labeller(WIDTH, HEIGHT - 46)
    for p in (*known, *near):
        labels.keep_clear(x(p.cvar), y(p.mean), 5)
    best = [[(x(p.cvar), y(p.mean)) for p in points if not p.dominated] for _, points in curves]
    for i, places in enumerate(best):
        labels.keep_line_clear(sorted(places))
        style = "front" if len(best) == 1 else f"curve k{i % 4 + 1}"
        parts += [svg.path(sorted(places), style)] if len(places) > 1 else []
    mine = own and next((p for p in spots if (p.mean, p.cvar) == (own.mean, own.cvar)), None)
    names = []
    if own is not None:
        called = own.name if mine is None else f"{own.name}, {mine.name}"
        names.append(labels.place(x(own.cvar), y(own.mean), called, "name k1", gap=11))
    for p in near:
        parts.append(svg.mark(x(p.cvar), y(p.mean), "■", "mark other", _hover(p)))
        names.append(labels.place(x(p.cvar), y(p.mean), p.name, "name k2"))
    for i, p in enumerate(spots):
        at = x(p.cvar), y(p.mean)
        parts.append(svg.dot(*at, 4.2, "point", _hover(p), f' data-i="{i}"'))
        names.append("" if p is mine else labels.place(*at, p.name, "soft"))
    for i, (name, points) in enumerate(curves if len(curves) > 1 else ()):
        last = max(points, key=lambda p: p.cvar)
        names.append(labels.place(x(last.cvar), y(last.mean), name, f"name k{i % 4 + 1}", gap=14))
    if own is not None:
        parts.append(svg.dot(x(own.cvar), y(own.mean), 6.5, "own", _hover(own)))
    about = "; ".join(f"{p.name}: average {p.mean:.6g}, bad case {p.cvar:.6g}" for p in known[:24])
    title = "Average and bad case of the best policies"
    return svg.picture(WIDTH, HEIGHT, [*parts, *names], "frontier", title, about)


def _hover(p: Spot) -> str:
    return f"{p.name}: average {p.mean:.6g}, bad case {p.cvar:.6g}"


def _near(value: float, others: Sequence[float]) -> bool:
    low, high = min(others), max(others)
    room = 1.5 * (high - low)
    return low - room <= value <= high + room


def spots(points: Sequence[FrontierPoint], caution: str = "λ") -> list[Spot]:
    """A spot for each policy."""
    return [
        Spot(f"{caution} {lams(g)}", g[0].mean, g[0].cvar, g[0].dominated) for g in alike(points)
    ]


def alike(points: Sequence[FrontierPoint]) -> list[list[FrontierPoint]]:
    """Neighbouring λ with the same policy."""
    return [list(group) for _, group in groupby(points, lambda p: p.policy_id)]


def lams(group: Sequence[FrontierPoint]) -> str:
    """The λ of a group: "0.3", or "0 to 0.3"."""
    first, last = group[0].lam, group[-1].lam
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


# -- of whole objects --------------------------------------------------------------------------


@names_arguments
def picture_log(log: TransitionLog, suppress_small: bool = False) -> svg.Picture:
    """How often each action was seen in each state that was left."""
    counts = np.asarray(log.pair_counts)
    left = np.flatnonzero(counts.sum(axis=1) > 0)
    seen = Seen(counts[left], suppress_small)
    return coverage_svg([log.states[int(s)] for s in left], list(log.actions), seen, seen.n > 0)


@names_arguments
def picture_frontier(frontier: Frontier) -> svg.Picture:
    """Average against bad case, a curve for each α."""
    curves = [
        (SoftRobust(1.0, alpha).words, spots(frontier.column(j)))
        for j, alpha in enumerate(frontier.alphas)
    ]
    return frontier_svg(curves, of=measure(frontier.points[0][0].certificate.objective))


@names_arguments
def picture_rehearsal(found: ForeignRehearsal) -> svg.Picture:
    """Promised and true gain of every known world; empty where none is on record."""
    if not found.worlds:
        return svg.Picture("")
    kinds, said, true, kept = zip(*found.worlds, strict=True)
    return rehearsal_svg(said, true, kept, kinds)
