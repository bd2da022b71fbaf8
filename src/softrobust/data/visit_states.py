"""Measurements become states: categories as they are, numbers by bins, cells that are missing.

A number that takes many values needs bins, since a state must be seen more than once to teach
anything; the cuts are given, counted out by quantiles (and rounded to four digits, so that the name
of a state says exactly what it holds), or loaded from a file of an earlier run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust._core.notes import Ledger
from softrobust._core.settings import whole
from softrobust.data.bins import Bins, interval_names
from softrobust.data.columns import MISSING, known_rows_of, numbers_in
from softrobust.data.labels import Labels, natural_key, state_name
from softrobust.data.visit_rows import Visits
from softrobust.errors import InputError

MOST_VALUES = 20
MISSING_LEVEL = "missing"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One column of measurements: codes of `levels`, or numbers that await bins.

    values : (n,) int32 codes, -1 where missing; or float64 and no levels, NaN where missing
    """

    name: str
    values: npt.NDArray[np.int32] | FloatArray
    levels: tuple[str, ...] = ()

    @property
    def missing(self) -> BoolArray:
        """Where the cell is missing, (n,)."""
        return np.isnan(self.values) if not self.levels else self.values == MISSING

    def at(self, visit: IntArray, mean: bool) -> "Measured":
        """Those of the chosen visits; with `mean`, numbers are averaged up to and with each."""
        if self.levels or not mean:
            return replace(self, values=self.values[visit])
        chosen = np.unique(visit)
        known = ~self.missing
        group = np.searchsorted(chosen, np.arange(known.size))[known]
        n = np.bincount(group, minlength=chosen.size)
        total = np.bincount(group, weights=self.values[known], minlength=chosen.size)
        means = np.where(n > 0, total / np.maximum(n, 1), np.nan)
        return replace(self, values=means[np.searchsorted(chosen, visit)])


def measured_columns(
    visits: Visits, names: Sequence[str], bins: Mapping[str, Any] | Bins | None
) -> list[Measured]:
    """The columns of measurements: numbers where there are bins, categories elsewhere."""
    binned = set(bins.variables if isinstance(bins, Bins) else bins or ())
    absent = sorted(binned - set(names))
    if absent:
        raise InputError(
            f"Bins are for measurements: '{absent[0]}' is not among them, which are {list(names)}. "
            "Correct the name, or add it to the measurements."
        )
    return [
        Measured(name, visits.numbers(name, "measurement with bins"))
        if name in binned
        else _category(visits, name)
        for name in names
    ]


def _category(visits: Visits, name: str) -> Measured:
    """A column as categories; different ways to write one number are one category."""
    codes, texts = visits.cells[name], visits.names[name]
    used = np.unique(codes[codes != MISSING])
    values = numbers_in(texts)
    to = np.full(len(texts) + 1, MISSING, dtype=np.int32)
    if used.size and not np.isnan(values[used]).any():
        distinct, to[used] = np.unique(values[used], return_inverse=True)
        if distinct.size > MOST_VALUES:
            cuts = ", ".join(f"{cut:.3g}" for cut in np.quantile(distinct, [0.25, 0.5, 0.75]))
            raise InputError(
                f"The column '{name}' holds {distinct.size} different numbers, from "
                f"{distinct[0]:g} to {distinct[-1]:g}, which would be as many states. Give cuts, "
                f"such as bins={{'{name}': [{cuts}]}}, or a number of bins.",
                arguments={"bins": f"{name}=4"},
            )
        levels = [f"{value:.15g}" for value in distinct]
    else:
        order = sorted(used.tolist(), key=lambda i: natural_key(texts[i]))
        to[order] = np.arange(len(order))
        levels = [texts[i] for i in order]
    return Measured(name, to[codes], tuple(levels) or (MISSING_LEVEL,))


def fill_missing(column: Measured, visits: Visits, rule: str, ledger: Ledger) -> Measured:
    """Deal with missing measurements by the rule; what stays missing has an unknown state."""
    missing = column.missing
    if missing.any() and rule == "error":
        raise InputError(
            f"Every visit needs each measurement: {visits.where(missing)} has "
            f"no '{column.name}' ({int(missing.sum())} of {visits.n} visits). Say what such cells "
            "mean with missing_measurement=: 'carry' takes the last value of the id, 'level' makes "
            "'missing' a value of its own, 'drop' leaves out what cannot be known.",
            arguments={"missing_measurement": ""},
        )
    if rule == "carry":
        known = visits.last_known(missing)
        carried = known != np.arange(visits.n)
        column = replace(column, values=column.values[known])
        ledger.add("carried_cells", visits.rows, visits.row[carried], column=column.name)
        missing &= ~carried
    ledger.add("missing_cells", visits.rows, visits.row[missing], column=column.name, rule=rule)
    return column


# -------------------------------------------------------------------- bins
def fitted_bins(
    given: Mapping[str, int | Sequence[float]] | Bins | None, columns: Sequence[Measured]
) -> Bins | None:
    """Bins for the columns; numbers of bins become quantiles of the visits."""
    if given is None or isinstance(given, Bins):
        return given
    cuts: dict[str, FloatArray | Sequence[float]] = {}
    by_name = {column.name: column for column in columns}
    for name, wanted in given.items():
        if isinstance(wanted, (list, tuple, np.ndarray)):
            cuts[name] = wanted
            continue
        n = whole(f"The number of bins of '{name}'", wanted, least=2)
        known = np.asarray(by_name[name].values[~by_name[name].missing], dtype=np.float64)
        if not known.size:
            raise InputError(f"The column '{name}' has no number to make bins of. Leave it out.")
        edge = Bins.fit(known[:, None], n, "quantile").edges[0]
        cuts[name] = np.unique([float(f"{cut:.4g}") for cut in edge])
    return Bins.from_cuts(cuts)


def binned(columns: Sequence[Measured], bins: Bins | None) -> list[Measured]:
    """Turn columns of numbers into codes of intervals, or of centres for bins by kmeans."""
    if bins is None:
        return list(columns)
    if bins.centres is None:
        out = list(columns)
        for i, column in enumerate(columns):
            if not column.levels:
                edge = bins.edges[bins.variables.index(column.name)]
                codes = np.searchsorted(edge, column.values, side="right").astype(np.int32)
                codes[column.missing] = MISSING
                out[i] = Measured(column.name, codes, tuple(interval_names(edge)))
        return out
    numbers = {column.name: column.values for column in columns if not column.levels}
    points = np.column_stack([numbers[name] for name in bins.variables])
    known = np.isfinite(points).all(axis=1)
    codes = np.full(known.size, MISSING, dtype=np.int32)
    codes[known] = bins.index(points[known])
    joint = Measured("+".join(bins.variables), codes, tuple(bins.states))
    first = min(i for i, column in enumerate(columns) if not column.levels)
    kept = [column for column in columns if column.levels]
    return [*kept[:first], joint, *kept[first:]]


# -------------------------------------------------------------------- states
def states_of(columns: Sequence[Measured], level: bool) -> tuple[CodeArray, Labels]:
    """The state of every visit, and their names; with `level` a missing cell is a value."""
    names = [column.name for column in columns]
    parts = []
    for column in columns:
        codes, levels = np.asarray(column.values, dtype=np.int64), column.levels
        if level and column.missing.any():
            # A category that is called "missing" already and the missing cells are one value.
            if MISSING_LEVEL not in levels:
                levels = (*levels, MISSING_LEVEL)
            codes = np.where(column.missing, levels.index(MISSING_LEVEL), codes)
        parts.append((codes, levels))
    state, first = known_rows_of([codes for codes, _ in parts])
    labels = [
        state_name(names, [levels[int(codes[i])] for codes, levels in parts])
        for i in first.tolist()
    ]
    return state, Labels(tuple(labels), noun="state")
