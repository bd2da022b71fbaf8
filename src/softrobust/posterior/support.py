"""Which next states a pair (s, a) may have: the support that the prior mass is spread over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

IntArray = NDArray[np.int64]
SUPPORTS = ("neighbours", "visited", "all")


def pair_support(
    log: TransitionLog, kept: NDArray[np.bool_], support: str | NDArray[np.bool_]
) -> tuple[IntArray, NDArray[np.int32]]:
    """`indptr` (S·A + 1,) and ascending `next_states` of every kept pair; others list nothing.

    neighbours : states observed after s under any action, and s itself
    visited    : every state that occurs in the log
    all        : every state
    mask       : a bool array (n_states, n_states) over (s, s′) or (n_states, n_actions, n_states)
    """
    S, A = kept.shape
    if isinstance(support, str):
        if support not in SUPPORTS:
            raise InputError(
                f"support must be one of {', '.join(SUPPORTS)} or a mask; it is '{support}'."
            )
        if support == "neighbours":
            s, s_next = _neighbours(log)
        else:
            columns = np.arange(S) if support == "all" else _visited(log)
            s, s_next = np.repeat(np.arange(S), columns.size), np.tile(columns, S)
        return _by_state(s, s_next, kept)
    mask = np.asarray(support, dtype=bool)
    if mask.shape == (S, S):
        s, s_next = np.nonzero(mask)
        return _by_state(s, s_next, kept)
    if mask.shape != (S, A, S):
        raise InputError(
            f"A support mask has shape (n_states, n_states) = {(S, S)} or {(S, A, S)}; "
            f"it has {mask.shape}."
        )
    pair, s_next = np.nonzero((mask & kept[:, :, None]).reshape(S * A, S))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=S * A))])
    return indptr, s_next.astype(np.int32)


def _neighbours(log: TransitionLog) -> tuple[IntArray, IntArray]:
    """Sorted unique (s, s′) seen, with (s, s) added."""
    S = len(log.states)
    pairs, s_next, _ = log.counts()
    own = np.arange(S, dtype=np.int64)
    keys = np.unique(np.concatenate([(pairs // len(log.actions)) * S + s_next, own * S + own]))
    return keys // S, keys % S


def _visited(log: TransitionLog) -> IntArray:
    return np.unique(np.concatenate([log.s, log.s_next])).astype(np.int64)


def _by_state(
    s: IntArray, s_next: IntArray, kept: NDArray[np.bool_]
) -> tuple[IntArray, NDArray[np.int32]]:
    """Give every kept pair the list of its state; (s, s_next) is sorted by s, then s′."""
    S, A = kept.shape
    starts = np.concatenate([[0], np.cumsum(np.bincount(s, minlength=S))])
    widths = np.where(kept, np.diff(starts)[:, None], 0).reshape(-1)
    indptr = np.concatenate([[0], np.cumsum(widths)])
    k = np.flatnonzero(widths)
    # Position j of pair k is entry starts[s] + j of its state's list.
    offset = np.repeat(starts[k // A] - indptr[k], widths[k])
    return indptr, s_next[offset + np.arange(indptr[-1])].astype(np.int32)
