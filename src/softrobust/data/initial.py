"""The start distribution p₀ as a user gives it: an array, a mapping or a table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import FloatArray, shaped
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

    `initial` has one probability per state, label → probability, or is a table (a frame or path)
    with the columns `state` (or `idstate`) and `probability`. States that are not listed get 0.
    """
    source = None
    p0 = np.zeros(len(states))
    if isinstance(initial, Mapping):
        for label, probability in initial.items():
            p0[states.index(label)] = probability
    elif isinstance(initial, (str, Path)) or hasattr(initial, "columns"):
        with opened(initial) as table:
            columns = table.read(_ROLES)
            source = None if table.path is None else table.source
        s = columns.positions("state", states, "An initial probability")
        columns.refuse_twice(s, "An initial probability")
        p0[s] = columns.numbers["probability"]
    else:
        p0 = np.asarray(initial, dtype=np.float64)
    return check_p0(p0, states), Note(GIVEN, facts={"source": source})


def check_p0(given: npt.ArrayLike, states: Labels) -> FloatArray:
    """A distribution over the states, (n_states,), read-only; anything else raises."""
    p0 = shaped("p0", given, np.float64, (len(states),), rule="one probability per state")
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
    return p0
