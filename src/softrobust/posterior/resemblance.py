"""What the labels of states say of their order: coordinates, nearness, displacement.

A state "n=7", "7", "x=1|y=2" or "bp=high|age=3–5" has one coordinate per column. Numbers and
intervals are ordered by size and enter as ranks (0, 1, 2, …); words are compared for equality only.
Whether any of this helps to predict transitions is for the log to say (`posterior.learned`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from softrobust._core.arrays import FloatArray, IntArray, Sealed, counted
from softrobust.data import TransitionLog
from softrobust.data.labels import Labels, split_state, state_columns
from softrobust.data.log import END
from softrobust.errors import InputError

_NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SCALES = (
    ("very low", "low", "medium", "high", "very high"),
    ("low", "mid", "high"),
    ("low", "middle", "high"),
    ("low", "normal", "high"),
    ("none", "mild", "moderate", "severe"),
    ("small", "medium", "large"),
    ("bad", "fair", "good"),
    ("poor", "fair", "good"),
    ("no", "yes"),
    ("false", "true"),
)
_WORDS = frozenset(word for scale in _SCALES for word in scale)
NARROW, WIDE = 1.0, 3.0  # widths of the two kernels, in ranks
PAIRS = 2**16  # of states that are compared together
APART = 9  # times the squared distance, in a column whose values hardly resemble each other
MOST_LEVELS = 500  # values of all columns together, up to which drifts are looked for
MOST_STATES = 20_000  # of which all pairs are compared: two tables of 3 GiB, hardly ever filled
LARGEST_GRID = 4_000_000  # combinations of ranks up to which a table finds a state


@final
@dataclass(frozen=True, slots=True, eq=False)
class Geometry(Sealed):
    """Where states lie.

    Attributes
    ----------
    ranks : (n_states, n_columns) int64
        Coordinates; zeros where a state has none.
    sizes : (n_columns,) int64
        Number of ranks per column; empty without coordinates.
    numeric : (n_columns,) bool
        Whether the column is ordered; others are compared for equality.
    lookup : (Π sizes,) int64
        State of a combination of ranks, −1 where there is none.
    metric : (n_columns,) int64
        What a rank of a column counts in squared distances: 1, or `APART` where states that differ
        in it hardly resemble each other.
    near, wide : (n_states, n_states)
        Kernels of nearness.
    parts : bool
        Whether actions move states by parts of ranks, and further the larger a rank is.
    placed : (n_states,) bool
        States that have coordinates; "(end)", and names of another form ("dead" beside "stage 1",
        "stage 2"), have none.
    """

    ranks: IntArray
    sizes: IntArray
    numeric: NDArray[np.bool_]
    lookup: IntArray
    metric: IntArray
    near: FloatArray
    wide: FloatArray
    placed: NDArray[np.bool_]
    parts: bool = False

    @property
    def has_coordinates(self) -> bool:
        """Whether displacement means anything here."""
        return bool(self.sizes.size)

    @classmethod
    def of(cls, states: Labels) -> Geometry:
        """Read the coordinates off the labels; none where they do not place every state."""
        names = list(states)
        if len(names) > MOST_STATES:
            raise InputError(
                f"The learned prior compares every two states, and takes at most {MOST_STATES:,}; "
                f"this log has {len(names):,}. Group values into states (bins), or use a posterior "
                "that compares none: dirichlet.",
                arguments={"posterior": "dirichlet"},
            )
        placed = _common_form(names)
        inner = [name for name, has in zip(names, placed, strict=True) if has]
        columns = _columns(inner) if len(inner) > 1 else None
        if columns is None or len(set(zip(*(c[0] for c in columns), strict=True))) < len(inner):
            return cls.without(len(names))
        sizes = np.array([max(c[0]) + 1 for c in columns], dtype=np.int64)
        if sizes.prod(dtype=float) > LARGEST_GRID:
            return cls.without(len(names))
        ranks = np.zeros((len(names), sizes.size), dtype=np.int64)
        ranks[placed] = np.array([c[0] for c in columns]).T
        numeric = np.array([c[1] for c in columns], dtype=bool)
        code = np.zeros(len(names), dtype=np.int64)
        for j, size in enumerate(sizes):
            code = code * size + ranks[:, j]
        lookup = np.full(int(sizes.prod()), -1, dtype=np.int64)
        lookup[code[placed]] = np.flatnonzero(placed)
        metric = np.ones_like(sizes)
        near, wide = _kernels(ranks, numeric, placed, metric)
        return cls(ranks, sizes, numeric, lookup, metric, near, wide, placed)

    def measured(self, metric: IntArray) -> Geometry:
        """The same states by another metric."""
        near, wide = _kernels(self.ranks, self.numeric, self.placed, metric)
        return replace(self, metric=metric, near=near, wide=wide)

    def unmoved(self, tokens: Tokens) -> NDArray[np.bool_]:
        """(n_columns,): those that actions do not move, by evidence.

        Where a column goes from a state is Dirichlet(½, …) for all actions together, or for each.
        Many ranks hide a drift: where a column is ordered, actions must not differ in its mean
        displacement given the values of all columns, either (by Schwarz's criterion).
        """
        inside = self.placed[tokens.s] & self.placed[tokens.t]
        a = np.repeat(np.arange(tokens.action_ptr.size - 1), np.diff(tokens.action_ptr))[inside]
        s, t, n = tokens.s[inside], tokens.t[inside], tokens.n[inside]
        out = np.zeros(self.sizes.size, dtype=bool)
        for j, size in enumerate(self.sizes if self.sizes.size > 1 else ()):
            known = []
            for who in (s, s * a.max(initial=0) + s + a):
                of = np.unique(who, return_inverse=True)[1]
                at = np.unique(of * size + self.ranks[t, j], return_inverse=True)[1]
                inner = (gammaln(0.5 + np.bincount(at, n)) - gammaln(0.5)).sum()
                total = np.bincount(of, n)
                known.append(inner + (gammaln(0.5 * size) - gammaln(0.5 * size + total)).sum())
            out[j] = known[0] > known[1] and not (self.numeric[j] and self._drifts(j, s, a, t, n))
        return out

    def _drifts(self, j: int, s: IntArray, a: IntArray, t: IntArray, n: FloatArray) -> bool:
        """Whether actions differ in how far column j moves, given the values of all columns."""
        used, by = np.unique(a, return_inverse=True)
        levels = int(self.sizes.sum())
        if used.size < 2 or levels > MOST_LEVELS:
            return False
        moved = (self.ranks[t, j] - self.ranks[s, j]).astype(np.float64)
        first = np.cumsum(self.sizes) - self.sizes  # of the values of every column
        at = np.concatenate([self.ranks[s] + first, levels + by[:, None]], axis=1)
        ptr = np.arange(s.size + 1) * at.shape[1]
        shape = s.size, levels + used.size
        X = sp.csr_array((np.ones(at.size), at.reshape(-1), ptr), shape=shape)
        gram = (X.T @ (X * n[:, None])).toarray()
        target, rest = X.T @ (n * moved), []
        for k in (levels, levels + used.size):
            fit = np.linalg.lstsq(gram[:k, :k], target[:k], rcond=None)[0]
            rest.append(float(n @ np.square(moved - X[:, :k] @ fit)))
        least = 1e-9 * float(n @ np.square(moved))
        if rest[1] <= least:
            return rest[0] > least
        rows = float(n.sum())
        return bool(rows * np.log(rest[0] / rest[1]) > (used.size - 1) * np.log(rows))

    def moves(self, tokens: Tokens) -> tuple[IntArray, IntArray, IntArray]:
        """Transitions of an action that are the same displacement, as `kernels.Tokens` has them.

        The move of a token (n,), −1 from a state without coordinates; ranges of the actions'
        moves; a token of every move. In columns of words it is the same to stay, or to go to the
        same word.
        """
        n, A = tokens.s.size, tokens.action_ptr.size - 1
        if not self.has_coordinates:
            return np.full(n, -1), np.zeros(A + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        before, after, on = self.ranks[tokens.s], self.ranks[tokens.t], self.placed[tokens.t]
        words = np.where(before == after, -1, after)
        how = np.where(on[:, None], np.where(self.numeric, after - before, words), 0)
        action = np.repeat(np.arange(A), np.diff(tokens.action_ptr))
        keys = np.column_stack([action, np.where(on, -1, tokens.t), how])
        use = np.flatnonzero(self.placed[tokens.s])
        found, first, at = np.unique(keys[use], axis=0, return_index=True, return_inverse=True)
        move = np.full(n, -1, dtype=np.int64)
        move[use] = at.reshape(-1)
        return move, np.searchsorted(found[:, 0], np.arange(A + 1)), use[first]

    def lots(self) -> tuple[int, IntArray, IntArray]:
        """The ordered column of most ranks (−1: none), and states by their rank there."""
        states = np.flatnonzero(self.placed)
        if not self.numeric.any():
            return -1, np.array([0, states.size]), states
        main = int(np.argmax(np.where(self.numeric, self.sizes, 0)))
        rank = self.ranks[states, main]
        order = np.argsort(rank, kind="stable")
        edges = np.searchsorted(rank[order], np.arange(self.sizes[main] + 1))
        return main, edges, states[order]

    @classmethod
    def without(cls, n_states: int) -> Geometry:
        """No coordinates."""
        none, flat = np.zeros(0, dtype=np.int64), np.zeros((n_states, n_states))
        return cls(
            np.zeros((n_states, 0), dtype=np.int64), none, none.astype(bool), none, none, flat,
            flat, np.zeros(n_states, dtype=bool),
        )  # fmt: skip


def _common_form(names: Sequence[str]) -> NDArray[np.bool_]:
    """The states whose names have the commonest form: digits aside, or the same columns."""
    forms = []
    for name in names:
        parts = split_state(name)
        if name == END:
            forms.append("")
        elif parts is not None:
            forms.append("|".join(parts))
        elif name.strip().casefold() in _WORDS:
            forms.append("word")
        else:
            forms.append("#" if _size(name) is not None else _NUMBER.sub("#", name))
    usable = [form for form in forms if form]
    if not usable:
        return np.zeros(len(names), dtype=bool)
    best = max(dict.fromkeys(usable), key=usable.count)
    return np.array([form == best for form in forms])


def _kernels(
    ranks: IntArray, numeric: NDArray[np.bool_], placed: NDArray[np.bool_], metric: IntArray
) -> tuple[FloatArray, FloatArray]:
    """exp(−d²/2h²) for both widths; words that differ are one rank apart."""
    S, most, tables = ranks.shape[0], int(14 * WIDE**2) + 1, []
    for width in (NARROW, WIDE):
        by_square = np.exp(-np.arange(most + 1) / (2 * width**2))
        by_square[by_square < 1e-3] = 0.0  # from e^−7 on
        tables.append(by_square)
    near, wide = np.zeros((S, S)), np.zeros((S, S))
    some = max(1, PAIRS // max(S, 1))
    for first in range(0, S, some):  # mostly nothing is near
        square = np.zeros((min(some, S - first), S), dtype=np.int64)
        for j in range(numeric.size):
            gap = ranks[first : first + some, None, j] - ranks[None, :, j]
            square += metric[j] * (gap * gap if numeric[j] else (gap != 0))
        np.minimum(square, most, out=square)
        square[~placed[first : first + some]], square[:, ~placed] = most, most
        at = np.flatnonzero(square < most)
        for kernel, by_square in zip((near, wide), tables, strict=True):
            kernel[first : first + some].reshape(-1)[at] = by_square[square.reshape(-1)[at]]
    return near, wide


def _columns(names: Sequence[str]) -> list[tuple[list[int], bool]] | None:
    """Ranks and orderedness of every column of the labels; None if they have no common form."""
    parts = state_columns(names)
    if parts is not None:
        coded = (np.unique(values, return_inverse=True)[1].tolist() for values in parts.values())
        return [_ranks(v) or (codes, False) for v, codes in zip(parts.values(), coded, strict=True)]
    forms = {_NUMBER.sub("#", name) for name in names}
    found = [_NUMBER.findall(name) for name in names]
    if len(forms) == 1 and found[0]:
        spots = list(zip(*found, strict=True))
        ranked = [_ranks(spot) for spot in spots]
        return [r for r in ranked if r is not None and max(r[0]) > 0] or None
    whole = _ranks(names)
    return None if whole is None else [whole]


def _ranks(values: Sequence[str]) -> tuple[list[int], bool] | None:
    """Ranks of numbers, intervals ("3–5" by its middle) or words of a common scale."""
    numbers = [_size(value) for value in values]
    if all(x is not None for x in numbers):
        ordered = sorted({x for x in numbers if x is not None})
        place = {x: i for i, x in enumerate(ordered)}
        return [place[x] for x in numbers if x is not None], True
    words = [value.strip().casefold() for value in values]
    for scale in _SCALES:
        if set(words) <= set(scale):
            kept = [word for word in scale if word in set(words)]
            return [kept.index(word) for word in words], True
    return None


def _size(value: str) -> float | None:
    """A number, the middle of an interval, or the edge of an open one just beyond it."""
    text = value.strip().replace("−", "-")
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        return number if np.isfinite(number) else None
    found = [float(x) for x in re.findall(r"\d+(?:\.\d+)?", text)]
    if len(found) == 2 and re.fullmatch(
        r"[\[(]?-?[\d.]+\s*(?:–|-|to|\.\.|…|,|;)\s*-?[\d.]+[\])]?", text
    ):
        return sum(found) / 2
    if len(found) == 1 and re.match(r"[<≤]|under|below|up to", text):
        return found[0] - 1e-6 * max(1.0, abs(found[0]))
    if len(found) == 1 and re.search(r"^(?:[>≥]|over|above)|\+$", text):
        return found[0] + 1e-6 * max(1.0, abs(found[0]))
    return None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Distinct transitions and how often each was seen; those of pair k are first[k] : last[k]."""

    s: IntArray
    t: IntArray
    n: FloatArray
    first: IntArray
    last: IntArray
    action_ptr: IntArray

    @classmethod
    def of(cls, log: TransitionLog) -> Tokens:
        """Count the transitions of a log."""
        S, A = log.shape
        key = (log.a.astype(np.int64) * S + log.s) * S + log.s_next
        keys, n, _ = counted(key, A * S * S)
        head, t = np.divmod(keys, S)
        a, s = np.divmod(head, S)
        wanted = (np.arange(A)[None, :] * S + np.arange(S)[:, None]).reshape(-1)
        return cls(
            s,
            t,
            n.astype(np.float64),
            np.searchsorted(head, wanted),
            np.searchsorted(head, wanted, side="right"),
            np.searchsorted(a, np.arange(A + 1)),
        )
