"""A prior learned from the log: rows borrow from what resembles them, as far as that has helped.

    p_{s,a} | k, c ~ Dirichlet(c·b_k(· | s, a)),     (k, c) ~ w,     n_{s,a} | p ~ multinomial

Row (s, a) has a base measure b_k out of those of `kernels.resemblance` (support, other actions,
displacement of the action in near states, …, and their blend) and a concentration c. The rows
integrate out, so the weights w of (k, c) are learned by EM on the Dirichlet-multinomial likelihood
of all rows; bases leave the row's own counts out, so that likelihood is one of prediction. A log in
which nothing resembles anything ends with small c.

A draw takes along what is not known: the weights (one EM step under Bayesian-bootstrap weights of
the rows), the bases (recomputed from bootstrapped transitions, so that rows which lean on the same
data err together) and their blend (learned anew from these), then (k, c) of every row from its
posterior, then the row. The bootstrap has `SETS` replicates, which belong to the fit: a draw takes
one of them by chance, so that draws are independent, and a million cost little more than their
rows. Where the log's rewards vary, mean rewards are drawn with the models (`reward_draws`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray, seal
from softrobust._core.limits import generator
from softrobust._core.notes import Note
from softrobust._core.settings import Natural, check_fields, instance, real
from softrobust.data import TransitionLog
from softrobust.data.labels import state_columns
from softrobust.data.rewards import DRAWN_REWARDS, Rewards
from softrobust.errors import InputError
from softrobust.kernels import get_num_threads
from softrobust.kernels import resemblance as kernels
from softrobust.kernels.evaluate import expected_in_models
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import Arrays, FittedPosterior, Posterior, check_count
from softrobust.posterior.diagnostics import TRANSITIONS, Diagnostics, check_size, predictive_check
from softrobust.posterior.resemblance import APART, Geometry, Tokens
from softrobust.posterior.reward_draws import RewardPosterior, Variances, drawn_rewards

BASES = (
    "plain", "all", "marginal", "other", "same", "far", "mid", "near", "place", "drift", "leave",
    "edge", "after", "columns", "outside",
)  # fmt: skip
BLEND = "blend"
Parts = tuple[FloatArray, FloatArray, FloatArray]  # of rewards: rows, next states, last steps
STRENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0)
WIDTH = 96  # next states of a row beyond which the least likely are dropped
TRIED = 2**16  # next states that are looked at together, of several rows
TOLD = 2.0  # by which the evidence for another metric must be higher
ENTERED = 3  # a state entered so often and never left is an end
EM_STEPS = 40
PSEUDO = 0.1  # rows that each (k, c) is given beforehand
DOUBT = 0.2  # share of rows that may be exceptions
LOOSE = 4.0  # concentrations of an exception, at most
FEWEST, REPLICATES = 8, 48  # bootstrapped sets of bases, each shared by a few draws
SHARED = 8
SETS = 1024  # replicates that draws are taken from, fewer (but `REPLICATES`) where they are large,
SET_BYTES = 2**27  # so that this holds them; what it does not hold is learned when it is needed


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedPosterior(Posterior):
    """Dirichlet rows whose base measures and concentrations are learned from all rows.

    Parameters
    ----------
    strengths : tuple of float
        Concentrations that a row may have.
    min_count : int
        Pairs observed fewer times than this get no model and cannot be chosen; 0 keeps all.
    entered : int
        A state that was entered this often and never left is an end (0: every state never left, as
        a problem needs it whose rewards are known only where something was done); others that were
        never left have rows of what resembles them.
    """

    name: ClassVar[str] = "learned"
    strengths: tuple[float, ...] = STRENGTHS
    min_count: Natural = 1
    entered: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        given = self.strengths if isinstance(self.strengths, (tuple, list)) else ()
        if not given:
            raise InputError(
                f"strengths must be concentrations such as (1, 4, 16); they are {self.strengths!r}."
            )
        numbers = tuple(real("Each of the strengths", c, above=0) for c in given)
        object.__setattr__(self, "strengths", numbers)

    @names_arguments
    def fit(
        self,
        log: TransitionLog,
        geometry: Geometry | None = None,
        variances: Variances | None = None,
    ) -> FittedLearned:
        """Learn the weights of bases and concentrations, and mean rewards where they are estimates.

        `geometry` spares reading the labels, `variances` (of a larger log) learning those of
        rewards.
        """
        instance("log", log, TransitionLog, hint="Read one by read_log(…).")
        known, common = _known(log), _common(log, geometry)
        if common.live.sum() <= WIDTH or get_num_threads() == 1:
            return self._fit(log, common, lambda: _rewards(log, known, common, variances))
        with ThreadPoolExecutor(1) as pool:  # rewards beside transitions: seconds of a large log
            later = pool.submit(copy_context().run, _rewards, log, known, common, variances)
            return self._fit(log, common, later.result)

    def _fit(
        self, log: TransitionLog, common: _Common, rewards: Callable[[], RewardPosterior | None]
    ) -> FittedLearned:
        tokens = common.tokens
        seen = np.asarray(log.pair_counts)
        entered = np.bincount(log.s_next, minlength=log.n_states)
        sinks = (seen.sum(axis=1) == 0) & (entered >= self.entered)
        if log.end is not None:
            sinks[log.end] = True
        kept = (seen >= self.min_count) & ~sinks[:, None]
        lost = ~kept.any(axis=1) & ~sinks
        kept[lost] = True  # never left, or never often enough: what resembles it must do
        kept[sinks, 0] = True
        rows = np.flatnonzero(kept.reshape(-1))
        indptr, columns = common.support(rows, sinks)
        counts = _counts_on(tokens, rows, log.shape, indptr, columns)
        counts[indptr[:-1][sinks[rows // log.n_actions]]] = 1.0
        base = np.empty((columns.size, common.n_bases))
        dropped = common.bases(rows, tokens.n, indptr, columns, base)
        live = ~sinks[rows // log.n_actions]
        # The blend: weights of the bases under which single transitions are likeliest, by EM.
        use = (counts > 0) & np.repeat(live, np.diff(indptr))
        blend, single = np.empty(base.shape[1]), np.ascontiguousarray(base[use].T)
        kernels.blend_weights(single, counts[use], EM_STEPS, PSEUDO, blend)
        strengths = np.array(self.strengths)
        score = _scores(base, blend, counts, indptr, strengths)
        score[~live] = 0.0
        taught = live & (np.add.reduceat(counts, indptr[:-1]) > 0)
        weights = _learn(score[taught])
        # The rows that taught the weights are the busy ones; a row elsewhere may be an exception,
        # and must be able to say so after a few observations.
        loose = _loose(weights.shape, strengths)
        weights = (1 - DOUBT) * weights / weights.sum() + DOUBT * loose
        return FittedLearned(
            self, log, common, rows, indptr, columns, counts, base, blend, score, weights, sinks,
            dropped, rewards(),
        )  # fmt: skip

    def restore(self, log: TransitionLog, arrays: Mapping[str, NDArray[Any]]) -> FittedLearned:
        """Fitted again; what takes seconds of a large log was kept."""
        if "columns" in arrays:
            common = _common(log)
            common.keep(*(arrays[name].astype(np.int64) for name in ("rows", "indptr", "columns")))
            if "variances" in arrays and drawn_rewards(log):
                learned = Variances.of_numbers(arrays["variances"])
                _known(log)[RewardPosterior] = RewardPosterior.fit(log, common.geometry, learned)
        return self.fit(log)


# What was learned of the last log's transitions, as long as they live: it is often fitted to twice.
_LAST: list[tuple[tuple[Any, ...], tuple[Any, ...], dict[Any, Any]]] = []


def _known(log: TransitionLog) -> dict[Any, Any]:
    """What is known of just these transitions and rewards already."""
    arrays = [x for x in (log.s, log.a, log.s_next, log.reward) if x is not None]
    about = (log.states, log.actions, log.end)
    for names, refs, known in _LAST:
        same = len(refs) == len(arrays) and all(a is b for a, b in zip(names, about, strict=True))
        if same and all(ref() is x for ref, x in zip(refs, arrays, strict=True)):
            return known
    _LAST[:] = [(about, tuple(weakref.ref(x, lambda _: _LAST.clear()) for x in arrays), {})]
    return _LAST[0][2]


def _rewards(
    log: TransitionLog, known: dict[Any, Any], common: _Common, variances: Variances | None
) -> RewardPosterior | None:
    """Mean rewards where they are estimates, learned once unless their variances are given."""
    if not drawn_rewards(log):
        return None
    if variances is not None:
        return RewardPosterior.fit(log, common.geometry, variances)
    if RewardPosterior not in known:
        known[RewardPosterior] = RewardPosterior.fit(log, common.geometry)
    learned: RewardPosterior = known[RewardPosterior]
    return learned


def _common(log: TransitionLog, geometry: Geometry | None = None) -> _Common:
    """What all rows of a log share, learned once."""
    known = _known(log)
    common: _Common | None = known.get(_Common)
    if common is None or (geometry is not None and geometry is not common.geometry):
        tokens = Tokens.of(log)
        common = _Common.of(log, Geometry.of(log.states) if geometry is None else geometry, tokens)
        known[_Common] = _measured(log, common) if geometry is None else common
    found: _Common = known[_Common]
    return found


def _measured(log: TransitionLog, common: _Common) -> _Common:
    """The same by the metric and pushes under which transitions are likeliest, one after another.

    Which columns matter for where a state leads is for the log to say: a season may change
    everything, a field's name nothing. So is whether actions move states by parts of ranks.
    """
    first = common.geometry
    if not first.has_coordinates or common.live.sum() > WIDTH:
        return common
    prior = LearnedPosterior(entered=ENTERED)
    best, at_best = common, prior._fit(log, common, lambda: None).evidence() + TOLD
    columns = range(first.sizes.size if first.sizes.size > 1 else 0)
    for j in (-1, *columns):
        now = best.geometry
        metric = np.where(np.arange(now.metric.size) == j, APART, now.metric)
        tried = replace(now, parts=True) if j < 0 else now.measured(metric)
        found = _Common.of(log, tried, common.tokens)
        likely = prior._fit(log, found, lambda: None).evidence()
        if likely > at_best:
            best, at_best = found, likely
    return best


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Common:
    """What all rows share: geometry, tokens, and the states thought to exist."""

    geometry: Geometry
    tokens: Tokens
    live: BoolArray
    n_actions: int
    push: FloatArray
    moves: tuple[IntArray, IntArray, IntArray]  # as `kernels.Tokens` has them
    lots: tuple[int, IntArray, IntArray]
    free: BoolArray  # (n_columns,) that actions do not move
    heavy: dict[bytes, BoolArray] = field(default_factory=dict)  # by rows, the last ones

    @classmethod
    def of(cls, log: TransitionLog, geometry: Geometry, tokens: Tokens) -> _Common:
        live = np.zeros(log.n_states, dtype=bool)
        live[log.s] = True
        live[log.s_next] = True
        push = np.zeros((log.n_actions, log.n_states, geometry.sizes.size))
        how = (geometry.moves(tokens), geometry.lots(), geometry.unmoved(tokens))
        common = cls(geometry, tokens, live, log.n_actions, push, *how)
        if geometry.has_coordinates:
            kernels.fill_pushes(common.weighted(tokens.n), push, geometry.parts)
        return common

    @property
    def n_bases(self) -> int:
        g = self.geometry
        if not g.has_coordinates:
            return kernels.FAR
        return kernels.COLUMNS + int(g.sizes.size > 1) * (1 + int(self.free.any()))

    def weighted(self, w: FloatArray) -> kernels.Tokens:
        """The tokens with weights w."""
        g, t = self.geometry, self.tokens
        return kernels.Tokens(
            self.n_actions, self.n_bases, t.first, t.last, t.action_ptr, t.s, t.t, w, g.ranks,
            g.sizes, g.numeric, g.lookup, g.metric, g.near, g.wide, g.placed, self.live, self.push,
            *self.moves, *self.lots, self.free,
        )  # fmt: skip

    def empty(self, w: FloatArray, width: int) -> tuple[kernels.Tokens, kernels.Sums, kernels.Room]:
        """Tokens with weights w, and room for their sums and for rows of so many columns."""
        S, d, tokens = self.live.size, 2 * self.geometry.sizes.size, self.weighted(w)
        shapes = ((S,), (self.n_actions, S), self.moves[2].shape, (d,), (d, S))
        sums = kernels.Sums(*(np.empty(shape) for shape in shapes))
        most = int((tokens.pair_hi - tokens.pair_lo).max(initial=1))
        return tokens, sums, kernels.room(tokens, max(width, most))

    def support(self, rows: IntArray, sinks: BoolArray) -> tuple[IntArray, IntArray]:
        """indptr (n_rows + 1,) and columns: the next states that rows may have."""
        kept = np.zeros((rows.size, self.live.size), dtype=bool)
        if self.live.sum() <= WIDTH:
            kept[:] = self.live
        elif (key := rows.tobytes()) in self.heavy:
            kept[:] = self.heavy[key]
        else:
            self._heaviest(rows, kept)
            self.heavy.clear()
            self.heavy[key] = kept.copy()
        still = sinks[rows // self.n_actions]
        kept[still] = False
        kept[still, rows[still] // self.n_actions] = True
        at, columns = np.divmod(np.flatnonzero(kept), self.live.size)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=rows.size))])
        return indptr, np.ascontiguousarray(columns)

    def keep(self, rows: IntArray, indptr: IntArray, columns: IntArray) -> None:
        """Take the support of rows as it was found before; what was seen must be in it."""
        kept = np.zeros((rows.size, self.live.size), dtype=bool)
        kept[np.repeat(np.arange(rows.size), np.diff(indptr)), columns] = True
        if not kept[self.seen(rows)].all():
            raise InputError("The kept next states of a row miss some that the log shows.")
        self.heavy[rows.tobytes()] = kept

    def _heaviest(self, rows: IntArray, kept: BoolArray) -> None:
        """kept (n_rows, S) ← the `WIDTH` next states of most base mass, and all that were seen."""
        S = self.live.size
        some, threads = max(1, TRIED // S), get_num_threads()
        every = np.tile(np.arange(S), some)
        tokens, sums, room = self.empty(self.tokens.n, S)
        kernels.bases_at(rows[:0], tokens, sums, room, every[:1], every, np.empty((0, 1)), True)

        def fill(start: int) -> None:
            own, mass = kernels.room(tokens, room.inside.size), np.empty((some * S, 1))
            for first in range(start * some, rows.size, threads * some):
                part = rows[first : first + some]
                indptr, cells = np.arange(part.size + 1) * S, part.size * S
                kernels.bases_at(part, tokens, sums, own, indptr, every[:cells], mass, False)
                best = np.argpartition(-mass[:cells].reshape(-1, S), WIDTH, axis=1)[:, :WIDTH]
                np.put_along_axis(kept[first : first + some], best, True, axis=1)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, range(threads)))
        kept &= self.live
        kept[self.seen(rows)] = True

    def seen(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Which of the rows every token of theirs is of, and its next state."""
        first, n = self.tokens.first[rows], (self.tokens.last - self.tokens.first)[rows]
        at = np.repeat(np.arange(rows.size), n)
        return at, self.tokens.t[np.arange(at.size) + (first - (np.cumsum(n) - n))[at]]

    def bases(
        self, rows: IntArray, w: FloatArray, indptr: IntArray, columns: IntArray, out: FloatArray
    ) -> float:
        """Fill `out` (nnz, n_bases) from transitions of weights w; the largest mass left out."""
        tokens, sums, room = self.empty(w, int(np.diff(indptr).max(initial=1)))
        return float(kernels.bases_at(rows, tokens, sums, room, indptr, columns, out, True))


def _counts_on(
    tokens: Tokens, rows: IntArray, shape: tuple[int, int], indptr: IntArray, columns: IntArray
) -> FloatArray:
    """(nnz,): counts of the tokens at the stored cells."""
    S, A = shape
    place = np.full(S * A, -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    action = np.repeat(np.arange(A), np.diff(tokens.action_ptr))
    row = place[tokens.s * A + action]
    use = row >= 0
    cell = np.repeat(np.arange(rows.size), np.diff(indptr)) * S + columns
    out = np.zeros(columns.size)
    out[np.searchsorted(cell, row[use] * S + tokens.t[use])] = tokens.n[use]
    return out


def _scores(
    base: FloatArray, blend: FloatArray, counts: FloatArray, indptr: IntArray, strengths: FloatArray
) -> FloatArray:
    """(n_rows, n_bases + 1, n_strengths): log likelihood of each row's counts under (k, c)."""
    use = np.flatnonzero(counts > 0)
    row = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))[use]
    B = np.concatenate([base[use], (base[use] @ blend)[:, None]], axis=1)
    n = counts[use][:, None, None]
    shape = np.maximum(B[:, :, None] * strengths, 1e-12)
    terms = gammaln(shape + n) - gammaln(shape)
    total = np.add.reduceat(counts, indptr[:-1])
    out = np.zeros((indptr.size - 1, B.shape[1], strengths.size))
    np.add.at(out, row, terms)
    out += (gammaln(strengths) - gammaln(strengths + total[:, None]))[:, None, :]
    return out


def _learn(score: FloatArray) -> FloatArray:
    """Weights (n_bases + 1, n_strengths) by EM, with a little mass given to each beforehand."""
    n, shape = score.shape[0], score.shape[1:]
    w = np.full(shape[0] * shape[1], 1.0 / (shape[0] * shape[1]))
    if not n:
        return w.reshape(shape)
    flat = score.reshape(n, -1)
    like = np.exp(flat - flat.max(axis=1, keepdims=True))
    for _ in range(EM_STEPS):
        joint = like * w
        w = (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0) + PSEUDO / w.size
        w /= w.sum()
    return w.reshape(shape)


def _loose(shape: tuple[int, ...], strengths: FloatArray) -> FloatArray:
    """Every base alike, at small concentrations."""
    loose = np.zeros(shape)
    loose[:, strengths <= max(LOOSE, strengths.min())] = 1.0
    return np.asarray(loose / loose.sum())


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """Replicates of bases and weights: those that are kept, and how others are learned."""

    common: _Common
    start: kernels.Learned
    n: int
    base: FloatArray  # (kept, nnz, n_bases + 1), with the blend
    edges: FloatArray  # (kept, n_rows, K)
    done: BoolArray  # (kept,)

    @classmethod
    def of(cls, fitted: FittedLearned, most: int) -> _Sets:
        """Room for at most so many, of which none is learned yet."""
        start, wide = fitted.start(), fitted.base.shape[1] + 1
        size = 8.0 * (fitted.columns.size * wide + start.responsible.size)
        n = min(most, max(REPLICATES, int(SET_BYTES / size)))
        kept = min(n, int(SET_BYTES / size))
        base = np.empty((kept, fitted.columns.size, wide))
        edges = np.empty((kept, *start.responsible.shape))
        return cls(fitted.common, start, n, base, edges, np.zeros(kept, dtype=bool))

    def room(self, n: int) -> tuple[FloatArray, FloatArray]:
        """For `n` more."""
        return np.empty((n, *self.base.shape[1:])), np.empty((n, *self.edges.shape[1:]))

    def learn(self, rng: np.random.Generator, base: FloatArray, edges: FloatArray) -> None:
        """Fill both from bootstrapped transitions."""
        width = int(np.diff(self.start.indptr).max(initial=1))
        own = self.common.empty(np.empty_like(self.start.n), width)
        kernels.learn_set(rng, self.start, *own, EM_STEPS, PSEUDO, DOUBT, base, edges)

    def keep(self, wanted: IntArray) -> None:
        """Learn those of them that are not there yet; threads that meet write the same."""
        for r in np.unique(wanted[~self.done[wanted]]):
            self.learn(np.random.default_rng([int(r), SETS]), self.base[r], self.edges[r])
            self.done[r] = True


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedLearned(FittedPosterior):
    """Counts, bases and learned weights; `rows` are the pairs that have a model."""

    settings: LearnedPosterior
    log: TransitionLog
    common: _Common
    rows: IntArray
    indptr: IntArray
    columns: IntArray
    counts: FloatArray
    base: FloatArray
    blend: FloatArray
    score: FloatArray
    weights: FloatArray
    sinks: BoolArray
    dropped: float
    rewards: RewardPosterior | None
    sets: list[_Sets] = field(default_factory=list)  # once somebody draws

    def arrays(self) -> Arrays:
        """What takes seconds to find again: the support of large logs, and their variances."""
        if self.common.live.sum() <= WIDTH:
            return {}
        small = np.uint16 if self.log.n_states <= 2**16 else np.int64
        found = {"rows": self.rows, "indptr": self.indptr, "columns": self.columns.astype(small)}
        if self.rewards is not None:
            found["variances"] = self.rewards.variances.numbers()
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The bases, in the order of `weights`."""
        return (*BASES[: self.base.shape[1]], BLEND)

    def responsibilities(self) -> FloatArray:
        """(n_rows, n_bases + 1, n_strengths): the posterior of (k, c) for every row."""
        flat = (self.score + np.log(np.maximum(self.weights, 1e-300))).reshape(self.rows.size, -1)
        joint = np.exp(flat - flat.max(axis=1, keepdims=True))
        return np.asarray((joint / joint.sum(axis=1, keepdims=True)).reshape(self.score.shape))

    def evidence(self) -> float:
        """Σ_rows log p(n_row | weights), and that of rewards: how well all was foreseen."""
        flat = (self.score + np.log(np.maximum(self.weights, 1e-300))).reshape(self.rows.size, -1)
        top = flat.max(axis=1)
        live = ~self.sinks[self.rows // self.common.n_actions]
        total = float((top + np.log(np.exp(flat - top[:, None]).sum(axis=1)))[live].sum())
        return total if self.rewards is None else total + self.rewards.evidence

    def mean_rows(self) -> FloatArray:
        """(nnz,): E[p | D] at the stored cells."""
        c = np.array(self.settings.strengths)
        total = np.add.reduceat(self.counts, self.indptr[:-1])
        lean = self.responsibilities() / (total[:, None, None] + c)
        row = np.repeat(np.arange(self.rows.size), np.diff(self.indptr))
        every = np.concatenate([self.base, (self.base @ self.blend)[:, None]], axis=1)
        mass = lean @ c
        out = self.counts * lean.sum(axis=(1, 2))[row] + np.einsum("jk,jk->j", every, mass[row])
        return np.asarray(out / np.add.reduceat(out, self.indptr[:-1])[row])

    def draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(nnz · n,): rows of `n` models at the stored cells, laid out as `ModelSet.prob`.

        A few models share bootstrapped bases, which spares time where only their mean and spread
        matter; those of `sample` are independent.
        """
        count = min(n, max(FEWEST, min(n // SHARED, REPLICATES)))
        sizes = np.full(count, n // count, dtype=np.int64)
        sizes[: n % count] += 1
        sets, out, first = _Sets.of(self, 0), np.empty(n * self.columns.size), 0
        base, edges = sets.room(1)
        for size in sizes.tolist():
            sets.learn(rng, base[0], edges[0])
            which = np.arange(first, first + size)
            kernels.draw_models(rng, sets.start, base, edges, 0 * which, which, n, out)
            first += size
        return out

    def _independent(self, n: int, rng: np.random.Generator) -> FloatArray:
        """The same of independent models; those of one replicate are drawn one after another."""
        if not self.sets:
            self.sets.append(_Sets.of(self, SETS))
        sets, out = self.sets[0], np.empty(n * self.columns.size)
        of = rng.integers(sets.n, size=n)
        order = np.argsort(of, kind="stable")
        kept = int((of < sets.done.size).sum())
        sets.keep(of[order[:kept]])
        which = order[:kept]
        kernels.draw_models(rng, sets.start, sets.base, sets.edges, of[which], which, n, out)
        base, edges = sets.room(int(kept < n))
        for r in np.unique(of[order[kept:]]):
            sets.learn(np.random.default_rng([int(r), SETS]), base[0], edges[0])
            which = np.flatnonzero(of == r)
            kernels.draw_models(rng, sets.start, base, edges, 0 * which, which, n, out)
        return out

    def start(self) -> kernels.Learned:
        """What every draw starts from."""
        c, K = np.array(self.settings.strengths), self.weights.size
        live = ~self.sinks[self.rows // self.common.n_actions]
        taught = (np.add.reduceat(self.counts, self.indptr[:-1]) > 0) & live
        flat = self.score.reshape(self.rows.size, K)
        return kernels.Learned(
            self.rows, self.indptr, self.columns, self.counts, self.common.tokens.n, live,
            np.flatnonzero(taught), self.responsibilities().reshape(-1, K),
            np.exp(flat - flat.max(axis=1, keepdims=True)), c,
            _loose(self.weights.shape, c).reshape(-1),
        )  # fmt: skip

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` draws with equal weights.

        Examples
        --------
        >>> from softrobust.data import TransitionLog
        >>> log = TransitionLog.from_arrays([0, 1, 0], ["go", "go", "go"], [1, 0, 1])
        >>> LearnedPosterior().fit(log).sample(3, seed=0)
        ModelSet(3 models, 2 states, 1 actions, dense)
        """
        check_count(n, self.columns.size)
        rng = generator(seed)
        prob = self._independent(n, rng)
        if self.rewards is None or self.rewards.exact.size:  # nothing of them is uncertain
            return self.storage(prob, n)
        return self.paid(prob, n, self.expected_rewards(prob, self.reward_parts(n, rng)))

    def mean(self) -> ModelSet:
        """The one-model set of posterior means."""
        return self.storage(self.mean_rows(), 1)

    def paid(self, prob: FloatArray, n: int, R: FloatArray) -> ModelSet:
        """`n` models with rewards R (n_states, n_actions, n) of their own."""
        widths = np.repeat(np.diff(self.indptr), n)  # of the block (n, n_next) of every row
        flat = seal(np.repeat(R.reshape(-1, n)[self.rows].reshape(-1), widths))  # not copied again
        rewards = replace(Rewards.of_models(flat, *R.shape[:2]), notes=(Note(DRAWN_REWARDS),))
        return replace(self.storage(prob, n), rewards=rewards)

    def reward_parts(self, n: int, rng: np.random.Generator | None = None) -> Parts:
        """Parts of mean rewards, (n_rows, n), (n, n_states) and (n, n_states); means without rng.

        Of the pair, of the next state, and of a last step.
        """
        S = self.log.n_states
        if self.rewards is None:
            return np.zeros((self.rows.size, n)), np.zeros((n, S)), np.zeros((n, S))
        u, z, e = self.rewards.means() if rng is None else self.rewards.draws(n, rng)
        row = np.ascontiguousarray(u[:, self.rows].T)
        return row, np.ascontiguousarray(z), np.ascontiguousarray(e)

    def expected_rewards(self, prob: FloatArray, parts: Parts) -> FloatArray:
        """(n_states, n_actions, n): expected rewards of models; 0 for pairs without a model."""
        S, A = self.log.shape
        out, n = parts[0].copy(), parts[1].shape[0]
        exact, value = self._known_rewards()
        end = -1 if self.log.end is None else self.log.end
        expected_in_models(
            self.indptr, self.columns, prob, n, self.rows // A, end, parts[1], parts[2], value,
            exact, out,
        )  # fmt: skip
        out[self.sinks[self.rows // A]] = 0.0
        R = np.zeros((S * A, n))
        R[self.rows] = out
        return R.reshape(S, A, n)

    def mean_outcomes(self) -> FloatArray:
        """(nnz,): the mean reward of every stored transition."""
        (row, after, last), (exact, value) = self.reward_parts(1), self._known_rewards()
        place = np.repeat(np.arange(self.rows.size), np.diff(self.indptr))
        state = self.rows[place] // self.log.n_actions
        ends = self.columns == (-1 if self.log.end is None else self.log.end)
        mean = row[place, 0] + after[0, self.columns] + np.where(ends, last[0, state], 0.0)
        return np.where(self.sinks[state], 0.0, np.where(exact, value, mean))

    def _known_rewards(self) -> tuple[BoolArray, FloatArray]:
        """Cells whose reward is known, (nnz,), and that reward."""
        pair = np.repeat(self.rows, np.diff(self.indptr))
        if self.rewards is not None:
            return self.rewards.known(pair * self.log.n_states + self.columns)
        given = self.log.rewards
        if given is None:
            raise InputError("The log has no rewards. Add a reward column, or give them.")
        value, known = given.lookup(pair, self.columns)
        seen, told = given.at(self.log.s, self.log.a, self.log.s_next)
        usual = float(seen[told].mean()) if told.any() else 0.0
        return np.ones(pair.size, dtype=bool), np.where(known, value, usual)

    def storage(self, prob: FloatArray, n: int) -> ModelSet:
        """`n` models from rows at the stored cells, laid out as `ModelSet.prob`."""
        widths = np.zeros(len(self.log.states) * len(self.log.actions), dtype=np.int64)
        widths[self.rows] = np.diff(self.indptr)
        return ModelSet(
            indptr=np.concatenate([[0], np.cumsum(widths)]),
            next_states=self.columns.astype(np.int32),
            prob=seal(prob),
            f=np.full(n, 1.0 / n),
            states=self.log.states,
            actions=self.log.actions,
            sinks=self.sinks,
            taken=self.log.pair_counts,
        )

    def diagnostics(self) -> Diagnostics:
        """Draws are independent; the predictive check asks whether the log is typical of them."""
        models = self.sample(check_size(self.columns.size), seed=0)
        return Diagnostics.of_exact({TRANSITIONS: predictive_check(models, self.log)})

    def learned(self) -> dict[str, Any]:
        """What the log said resembles what, as data.

        `bases` are weights by name, `strength` the median concentration (in observations),
        `borrowed` the mean share of a row that comes from its base, `apart` the columns in which
        states must agree to resemble each other, `dropped` the largest mass of a base that the
        stored next states leave out.
        """
        geometry = self.common.geometry
        placed = np.flatnonzero(geometry.placed)
        columns = state_columns(self.log.states[int(s)] for s in placed) or {}
        apart = [name for name, m in zip(columns, geometry.metric, strict=False) if int(m) == APART]
        c = np.array(self.settings.strengths)
        by_base = self.weights.sum(axis=1)
        total = np.add.reduceat(self.counts, self.indptr[:-1])
        live = (total > 0) & ~self.sinks[self.rows // self.common.n_actions]
        resp = self.responsibilities()[live]
        share = (resp * (c / (total[live][:, None, None] + c))).sum(axis=(1, 2))
        over = np.cumsum(self.weights.sum(axis=0))
        return {
            "bases": {k: float(v) for k, v in zip(self.names, by_base, strict=True)},
            "blend": {k: float(v) for k, v in zip(self.names, self.blend, strict=False)},
            "strength": float(c[min(int(np.searchsorted(over, 0.5)), c.size - 1)]),
            "borrowed": float(share.mean()) if share.size else 1.0,
            "coordinates": int(geometry.sizes.size),
            "apart": apart,
            "dropped": self.dropped,
        }

    def __repr__(self) -> str:
        best = self.names[int(np.argmax(self.weights.sum(axis=1)))]
        return f"FittedLearned({self.rows.size} rows, mostly '{best}')"
