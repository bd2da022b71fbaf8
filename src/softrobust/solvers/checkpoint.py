"""A branch and bound on disk: open nodes, incumbent and what was closed, to be taken up again.

One `.npz` file without pickled objects: `meta` is a JSON text, `allowed` the open nodes' actions as
packed bits, `bound`, `xi` and `depth` their companions, `decision` the incumbent. A fingerprint of
the problem is stored and must agree: bounds of one problem say nothing about another.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.files import atomic_write
from softrobust.data.npz import DAMAGED
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.bounds.reduction import Reduced
    from softrobust.solvers.branch_and_bound import Node

FORMAT, VERSION = "softrobust-branch-and-bound", 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a file holds: the incumbent, the greatest closed bound, counters, and the open nodes.

    `gap` is the tolerance nodes were closed at: a smaller one cannot be proven from here. `starts`
    counts the starts of a local search that ran to its end, 0 if it was cut short (or if the file
    is of a time when this was not noted): it is then to be done again.
    """

    decision: NDArray[np.int64]
    closed: float
    gap: float
    nodes: int
    seconds: float
    open_nodes: list[Node]
    starts: int = 0


def fingerprint(reduced: Reduced) -> str:
    """SHA-256 of all that bounds depend on."""
    p = reduced.problem
    m = p.models
    digest = hashlib.sha256()
    settings = np.array([p.gamma, p.objective.lam, p.objective.alpha])
    parts: tuple[NDArray[Any], ...] = (
        m.indptr, m.next_states, m.prob, m.f, p.R, p.p0, reduced.allowed, settings,
    )  # fmt: skip
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def save_checkpoint(path: str | Path, reduced: Reduced, state: Checkpoint) -> None:
    """Write the state, atomically."""
    shape, N = reduced.allowed.shape, reduced.problem.n_models
    nodes = state.open_nodes
    masks = np.array([n.allowed.reshape(-1) for n in nodes], bool).reshape(-1, shape[0] * shape[1])
    xi = np.array([np.full(N, np.nan) if n.xi is None else n.xi for n in nodes]).reshape(-1, N)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "problem": fingerprint(reduced),
        "gap": state.gap,
        "nodes": state.nodes,
        "seconds": state.seconds,
        "starts": state.starts,
    }
    with atomic_write(path, "wb") as file:
        np.savez_compressed(
            file,
            meta=np.array(json.dumps(meta)),
            decision=state.decision,
            closed=np.array(state.closed),
            allowed=np.packbits(masks, axis=1),
            bound=np.array([n.bound for n in nodes]),
            xi=xi,
            depth=np.array([n.depth for n in nodes], np.int64),
        )


def load_checkpoint(path: str | Path, reduced: Reduced, gap: float) -> Checkpoint:
    """Read a state back, for the same problem and a gap no smaller than before."""
    shape = reduced.allowed.shape
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        meta = json.loads(str(stored["meta"]))
        known = meta["format"] == FORMAT and meta["version"] == VERSION
    except (*DAMAGED, ValueError) as error:
        raise _unusable(path, f"it cannot be read ({error})") from None
    if not known:
        raise _unusable(path, f"its format is {meta.get('format')!r}, {meta.get('version')!r}")
    if meta["problem"] != fingerprint(reduced):
        raise _unusable(
            path,
            "it belongs to another problem (models, rewards, start, discount or objective). Repeat "
            "the input and the options of the run that wrote it",
        )
    if meta["gap"] > gap:
        raise _unusable(path, f"it closed nodes at a gap of {meta['gap']:g}, and {gap:g} is asked")
    try:
        return _state(stored, meta, shape, reduced.problem.n_models)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise _unusable(path, f"it is damaged ({error})") from None


def _state(
    stored: dict[str, Any], meta: dict[str, Any], shape: tuple[int, int], n_models: int
) -> Checkpoint:
    from softrobust.solvers.branch_and_bound import Node

    if stored["decision"].shape != (shape[0],) or stored["xi"].shape[1:] != (n_models,):
        raise ValueError("its arrays have other sizes than the problem")
    masks = np.unpackbits(stored["allowed"], axis=1, count=shape[0] * shape[1]).astype(bool)
    nodes = [
        Node(
            float(bound), mask.reshape(shape), None if np.isnan(xi).any() else xi, None, int(depth)
        )
        for bound, mask, xi, depth in zip(
            stored["bound"], masks, stored["xi"], stored["depth"], strict=True
        )
    ]
    return Checkpoint(
        stored["decision"],
        float(stored["closed"]),
        float(meta["gap"]),
        int(meta["nodes"]),
        float(meta["seconds"]),
        nodes,
        int(meta.get("starts", 0)),
    )


def _unusable(path: str | Path, reason: str) -> InputError:
    return InputError(
        f"The search in '{path}' cannot be resumed: {reason}. "
        "To start afresh, remove the file (or leave out --resume)."
    )
