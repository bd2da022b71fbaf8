"""What resembles a row: base measures b_k(· | s, a) from the transitions of other rows.

A token is a transition (s₂, a₂, t₂) seen w times; tokens are sorted by action, state, next state.
Every base leaves the row's own tokens out, so that a row is never compared with itself. States may
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
                an order of 4 at stock 2 is like one of 6 at stock 0
   13 columns   each column moves on its own, as the action moved it in near states
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust.kernels._jit import REORDER, keep_alive, kernel, unowned
from softrobust.kernels.tail import heap_of, smallest

PLAIN, ALL, MARGINAL, OTHER, SAME, FAR, MID, NEAR, PLACE, DRIFT = range(10)
LEAVE, EDGE, AFTER, COLUMNS = range(10, 14)
AT = np.arange(14)  # AT[k] is k, but no constant: numba compiles a kernel anew for each of those
BORDER_STEPS = 3  # of EM, for what lies beyond borders
PUSH_STEPS = 2  # times that every action's push is searched,
REACH = 16  # as far as this from where the search begins,
LEAN = 4.0  # with so many pseudo-observations of all next states alike
SAME_PLACE = 0.7  # ranks by which the places may differ
# Weights by squared distance between places; further than this they are below a thousandth.
CLOSENESS = np.array(
    [math.exp(-q / (2.0 * SAME_PLACE**2)) + 0.1 * math.exp(-q / 18.0) for q in range(83)]
)
LEAK = 0.1  # of the plain base that goes to the marginal


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
    near: FloatArray  # (S, S)
    wide: FloatArray  # (S, S)
    placed: BoolArray  # (S,)
    live: BoolArray  # (S,) states thought to exist
    push: IntArray  # (A, columns) how far actions move a state before chance comes in


class Sums(NamedTuple):
    """What rows share: totals of tokens, and what lies beyond borders."""

    by_state: FloatArray  # (S, S)
    by_next: FloatArray  # (S,)
    drift: FloatArray  # (S, S) around every state
    stops: FloatArray  # (2·columns,) moves across a border that stop there, by column and side
    beyond: FloatArray  # (2·columns, S) and where the others go


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
    """Add up by_state, by_next and drift, which come in as zeros."""
    begin, end, w, ranks, sizes, numeric = g.s, g.t, g.w, g.ranks, g.sizes, g.numeric
    lookup, placed = g.lookup, g.placed
    for i in range(w.size):
        x.by_state[begin[i], end[i]] += w[i]
        x.by_next[end[i]] += w[i]
    if sizes.size == 0:
        return
    for i in range(w.size):
        s2, t2 = begin[i], end[i]
        if not placed[s2]:
            continue
        for s in range(x.by_next.size):
            near = g.near[s, s2]
            if near > 0.0 and placed[s]:
                to = shifted(s, s2, t2, ranks, sizes, numeric, lookup, placed)
                if to >= 0:
                    x.drift[s, to] += near * w[i]


@kernel
def _blend_down(B, k, coarse):
    """B[k] ← (B[k] + B[coarse])/(Σ B[k] + 1): pseudo-counts that lean on a coarser measure."""
    total = 1.0
    for t in range(B.shape[1]):
        total += B[k, t]
    for t in range(B.shape[1]):
        B[k, t] = (B[k, t] + B[coarse, t]) / total


@kernel(once=True)
def _row_bases(g, x, row, B):
    """B (n_bases, S) ← the base measures of row s·A + a."""
    s, a, lo, hi = row // g.n_actions, row % g.n_actions, g.pair_lo[row], g.pair_hi[row]
    first, last, S = g.action_ptr[a], g.action_ptr[a + 1], g.live.size
    B[:] = 0.0
    n_live = 0
    for t in range(S):
        if g.live[t]:
            n_live += 1
    for t in range(S):
        B[ALL, t] = 1.0 / n_live if g.live[t] else 0.0
        B[MARGINAL, t] = x.by_next[t]
        B[OTHER, t] = x.by_state[s, t]
    for i in range(lo, hi):
        B[MARGINAL, g.t[i]] -= g.w[i]
        B[OTHER, g.t[i]] -= g.w[i]
    for t in range(S):  # differences of sums leave dust
        B[MARGINAL, t] = max(B[MARGINAL, t], 0.0)
        B[OTHER, t] = max(B[OTHER, t], 0.0)
    _blend_down(B, AT[MARGINAL], AT[ALL])
    n_near = 0
    for t in range(S):
        if B[OTHER, t] > 1e-9 or t == s:
            n_near += 1
    for t in range(S):
        here = B[OTHER, t] > 1e-9 or t == s
        B[PLAIN, t] = LEAK * B[MARGINAL, t] + ((1.0 - LEAK) / n_near if here else 0.0)
    _blend_down(B, AT[OTHER], AT[MARGINAL])
    for i in range(first, last):
        if i < lo or i >= hi:
            B[SAME, g.t[i]] += g.w[i]
    _blend_down(B, AT[SAME], AT[MARGINAL])
    if g.sizes.size == 0:
        return
    if not g.placed[s]:
        for k in range(FAR, B.shape[0]):
            for t in range(S):
                B[k, t] = B[MARGINAL, t]
        return
    _displaced(g, x, s, lo, hi, first, last, B)
    _leave(g.placed, S, B)
    halt, out = _edge(g, x, s, lo, hi, first, last, B)
    _after(g, s, a, lo, hi, halt, out, B)
    if B.shape[0] > COLUMNS:
        _columns(g, s, lo, hi, first, last, B)


@kernel
def _displaced(g, x, s, lo, hi, first, last, B):
    """B[FAR … DRIFT] ← displacements carried to s, and places near it."""
    begin, end, w, ranks, sizes, numeric = g.s, g.t, g.w, g.ranks, g.sizes, g.numeric
    lookup, placed, near_, wide_ = g.lookup, g.placed, g.near, g.wide
    S = g.live.size
    for i in range(first, last):
        if lo <= i < hi:
            continue
        s2, t2 = begin[i], end[i]
        if not placed[s2]:
            continue
        to = shifted(s, s2, t2, ranks, sizes, numeric, lookup, placed)
        wide, near = wide_[s, s2], near_[s, s2]
        B[PLACE, t2] += w[i] * near
        if to >= 0:
            B[FAR, to] += w[i]
            B[MID, to] += w[i] * wide
            B[NEAR, to] += w[i] * near
    for t in range(S):
        B[DRIFT, t] = x.drift[s, t]
    for i in range(lo, hi):
        B[DRIFT, end[i]] -= w[i]
    for t in range(S):
        B[DRIFT, t] = max(B[DRIFT, t], 0.0)
    _blend_down(B, AT[FAR], AT[MARGINAL])
    _blend_down(B, AT[MID], AT[FAR])
    _blend_down(B, AT[NEAR], AT[MID])
    _blend_down(B, AT[PLACE], AT[SAME])
    _blend_down(B, AT[DRIFT], AT[FAR])


@kernel
def _moves(g, s, lo, hi, first, last, inside, stop, crossing):
    """Displacements of the action in near states, carried to s, by whether they cross a border.

    inside (S,): where those lead that do not; stop (2·columns, S): where the others lead if they
    stop at the border, by column and side; crossing (2·columns,): their shares. Returns the weight.
    """
    begin, end, w, ranks, sizes, numeric = g.s, g.t, g.w, g.ranks, g.sizes, g.numeric
    lookup, placed, near, wide = g.lookup, g.placed, g.near, g.wide
    inside[:] = 0.0
    stop[:] = 0.0
    crossing[:] = 0.0
    total = 0.0
    for i in range(first, last):
        s2, t2 = begin[i], end[i]
        if (lo <= i < hi) or not placed[s2]:
            continue
        to = shifted(s, s2, t2, ranks, sizes, numeric, lookup, placed)
        if to < 0:
            continue
        share = w[i] * (near[s, s2] + 0.1 * wide[s, s2] + 0.01)
        total += share
        border = -1
        if placed[t2]:
            for j in range(sizes.size):
                r = ranks[s, j] + ranks[t2, j] - ranks[s2, j]
                if numeric[j] and (r < 0 or r >= sizes[j]):
                    border = 2 * j + (1 if r > 0 else 0)
                    break
        if border < 0:
            inside[to] += share
        else:
            stop[border, to] += share
            crossing[border] += share
    if total > 0.0:
        for t in range(inside.size):
            inside[t] /= total
            for k in range(crossing.size):
                stop[k, t] /= total
        for k in range(crossing.size):
            crossing[k] /= total
    return total


@kernel
def _onward(stops, beyond, anywhere, halt, out):
    """halt (2·columns,) ← shares of crossing moves that stop; out ← where the others go."""
    for k in range(stops.size):
        h, g = max(stops[k], 0.0) + 0.5, 0.5
        for t in range(anywhere.size):
            g += max(beyond[k, t], 0.0)
        halt[k] = h / (h + g)
        for t in range(anywhere.size):
            out[k, t] = (max(beyond[k, t], 0.0) + 0.5 * anywhere[t]) / g


@kernel
def _account(g, lo, hi, inside, stop, crossing, halt, out, sign, stops, beyond):
    """Add (sign 1) or take back (−1) what a row's transitions say of moves across borders.

    A transition stayed inside, stopped at a border (`stops`) or went beyond it (`beyond`), in
    proportion to how likely its next state is in each case.
    """
    end, w = g.t, g.w
    for i in range(lo, hi):
        t = end[i]
        total = inside[t]
        for k in range(crossing.size):
            total += halt[k] * stop[k, t] + (1.0 - halt[k]) * crossing[k] * out[k, t]
        if total <= 0.0:
            continue
        for k in range(crossing.size):
            stops[k] += sign * w[i] * halt[k] * stop[k, t] / total
            beyond[k, t] += sign * w[i] * (1.0 - halt[k]) * crossing[k] * out[k, t] / total


@kernel
def _sums(g):
    """The sums of tokens g.

    What lies beyond borders takes a few steps of EM; a row adds what the last one made of its
    transitions.
    """
    S, sides = g.live.size, 2 * g.sizes.size
    x = Sums(np.zeros((S, S)), np.zeros(S), np.zeros((S, S)), np.zeros(sides), np.zeros((sides, S)))
    _totals(g, x)
    if sides == 0:
        return x
    inside, stop, crossing = np.empty(S), np.empty((sides, S)), np.empty(sides)
    halt, out, anywhere = np.empty(sides), np.empty((sides, S)), np.empty(S)
    whole = 0.0
    for t in range(S):
        whole += x.by_next[t]
    for t in range(S):
        anywhere[t] = x.by_next[t] / whole
    for _ in range(BORDER_STEPS):
        _onward(x.stops, x.beyond, anywhere, halt, out)
        x.stops[:] = 0.0
        x.beyond[:] = 0.0
        for row in range(g.pair_lo.size):
            s, a, lo, hi = row // g.n_actions, row % g.n_actions, g.pair_lo[row], g.pair_hi[row]
            if hi > lo and g.placed[s]:
                first, last = g.action_ptr[a], g.action_ptr[a + 1]
                _moves(g, s, lo, hi, first, last, inside, stop, crossing)
                _account(g, lo, hi, inside, stop, crossing, halt, out, 1.0, x.stops, x.beyond)
    return x


def fill_pushes(g: Tokens, push: IntArray) -> None:
    """push (A, columns) ← by how far actions move a state before chance comes in, in whole ranks.

    Those under which an action's transitions are likeliest by the rows of other actions that lead
    to the same place; the action seen most has none. Starts from mean displacements.
    """
    action = np.repeat(np.arange(g.n_actions), np.diff(g.action_ptr))
    use = g.placed[g.s] & g.placed[g.t]
    by, w = action[use], g.w[use]
    seen = np.bincount(by, w, g.n_actions)
    moves = w[:, None] * (g.ranks[g.t[use]] - g.ranks[g.s[use]])
    moved = np.stack([np.bincount(by, column, g.n_actions) for column in moves.T], axis=1)
    usual = int(np.argmax(seen))
    mean = moved / np.where(seen > 0, seen, np.inf)[:, None]
    push[:] = np.where((seen > 0)[:, None] & g.numeric, np.rint(mean - mean[usual]), 0)
    _search_pushes(g, usual, push)


@kernel(entry=True)
def _search_pushes(g, usual, push):
    g = unowned(g)
    for _ in range(PUSH_STEPS):
        for a in range(g.n_actions):
            for j in range(g.sizes.size):
                if a == usual or not g.numeric[j] or g.action_ptr[a] == g.action_ptr[a + 1]:
                    continue
                start = push[a, j]
                best, most = start, _foreseen(g, push, a)
                for d in range(start - REACH, start + REACH + 1):
                    push[a, j] = d
                    value = _foreseen(g, push, a)
                    if value > most + 1e-9:
                        best, most = d, value
                push[a, j] = best


@kernel
def _foreseen(g, push, a):
    """Log likelihood of an action's transitions by other actions' rows that lead to the same."""
    total, even = 0.0, LEAN / g.live.size
    for i in range(g.action_ptr[a], g.action_ptr[a + 1]):
        s, t = g.s[i], g.t[i]
        if not (g.placed[s] and g.placed[t]):
            continue
        hits, size = even, LEAN
        for b in range(g.n_actions):
            if b == a:
                continue
            code = 0
            for j in range(g.sizes.size):
                r = g.ranks[s, j]
                if g.numeric[j]:
                    r += push[a, j] - push[b, j]
                if r < 0 or r >= g.sizes[j]:
                    code = -1
                    break
                code = code * g.sizes[j] + r
            s2 = g.lookup[code] if code >= 0 else -1
            if s2 < 0:
                continue
            for k in range(g.pair_lo[s2 * g.n_actions + b], g.pair_hi[s2 * g.n_actions + b]):
                size += g.w[k]
                if g.t[k] == t:
                    hits += g.w[k]
        total += g.w[i] * np.log(hits / size)
    return total


@kernel
def _edge(g, x, s, lo, hi, first, last, B):
    """B[EDGE] ← moves inside, and across borders as other rows' moves went on: halt and out."""
    S = g.placed.size
    inside, stop, crossing = np.empty(S), np.empty(x.beyond.shape), np.empty(x.stops.size)
    total = _moves(g, s, lo, hi, first, last, inside, stop, crossing)
    halt, out = np.empty(x.stops.size), np.empty(x.beyond.shape)
    _onward(x.stops, x.beyond, B[MARGINAL], halt, out)
    others, elsewhere = x.stops.copy(), x.beyond.copy()
    _account(g, lo, hi, inside, stop, crossing, halt, out, -1.0, others, elsewhere)
    _onward(others, elsewhere, B[MARGINAL], halt, out)
    for t in range(S):
        B[EDGE, t] = total * inside[t]
        for k in range(crossing.size):
            onward = halt[k] * stop[k, t] + (1.0 - halt[k]) * crossing[k] * out[k, t]
            B[EDGE, t] += total * onward
    _blend_down(B, AT[EDGE], AT[MARGINAL])
    return halt, out


@kernel
def _after(g, s, a, lo, hi, halt, out, B):
    """B[AFTER] ← next states of any action from where its push leads to about the same place.

    What is carried across a border stops there or goes on, as for B[EDGE].
    """
    begin, end, w, ranks, sizes, numeric = g.s, g.t, g.w, g.ranks, g.sizes, g.numeric
    lookup, placed, push, ptr = g.lookup, g.placed, g.push, g.action_ptr
    crossing = np.zeros(halt.size)
    for b in range(g.n_actions):
        for i in range(ptr[b], ptr[b + 1]):
            s2, t2 = begin[i], end[i]
            if (lo <= i < hi) or not placed[s2]:
                continue
            square, code, border = 0, 0, -1
            for j in range(sizes.size):
                r = ranks[t2, j]
                if numeric[j]:
                    gap = ranks[s, j] + push[a, j] - ranks[s2, j] - push[b, j]
                    square += gap * gap
                    r += gap
                    if r < 0 or r >= sizes[j]:
                        border = 2 * j + (1 if r > 0 else 0)
                        r = min(max(r, 0), sizes[j] - 1)
                elif ranks[s, j] != ranks[s2, j]:
                    square += 1
                    if r == ranks[s2, j]:
                        r = ranks[s, j]
                code = code * sizes[j] + r
            to = lookup[code] if placed[t2] else t2
            if square >= CLOSENESS.size or to < 0:
                continue
            share = w[i] * CLOSENESS[square]
            if border >= 0 and placed[t2]:
                B[AFTER, to] += share * halt[border]
                crossing[border] += share * (1.0 - halt[border])
            else:
                B[AFTER, to] += share
    for k in range(crossing.size):
        if crossing[k] > 0.0:
            for t in range(g.live.size):
                B[AFTER, t] += crossing[k] * out[k, t]
    _blend_down(B, AT[AFTER], AT[EDGE])


@kernel
def _leave(placed, S, B):
    """B[LEAVE] ← B[NEAR] among states with coordinates, B[OTHER] among those without."""
    stay, gone = 0.0, 0.0
    for t in range(S):
        if placed[t]:
            stay += B[NEAR, t]
        else:
            gone += B[OTHER, t]
    for t in range(S):
        B[LEAVE, t] = B[NEAR, t] * (1.0 - gone) / stay if placed[t] else B[OTHER, t]


@kernel
def _columns(g, s, lo, hi, first, last, B):
    """B[COLUMNS] ← product over columns of where near states' transitions moved that column."""
    begin, end, w, ranks, sizes, numeric = g.s, g.t, g.w, g.ranks, g.sizes, g.numeric
    placed, near, wide, live = g.placed, g.near, g.wide, g.live
    S, d = live.size, sizes.size
    most = 0
    for j in range(d):
        most = max(most, sizes[j])
    move = np.zeros((d, most))
    away, total = 0.0, 0.0
    for i in range(first, last):
        s2, t2 = begin[i], end[i]
        if (lo <= i < hi) or not placed[s2]:
            continue
        share = w[i] * (near[s, s2] + 0.1 * wide[s, s2] + 0.01)
        total += share
        if not placed[t2]:
            B[COLUMNS, t2] += share
            away += share
            continue
        for j in range(d):
            if numeric[j]:
                r = ranks[s, j] + ranks[t2, j] - ranks[s2, j]
                r = min(max(r, 0), sizes[j] - 1)
            elif ranks[t2, j] == ranks[s2, j]:
                r = ranks[s, j]
            else:
                r = ranks[t2, j]
            move[j, r] += share
    if total <= 0.0:
        for t in range(S):
            B[COLUMNS, t] = B[MARGINAL, t]
        return
    for j in range(d):
        weight = 0.5
        for r in range(sizes[j]):
            weight += move[j, r]
        for r in range(sizes[j]):
            move[j, r] = (move[j, r] + 0.5 / sizes[j]) / weight
    whole = 0.0
    for t in range(S):
        if live[t] and placed[t]:
            p = total - away
            for j in range(d):
                p *= move[j, ranks[t, j]]
            B[COLUMNS, t] = p
            whole += p
    for t in range(S):
        if placed[t] and whole > 0.0:
            B[COLUMNS, t] *= (total - away) / whole
    _blend_down(B, AT[COLUMNS], AT[MARGINAL])


@kernel(nogil=True)
def bases_at(rows, g, indptr, columns, out):
    """out (nnz, n_bases) ← bases of every row at its listed columns, normalised there.

    Returns the largest mass that a base has outside the columns.
    """
    g = unowned(g)
    own = _sums(g)
    x = unowned(own)
    B = np.empty((g.n_bases, g.live.size))
    lost = 0.0
    for i in range(rows.size):
        _row_bases(g, x, rows[i], B)
        for k in range(g.n_bases):
            total = 0.0
            for j in range(indptr[i], indptr[i + 1]):
                total += B[k, columns[j]]
            lost = max(lost, 1.0 - total)
            for j in range(indptr[i], indptr[i + 1]):
                out[j, k] = B[k, columns[j]] / total if total > 0.0 else 0.0
    keep_alive(own)
    return lost


@kernel
def heaviest(rows, g, width, kept):
    """kept (n_rows, S) bool ← the `width` next states of most base mass, and all that were seen."""
    g = unowned(g)
    own = _sums(g)
    x = unowned(own)
    S = g.live.size
    B, best = np.empty((g.n_bases, S)), np.empty(S)
    for i in range(rows.size):
        _row_bases(g, x, rows[i], B)
        for t in range(S):
            best[t] = 0.0
            for k in range(g.n_bases):
                if k != ALL:
                    best[t] -= B[k, t]
        heap = heap_of(best)
        for j in range(min(width, S)):
            t = smallest(heap, S - j, best)
            if g.live[t]:
                kept[i, t] = True
        for j in range(g.pair_lo[rows[i]], g.pair_hi[rows[i]]):
            kept[i, g.t[j]] = True
    keep_alive(own)


@kernel
def _draw_rows(rng, indptr, counts, base, blend, pick, strength, omega, n_models, out):
    """Fill model `omega` of `out`, laid out as `ModelSet.prob`: Dirichlet(counts + c·base) rows.

    `base` (nnz, n_bases); pick = n_bases asks for the blend Σ_k blend_k·base_k. Gamma variates are
    taken in logarithms, so that small concentrations do not underflow.
    """
    n_bases = blend.size
    for i in range(indptr.size - 1):
        lo, hi = indptr[i], indptr[i + 1]
        at = lo * n_models + omega * (hi - lo) - lo
        top = -np.inf
        for j in range(lo, hi):
            b = 0.0
            if pick[i] == n_bases:
                for k in range(n_bases):
                    b += blend[k] * base[j, k]
            else:
                b = base[j, pick[i]]
            shape = counts[j] + strength[i] * b
            if shape <= 0.0:
                g = -np.inf
            elif shape >= 0.3:
                g = np.log(rng.standard_gamma(shape))
            else:
                g = np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape
            out[at + j] = g
            top = max(top, g)
        total = 0.0
        for j in range(lo, hi):
            out[at + j] = np.exp(out[at + j] - top)
            total += out[at + j]
        for j in range(lo, hi):
            out[at + j] /= total


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
def draw_models(rng, p, base, blend, pseudo, doubt, first, size, n_models, out):
    """Fill models first … first + size of `out`, laid out as `ModelSet.prob`.

    They share bases and the weights of the ways; a model takes a way and a row for every pair.
    """
    n_rows, K, C = p.rows.size, p.loose.size, p.strengths.size
    weights, edges = np.empty(K), np.empty((n_rows, K))
    pick, strength = np.empty(n_rows, dtype=np.int64), np.empty(n_rows)
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
    for omega in range(first, first + size):
        for i in range(n_rows):
            u, k = rng.random() * edges[i, K - 1], 0
            while k < K - 1 and u > edges[i, k]:
                k += 1
            pick[i], strength[i] = k // C, p.strengths[k % C]
        _draw_rows(rng, p.indptr, p.counts, base, blend, pick, strength, omega, n_models, out)


def draw_sets(
    rng: np.random.Generator, p: Learned, g: Tokens, steps: int, pseudo: float, doubt: float,
    sizes: IntArray, out: FloatArray,
) -> None:  # fmt: skip
    """Fill `out`, laid out as `ModelSet.prob`, with sets of models that share bootstrapped bases.

    `sizes` are the models of every set. A set takes bootstrapped transitions, the bases they give
    and their blend. `g.w` is written over.
    """
    base, blend = np.empty((p.columns.size, g.n_bases)), np.empty(g.n_bases)
    cell = np.flatnonzero((p.counts > 0) & np.repeat(p.live, np.diff(p.indptr)))
    first, n_models = 0, int(sizes.sum())
    for size in sizes.tolist():
        rng.standard_gamma(p.n, out=g.w)
        bases_at(p.rows, g, p.indptr, p.columns, base)
        seen = rng.standard_gamma(p.counts[cell])
        blend_weights(np.ascontiguousarray(base[cell].T), seen, steps, pseudo, blend)
        draw_models(rng, p, base, blend, pseudo, doubt, first, size, n_models, out)
        first += size
