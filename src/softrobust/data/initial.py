"""The start distribution p₀ as a user gives it: an array, a mapping or a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import FloatArray
from softrobust.data.columns import Role
from softrobust.data.labels import Labels
from softrobust.errors import InputError

_ROLES = (
    Role("state", ("state", "idstate", "s"), "label", "state"),
    Role("probability", ("probability", "prob", "p", "p0"), "number"),
)


def initial_distribution(
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path, states: Labels
) -> tuple[FloatArray, str]:
    """Return p₀, (n_states,), and where it comes from in words.

    Parameters
    ----------
    initial : array, mapping, DataFrame or path
        One probability per state; label → probability; or a table with the columns `state` (or
        `idstate`) and `probability`. States that are not listed get 0.
    states : Labels
        Names of the states.
    """
    from softrobust.data.log import check_p0

    words = "given by the user"
    if isinstance(initial, (str, Path)):
        p0 = _of_table(initial, states)
        words = f"given in {Path(initial).name}"
    elif isinstance(initial, Mapping):
        p0 = np.zeros(len(states))
        for label, probability in initial.items():
            p0[states.index(label)] = probability
    elif hasattr(initial, "columns") or hasattr(initial, "__arrow_c_stream__"):
        p0 = _of_table(initial, states)
    else:
        p0 = np.asarray(initial, dtype=np.float64)
    check_p0(p0, states)
    return p0, words


def _of_table(source: Any, states: Labels) -> FloatArray:
    from softrobust.data.table import read_table

    table = read_table(source, _ROLES)
    table.require("state")
    p0 = np.zeros(len(states))
    seen: set[int] = set()
    names = table.names["state"]
    for i, (code, probability) in enumerate(
        zip(table.codes["state"], table.numbers["probability"], strict=True)
    ):
        name = names[code]
        if name not in states.lookup:
            raise InputError(
                f"An initial probability must be for a state of the problem: "
                f"{table.rows.where(i)} has '{name}'. {states.suggest(name)}"
            )
        position = states.lookup[name]
        if position in seen:
            raise InputError(
                f"Each state has one initial probability: {table.rows.where(i)} gives state "
                f"'{name}' a second one. Remove one of the two."
            )
        seen.add(position)
        p0[position] = probability
    return p0
