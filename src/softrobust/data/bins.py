"""Discretisation: vectors become states of a table, by bins that are kept and applied again.

- uniform: every variable cut into intervals of equal width between its smallest and largest value;
- quantile: intervals with equally many observations;
- kmeans: nearest of k centres, in units of each variable's standard deviation;
- given: cuts that the user knows, such as those of a guideline.

The outermost intervals reach to infinity, so that every observation has a state. The fitted bins
are saved beside a policy; `bins.label(observation)` is then the state to look up.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, cast, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import FloatArray, IntArray, Sealed, frozen
from softrobust._core.files import read_npz, rebuilding, write_npz
from softrobust._core.settings import whole
from softrobust.data.continuous import ContinuousLog, as_numbers, vectors
from softrobust.data.labels import Labels, as_typed, split_state
from softrobust.data.log import TransitionLog
from softrobust.errors import InputError

Method = Literal["uniform", "quantile", "kmeans", "given"]
BINS_FORMAT = "softrobust-bins"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bins(Sealed):
    """How observations become states."""

    method: Method
    variables: Labels
    # (n_cuts,) arrays: inner cuts of every variable, ascending; empty for kmeans
    edges: tuple[FloatArray, ...]
    centres: FloatArray | None  # (k, n_variables): for kmeans, in the units of the data
    scale: FloatArray  # (n_variables,): units in which kmeans measures distance

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        put(self, "edges", tuple(frozen(edge, np.float64) for edge in self.edges))
        for name in ("scale", "centres"):
            if (given := getattr(self, name)) is not None:
                put(self, name, frozen(given, np.float64))

    @classmethod
    def fit(
        cls,
        observations: npt.ArrayLike,
        n: int | Sequence[int] = 5,
        method: Method = "quantile",
        variables: Sequence[str] | Labels | None = None,
        seed: int = 0,
    ) -> Bins:
        """Fit bins to observations (n_rows, n_variables).

        `n` is the number of intervals, of all variables or one each; for kmeans that of centres.
        """
        x, names = vectors(observations, variables)
        if x.ndim != 2 or 0 in x.shape:
            raise InputError(
                "Bins are fitted to a table of finite numbers (n_rows, n_variables); "
                f"the shape is {x.shape}."
            )
        spread = x.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        if method == "kmeans":
            if np.ndim(n) != 0:
                raise InputError(f"kmeans takes one number of centres; it got {n!r}.")
            k = whole("n", n, hint="kmeans takes one number of centres.")
            return cls(method, names, (), _centres(x / scale, k, seed) * scale, scale)
        if method not in ("uniform", "quantile"):
            raise InputError(f"method must be uniform, quantile or kmeans; it is '{method}'.")
        each: list[Any] = [n] * x.shape[1] if np.ndim(n) == 0 else list(n)  # type: ignore[arg-type]
        hint = f"Give one number of bins ≥ 1 for each of {x.shape[1]} variables."
        if len(each) != x.shape[1]:
            raise InputError(f"There are {len(each)} numbers of bins. {hint}")
        sizes = [whole("n", size, hint=hint) for size in each]
        cuts = []
        for column, size in zip(x.T, sizes, strict=True):
            share = np.arange(1, size) / size
            inner = column.min() + share * np.ptp(column)
            if method == "quantile":
                inner = np.quantile(column, share)
            inner = np.unique(inner[inner > column.min()])
            rest = column[column > column.min()]
            if not inner.size and size > 1 and rest.size:  # most are the smallest, say 0: it is one
                inner = np.quantile(rest, np.arange(size - 1) / (size - 1))
            cuts.append(np.unique(inner))
        return cls(method, names, tuple(cuts), None, scale)

    @classmethod
    def from_cuts(cls, cuts: Mapping[str, Sequence[float] | FloatArray]) -> Bins:
        """Bins with given inner cuts: ``{"hba1c": [7, 8]}`` has the intervals <7, 7–8 and ≥8."""
        names = Labels.of(cuts, "variable")
        edges = []
        for name, given in cuts.items():
            edge = as_numbers(given)
            if edge.ndim != 1 or not np.isfinite(edge).all() or (np.diff(edge) <= 0).any():
                raise InputError(
                    f"The cuts of '{name}' must be finite numbers that ascend: they are "
                    f"{edge.tolist()}. Put them in order, each once."
                )
            edges.append(edge)
        return cls("given", names, tuple(edges), None, np.ones(len(names)))

    @property
    def n_states(self) -> int:
        """Number of states."""
        if self.centres is not None:
            return int(self.centres.shape[0])
        return int(np.prod([edge.size + 1 for edge in self.edges]))

    @property
    def states(self) -> Labels:
        """One readable name per state: intervals, or the coordinates of a centre."""
        if self.centres is not None:
            parts = [[f"{v}≈{x:.4g}" for v, x in zip(self.variables, row, strict=True)]
                     for row in self.centres]  # fmt: skip
            names = [f"c{i}: {', '.join(part)}" for i, part in enumerate(parts)]
        else:
            parts = list(map(_intervals, self.variables, self.edges))
            names = [", ".join(part) for part in product(*parts)]
        return Labels(tuple(names), noun="state")

    def index(self, observations: npt.ArrayLike) -> IntArray:
        """State indices (…) of observations (…, n_variables)."""
        x, _ = vectors(observations, self.variables)
        if self.centres is not None:
            apart = (x[..., None, :] - self.centres) / self.scale
            return np.asarray((apart**2).sum(axis=-1).argmin(axis=-1), dtype=np.int64)
        out = np.zeros(x.shape[:-1], dtype=np.int64)
        for j, edge in enumerate(self.edges):
            out = out * (edge.size + 1) + np.searchsorted(edge, x[..., j], side="right")
        return np.asarray(out, dtype=np.int64)

    def label(self, observation: npt.ArrayLike) -> str:
        """The state of one observation, by the name that a policy knows."""
        return self.states[int(self.index(observation))]

    def log(self, log: ContinuousLog) -> TransitionLog:
        """The same transitions between states of the bins."""
        if log.variables != self.variables:
            raise InputError(
                f"The bins are for {list(self.variables)}; the log has {list(log.variables)}."
            )
        names = self.states
        here, there = ([names[i] for i in self.index(s)] for s in (log.s, log.s_next))
        return TransitionLog.from_arrays(
            here, [log.actions[int(a)] for a in log.a], there, log.reward, log.episode,
            log.terminal, state_names=names, action_names=log.actions, source=log.rows.source,
        )  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write the bins as `.npz`, atomically."""
        arrays = {f"edges{j}": edge for j, edge in enumerate(self.edges)}
        if self.centres is not None:
            arrays["centres"] = self.centres
        names = {"method": self.method, "variables": list(self.variables)}
        write_npz(path, BINS_FORMAT, 1, arrays | names | {"scale": self.scale})

    @classmethod
    def load(cls, path: str | Path) -> Bins:
        """Read what `save` wrote."""
        arrays = read_npz(path, BINS_FORMAT, 1)
        with rebuilding("bins", path):
            names = Labels(tuple(map(str, arrays["variables"])), noun="variable")
            cuts = () if "centres" in arrays else range(len(names))
            edges = tuple(arrays[f"edges{j}"] for j in cuts)
            method = cast(Method, str(arrays["method"]))
            found = cls(method, names, edges, arrays.get("centres"), arrays["scale"])
            found.index(np.zeros((1, len(names))))  # arrays that do not fit are found here
            return found

    def __repr__(self) -> str:
        return f"Bins({self.method}, {self.n_states} states of {', '.join(self.variables)})"


def interval_names(edge: FloatArray) -> list[str]:
    """Intervals in full, as a person reads them: "<7", "7–8" (7 ≤ x < 8), "≥8"; or "any"."""
    cuts = [f"{x:.15g}" for x in edge]
    if not cuts:
        return ["any"]
    return [f"<{cuts[0]}", *(f"{low}–{high}" for low, high in pairwise(cuts)), f"≥{cuts[-1]}"]


def _intervals(name: str, edge: FloatArray) -> list[str]:
    cuts = [f"{x:.4g}" for x in edge]
    if len(set(cuts)) < len(cuts):
        cuts = [repr(float(x)) for x in edge]
    if not cuts:
        return [f"any {name}"]
    inner = [f"{low}≤{name}<{high}" for low, high in pairwise(cuts)]
    return [f"{name}<{cuts[0]}", *inner, f"{name}≥{cuts[-1]}"]


def _centres(x: FloatArray, k: int, seed: int) -> FloatArray:
    """k-means++ and Lloyd's iterations; centres that lost all their points are dropped."""
    from scipy.cluster.vq import kmeans2

    distinct = np.unique(x, axis=0).shape[0]
    if not 1 <= k <= distinct:
        raise InputError(f"kmeans needs 1 to {distinct} centres (distinct observations): got {k}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster, dealt with below
        centres, nearest = kmeans2(x, k, iter=50, minit="++", rng=np.random.default_rng(seed))
    kept = centres[np.unique(nearest)]
    return np.asarray(kept[np.lexsort(kept.T[::-1])], dtype=np.float64)


# --------------------------------------------------------------------------------------------------
# From raw measurements back to a state, by the names of states alone: these hold the cuts.

_BOUNDS = re.compile(r"(?:([^≤<≥]+)≤)?([^≤<≥]+)(?:(<|≥)([^≤<≥]+))?")


def interval_of(text: str) -> tuple[float, float] | None:
    """[low, high) of "<7", "7–8", "≥8" and "any"; None for other texts.

    >>> interval_of("7–8.5"), interval_of("≥8"), interval_of("high")
    ((7.0, 8.5), (8.0, inf), None)
    """
    plain = as_typed(text)
    if plain == "any":
        return -float("inf"), float("inf")
    low, dash, high = text.partition("–")
    if plain[:1] == "<":
        low, high = "-inf", plain[1:]
    elif plain[:1] == "≥":
        low, high = plain[1:], "inf"
    elif not dash:  # typed, with a hyphen, which may be a sign as well
        low, _, high = plain[1:].partition("-")
        low = plain[:1] + low
    try:
        return float(as_typed(low)), float(as_typed(high))
    except ValueError:
        return None


def state_parts(name: str) -> dict[str, str]:
    """What a state's name says of each column; one without columns has the column ""."""
    split = split_state(name)
    if split is not None:
        return split
    for sign in ("|", ";", ","):
        if sign in name or sign == ",":
            pairs = [part.partition("=") for part in name.split(sign)]
            if all(column.strip() and equals for column, equals, _ in pairs):
                return {column.strip(): value.strip() for column, _, value in pairs}
    out: dict[str, str] = {}
    for part in name.split(", "):  # as `Bins.states` writes them
        found = _BOUNDS.fullmatch(part)
        if part.startswith("any "):
            out[part.removeprefix("any ")] = "any"
        elif found is None or not (found[1] or found[3]):
            return {"": name}
        else:
            low, column, sign, high = found.groups()
            out[column] = f"{low}–{high}" if low else f"{sign}{high}"
    return {"": name} if "" in out or any(not c.strip() for c in out) else out


def held(text: str, given: Any) -> bool:
    """Whether a cell of a state's name holds a measurement: the same text, number or interval."""
    if as_typed(text) == as_typed(str(given)):
        return True
    plain = str(given)
    whole_part, _, decimals = plain.partition(",")
    if decimals.isdigit() and len(decimals) != 3:  # 8,5 is a number; 1,234 may be two
        plain = f"{whole_part}.{decimals}"
    try:
        x = float(plain)
    except ValueError:
        return False
    span = interval_of(text)
    if span is not None:
        return span[0] <= x < span[1]
    try:
        return float(as_typed(text)) == x
    except ValueError:
        return False


def measured_state(states: Labels, given: Mapping[str, Any]) -> int:
    """The one state that holds all measurements; names without columns hold any one."""
    parts = [state_parts(name) for name in states]
    needed = list(dict.fromkeys(column for part in parts for column in part if column))
    if not needed:
        if len(given) != 1:
            raise InputError(
                f"The states are not made of columns ({states.shortened(range(len(states)), 3)}): "
                f"give one measurement; there are {len(given)}."
            )
        given, needed = {"": next(iter(given.values()))}, [""]
    unknown = [name for name in given if name not in needed]
    lacking = [name for name in needed if name not in given]
    if unknown or lacking:
        what = f"there is no '{unknown[0]}'" if unknown else f"'{lacking[0]}' is missing"
        raise InputError(f"States are made of {', '.join(needed)}: {what}.")
    found = [
        i
        for i, part in enumerate(parts)
        if part.keys() >= given.keys() and all(held(part[c], given[c]) for c in given)
    ]
    told = ", ".join(f"{c}={x}" if c else f"{x}" for c, x in given.items())
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{told} is in several states: {states.shortened(found)}. Name one.")
    known = []
    for column in needed:
        cells = dict.fromkeys(part[column] for part in parts if column in part)
        if not any(held(cell, given[column]) for cell in cells):
            known.append(f"{column or 'state'}: {', '.join(cells)}")
    why = f" Known are {'; '.join(known)}." if known else " This combination was never seen."
    raise InputError(f"No state of the policy holds {told}.{why}")
