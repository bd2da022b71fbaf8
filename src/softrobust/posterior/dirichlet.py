"""Independent Dirichlet posteriors for tables: p_{s,a} | D ~ Dirichlet(prior + counts).

The prior spreads a total mass `strength` evenly over the support of the pair; `per_cell=1` puts
mass 1 on every next state of the support instead, which with `support="all"` is the paper's
uniform prior. Draws are exact: normalised gamma variates, taken in logarithms where a
concentration is so small that the variate itself would underflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from softrobust._core.arrays import FloatArray
from softrobust._core.settings import real, whole
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import FittedPosterior, Posterior, check_count
from softrobust.posterior.diagnostics import TRANSITIONS, Diagnostics, check_size, predictive_check
from softrobust.posterior.frame import pair_support
from softrobust.posterior.sampling import Grid, dirichlet_rows

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet


CHUNK = 2_000_000  # gamma variates drawn at a time


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
    strength: float = 1.0
    support: str | NDArray[np.bool_] = "neighbours"
    per_cell: float | None = None
    min_count: int = 1

    def __post_init__(self) -> None:
        for name in ("strength", "per_cell"):
            value = getattr(self, name)
            if value is not None:
                real(name, value, above=0, hint="It is a positive prior mass.")
        whole("min_count", self.min_count, 0)

    def fit(self, log: TransitionLog) -> FittedDirichlet:
        """Add the observed counts to the prior."""
        S, A = len(log.states), len(log.actions)
        seen = np.asarray(log.pair_counts)
        left = seen.sum(axis=1) > 0
        end = np.zeros(S, bool) if log.end is None else np.arange(S) == log.end
        sinks = end if self.min_count == 0 else ~left
        kept = (seen >= self.min_count) & ~sinks[:, None]
        self._check_coverage(log, kept, sinks)
        indptr, next_states = pair_support(log, kept, self.support)
        widths = np.diff(indptr)
        self._check_support(log, kept, widths)
        pair = np.repeat(np.arange(S * A), widths)
        prior = self.strength / widths[pair] if self.per_cell is None else self.per_cell
        concentration = prior + _counts_on(log, pair, next_states, kept)
        return FittedDirichlet(self, log, indptr, next_states, concentration, sinks)

    def _check_coverage(
        self, log: TransitionLog, kept: NDArray[np.bool_], sinks: NDArray[np.bool_]
    ) -> None:
        stuck = np.flatnonzero(~kept.any(axis=1) & ~sinks)
        if stuck.size:
            s = int(stuck[0])
            raise InputError(
                f"No action is left in state '{log.states[s]}': none was seen {self.min_count} "
                f"times or more (the most is {int(log.pair_counts[s].max())}; {stuck.size} such "
                "states). Lower --min-count or collect more data there."
            )

    def _check_support(
        self, log: TransitionLog, kept: NDArray[np.bool_], widths: NDArray[np.int64]
    ) -> None:
        empty = np.flatnonzero(kept.reshape(-1) & (widths == 0))
        if empty.size:
            s, a = divmod(int(empty[0]), len(log.actions))
            raise InputError(
                f"The support mask allows no next state for state '{log.states[s]}', action "
                f"'{log.actions[a]}'. Allow at least one."
            )


def _counts_on(
    log: TransitionLog,
    pair: NDArray[np.int64],
    next_states: NDArray[np.int32],
    kept: NDArray[np.bool_],
) -> FloatArray:
    """Counts of the log at the stored (pair, next state) entries; one outside them is an error."""
    S = len(log.states)
    k, s_next, count = log.counts()
    use = kept.reshape(-1)[k]
    keys, wanted = pair * S + next_states, k[use] * S + s_next[use]
    at = np.searchsorted(keys, wanted)
    missing = np.flatnonzero((at >= keys.size) | (keys[np.minimum(at, keys.size - 1)] != wanted))
    if missing.size:
        s, a = divmod(int(k[use][missing[0]]), len(log.actions))
        raise InputError(
            f"The support mask forbids a transition that the log holds: state '{log.states[s]}', "
            f"action '{log.actions[a]}', next state '{log.states[int(s_next[use][missing[0]])]}'."
        )
    out = np.zeros(keys.size)
    out[at] = count[use]
    return out


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedDirichlet(FittedPosterior):
    """Dirichlet concentrations on the shared storage of `ModelSet`."""

    settings: DirichletPosterior
    log: TransitionLog
    indptr: NDArray[np.int64]
    next_states: NDArray[np.int32]
    concentration: FloatArray
    sinks: NDArray[np.bool_]

    @property
    def prior_share(self) -> FloatArray:
        """(n_states, n_actions): prior mass over all mass, prior and observed; NaN: no model."""
        S, A = len(self.log.states), len(self.log.actions)
        pair = np.repeat(np.arange(S * A), np.diff(self.indptr))
        total = np.bincount(pair, weights=self.concentration, minlength=S * A)
        seen = np.asarray(self.log.pair_counts, dtype=np.float64).reshape(-1)
        share = np.full(S * A, np.nan)
        live = total > 0
        share[live] = (total[live] - seen[live]) / total[live]
        return share.reshape(S, A)

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` exact, independent draws with equal weights.

        Examples
        --------
        >>> from softrobust.data import TransitionLog
        >>> log = TransitionLog.from_arrays([0, 1, 0], ["go", "go", "go"], [1, 0, 1])
        >>> DirichletPosterior().fit(log).sample(3, seed=0)
        ModelSet(3 models, 2 states, 1 actions, dense)
        """
        rng = np.random.default_rng(seed)
        check_count(n, self.next_states.size)
        prob = dirichlet_blocks(self.indptr, self.concentration, n, rng)
        return self.storage(prob, n)

    def mean(self) -> ModelSet:
        """The one-model set of posterior means."""
        pair = np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))
        total = np.bincount(pair, weights=self.concentration, minlength=self.indptr.size - 1)
        return self.storage(self.concentration / total[pair], 1)

    def diagnostics(self) -> Diagnostics:
        """Draws are exact; the predictive check asks whether the log is typical of the models."""
        models = self.sample(check_size(self.next_states.size), seed=0)
        return Diagnostics.of_exact({TRANSITIONS: predictive_check(models, self.log)})

    def describe(self) -> dict[str, Any]:
        """Settings and data hash."""
        s = self.settings
        return {
            "posterior": "dirichlet",
            "strength": s.strength,
            "per_cell": s.per_cell,
            "support": s.support if isinstance(s.support, str) else "mask",
            "min_count": s.min_count,
            "data_hash": self.log.data_hash,
        }

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
            prob=np.insert(prob, np.repeat(at * n, n), 1.0) if at.size else prob,
            f=np.full(n, 1.0 / n),
            states=self.log.states,
            actions=self.log.actions,
            sinks=self.sinks,
        )

    def __repr__(self) -> str:
        return f"FittedDirichlet({self.settings}, {int(self.log.pair_counts.sum())} transitions)"


def dirichlet_blocks(
    indptr: NDArray[np.int64],
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


# --------------------------------------------------------------------------------------------------
# Dirichlet rows whose prior strength is learned from the log.
#
#     p_{s,a} ~ Dirichlet(κ/m, …, κ/m) on the m next states of the pair,   log κ ~ Normal(log c, τ²)
#
# The rows integrate out: given κ a pair's counts are Dirichlet-multinomial, so p(κ | D) is a
# density on a line, drawn from a grid; given κ the rows are Dirichlet. No chain is needed. A log
# whose rows are concentrated pulls κ below 1, one whose rows are spread pulls it up.

REACH = 8.0  # prior standard deviations that the grid covers on each side


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
    centre: float = 1.0
    spread: float = 1.5
    support: str | NDArray[np.bool_] = "neighbours"
    min_count: int = 1

    def __post_init__(self) -> None:
        for name in ("centre", "spread"):
            real(name, getattr(self, name), above=0, hint="It describes a log-normal law.")

    def fit(self, log: TransitionLog) -> FittedHierarchical:
        """Tabulate p(log κ | D)."""
        plain = DirichletPosterior(1.0, self.support, None, self.min_count).fit(log)
        widths = np.diff(plain.indptr)
        pair = np.repeat(np.arange(widths.size), widths)
        counts = np.round(plain.concentration - 1.0 / widths[pair])
        grid = Grid.of(
            lambda x: self._log_density(x, counts, pair, widths),
            np.log(self.centre) - REACH * self.spread,
            np.log(self.centre) + REACH * self.spread,
        )
        return FittedHierarchical(self, log, plain, counts, grid)

    def _log_density(
        self, x: FloatArray, counts: FloatArray, pair: NDArray[np.int64], widths: NDArray[np.int64]
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
    grid: Grid

    def strengths(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """`n` draws of κ."""
        return np.exp(self.grid.sample(np.random.default_rng(seed), check_count(n)))

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` exact, independent draws: κ first, then the rows."""
        check_count(n, self.counts.size)
        rng = np.random.default_rng(seed)
        kappa = self.strengths(n, rng)
        widths = np.diff(self.plain.indptr)
        extra = kappa / np.maximum(widths, 1)[:, None]
        prob = dirichlet_blocks(self.plain.indptr, self.counts, n, rng, extra)
        return self.plain.storage(prob, n)

    def diagnostics(self) -> Diagnostics:
        """Draws are exact up to the grid."""
        models = self.sample(check_size(self.counts.size), seed=0)
        return Diagnostics.of_exact({"transitions": predictive_check(models, self.log)})

    def __repr__(self) -> str:
        return f"FittedHierarchical(strength about {np.exp(self.grid.mean()):.3g})"
