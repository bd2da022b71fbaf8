"""What resembles a row: base measures b_k(· | s, a) from the transitions of other rows.

A token is a transition (s₂, a₂, t₂) seen w times; tokens are sorted by action, state, next state.
Every base leaves the row's own tokens out, so that a row is never compared with itself. A base is
wanted at the columns (next states) of its row alone; of what lies elsewhere the sum is kept. Moves
that are the same displacement are summed once, and only near states are looked at one by one, so
that a row costs what is near it and not what the log holds. States may
have coordinates (ranks per column); then a token can be carried to another state as a displacement,
clipped at the borders; a next state without coordinates, such as "(end)", stays what it is. Thin
data lean on coarser ones, one pseudo-observation a step:

    0 plain     next states seen after s under other actions, and s itself, alike; a tenth marginal
    1 all       every state alike
    2 marginal  next states of all rows
    3 other     next states of s under other actions
    4 same      next states of the action in all states
    5 far       displacement of the action in all states           (with coordinates, to the end)
    6 mid       the same, states near by a wide kernel
    7 near      the same, states near by a narrow kernel
    8 place     next states of the action in near states
    9 drift     displacement of any action in near states, s itself included
   10 leave     as near, but how likely an end (a state without coordinates) is as for other
                actions in s: ends belong to states, displacements to actions
   11 edge      as near, but what would cross a border stops there or goes elsewhere, as often as
                (and to where) such moves did in all rows: waterfalls, resets, full stores
   12 after     transitions of any action from where it leads to about the same place before chance
                comes in: every action has a push (its displacement beyond that of the state), so
                an order of 4 at stock 2 is like one of 6 at stock 0; parts of a rank are shared
                between the two next ones
   13 columns   each column moves on its own, as the action moved it in near states
   14 outside   the same, but columns that actions do not move (demand, weather, prices) as any
                action saw them move here and in near states
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust.kernels._jit import REORDER, bundled, kernel

PLAIN, ALL, MARGINAL, OTHER, SAME, FAR, MID, NEAR, PLACE, DRIFT = range(10)
LEAVE, EDGE, AFTER, COLUMNS, OUTSIDE = range(10, 15)
BORDER_STEPS = 3  # of EM, for what lies beyond borders
PUSH_STEPS = 2  # times that every action's push is searched,
REACH = 16  # as far as this from where the search begins,
CLEARLY = 2.0  # by which the evidence must be higher to go against mean displacements
ALIKE = 4.0  # pseudo-rows for the share of a rank that an action moves being none
LEAN = 4.0  # with so many pseudo-observations of all next states alike
SAME_PLACE = 0.7  # ranks by which the places may differ
# Weights by squared distance between places; further than this they are below a thousandth.
FAR_OFF = 9  # ranks: the largest of these distances
CLOSENESS = np.array(
    [math.exp(-q / (2.0 * SAME_PLACE**2)) + 0.1 * math.exp(-q / 18.0) for q in range(83)]
)
ELSEWHERE = 0.05  # weight of near states in columns that move alike whatever is done
LEAK = 0.1  # of the plain base that goes to the marginal
UNDERFLOW = -746.0  # e^x is 0 below, and takes long to be found so


class Tokens(NamedTuple):
    """Transitions sorted by action, state and next state, and where states lie."""

    n_actions: int
    n_bases: int
    pair_lo: IntArray  # (S·A,) first token of a row,
    pair_hi: IntArray  # (S·A,) and the one after its last
    action_ptr: IntArray  # (A + 1,)
    s: IntArray  # (n,)
    t: IntArray  # (n,)
    w: FloatArray  # (n,)
    ranks: IntArray  # (S, columns), as in `posterior.resemblance.Geometry`
    sizes: IntArray
    numeric: BoolArray
    lookup: IntArray
    metric: IntArray
    near: FloatArray  # (S, S)
    wide: FloatArray  # (S, S)
    placed: BoolArray  # (S,)
    live: BoolArray  # (S,) states thought to exist
    push: FloatArray  # (A, S, columns) how far actions move a state before chance comes in
    # Moves: tokens of an action with the same displacement. (n,) the move of a token, −1 from a
    # state without coordinates; (A + 1,) moves of an action; (n_moves,) a token that makes it
    move: IntArray
    move_ptr: IntArray
    mover: IntArray
    # States by their rank in the longest ordered column, `main` (−1: none is, and they are one lot)
    main: int
    lot_ptr: IntArray
    lots: IntArray
    free: BoolArray  # (columns,) that actions do not move


class Sums(NamedTuple):
    """What rows share: totals of tokens, and what lies beyond borders."""

    by_next: FloatArray  # (S,)
    by_action: FloatArray  # (A, S)
    moved: FloatArray  # (n_moves,)
    stops: FloatArray  # (2·columns,) moves across a border that stop there, by column and side
    beyond: FloatArray  # (2·columns, S) and where the others go


class Room(NamedTuple):
    """Room for a row, whose columns are at most W."""

    place: IntArray  # (S,) which of the row's columns a state is, −1 where it is none
    seen: IntArray  # (S,) the last row after whose state it was seen under another action
    near: IntArray  # (S,) states near the row's, of which there are
    last: IntArray  # (4,) so many; the state that they and `drift` are for; moves, and all items
    item: IntArray  # (2·n,) tokens whose displacements are carried to the row, first all moves,
    to: IntArray  # (2·n,) the states that they lead to there, −1 for none,
    share: FloatArray  # (2·n,) and their weights
    drift: FloatArray  # (S,)
    whole: FloatArray  # (5,) all tokens, to unplaced ones, 1/live, share unplaced; sum of `drift`
    by_action: FloatArray  # (A,) tokens
    gone: FloatArray  # (2·columns,) moves beyond borders
    mass: FloatArray  # (n_bases,) of a base in all
    off: FloatArray  # (n_bases,) and on states without coordinates
    inside: FloatArray  # (W,)
    stop: FloatArray  # (2·columns, W)
    out: FloatArray  # (2·columns, W)
    crossing: FloatArray  # (2·columns,)
    halt: FloatArray  # (2·columns,)


def room(g: Tokens, width: int) -> Room:
    """Room for rows of at most so many columns."""
    S, d = g.live.size, 2 * g.sizes.size
    none = (np.full(S, -1, dtype=np.int64) for _ in range(3))
    shapes = ((S,), (5,), (g.n_actions,), (d,), (g.n_bases,), (g.n_bases,), (width,), (d, width),
              (d, width), (d,), (d,))  # fmt: skip
    last, item = np.full(4, -1, dtype=np.int64), np.empty(2 * g.s.size, dtype=np.int64)
    made: tuple[Any, ...] = (
        *none, last, item, np.empty_like(item), np.empty(item.size), *map(np.empty, shapes)
    )  # fmt: skip
    return Room(*made)


@kernel(inline=True, inner=True)
def shifted(s, s2, t2, ranks, sizes, numeric, lookup, placed):
    """The state that s reaches by the displacement s2 → t2, clipped at the borders, or −1."""
    if not placed[t2]:
        return t2
    code = 0
    for j in range(sizes.size):
        if numeric[j]:
            r = ranks[s, j] + ranks[t2, j] - ranks[s2, j]
            r = min(max(r, 0), sizes[j] - 1)
        elif ranks[t2, j] == ranks[s2, j]:
            r = ranks[s, j]
        else:
            r = ranks[t2, j]
        code = code * sizes[j] + r
    return lookup[code]


@kernel
def _totals(g, x):
    """Fill by_next, by_action and moved."""
    action_ptr, target, weight, move = g.action_ptr, g.t, g.w, g.move
    by_next, by_action, moved, columns = x.by_next, x.by_action, x.moved, g.sizes.size
    by_next[:] = 0.0
    by_action[:] = 0.0
    moved[:] = 0.0
    for a in range(g.n_actions):
        for i in range(action_ptr[a], action_ptr[a + 1]):
            by_next[target[i]] += weight[i]
            by_action[a, target[i]] += weight[i]
            if columns and move[i] >= 0:
                moved[move[i]] += weight[i]


@kernel(inline=True)
def _add(placed, place, mass, off, B, k, t, weight):
    """Add to base k at next state t."""
    mass[k] += weight
    if not placed[t]:
        off[k] += weight
    j = place[t]
    if j >= 0:
        B[k, j] += weight


@kernel(positive=True)
def _blend_down(mass, off, B, n, k, coarse):
    """B[k] ← (B[k] + B[coarse])/(Σ B[k] + 1): pseudo-counts that lean on a coarser measure."""
    total = max(mass[k], 0.0) + 1.0
    off[k] = (max(off[k], 0.0) + off[coarse]) / total
    for j in range(n):  # differences of sums leave dust
        B[k, j] = (max(B[k, j], 0.0) + B[coarse, j]) / total


@kernel
def _around(g, r, s, drifts):
    """r.near ← states near s; and r.drift: displacements of any action there, carried to s."""
    target, weight, pair_lo, pair_hi, A = g.t, g.w, g.pair_lo, g.pair_hi, g.n_actions
    ranks, sizes, numeric, lookup, placed = g.ranks, g.sizes, g.numeric, g.lookup, g.placed
    by_near, by_wide, found, last = g.near, g.wide, r.near, r.last
    if last[1] == s:
        return
    n, total, drift = 0, 0.0, r.drift
    drift[:] = 0.0
    for s2 in range(g.live.size):
        if by_wide[s, s2] > 0.0 and placed[s2]:
            found[n] = s2
            n += 1
            near = by_near[s, s2]
            if drifts and near > 0.0:
                for row in range(s2 * A, (s2 + 1) * A):
                    for i in range(pair_lo[row], pair_hi[row]):
                        to = shifted(s, s2, target[i], ranks, sizes, numeric, lookup, placed)
                        if to >= 0:
                            drift[to] += near * weight[i]
                            total += near * weight[i]
    last[0], last[1] = n, s
    r.whole[4] = total


@kernel
def _begin(g, x, r):
    """What all rows need of the sums."""
    by_next, by_action, beyond = x.by_next, x.by_action, x.beyond
    placed, live, whole, gone = g.placed, g.live, r.whole, r.gone
    r.last[1] = -1
    r.seen[:] = -1
    whole[:] = 0.0
    n_live = 0
    for t in range(live.size):
        whole[0] += by_next[t]
        if not placed[t]:
            whole[1] += by_next[t]
        if live[t]:
            n_live += 1
            if not placed[t]:
                whole[3] += 1.0
    whole[2] = 1.0 / n_live
    whole[3] /= n_live
    for a in range(g.n_actions):
        total = 0.0
        for t in range(live.size):
            total += by_action[a, t]
        r.by_action[a] = total
    for k in range(x.stops.size):
        gone[k] = 0.0
        for t in range(live.size):
            gone[k] += max(beyond[k, t], 0.0)


@kernel(positive=True)
def _row_bases(g, x, r, row, columns, B):
    """B (n_bases, n) ← the base measures of row s·A + a at its columns (n,)."""
    target, weight, pair_lo, pair_hi, A = g.t, g.w, g.pair_lo, g.pair_hi, g.n_actions
    s, a, lo, hi, n = row // A, row % A, pair_lo[row], pair_hi[row], columns.size
    placed, place, mass, off = g.placed, r.place, r.mass, r.off
    live, whole, seen, located = g.live, r.whole, r.seen, g.sizes.size > 0
    mass[:] = 0.0
    off[:] = 0.0
    mass[MARGINAL], off[MARGINAL] = whole[0], whole[1]
    mass[SAME], off[ALL] = r.by_action[a], whole[3]
    B[:, :n] = 0.0
    for j in range(n):
        t = columns[j]
        place[t] = j
        B[ALL, j] = whole[2] if live[t] else 0.0
        B[MARGINAL, j] = x.by_next[t]
        B[SAME, j] = x.by_action[a, t]
    for i in range(lo, hi):
        _add(placed, place, mass, off, B, MARGINAL, target[i], -weight[i])
        _add(placed, place, mass, off, B, SAME, target[i], -weight[i])
    _blend_down(mass, off, B, n, MARGINAL, ALL)
    seen[s] = row
    n_near = 1
    for other in range(s * A, (s + 1) * A):
        if other != row:
            for i in range(pair_lo[other], pair_hi[other]):
                _add(placed, place, mass, off, B, OTHER, target[i], weight[i])
                if seen[target[i]] != row and weight[i] > 1e-9:
                    seen[target[i]] = row
                    n_near += 1
    for j in range(n):
        here = seen[columns[j]] == row
        B[PLAIN, j] = LEAK * B[MARGINAL, j] + ((1.0 - LEAK) / n_near if here else 0.0)
    _blend_down(mass, off, B, n, OTHER, MARGINAL)
    _blend_down(mass, off, B, n, SAME, MARGINAL)
    if located and placed[s]:
        _around(g, r, s, True)
        _gather(g, x, r, s, a, lo, hi)
        _displaced(g, r, s, lo, hi, columns, B)
        near = 1.0 - off[NEAR]  # 0 where all that is near goes where there are no places
        stays = (1.0 - off[OTHER]) / near if near > 0.0 else 0.0
        for j in range(n):  # ends as for other actions
            inside = near > 0.0 and placed[columns[j]]
            B[LEAVE, j] = B[NEAR, j] * stays if inside else B[OTHER, j]
        _edge(g, x, r, s, lo, hi, columns, B)
        _after(g, r, s, a, n, B)
        for k in range(COLUMNS, B.shape[0]):
            _columns(g, r, row, columns, B, k)
    elif located:
        for k in range(FAR, B.shape[0]):
            for j in range(n):
                B[k, j] = B[MARGINAL, j]
    for j in range(n):
        place[columns[j]] = -1


@kernel
def _gather(g, x, r, s, a, lo, hi):
    """r.item, to, share ← all moves of the action less the row's own tokens; then tokens near s."""
    pair_lo, pair_hi, weight, last, A = g.pair_lo, g.pair_hi, g.w, r.last, g.n_actions
    source, target, ranks, sizes, numeric = g.s, g.t, g.ranks, g.sizes, g.numeric
    n, item, share, near, lookup, placed, to = 0, r.item, r.share, r.near, g.lookup, g.placed, r.to
    for m in range(g.move_ptr[a], g.move_ptr[a + 1]):
        item[n], share[n] = g.mover[m], x.moved[m]
        n += 1
    for i in range(lo, hi):
        item[n], share[n] = i, -weight[i]
        n += 1
    last[2] = n
    for h in range(last[0]):
        row = near[h] * A + a
        if near[h] != s:
            for i in range(pair_lo[row], pair_hi[row]):
                item[n], share[n] = i, weight[i]
                n += 1
    last[3] = n
    for h in range(n):
        i = item[h]
        to[h] = shifted(s, source[i], target[i], ranks, sizes, numeric, lookup, placed)


@kernel
def _displaced(g, r, s, lo, hi, columns, B):
    """B[FAR … DRIFT] ← displacements carried to s, and places near it."""
    source, target, weight, by_near, by_wide = g.s, g.t, g.w, g.near, g.wide
    n, item, share, drift, moves = columns.size, r.item, r.share, r.drift, r.last[2]
    placed, place, mass, off = g.placed, r.place, r.mass, r.off
    for h in range(r.last[3]):
        to = r.to[h]
        if h < moves:
            if to >= 0:
                _add(placed, place, mass, off, B, FAR, to, share[h])
            continue
        s2, t2 = source[item[h]], target[item[h]]
        near = by_near[s, s2] * share[h]
        _add(placed, place, mass, off, B, PLACE, t2, near)
        if to >= 0:
            _add(placed, place, mass, off, B, MID, to, by_wide[s, s2] * share[h])
            _add(placed, place, mass, off, B, NEAR, to, near)
    mass[DRIFT] = r.whole[4]
    for j in range(n):
        B[DRIFT, j] = drift[columns[j]]
    for i in range(lo, hi):
        _add(placed, place, mass, off, B, DRIFT, target[i], -weight[i])
    _blend_down(mass, off, B, n, FAR, MARGINAL)
    _blend_down(mass, off, B, n, MID, FAR)
    _blend_down(mass, off, B, n, NEAR, MID)
    _blend_down(mass, off, B, n, PLACE, SAME)
    _blend_down(mass, off, B, n, DRIFT, FAR)


@kernel(positive=True)
def _moves(g, r, s, n):
    """Displacements of the action in near states, carried to s, by whether they cross a border.

    r.inside (n,): where those lead that do not; r.stop (2·columns, n): where the others lead if
    they stop at the border, by column and side; r.crossing (2·columns,): their shares. Returns the
    weight.
    """
    source, target, by_near, by_wide = g.s, g.t, g.near, g.wide
    ranks, sizes, numeric, placed = g.ranks, g.sizes, g.numeric, g.placed
    shares, moves, items, led = r.share, r.last[2], r.last[3], r.to
    inside, stop, crossing, item, place = r.inside, r.stop, r.crossing, r.item, r.place
    inside[:n] = 0.0
    stop[:, :n] = 0.0
    crossing[:] = 0.0
    total = 0.0
    for h in range(items):
        s2, t2, to = source[item[h]], target[item[h]], led[h]
        if to < 0:
            continue
        share = shares[h] * (0.01 if h < moves else by_near[s, s2] + 0.1 * by_wide[s, s2])
        total += share
        border, j = -1, place[to]
        if placed[t2]:
            for c in range(sizes.size):
                rank = ranks[s, c] + ranks[t2, c] - ranks[s2, c]
                if numeric[c] and (rank < 0 or rank >= sizes[c]):
                    border = 2 * c + (1 if rank > 0 else 0)
                    break
        if border >= 0:
            crossing[border] += share
            if j >= 0:
                stop[border, j] += share
        elif j >= 0:
            inside[j] += share
    scale = 1.0 / total if total > 1e-12 else 0.0
    for j in range(n):
        inside[j] = max(inside[j], 0.0) * scale
    for k in range(crossing.size):
        crossing[k] = max(crossing[k], 0.0) * scale
        for j in range(n):
            stop[k, j] = max(stop[k, j], 0.0) * scale
    return total if scale > 0.0 else 0.0


@kernel(inline=True)
def _likely(inside, stop, crossing, halt, out, i, j):
    """How likely a next state is, by what is inside (place i) and beyond borders (place j)."""
    total = inside[i]
    for k in range(crossing.size):
        total += halt[k] * stop[k, i] + (1.0 - halt[k]) * crossing[k] * out[k, j]
    return total


@kernel
def _fill_sums(g, x, r):
    """Fill the sums x of tokens g.

    What lies beyond borders takes a few steps of EM; a row adds what the last one made of its
    transitions. A transition stayed inside, stopped at a border or went beyond it, in proportion to
    how likely its next state is in each case.
    """
    target, weight, pair_lo, pair_hi, A = g.t, g.w, g.pair_lo, g.pair_hi, g.n_actions
    by_next, all_stops, all_beyond, placed = x.by_next, x.stops, x.beyond, g.placed
    place, whole, gone, halt, out = r.place, r.whole, r.gone, r.halt, r.out
    inside, stop, crossing = r.inside, r.stop, r.crossing
    _totals(g, x)
    all_stops[:] = 0.0
    all_beyond[:] = 0.0
    if g.sizes.size == 0:
        return
    stops, beyond = np.empty(all_stops.size), np.empty(all_beyond.shape)
    # Where moves lead does not change from step to step.
    led, crossed = np.zeros((halt.size + 1, target.size)), np.zeros((pair_lo.size, halt.size))
    for step in range(BORDER_STEPS):
        _begin(g, x, r)
        stops[:] = 0.0
        beyond[:] = 0.0
        for row in range(pair_lo.size):
            s, a, lo, hi = row // A, row % A, pair_lo[row], pair_hi[row]
            if hi == lo or not placed[s]:
                continue
            if step == 0:
                _around(g, r, s, False)
                _gather(g, x, r, s, a, lo, hi)
                for i in range(lo, hi):
                    place[target[i]] = i - lo
                _moves(g, r, s, hi - lo)
                for i in range(lo, hi):
                    place[target[i]] = -1
                    led[halt.size, i] = inside[i - lo]
                    for k in range(halt.size):
                        led[k, i] = stop[k, i - lo]
                for k in range(halt.size):
                    crossed[row, k] = crossing[k]
            for k in range(halt.size):
                stays, goes = max(all_stops[k], 0.0) + 0.5, gone[k] + 0.5
                halt[k] = stays / (stays + goes)
                for i in range(lo, hi):
                    anywhere = by_next[target[i]] / whole[0]
                    out[k, i - lo] = (max(all_beyond[k, target[i]], 0.0) + 0.5 * anywhere) / goes
            for i in range(lo, hi):
                j = i - lo
                total = _likely(led[halt.size], led, crossed[row], halt, out, i, j)
                if total <= 0.0:
                    continue
                for k in range(halt.size):
                    stops[k] += weight[i] * halt[k] * led[k, i] / total
                    onward = (1.0 - halt[k]) * crossed[row, k] * out[k, j]
                    beyond[k, target[i]] += weight[i] * onward / total
        for k in range(halt.size):
            all_stops[k] = stops[k]
            for t in range(by_next.size):
                all_beyond[k, t] = beyond[k, t]


def fill_pushes(g: Tokens, push: FloatArray, parts: bool) -> None:
    """push (A, S, columns) ← by how far actions move a state before chance comes in.

    Those under which an action's transitions are likeliest by the rows of other actions that lead
    to the same place; the action seen most has none. Whole ranks, the same in all states, are
    tried; with `parts` also what mean displacements say, which stays unless another is clearly
    likelier.
    """
    action = np.repeat(np.arange(g.n_actions), np.diff(g.action_ptr))
    use = g.placed[g.s] & g.placed[g.t]
    by, s, w = action[use], g.s[use], g.w[use]
    seen = np.bincount(by, w, g.n_actions)
    moves = (g.ranks[g.t[use]] - g.ranks[g.s[use]]).astype(np.float64)
    usual = int(np.argmax(seen))
    moved = np.stack([np.bincount(by, w * x, g.n_actions) for x in moves.T], axis=1)
    mean = moved / np.where(seen > 0, seen, np.inf)[:, None]
    known = (seen > 0)[:, None] & g.numeric
    push[:] = np.where(known, np.rint(mean - mean[usual]), 0.0)[:, None, :]
    drift = np.zeros_like(push)
    for j in np.flatnonzero(g.numeric & parts):
        x = _drifts(by, s, w, moves[:, j], g.ranks[:, j], g.n_actions)
        drift[:, :, j] = np.where(known[:, j][:, None] & g.placed, x - x[usual], 0.0)
    _search_pushes(g, usual, parts, drift, push)


def _drifts(
    a: IntArray, s: IntArray, w: FloatArray, moved: FloatArray, rank: IntArray, n_actions: int
) -> FloatArray:
    """(A, S): what an action adds to the displacement of a column, by least squares.

    States have effects of their own (each with a pseudo-row of the mean); an action adds a number,
    and a multiple of the column's rank: what is eaten, sprayed or sold is often a share.
    """
    S = rank.size
    n = np.zeros((n_actions, S))
    np.add.at(n, (a, s), w)
    total = max(float(w.sum()), 1e-300)
    z = rank - float(n.sum(axis=0) @ rank) / total
    z = z / max(float(np.sqrt((n.sum(axis=0) @ z**2) / total)), 1e-9)
    moved = moved - float(w @ moved) / total
    by_state, by_pair = np.bincount(s, w * moved, S), np.zeros((n_actions, S))
    np.add.at(by_pair, (a, s), w * moved)
    D = np.concatenate([n, n * z])  # (2A, S)
    own = 1.0 / (n.sum(axis=0) + 1.0)
    first, mixed, second = (np.diag(n @ z**k) for k in range(3))
    square = np.block([[first, mixed], [mixed, second]]) - (D * own) @ D.T
    square[np.diag_indices(2 * n_actions)] += np.repeat([1e-6, ALIKE], n_actions)
    target = np.concatenate([by_pair.sum(axis=1), by_pair @ z]) - D @ (own * by_state)
    effect = np.linalg.lstsq(square, target, rcond=None)[0]
    return np.asarray(effect[:n_actions, None] + effect[n_actions:, None] * z)


@kernel(entry=True)
def _search_pushes(g, usual, parts, drift, push):
    g = bundled(g)
    for _ in range(PUSH_STEPS):
        for a in range(g.n_actions):
            for j in range(g.sizes.size):
                if a == usual or not g.numeric[j] or g.action_ptr[a] == g.action_ptr[a + 1]:
                    continue
                best, most = push[a, :, j].copy(), _foreseen(g, push, a)
                start = round(best.sum() / best.size)
                for d in range(start - REACH, start + REACH + 1):
                    push[a, :, j] = d
                    value = _foreseen(g, push, a)
                    if value > most + 1e-9:
                        best[:] = d
                        most = value
                push[a, :, j] = drift[a, :, j] if parts else best
                if parts and _foreseen(g, push, a) < most - CLEARLY:
                    push[a, :, j] = best


@kernel(inline=True, inner=True)
def _part(rest, step):
    """The share that a push of `rest` (a part of a rank) moves by `step` ranks."""
    rest = min(max(rest, -1.0), 1.0)
    if step == 0:
        return 1.0 - abs(rest)
    return abs(rest) if step == (1 if rest > 0.0 else -1) else 0.0


@kernel
def _foreseen(g, push, a):
    """Log likelihood of an action's transitions by other actions' rows that lead to the same."""
    source, target, weight, pair_lo, pair_hi = g.s, g.t, g.w, g.pair_lo, g.pair_hi
    ranks, sizes, lookup, placed = g.ranks, g.sizes, g.lookup, g.placed
    A, total, even = g.n_actions, 0.0, LEAN / g.live.size
    for i in range(g.action_ptr[a], g.action_ptr[a + 1]):
        s, t = source[i], target[i]
        if not (placed[s] and placed[t]):
            continue
        hits, size = even, LEAN
        for b in range(A):
            if b == a:
                continue
            further = 0.0  # the largest part of a rank
            for j in range(sizes.size):
                gap = push[a, s, j] - push[b, s, j]
                further = max(further, gap - math.floor(gap))
            for up in range(2 if further > 0.0 else 1):  # from the places on either side
                code, near = 0, further if up else 1.0 - further
                for j in range(sizes.size):
                    gap = push[a, s, j] - push[b, s, j]
                    r = ranks[s, j] + int(math.ceil(gap) if up else math.floor(gap))
                    if r < 0 or r >= sizes[j]:
                        code = -1
                        break
                    code = code * sizes[j] + r
                s2 = lookup[code] if code >= 0 else -1
                if s2 < 0:
                    continue
                for k in range(pair_lo[s2 * A + b], pair_hi[s2 * A + b]):
                    size += near * weight[k]
                    if not placed[target[k]]:
                        continue
                    share = near * weight[k]
                    for j in range(sizes.size):
                        rest = ranks[s, j] + push[a, s, j] - ranks[s2, j] - push[b, s2, j]
                        share *= _part(rest, ranks[t, j] - ranks[target[k], j])
                    hits += share
        total += weight[i] * np.log(hits / size)
    return total


@kernel(positive=True)
def _edge(g, x, r, s, lo, hi, columns, B):
    """B[EDGE] ← moves inside, and across borders as other rows' moves went on: r.halt and out."""
    target, weight, gone_by, beyond, stops = g.t, g.w, r.gone, x.beyond, x.stops
    n, place, mass, off = columns.size, r.place, r.mass, r.off
    inside, stop, crossing, halt, out = r.inside, r.stop, r.crossing, r.halt, r.out
    total = _moves(g, r, s, n)
    for k in range(halt.size):
        stays, gone = max(stops[k], 0.0) + 0.5, gone_by[k] + 0.5
        halt[k] = stays / (stays + gone)
        for i in range(lo, hi):
            j = place[target[i]]
            if j >= 0:
                out[k, j] = (max(beyond[k, target[i]], 0.0) + 0.5 * B[MARGINAL, j]) / gone
    own = np.zeros((hi - lo, halt.size, 2))  # what the row itself says of stops, and of the rest
    for i in range(lo, hi):
        j = place[target[i]]
        likely = _likely(inside, stop, crossing, halt, out, j, j) if j >= 0 else 0.0
        if likely > 0.0:
            for k in range(halt.size):
                own[i - lo, k, 0] = weight[i] * halt[k] * stop[k, j] / likely
                onward = (1.0 - halt[k]) * crossing[k] * out[k, j]
                own[i - lo, k, 1] = weight[i] * onward / likely
    for k in range(halt.size):
        stays, gone = stops[k], gone_by[k]
        for i in range(lo, hi):
            stays -= own[i - lo, k, 0]
            there = beyond[k, target[i]]
            gone += max(there - own[i - lo, k, 1], 0.0) - max(there, 0.0)
        stays, gone = max(stays, 0.0) + 0.5, gone + 0.5
        halt[k] = stays / (stays + gone)
        for j in range(n):
            out[k, j] = beyond[k, columns[j]]
        for i in range(lo, hi):
            if place[target[i]] >= 0:
                out[k, place[target[i]]] -= own[i - lo, k, 1]
        for j in range(n):
            out[k, j] = (max(out[k, j], 0.0) + 0.5 * B[MARGINAL, j]) / gone
    mass[EDGE] = total
    for k in range(halt.size):  # as `_likely` has it, of all columns
        onward = (1.0 - halt[k]) * crossing[k]
        for j in range(n):
            inside[j] += halt[k] * stop[k, j] + onward * out[k, j]
    for j in range(n):
        B[EDGE, j] = total * inside[j]
    _blend_down(mass, off, B, n, EDGE, MARGINAL)


@kernel
def _after(g, r, s, a, n, B):
    """B[AFTER] ← next states of any action from where its push leads to about the same place.

    What is carried across a border stops there or goes on, as for B[EDGE].
    """
    target, weight, pair_lo, pair_hi, A = g.t, g.w, g.pair_lo, g.pair_hi, g.n_actions
    ranks, sizes, numeric, lookup, push = g.ranks, g.sizes, g.numeric, g.lookup, g.push
    main, lots, lot_ptr, metric = g.main, g.lots, g.lot_ptr, g.metric
    placed, place, mass, off = g.placed, r.place, r.mass, r.off
    crossing, halt, out = r.crossing, r.halt, r.out
    shift, rest = np.zeros(sizes.size, dtype=np.int64), np.zeros(sizes.size)
    crossing[:] = 0.0
    for b in range(A):
        first, last = 0, lot_ptr.size - 2
        if main >= 0:
            middle = ranks[s, main] + round(push[a, s, main] - push[b, s, main])
            first, last = max(first, middle - FAR_OFF), min(last, middle + FAR_OFF)
        if first > last:
            continue
        for h in range(lot_ptr[first], lot_ptr[last + 1]):
            s2 = lots[h]
            row = s2 * A + b
            if (s2 == s and a == b) or pair_lo[row] == pair_hi[row]:
                continue
            square, parts = 0.0, 1
            for j in range(sizes.size):
                shift[j], rest[j] = 0, 0.0
                if numeric[j]:
                    gap = ranks[s, j] + push[a, s, j] - ranks[s2, j] - push[b, s2, j]
                    shift[j] = round(gap)
                    rest[j] = gap - shift[j]
                    square += metric[j] * gap * gap
                elif ranks[s, j] != ranks[s2, j]:
                    square += metric[j]
                if rest[j] != 0.0:
                    parts = 2 << j
            if square > CLOSENESS.size - 1:
                continue
            close = CLOSENESS[int(square + 0.5)]
            for i in range(pair_lo[row], pair_hi[row]):
                t2 = target[i]
                if not placed[t2]:
                    _add(placed, place, mass, off, B, AFTER, t2, weight[i] * close)
                    continue
                for ways in range(parts):  # a bit for each column: a rank further, or not
                    code, border, share = 0, -1, weight[i] * close
                    for j in range(sizes.size):
                        rank, further = ranks[t2, j], (ways >> j) & 1
                        share *= abs(rest[j]) if further else 1.0 - abs(rest[j])
                        if numeric[j]:
                            rank += shift[j] + (further if rest[j] > 0.0 else -further)
                            if rank < 0 or rank >= sizes[j]:
                                border = 2 * j + (1 if rank > 0 else 0)
                                rank = min(max(rank, 0), sizes[j] - 1)
                        elif rank == ranks[s2, j]:
                            rank = ranks[s, j]
                        code = code * sizes[j] + rank
                    if share == 0.0 or lookup[code] < 0:
                        continue
                    stays = halt[border] if border >= 0 else 1.0
                    _add(placed, place, mass, off, B, AFTER, lookup[code], share * stays)
                    if border >= 0:
                        crossing[border] += share * (1.0 - stays)
    for k in range(crossing.size):
        if crossing[k] > 0.0:
            mass[AFTER] += crossing[k]
            for j in range(n):
                B[AFTER, j] += crossing[k] * out[k, j]
    _blend_down(mass, off, B, n, AFTER, EDGE)


@kernel
def _moved(g, s, s2, t2, j):
    """The rank of column j in s after what moved it from s2 to t2."""
    here, before, after = g.ranks[s, j], g.ranks[s2, j], g.ranks[t2, j]
    if g.numeric[j]:
        return min(max(here + after - before, 0), g.sizes[j] - 1)
    return here if after == before else after


@kernel
def _alike(g, s, s2):
    """Whether states differ only in columns that actions do not move."""
    alike = True
    for j in range(g.sizes.size):
        alike = alike and (g.free[j] or g.ranks[s, j] == g.ranks[s2, j])
    return alike


@kernel
def _columns(g, r, row, columns, B, k):
    """B[k] ← product over columns of where near states' transitions moved that column.

    Of those of the action; for `OUTSIDE` in free columns of any action, those here included.
    """
    source, target, by_near, by_wide, live = g.s, g.t, g.near, g.wide, g.live
    ranks, sizes, shares, moves = g.ranks, g.sizes, r.share, r.last[2]
    n, d, item, total, s = columns.size, sizes.size, r.item, 0.0, row // g.n_actions
    placed, place, mass, off = g.placed, r.place, r.mass, r.off
    longest = 0
    for j in range(d):
        longest = max(longest, sizes[j])
    move = np.zeros((d, longest))
    for h in range(r.last[3]):
        s2, t2 = source[item[h]], target[item[h]]
        close = 0.01 if h < moves else by_near[s, s2] + 0.1 * by_wide[s, s2]
        if k == OUTSIDE:
            close = 1.0 if h >= moves and _alike(g, s, s2) else ELSEWHERE * close
        share = shares[h] * close
        total += share
        if not placed[t2]:
            _add(placed, place, mass, off, B, k, t2, share)
            continue
        for j in range(d):
            if k != OUTSIDE or not g.free[j]:
                move[j, _moved(g, s, s2, t2, j)] += share
    if k == OUTSIDE:
        for h in range(r.last[0]):
            s2 = r.near[h]
            share = 1.0 if s2 == s else ELSEWHERE * by_near[s, s2]
            for other in range(s2 * g.n_actions, (s2 + 1) * g.n_actions):
                for i in range(g.pair_lo[other], g.pair_hi[other] if other != row else 0):
                    for j in range(d):
                        if g.free[j] and placed[target[i]]:
                            move[j, _moved(g, s, s2, target[i], j)] += share * g.w[i]
    if total <= 1e-12:
        for j in range(n):
            B[k, j] = B[MARGINAL, j]
        return
    for j in range(d):
        weight = 0.5
        for rank in range(sizes[j]):
            move[j, rank] = max(move[j, rank], 0.0)
            weight += move[j, rank]
        for rank in range(sizes[j]):
            move[j, rank] = (move[j, rank] + 0.5 / sizes[j]) / weight
    stay, whole = max(total - mass[k], 0.0), 0.0  # the mass so far is what left them all
    for t in range(live.size):
        if live[t] and placed[t]:
            p = 1.0
            for j in range(d):
                p *= move[j, ranks[t, j]]
            whole += p
            if place[t] >= 0:
                B[k, place[t]] = p
    for j in range(n):
        if placed[columns[j]]:
            B[k, j] *= stay / whole if whole > 0.0 else 0.0
    mass[k] = total
    _blend_down(mass, off, B, n, k, MARGINAL)


@kernel(nogil=True, positive=True)
def bases_at(rows, g, x, r, indptr, columns, out, fill):
    """out (nnz, n_bases) ← bases of every row at its listed columns, normalised there.

    The sums x are filled first, or are there already. Returns the largest mass that a base has
    outside the columns. Where out is (nnz, 1), it is the sum of all bases but ALL.
    """
    g, x, r = bundled(g), bundled(x), bundled(r)
    if fill:
        _fill_sums(g, x, r)
    B, total, lost = np.empty((g.n_bases, r.inside.size)), np.empty(g.n_bases), 0.0
    mass = np.empty(r.inside.size)
    _begin(g, x, r)
    for i in range(rows.size):
        lo, n = indptr[i], indptr[i + 1] - indptr[i]
        _row_bases(g, x, r, rows[i], columns[lo : lo + n], B)
        _sum_rows(B, n, total)
        for k in range(g.n_bases):
            lost = max(lost, 1.0 - total[k])
        if out.shape[1] > 1:
            for k in range(g.n_bases):
                for j in range(n):
                    out[lo + j, k] = B[k, j] / total[k] if total[k] > 0.0 else 0.0
            continue
        mass[:n] = 0.0
        for k in range(g.n_bases):  # in one order: on every machine the same of many that are equal
            if k != ALL and total[k] > 0.0:
                for j in range(n):
                    mass[j] += B[k, j] / total[k]
        out[lo : lo + n, 0] = mass[:n]
    return lost


@kernel
def _sum_rows(B, n, total):
    """total (n_bases,) ← sums of B[:, :n], each in its order; one does not wait for the next."""
    last = B.shape[0] - B.shape[0] % 4
    for k in range(0, last, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            a += B[k, j]
            b += B[k + 1, j]
            c += B[k + 2, j]
            d += B[k + 3, j]
        total[k], total[k + 1], total[k + 2], total[k + 3] = a, b, c, d
    for k in range(last, B.shape[0]):
        total[k] = 0.0
        for j in range(n):
            total[k] += B[k, j]


@kernel(fastmath=REORDER, nogil=True)
def blend_weights(B, n, steps, pseudo, w):
    """w (n_bases,) ← weights under which n (m,) transitions at bases B (n_bases, m) are likeliest.

    By EM from equal weights, with `pseudo` transitions given to each beforehand.
    """
    K, m = B.shape
    mix, pull = np.empty(m), np.empty(K)
    w[:] = 1.0 / K
    if m == 0:
        return
    for _ in range(steps):
        mix[:] = 0.0
        for k in range(K):
            for j in range(m):
                mix[j] += B[k, j] * w[k]
        for j in range(m):
            mix[j] = n[j] / mix[j]
        total = 0.0
        for k in range(K):
            sum_ = 0.0
            for j in range(m):
                sum_ += B[k, j] * mix[j]
            pull[k] = w[k] * sum_ + pseudo
            total += pull[k]
        for k in range(K):
            w[k] = pull[k] / total


class Learned(NamedTuple):
    """What draws of the learned prior start from; K = (n_bases + 1)·n_strengths ways of a row."""

    rows: IntArray  # (n_rows,) pairs
    indptr: IntArray  # (n_rows + 1,)
    columns: IntArray  # (nnz,)
    counts: FloatArray  # (nnz,)
    n: FloatArray  # (n_tokens,) transitions of a token
    live: BoolArray  # (n_rows,) rows that are no ends
    taught: IntArray  # rows that teach the weights
    responsible: FloatArray  # (n_rows, K) posterior of the ways, all rows alike
    like: FloatArray  # (n_rows, K) likelihood of the ways up to a factor of the row
    strengths: FloatArray
    loose: FloatArray  # (K,) what doubted rows follow


@kernel(nogil=True)
def fill_ways(rng, p, blend, pseudo, doubt, base, edges):
    """edges (n_rows, K) ← sums of the ways' probabilities; base (nnz, n_bases + 1) gets its blend.

    The weights of the ways are those of one step of EM in which every row votes as often as chance
    has it.
    """
    p = bundled(p)
    n_rows, K, last = p.rows.size, p.loose.size, blend.size
    for j in range(base.shape[0]):
        b = 0.0
        for k in range(last):
            b += blend[k] * base[j, k]
        base[j, last] = b
    weights = np.empty(K)
    for k in range(K):
        weights[k] = pseudo / K
    for i in p.taught:
        vote = rng.standard_exponential()
        for k in range(K):
            weights[k] += vote * p.responsible[i, k]
    whole = 0.0
    for k in range(K):
        whole += weights[k]
    for k in range(K):
        weights[k] = (1.0 - doubt) * weights[k] / whole + doubt * p.loose[k]
    for i in range(n_rows):
        total = 0.0
        for k in range(K):
            total += p.like[i, k] * weights[k]
            edges[i, k] = total


@kernel(nogil=True)
def draw_models(rng, p, bases, edges, of, models, n_models, out):
    """Fill models (n,) of `out`, laid out as `ModelSet.prob`: model i by what set of[i] learned.

    bases (sets, nnz, n_bases + 1) and edges (sets, n_rows, K); a model takes a way for every row,
    and a row of Dirichlet(counts + c·base). Gamma variates are taken in logarithms, so that small
    concentrations do not underflow; all of a model at once, since one does not wait for the next.
    """
    n_rows, K, C, indptr, counts = p.rows.size, p.loose.size, p.strengths.size, p.indptr, p.counts
    shape, log_g, less = np.empty(counts.size), np.empty(counts.size), np.empty(counts.size)
    for m in range(models.size):
        r = of[m]
        for i in range(n_rows):
            u, k, high = rng.random() * edges[r, i, K - 1], 0, K - 1
            while k < high:  # the first edge that is not below u
                mid = (k + high) // 2
                if u > edges[r, i, mid]:
                    k = mid + 1
                else:
                    high = mid
            strength = p.strengths[k % C]
            for j in range(indptr[i], indptr[i + 1]):
                shape[j] = counts[j] + strength * bases[r, j, k // C]
        for j in range(counts.size):
            log_g[j], less[j] = 0.0, 0.0
            if shape[j] >= 0.3:
                log_g[j] = rng.standard_gamma(shape[j])
            elif shape[j] > 0.0:
                log_g[j] = rng.standard_gamma(shape[j] + 1.0)
                less[j] = rng.standard_exponential() / shape[j]
        for j in range(counts.size):
            log_g[j] = np.log(log_g[j]) - less[j]
        for i in range(n_rows):
            lo, hi = indptr[i], indptr[i + 1]
            at, top, total = lo * n_models + models[m] * (hi - lo) - lo, -np.inf, 0.0
            for j in range(lo, hi):
                top = max(top, log_g[j])
            for j in range(lo, hi):
                g = log_g[j] - top
                out[at + j] = np.exp(g) if g > UNDERFLOW else 0.0
                total += out[at + j]
            for j in range(lo, hi):
                out[at + j] /= total


def learn_set(
    rng: np.random.Generator, p: Learned, g: Tokens, x: Sums, r: Room, steps: int, pseudo: float,
    doubt: float, base: FloatArray, edges: FloatArray,
) -> None:  # fmt: skip
    """Fill base (nnz, n_bases + 1) and edges (n_rows, K) from bootstrapped transitions.

    `g.w`, `x` and `r` are written over.
    """
    cell = np.flatnonzero((p.counts > 0) & np.repeat(p.live, np.diff(p.indptr)))
    blend = np.empty(g.n_bases)
    rng.standard_gamma(p.n, out=g.w)
    bases_at(p.rows, g, x, r, p.indptr, p.columns, base, True)
    seen = rng.standard_gamma(p.counts[cell])
    blend_weights(np.ascontiguousarray(base[cell, :-1].T), seen, steps, pseudo, blend)
    fill_ways(rng, p, blend, pseudo, doubt, base, edges)
