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

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray
from softrobust._core.settings import whole
from softrobust.data.bins import Bins, interval_names
from softrobust.data.columns import MISSING, NUMBER
from softrobust.data.labels import Labels, natural_key, state_name
from softrobust.data.visit_report import Ledger
from softrobust.data.visit_rows import Visits, numbers_of
from softrobust.errors import InputError

MOST_VALUES = 20
MISSING_LEVEL = "missing"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One column of measurements.

    Attributes
    ----------
    name : str
    values : (n,) int32 or float64
        Codes of `levels` (-1 where missing), or numbers that await bins (NaN where missing).
    levels : tuple of str
        Names of the codes, in order; empty for numbers.
    """

    name: str
    values: npt.NDArray[np.int32] | FloatArray
    levels: tuple[str, ...] = ()

    @property
    def missing(self) -> BoolArray:
        """Where the cell is missing, (n,)."""
        return np.isnan(self.values) if not self.levels else self.values == MISSING

    def take(self, places: npt.NDArray[np.integer]) -> "Measured":
        """Some of the visits."""
        return replace(self, values=self.values[places])


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
        Measured(name, numbers_of(visits, name, "measurement with bins"))
        if name in binned
        else _category(visits, name)
        for name in names
    ]


def _category(visits: Visits, name: str) -> Measured:
    """A column as categories; different ways to write one number are one category."""
    codes, texts = visits.cells[name], visits.names[name]
    used = np.bincount(codes[codes != MISSING], minlength=len(texts)) > 0
    present = [text for text, here in zip(texts, used.tolist(), strict=True) if here]
    numeric = bool(present) and all(NUMBER.fullmatch(text) for text in present)
    if numeric:
        values = {text: float(text) for text in present}
        distinct = sorted(set(values.values()))
        if len(distinct) > MOST_VALUES:
            raise InputError(
                f"The column '{name}' holds {len(distinct)} different numbers, from "
                f"{distinct[0]:g} to {distinct[-1]:g}, which would be as many states. Give cuts, "
                f"such as bins={{'{name}': [{_example_cuts(distinct)}]}}, or a number of bins.",
                arguments={"bins": f"{name}=4"},
            )
        place = {text: distinct.index(value) for text, value in values.items()}
        levels = tuple(f"{value:.15g}" for value in distinct)
    else:
        levels = tuple(sorted(present, key=natural_key))
        place = {text: i for i, text in enumerate(levels)}
    to = np.array([place.get(text, MISSING) for text in texts] + [MISSING], dtype=np.int32)
    return Measured(name, to[codes], levels or (MISSING_LEVEL,))


def _example_cuts(values: Sequence[float]) -> str:
    return ", ".join(f"{cut:.3g}" for cut in np.quantile(values, [0.25, 0.5, 0.75]))


# -------------------------------------------------------------------- missing cells
def fill_missing(
    columns: list[Measured], visits: Visits, rule: str, ledger: Ledger
) -> list[Measured]:
    """Deal with missing measurements by the rule; what stays missing has an unknown state."""
    out = []
    for column in columns:
        missing = column.missing
        n, places = int(missing.sum()), visits.row[missing]
        if n and rule == "error":
            raise InputError(
                f"Every visit needs each measurement: {visits.where(int(np.argmax(missing)))} has "
                f"no '{column.name}' ({n} of {visits.n} visits). Say what such cells mean with "
                "missing_measurement=: 'carry' takes the last value of the id, 'level' makes "
                "'missing' a value of its own, 'drop' leaves out what cannot be known.",
                arguments={"missing_measurement": ""},
            )
        if n and rule == "carry":
            column, still = _carried(column, visits)
            carried = visits.row[missing & ~still]
            ledger.add("carried_cells", visits.rows, carried, column=column.name)
            places = visits.row[still]
        ledger.add("missing_cells", visits.rows, places, column=column.name, rule=rule)
        out.append(column)
    return out


def _carried(column: Measured, visits: Visits) -> tuple[Measured, BoolArray]:
    """Take the last value of the id where a cell is missing; say where there is none."""
    here = np.arange(visits.n)
    start = np.maximum.accumulate(np.where(visits.first, here, 0))
    last = np.maximum.accumulate(np.where(column.missing, -1, here))
    still = last < start
    values = column.values[np.where(still, here, last)]
    return replace(column, values=values), still


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
    numbers = {column.name: column for column in columns if not column.levels}
    if bins.centres is None:
        edges = dict(zip(bins.variables, bins.edges, strict=True))
        return [
            column if column.levels else _in_intervals(column, edges[column.name])
            for column in columns
        ]
    points = np.column_stack([numbers[name].values for name in bins.variables])
    known = np.isfinite(points).all(axis=1)
    codes = np.full(known.size, MISSING, dtype=np.int32)
    codes[known] = bins.index(points[known])
    joint = Measured("+".join(bins.variables), codes, tuple(bins.states))
    kept = [column for column in columns if column.levels]
    first = min(i for i, column in enumerate(columns) if not column.levels)
    return [*kept[:first], joint, *kept[first:]]


def _in_intervals(column: Measured, edge: FloatArray) -> Measured:
    codes = np.searchsorted(edge, column.values, side="right").astype(np.int32)
    return Measured(
        column.name, np.where(column.missing, MISSING, codes), tuple(interval_names(edge))
    )


# -------------------------------------------------------------------- states
def states_of(columns: Sequence[Measured], level: bool) -> tuple[CodeArray, Labels]:
    """The state of every visit, and their names in the order of the columns' values.

    Parameters
    ----------
    level : bool
        Whether a missing cell is a value, "missing"; else the state is unknown (-1).
    """
    key: npt.NDArray[np.int64] = np.zeros(columns[0].values.size, dtype=np.int64)
    unknown = np.zeros(key.size, dtype=bool)
    names = []
    for column in columns:
        codes = np.asarray(column.values, dtype=np.int64)
        levels = column.levels
        if level and column.missing.any():
            # A category that is called "missing" already and the missing cells are one value.
            if MISSING_LEVEL not in levels:
                levels = (*levels, MISSING_LEVEL)
            codes = np.where(column.missing, levels.index(MISSING_LEVEL), codes)
        unknown |= codes == MISSING
        # Compacted after every column, so that many columns cannot overflow the key.
        _, key = np.unique(key * (len(levels) + 1) + codes + 1, return_inverse=True)
        names.append((codes, levels))
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    known = ~unknown[first]
    rank = np.where(known, np.cumsum(known) - 1, MISSING).astype(np.int32)
    labels = [
        state_name(
            [column.name for column in columns],
            [levels[int(codes[i])] for codes, levels in names],
        )
        for i in first[known].tolist()
    ]
    return rank[place], Labels(tuple(labels), noun="state")
