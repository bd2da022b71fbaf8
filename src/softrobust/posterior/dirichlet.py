"""Independent Dirichlet posteriors for tables: p_{s,a} | D ~ Dirichlet(prior + counts).

The prior spreads a total mass `strength` evenly over the support of the pair; `per_cell=1` puts
mass 1 on every next state of the support instead, which with `support="all"` is the paper's
uniform prior. Draws are exact: normalised gamma variates, taken in logarithms where a
concentration is so small that the variate itself would underflow.

`HierarchicalPosterior` learns the strength from the log:

    p_{s,a} ~ Dirichlet(κ/m, …, κ/m) on the m next states of the pair,   log κ ~ Normal(log c, τ²)

The rows integrate out: given κ a pair's counts are Dirichlet-multinomial, so p(κ | D) is a density
on a line, drawn from a grid; given κ the rows are Dirichlet. No chain is needed. A log whose rows
are concentrated pulls κ below 1, one whose rows are spread pulls it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, found_at, seal
from softrobust._core.limits import generator
from softrobust._core.settings import Natural, check_fields, instance, real
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import FittedPosterior, Posterior, Seed, check_count
from softrobust.posterior.diagnostics import TRANSITIONS, Diagnostics, check_size, predictive_check
from softrobust.posterior.sampling import GridDensity, dirichlet_rows

Mass = Annotated[float, partial(real, above=0, hint="It is a positive prior mass.")]
OfLogNormal = Annotated[float, partial(real, above=0, hint="It describes a log-normal law.")]
SUPPORTS = ("neighbours", "visited", "all")
CHUNK = 2_000_000  # gamma variates drawn at a time
REACH = 8.0  # prior standard deviations of log κ that the grid covers on each side


@final
@dataclass(frozen=True, slots=True, eq=False)
class DirichletPosterior(Posterior):
    """One Dirichlet for each pair of state and action.

    Parameters
    ----------
    strength : float
        Total prior mass of a pair, spread evenly over its support.
    support : "neighbours", "visited", "all" or a bool mask
        The next states thought possible: those observed after the state under any action and the
        state itself; every state in the log; every state; or (n_states, n_states) or
        (n_states, n_actions, n_states).
    per_cell : float, optional
        Prior mass of each next state in the support, instead of `strength`.
    min_count : int
        Pairs observed fewer times than this get no model and cannot be chosen; 0 keeps all.
    """

    name: ClassVar[str] = "dirichlet"
    strength: Mass = 1.0
    support: str | BoolArray = "neighbours"
    per_cell: Mass | None = None
    min_count: Natural = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def fit(self, log: TransitionLog) -> FittedDirichlet:
        """Add the observed counts to the prior."""
        instance("log", log, TransitionLog, hint="Read one by read_log(…).")
        S, A = len(log.states), len(log.actions)
        seen = np.asarray(log.pair_counts)
        left = seen.sum(axis=1) > 0
        end = np.zeros(S, bool) if log.end is None else np.arange(S) == log.end
        sinks = end if self.min_count == 0 else ~left
        kept = (seen >= self.min_count) & ~sinks[:, None]
        stuck = np.flatnonzero(~kept.any(axis=1) & ~sinks)
        if stuck.size:
            s = int(stuck[0])
            raise InputError(
                f"No action is left in state '{log.states[s]}': none was seen {self.min_count} "
                f"times or more (the most is {int(seen[s].max())}; {stuck.size} such states). "
                "Lower min_count or collect more data there.",
                arguments={"min_count": "1"},
            )
        indptr, next_states = _pair_support(log, kept, self.support)
        widths = np.diff(indptr)
        empty = np.flatnonzero(kept.reshape(-1) & (widths == 0))
        if empty.size:
            s, a = divmod(int(empty[0]), A)
            raise InputError(
                f"The support mask allows no next state for state '{log.states[s]}', action "
                f"'{log.actions[a]}'. Allow at least one."
            )
        pair = np.repeat(np.arange(S * A), widths)
        prior = self.strength / widths[pair] if self.per_cell is None else self.per_cell
        concentration = prior + _counts_on(log, pair, next_states, kept)
        return FittedDirichlet(self, log, indptr, next_states, concentration, sinks)


def _counts_on(
    log: TransitionLog, pair: IntArray, next_states: NDArray[np.int32], kept: BoolArray
) -> FloatArray:
    """Counts of the log at the stored (pair, next state) entries; one outside them is an error."""
    S = len(log.states)
    k, s_next, count = log.counts()
    use = kept.reshape(-1)[k]
    keys, wanted = pair * S + next_states, k[use] * S + s_next[use]
    at, hit = found_at(keys, wanted)
    missing = np.flatnonzero(~hit)
    if missing.size:
        s, a = divmod(int(k[use][missing[0]]), len(log.actions))
        raise InputError(
            f"The support mask forbids a transition that the log holds: state '{log.states[s]}', "
            f"action '{log.actions[a]}', next state '{log.states[int(s_next[use][missing[0]])]}'."
        )
    out = np.zeros(keys.size)
    out[at] = count[use]
    return out


def _pair_support(
    log: TransitionLog, kept: BoolArray, support: str | BoolArray
) -> tuple[IntArray, NDArray[np.int32]]:
    """`indptr` (S·A + 1,) and ascending `next_states` of every kept pair; others list nothing."""
    S, A = kept.shape
    if isinstance(support, str):
        if support not in SUPPORTS:
            raise InputError(
                f"support must be one of {', '.join(SUPPORTS)} or a mask; it is '{support}'."
            )
        own = np.arange(S)
        if support == "neighbours":  # those seen after the state, and itself
            pairs, seen, _ = log.counts()
            keys = np.unique(np.concatenate([pairs // A * S + seen, own * S + own]))
            return _by_state(keys // S, keys % S, kept)
        if support == "visited":
            own = np.unique(np.concatenate([log.s, log.s_next])).astype(np.int64)
        return _by_state(np.repeat(np.arange(S), own.size), np.tile(own, S), kept)
    mask = np.asarray(support, dtype=bool)
    if mask.shape == (S, S):
        s, s_next = np.nonzero(mask)
        return _by_state(s, s_next, kept)
    if mask.shape != (S, A, S):
        raise InputError(
            f"A support mask has shape (n_states, n_states) = {(S, S)} or {(S, A, S)}; "
            f"it has {mask.shape}."
        )
    pair, s_next = np.nonzero((mask & kept[:, :, None]).reshape(S * A, S))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=S * A))])
    return indptr, s_next.astype(np.int32)


def _by_state(s: IntArray, s_next: IntArray, kept: BoolArray) -> tuple[IntArray, NDArray[np.int32]]:
    """Give every kept pair the list of its state; (s, s_next) is sorted by s, then s′."""
    S, A = kept.shape
    starts = np.concatenate([[0], np.cumsum(np.bincount(s, minlength=S))])
    widths = np.where(kept, np.diff(starts)[:, None], 0).reshape(-1)
    indptr = np.concatenate([[0], np.cumsum(widths)])
    k = np.flatnonzero(widths)
    # Position j of pair k is entry starts[s] + j of its state's list.
    offset = np.repeat(starts[k // A] - indptr[k], widths[k])
    return indptr, s_next[offset + np.arange(indptr[-1])].astype(np.int32)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedDirichlet(FittedPosterior):
    """Dirichlet concentrations on the shared storage of `ModelSet`."""

    settings: DirichletPosterior
    log: TransitionLog
    indptr: IntArray
    next_states: NDArray[np.int32]
    concentration: FloatArray
    sinks: BoolArray

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` exact, independent draws with equal weights.

        Examples
        --------
        >>> from softrobust.data import TransitionLog
        >>> log = TransitionLog.from_arrays([0, 1, 0], ["go", "go", "go"], [1, 0, 1])
        >>> DirichletPosterior().fit(log).sample(3, seed=0)
        ModelSet(3 models, 2 states, 1 actions, dense)
        """
        check_count(n, self.next_states.size)
        rng = generator(seed)
        return self.storage(dirichlet_blocks(self.indptr, self.concentration, n, rng), n)

    def mean(self) -> ModelSet:
        """The one-model set of posterior means."""
        pair = np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))
        total = np.bincount(pair, weights=self.concentration, minlength=self.indptr.size - 1)
        return self.storage(self.concentration / total[pair], 1)

    def diagnostics(self) -> Diagnostics:
        """Draws are exact; the predictive check asks whether the log is typical of the models."""
        models = self.sample(check_size(self.next_states.size), seed=0)
        return Diagnostics.of_exact({TRANSITIONS: predictive_check(models, self.log)}, "learned")

    def describe(self) -> dict[str, Any]:
        """Settings and data hash."""
        own = self.settings.support
        return FittedPosterior.describe(self) | {"support": own if isinstance(own, str) else "mask"}

    def storage(self, prob: FloatArray, n: int) -> ModelSet:
        """Models from blocks of rows; a state that was never left stays where it is."""
        A = len(self.log.actions)
        sink_states = np.flatnonzero(self.sinks)
        at = self.indptr[sink_states * A]  # sinks list nothing, so an entry goes in here
        extra = np.zeros(self.indptr.size, dtype=np.int64)
        extra[sink_states * A + 1] = 1
        return ModelSet(
            indptr=self.indptr + np.cumsum(extra),
            next_states=np.insert(self.next_states, at, sink_states),
            prob=seal(np.insert(prob, np.repeat(at * n, n), 1.0) if at.size else prob),
            f=np.full(n, 1.0 / n),
            states=self.log.states,
            actions=self.log.actions,
            sinks=self.sinks,
            taken=self.log.pair_counts,
        )

    def __repr__(self) -> str:
        return f"FittedDirichlet({self.settings}, {int(self.log.pair_counts.sum())} transitions)"


def dirichlet_blocks(
    indptr: IntArray,
    concentration: FloatArray,
    n: int,
    rng: np.random.Generator,
    extra: FloatArray | None = None,
) -> FloatArray:
    """Flat (nnz · n,) Dirichlet rows of every pair, model-major, as `ModelSet.prob` wants them.

    `extra` (n_pairs, n) is added to every concentration of a pair: prior mass that differs by draw.
    """
    prob = np.empty(concentration.size * n)
    widths = np.diff(indptr)
    for width in np.unique(widths[widths > 0]):
        pairs = np.flatnonzero(widths == width)
        step = max(1, CHUNK // int(width * n))
        for lo in range(0, pairs.size, step):
            k = pairs[lo : lo + step]
            shape = concentration[indptr[k][:, None] + np.arange(width)][:, None, :]
            rows = dirichlet_rows(rng, shape if extra is None else shape + extra[k][:, :, None], n)
            cells = indptr[k][:, None] * n + np.arange(n * width)
            prob[cells] = rows.reshape(k.size, -1)
    return prob


@final
@dataclass(frozen=True, slots=True, eq=False)
class HierarchicalPosterior(Posterior):
    """One Dirichlet per pair, with one strength κ for all, learned.

    Parameters
    ----------
    centre, spread : float
        log κ ~ Normal(log centre, spread²): by default κ lies within 1/20 … 20 at two deviations.
    support, min_count
        As in `DirichletPosterior`.
    """

    name: ClassVar[str] = "hierarchical"
    centre: OfLogNormal = 1.0
    spread: OfLogNormal = 1.5
    support: str | BoolArray = "neighbours"
    min_count: Natural = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def fit(self, log: TransitionLog) -> FittedHierarchical:
        """Tabulate p(log κ | D)."""
        plain = DirichletPosterior(1.0, self.support, None, self.min_count).fit(log)
        widths = np.diff(plain.indptr)
        pair = np.repeat(np.arange(widths.size), widths)
        counts = np.round(plain.concentration - 1.0 / widths[pair])
        middle, reach = np.log(self.centre), REACH * self.spread
        grid = GridDensity.of(
            lambda x: self._log_density(x, counts, pair, widths), middle - reach, middle + reach
        )
        return FittedHierarchical(self, log, plain, counts, grid)

    def _log_density(
        self, x: FloatArray, counts: FloatArray, pair: IntArray, widths: IntArray
    ) -> FloatArray:
        """log p(log κ) + Σ_pairs log p(counts | κ), at every x = log κ."""
        total = np.bincount(pair, weights=counts, minlength=widths.size)
        level = -0.5 * ((x - np.log(self.centre)) / self.spread) ** 2
        kappa = np.exp(x)
        # Equal (count, width) and (total, width) terms are computed once and counted.
        seen = counts > 0
        cells, times = np.unique(
            np.stack([counts[seen], widths[pair[seen]].astype(float)]), axis=1, return_counts=True
        )
        for (c, m), k in zip(cells.T, times, strict=True):
            level = level + k * (gammaln(kappa / m + c) - gammaln(kappa / m))
        totals, times = np.unique(total[total > 0], return_counts=True)
        for t, k in zip(totals, times, strict=True):
            level = level + k * (gammaln(kappa) - gammaln(kappa + t))
        return np.asarray(level)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedHierarchical(FittedPosterior):
    """The density of log κ, and the counts that the rows are drawn from given κ."""

    settings: HierarchicalPosterior
    log: TransitionLog
    plain: FittedDirichlet
    counts: FloatArray
    grid: GridDensity

    def strengths(self, n: int, seed: Seed = 0) -> FloatArray:
        """`n` draws of κ."""
        return np.exp(self.grid.sample(generator(seed), check_count(n)))

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` exact, independent draws: κ first, then the rows."""
        check_count(n, self.counts.size)
        rng = generator(seed)
        extra = self.strengths(n, rng) / np.maximum(np.diff(self.plain.indptr), 1)[:, None]
        prob = dirichlet_blocks(self.plain.indptr, self.counts, n, rng, extra)
        return self.plain.storage(prob, n)

    def diagnostics(self) -> Diagnostics:
        """Draws are exact up to the grid."""
        models = self.sample(check_size(self.counts.size), seed=0)
        return Diagnostics.of_exact({TRANSITIONS: predictive_check(models, self.log)})

    def __repr__(self) -> str:
        return f"FittedHierarchical(strength about {np.exp(self.grid.mean()):.3g})"
