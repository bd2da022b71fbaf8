"""The start distribution p₀ as a user gives it: an array, a mapping or a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import FloatArray
from softrobust._core.notes import Note
from softrobust.data.columns import Role
from softrobust.data.labels import Labels
from softrobust.data.table import opened
from softrobust.errors import InputError

P0_TOLERANCE = 1e-8
GIVEN = "p0_given"  # the code of a note: the user gave p₀
_ROLES = (
    Role("state", ("state", "idstate", "s"), "label", "state"),
    Role("probability", ("probability", "prob", "p", "p0"), "number"),
)


def initial_distribution(
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path, states: Labels
) -> tuple[FloatArray, Note]:
    """Return p₀, (n_states,), and where it comes from.

    Parameters
    ----------
    initial : array, mapping, frame or path
        One probability per state; label → probability; or a table with the columns `state` (or
        `idstate`) and `probability`. States that are not listed get 0.
    states : Labels
        Names of the states.
    """
    source = None
    if isinstance(initial, Mapping):
        p0 = np.zeros(len(states))
        for label, probability in initial.items():
            p0[states.index(label)] = probability
    elif isinstance(initial, (str, Path)) or hasattr(initial, "columns"):
        p0, source = _of_table(initial, states)
    else:
        p0 = np.asarray(initial, dtype=np.float64)
    check_p0(p0, states)
    return p0, Note(GIVEN, facts={"source": source})


def _of_table(source: Any, states: Labels) -> tuple[FloatArray, str | None]:
    with opened(source) as table:
        columns = table.read(_ROLES)
        name = None if table.path is None else table.source
    s = columns.positions("state", states, "An initial probability")
    columns.refuse_twice(s, "An initial probability")
    p0 = np.zeros(len(states))
    p0[s] = columns.numbers["probability"]
    return p0, name


def check_p0(p0: FloatArray, states: Labels) -> None:
    """Raise unless `p0` is a distribution over the states (tolerance 1e-8)."""
    if p0.shape != (len(states),):
        raise InputError(
            f"p0 must have one probability per state, shape ({len(states)},): got {p0.shape}."
        )
    bad = np.flatnonzero(~((p0 >= 0) & (p0 <= 1)))
    if bad.size:
        raise InputError(
            f"Initial probabilities must be between 0 and 1: state '{states[bad[0]]}' has "
            f"{p0[bad[0]]:g}."
        )
    if abs(float(p0.sum()) - 1.0) > P0_TOLERANCE:
        raise InputError(
            f"Initial probabilities must sum to 1 (tolerance {P0_TOLERANCE:g}): they sum to "
            f"{p0.sum():.10g}. Correct them; they are not rescaled silently."
        )
