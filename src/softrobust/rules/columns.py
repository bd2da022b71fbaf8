"""The columns of a state, read from its label or from a table: what rules can ask about.

A label such as "bp=high|hba1c=7.5" has the columns bp and hba1c; a label that is a number has one
column, `state`; any other label is one category. A column whose values are all numbers or intervals
("<7", "7–8", "≥8", as `Bins` writes them) is ordered and is asked about with ≥; another one with =.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.data.labels import Labels

SEPARATORS = ("|", ";", ",")
STATE = "state"


@final
@dataclass(frozen=True, slots=True, eq=False)
class StateColumns:
    """Values of every state: `numbers[name]` (n_states,) or `words[name]`, a tuple."""

    numbers: Mapping[str, NDArray[np.float64]]
    words: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Ordered columns first."""
        return (*self.numbers, *self.words)


def state_columns(
    states: Labels, table: Mapping[str, Sequence[object]] | None = None
) -> StateColumns:
    """The columns of the states; `table` gives them by name, one value per state in order."""
    if table is None:
        table = _from_labels(states)
    numbers: dict[str, NDArray[np.float64]] = {}
    words: dict[str, tuple[str, ...]] = {}
    for name, values in table.items():
        if len(values) != len(states):
            raise InputError(
                f"The column '{name}' needs one value per state, {len(states)}; it has "
                f"{len(values)}."
            )
        parsed = [_number(value) for value in values]
        if all(value is not None for value in parsed):
            numbers[name] = np.array(parsed, dtype=np.float64)
        else:
            words[name] = tuple(str(value) for value in values)
    return StateColumns(numbers, words)


def _from_labels(states: Labels) -> dict[str, list[str]]:
    split = [_pairs(label) for label in states]
    named = [pairs for pairs in split if pairs is not None]
    names = list(dict.fromkeys(name for pairs in named for name in pairs))
    # "(end)" and the like have no columns of their own: they are asked about by their label.
    if not named or len(named) < 0.5 * len(split):
        return {STATE: list(states)}
    out = {name: [(pairs or {}).get(name, "") for pairs in split] for name in names}
    if len(named) < len(split):
        other = [label if pairs is None else "" for label, pairs in zip(states, split, strict=True)]
        out[STATE] = other
        for name in names:  # a number that is missing sorts below all others
            if all(_number(pairs[name]) is not None for pairs in named if name in pairs):
                out[name] = [value or "-inf" for value in out[name]]
    return out


def _pairs(label: str) -> dict[str, str] | None:
    """{"bp": "high"} for "bp=high|…"; None where the label is not made so."""
    separator = next((mark for mark in SEPARATORS if mark in label), None)
    parts = [label] if separator is None else label.split(separator)
    if not all("=" in part for part in parts):
        return None
    return {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in parts)}


def _number(value: object) -> float | None:
    """A number, or the lower end of an interval."""
    text = str(value).strip().replace("−", "-")
    if text.startswith("<"):
        return None if _plain(text[1:]) is None else -np.inf
    low, dash, high = text.removeprefix("≥").partition("–")
    if dash and _plain(high) is None:
        return None
    return _plain(low)


def _plain(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if np.isnan(number) else number
