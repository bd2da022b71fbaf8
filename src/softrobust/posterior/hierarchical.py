"""Dirichlet rows whose prior strength is learned from the log.

    p_{s,a} ~ Dirichlet(κ/m, …, κ/m) on the m next states of the pair,   log κ ~ Normal(log c, τ²)

The rows integrate out: given κ a pair's counts are Dirichlet-multinomial, so p(κ | D) is a density
on a line, drawn from a grid; given κ the rows are Dirichlet. No chain is needed. A log whose rows
are concentrated pulls κ below 1, one whose rows are spread pulls it up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from softrobust.data.settings import real
from softrobust.posterior.base import FittedPosterior, Posterior, check_count
from softrobust.posterior.diagnostics import Diagnostics, check_size, predictive_check
from softrobust.posterior.dirichlet import DirichletPosterior, FittedDirichlet, dirichlet_blocks
from softrobust.posterior.grid import Grid

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet

FloatArray = NDArray[np.float64]
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
