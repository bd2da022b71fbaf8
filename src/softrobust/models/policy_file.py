"""A policy as a table `state, action[, probability]`: what `Policy.save` writes and people type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softrobust.data.columns import ACTION, STATE, Role
from softrobust.data.table import read_table
from softrobust.errors import InputError
from softrobust.models.policy import Policy

if TYPE_CHECKING:
    from softrobust.data.labels import Labels

PROBABILITY = Role("probability", ("probability", "prob", "p"), "number", required=False)
SUM_TOLERANCE = 1e-6  # how far typed probabilities may miss 1 before they are refused
SHOWN = 5


def read_policy(
    path: str | Path, states: Labels, actions: Labels, rest: Policy | None = None
) -> Policy:
    """Read a policy for these states and actions.

    Parameters
    ----------
    path : path
        A CSV with the columns `state` and `action`, and `probability` where a state has several
        actions. The probabilities of a state sum to 1 (tolerance 1e-6, for numbers that were
        printed with few digits; they are divided by their sum).
    rest : Policy, optional
        What is done in states that the file does not list; without it every state must be listed.
    """
    table = read_table(path, (STATE, ACTION, PROBABILITY))
    table.require("state")
    table.require("action")
    probs = np.zeros((len(states), len(actions)))
    weights = table.numbers.get("probability")
    for i, (s, a) in enumerate(zip(table.codes["state"], table.codes["action"], strict=True)):
        try:
            at = states.index(table.names["state"][s]), actions.index(table.names["action"][a])
        except InputError as error:
            raise InputError(f"{table.rows.where(i)}: {error}") from None
        weight = 1.0 if weights is None else float(weights[i])
        if not 0.0 <= weight <= 1.0:
            raise InputError(
                f"A probability lies between 0 and 1: {table.rows.where(i)} has {weight:g}."
            )
        if probs[at] > 0:
            raise InputError(
                f"Each pair is listed once: {table.rows.where(i)} repeats state '{states[at[0]]}', "
                f"action '{actions[at[1]]}'. Remove one of the two."
            )
        probs[at] = weight
    return _complete(probs, states, actions, rest, Path(path).name)


def _complete(
    probs: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    states: Labels,
    actions: Labels,
    rest: Policy | None,
    name: str,
) -> Policy:
    total = probs.sum(axis=1)
    listed = total > 0
    off = np.flatnonzero(listed & (np.abs(total - 1) > SUM_TOLERANCE))
    if off.size:
        s = int(off[0])
        raise InputError(
            f"The probabilities of a state must sum to 1: in {name} those of state '{states[s]}' "
            f"sum to {total[s]:g}. List one action, or add a column 'probability'."
        )
    missing = np.flatnonzero(~listed)
    if missing.size and rest is None:
        some = ", ".join(f"'{states[s]}'" for s in missing[:SHOWN])
        more = "" if missing.size <= SHOWN else f" and {missing.size - SHOWN} more"
        raise InputError(
            f"A policy must say what to do in every state: {name} lacks {some}{more}. Add them."
        )
    probs = probs / np.where(listed, total, 1.0)[:, None]
    decided = listed.copy()
    if rest is not None:
        probs[missing] = rest.probs[missing]
        decided[missing] = rest.decided[missing]
    return Policy(probs, states, actions, decided)
