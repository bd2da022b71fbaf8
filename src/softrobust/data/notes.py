"""What a user should know about a log before trusting a policy from it, in sentences."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softrobust.data.log import TransitionLog


def log_notes(log: "TransitionLog") -> tuple[str, ...]:
    """Return the remarks made on reading, then p₀, rewards and what the log does not show."""
    notes = [*log.remarks, f"The start distribution p0 is {log.p0_source}."]
    if log.rewards is None:
        notes.append("The log has no rewards; give them to the problem.")
    elif log.rewards.note:
        notes.append(log.rewards.note)
    left = ~log.sinks
    n_pairs = int(left.sum()) * log.n_actions
    unseen = n_pairs - int((log.pair_counts > 0).sum())
    if unseen:
        notes.append(
            f"{unseen} of the {n_pairs} pairs of action and state (where any action was seen) "
            "were never seen."
        )
    ends = log.sinks & log.visited
    if ends.any():
        notes.append(_never_left(log, np.flatnonzero(ends).tolist(), "visited"))
    unvisited = log.sinks & ~log.visited
    if log.end is not None:
        unvisited[log.end] = False
    if unvisited.any():
        notes.append(_never_left(log, np.flatnonzero(unvisited).tolist(), "unvisited"))
    return tuple(notes)


def _never_left(log: "TransitionLog", positions: list[int], kind: str) -> str:
    names = log.states.shortened(positions)
    if len(positions) == 1:
        return f"No action was seen in the {kind} state {names}."
    return f"No action was seen in {len(positions)} {kind} states: {names}."
