"""Simulated transitions against rows: one chi-square statistic over all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEAST = 5.0  # expected counts are merged up to here


def p_value(rows: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """P[χ² ≥ seen] for rows (n_pairs, n_states) and counts of the same shape.

    An outcome that the rows call impossible gives 0.
    """
    if (counts[rows <= 0] > 0).any():
        return 0.0
    total, freedom = 0.0, 0
    for row, seen in zip(rows, counts, strict=True):
        order = np.argsort(row)
        wanted, found = row[order] * seen.sum(), seen[order]
        cells: list[tuple[float, float]] = []
        e = o = 0.0
        for x, y in zip(wanted, found, strict=True):
            e, o = e + x, o + y
            if e >= LEAST:
                cells.append((e, o))
                e = o = 0.0
        if cells:
            cells[-1] = (cells[-1][0] + e, cells[-1][1] + o)
        total += sum((y - x) ** 2 / x for x, y in cells)
        freedom += max(len(cells) - 1, 0)
    return 1.0 if freedom == 0 else float(stats.chi2.sf(total, freedom))


def tally(
    pair: NDArray[np.int64], after: NDArray[np.int64], n_pairs: int, n: int
) -> NDArray[np.int64]:
    """Counts (n_pairs, n_states) of next states."""
    out = np.zeros((n_pairs, n), np.int64)
    np.add.at(out, (pair, after), 1)
    return out
