"""The deterministic static optimum (eq. 4.3) with its proof, by either criterion (section 4.1).

Local search finds the policy, which is nearly always the best one at once; what follows proves it:
the clairvoyant bound, then enumeration where the rules are few, else branch and bound with the safe
dual, or for percentiles the single-state bound (`bounds.best`). Whatever stops it, the incumbent
comes back with a bound that holds.

A branch and bound can be kept on disk and taken up again: one `.npz` file without pickled objects,
in which `meta` is a JSON text, `allowed` the open nodes' actions as packed bits, `bound`, `xi` and
`depth` their companions, `decision` the incumbent. A fingerprint of the problem is stored and must
agree: bounds of one problem say nothing about another.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, fits
from softrobust._core.files import DAMAGED, atomic_write
from softrobust._core.limits import Deadline, File, Gap, LiveLine, Seconds, Seed
from softrobust._core.schema import parse
from softrobust._core.settings import Natural
from softrobust.bounds import Bound, Covers, bound_of, clairvoyant_bound
from softrobust.bounds.advantage import relaxation_bytes
from softrobust.bounds.reduction import EXCUSED, Reduced, excusable, onto, reduce, rounding
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import Percentile
from softrobust.problem import Problem
from softrobust.returns import (
    check_policy,
    optimal_returns,
    reference_error,
    reference_returns,
    reference_size,
    static_return,
    uniform_value,
)
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.exact.branch_and_bound import Node, Tree
from softrobust.solvers.exact.enumeration import enumeration_work
from softrobust.solvers.exact.local_search import CLIMB_SECONDS, policy_of, search

FORMAT, VERSION = "softrobust-branch-and-bound", 1
STARTS = 10  # of the local search,
AGREE = 3  # but no more where so many come to the same end: a better one is found on the way
WARM_STARTS = 3  # beside a policy that was given
ENUMERATION_WORK = 5e7  # multiply-adds up to which the rules are enumerated before any bound
UNTOLD = 1e-3  # of what is to be gained: where optima are known no better, none is called best
OPTIMAL_GAP = 1e-6  # a proven gap at or below this is called optimal
TREE_NUMBERS = 5e7  # S·A·N above which a node's numbers would not fit
SAVE_EVERY = 30.0  # seconds between two checkpoints
TRACE = 200  # entries kept of the course of incumbent and bound


@final
@dataclass(frozen=True, slots=True)
class Exact(Solver):
    """The best deterministic policy, proven to within `gap`.

    Where a problem is too large to branch on, the local optimum comes back with the clairvoyant
    bound (status `local_optimum`).

    Parameters
    ----------
    gap : float
        Stop when bound − static_value is at most this share of |static_value|, or what rounding may
        leave (see `bounds.reduction`) where that is more.
    node_limit, time_limit : optional
        Stop after so many nodes or seconds, with the incumbent and its bound.
    seed : int or Generator
        For the random starts of the local search.
    checkpoint : path, optional
        A file for the open nodes, written every 30 s and at the end, resumed from if it exists.
    start : Policy, optional
        A policy to start from (its likeliest actions), such as the optimum for a neighbouring
        objective: fewer starts of the local search are then made.
    dual : bool
        False uses the plain policy-based bound at the nodes: far slower, for comparison.
    """

    gap: Gap = 1e-6
    node_limit: Natural | None = None
    time_limit: Seconds | None = None
    seed: Seed = 0
    checkpoint: File | None = None
    start: Policy | None = None
    dual: bool = True
    name: ClassVar[str] = "exact"

    def solve(self, problem: Problem) -> Solution:
        """Find the best deterministic policy and prove it, or say how far the proof got."""
        return _Run(self, problem).solve()


@final
class _Run:
    """One solve: the clock, the tree and the course of events."""

    def __init__(self, settings: Exact, problem: Problem) -> None:
        self.settings, self.problem = settings, problem
        self.deadline = Deadline(settings.time_limit)
        self.line = LiveLine()
        self.trace: list[tuple[float, float, float]] = []
        self.saved = time.monotonic()
        self.earlier = 0.0  # seconds spent before a resume
        self.starts = 0  # of the local search, once it has been completed
        self.planted = False  # until then there is nothing worth saving
        self.off = reference_error(problem)  # of what is measured, policies alike

    def solve(self) -> Solution:
        """Local search, clairvoyant bound, enumeration or branch and bound."""
        reduced, path, state = reduce(self.problem), self.settings.checkpoint, None
        if path is not None and Path(path).exists():  # refused before any work is done
            state = load_checkpoint(path, reduced, self.settings.gap)
        optima = optimal_returns(reduced.problem, deadline=self.deadline)
        clairvoyant = clairvoyant_bound(reduced.problem, optima)
        given = self.settings.start
        if given is not None:
            check_policy(self.problem, given)
        starts = STARTS if given is None else WARM_STARTS
        if state is not None and state.starts >= starts:
            starts = 1  # the saved incumbent has been searched for
        first = None  # where there is no time for another search, the one that found it will do
        if given is not None and self.deadline.left < CLIMB_SECONDS:
            first = onto(given.decision, reduced.allowed)
        found = search(reduced, starts, self.settings.seed, self.deadline, optima, first, AGREE)
        done = starts if found.status is Status.LOCAL_OPTIMUM else 0
        self.starts = max(done, 0 if state is None else state.starts)
        interrupted = found.status is Status.INTERRUPTED
        # Until it is planted, the tree is closed at a bound that holds.
        tree = Tree(
            reduced, found.decision, found.value, self.settings.gap, self.settings.dual,
            rounding(reduced.problem, optima.V), closed=clairvoyant.value, optima=optima,
        )  # fmt: skip
        stats: dict[str, Any] = {
            "clairvoyant_bound": clairvoyant.value,
            "local_search_value": found.value,
            "local_search_hits": f"{found.hits} of {found.starts}",
            "log10_rules": float(np.log10(reduced.allowed.sum(axis=1)).sum()),
        }
        try:
            self.plant(tree, clairvoyant.value, state)
            if given is not None and not interrupted:
                tree.offer(onto(given.decision, reduced.allowed), self.deadline)
            self.note(tree)
            status = Status.INTERRUPTED if interrupted else self.prove(reduced, tree, stats)
        except KeyboardInterrupt:  # with the incumbent as it stands
            status = Status.INTERRUPTED
        finally:
            self.line.clear()
        return self.report(tree, clairvoyant, status, stats)

    def plant(self, tree: Tree, clairvoyant: float, state: Checkpoint | None) -> None:
        """One open node, or those that were saved; an interrupt leaves the tree as it came."""
        if state is None:
            tree.push(Node(clairvoyant, tree.reduced.allowed))
        else:
            tree.offer(state.decision)
            tree.nodes, self.earlier = state.nodes, state.seconds
            # Nodes were closed with these; what is proven rests on the greater ones.
            tree.rounding = max(tree.rounding, state.rounding)
            tree.error = max(tree.error, state.error)
            for node in state.open_nodes:
                tree.push(node)
        tree.closed, self.planted = -np.inf if state is None else state.closed, True

    def prove(self, reduced: Reduced, tree: Tree, stats: dict[str, Any]) -> Status:
        """Close the gap, by enumeration where the rules are few."""
        p, limit = reduced.problem, self.settings.node_limit
        if p.R.size > TREE_NUMBERS or not fits(3 * relaxation_bytes(p, self.settings.dual)):
            stats["method"] = "local search: too large to branch on"
            return Status.LOCAL_OPTIMUM
        few = _few(reduced)
        if few and tree.nodes == 0 and limit is None and tree.bound > tree.floor:
            seen = tree.enumerate(reduced.allowed, self.deadline)
            if not seen.complete:
                return Status.TIME_LIMIT
            tree.closed = max(seen.bound, tree.value)
            tree.heap.clear()
            stats["method"] = "enumeration"
            stats["rounding"] = seen.error if np.isfinite(seen.error) else None  # of every return
            return Status.TOLERANCE_REACHED
        stats["method"] = "branch and bound"
        return tree.run(self.deadline, limit, lambda: self.watch(tree))

    def watch(self, tree: Tree) -> None:
        """After every node: the live line, the trace, and now and then the checkpoint."""
        self.note(tree)
        self.line.update(
            lambda: (
                f"proving: value {tree.value:.6g}, bound {tree.bound:.6g}, "
                f"{tree.nodes} node{'s' * (tree.nodes != 1)}, {len(tree.heap)} open, "
                f"{self.deadline.elapsed:.0f} s"
            )
        )
        if self.settings.checkpoint is not None and time.monotonic() - self.saved > SAVE_EVERY:
            self.save(tree)

    def note(self, tree: Tree) -> None:
        """Record (seconds, value, bound) when either has changed; thin out a long trace."""
        bound = min(tree.bound + self.off, 0.0) if self.off else tree.bound  # no regret is above 0
        entry = (self.deadline.elapsed, tree.value, bound)
        if not self.trace or self.trace[-1][1:] != entry[1:]:
            self.trace.append(entry)
        if len(self.trace) > TRACE:
            self.trace = self.trace[:1] + self.trace[1::2]

    def save(self, tree: Tree) -> None:
        """Write the checkpoint, if one was asked for."""
        path = self.settings.checkpoint
        if path is None or not self.planted:
            return
        save_checkpoint(path, tree, self.earlier + self.deadline.elapsed, self.starts)
        self.saved = time.monotonic()

    def report(
        self, tree: Tree, clairvoyant: Bound, status: Status, stats: dict[str, Any]
    ) -> Solution:
        """The solution, with the least bound proven and the class it covers."""
        self.save(tree)
        policy = policy_of(self.problem, tree.reduced, tree.decision)
        value = static_return(self.problem, policy)
        proven = max(tree.bound, value)
        if clairvoyant.value <= proven:
            bound = clairvoyant
        else:
            how = stats.get("method", "local search")
            bound = bound_of(self.problem, proven, Covers.DETERMINISTIC, how)
        # Where numbers are huge somewhere, so is the error of an enumeration: that proves nothing.
        size = abs(value) + reference_size(self.problem)  # a gain of 0 is rounded as returns are
        most = max(EXCUSED * size, excusable(self.problem))
        room = 2 * tree.rounding + min(tree.error, most)
        left = min(proven, clairvoyant.value) - value  # what a search can close
        # The one policy there is; but at the edge of a percentile its value itself is open.
        if stats["log10_rules"] == 0 and not isinstance(self.problem.objective, Percentile):
            left = 0.0
        status = self.honest(status, left, value, room)
        if left > 0.0 and status is Status.OPTIMAL and self.untold(bound.value):
            status = Status.LOCAL_OPTIMUM
        self.note(tree)
        stats.update(
            seconds=self.deadline.elapsed,
            seconds_before_resume=self.earlier,
            nodes=tree.nodes,
            open_nodes=len(tree.open_nodes()),
            enumerated_nodes=tree.enumerated,
            depth=tree.depth,
            closed_within=tree.rounding,
            enumeration_error=tree.error,
            trace=[list(entry) for entry in self.trace],
        )
        return finish(self.problem, Exact.name, policy, status, stats, bound=bound)

    def untold(self, bound: float) -> bool:
        """Whether the optima that regret is taken from are known too badly to tell rules apart."""
        return self.off > max(UNTOLD * (bound - uniform_value(self.problem)), 0.0)

    def honest(self, status: Status, gap_abs: float, value: float, room: float) -> Status:
        """What a finished proof has proven: rounding may leave more open than the gap asked for."""
        if status is not Status.TOLERANCE_REACHED:
            return status
        # Around a value of 0 a share of it means nothing; rounding is then all that is left.
        if gap_abs <= max(OPTIMAL_GAP * abs(value), room):
            return Status.OPTIMAL
        asked = self.settings.gap * abs(value) + room
        return status if gap_abs <= asked else Status.LOCAL_OPTIMUM


@final
@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a file holds: the incumbent, the greatest closed bound, counters, and the open nodes.

    `starts` counts the starts of a local search that ran to its end, 0 if it was cut short (or if
    the file is of a time when this was not noted): it is then to be done again.
    """

    decision: NDArray[np.int64]
    closed: float
    nodes: int
    seconds: float
    open_nodes: list[Node]
    starts: int
    rounding: float = 0.0  # at which nodes were closed,
    error: float = 0.0  # and the greatest error of an enumeration


def fingerprint(reduced: Reduced) -> str:
    """SHA-256 of all that bounds depend on."""
    p = reduced.problem
    m = p.models
    digest = hashlib.sha256()
    settings = np.array([p.gamma, p.objective.lam, p.objective.alpha])
    parts: tuple[NDArray[Any], ...] = (
        m.indptr, m.next_states, m.prob, m.f, p.R, p.p0, reduced.allowed, settings,
    )  # fmt: skip
    if p.objective.reference is not None:
        parts = (*parts, reference_returns(p))
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    if isinstance(p.objective, Percentile):  # files of the other criterion stay as they were
        digest.update(p.objective.criterion.encode())
    return digest.hexdigest()


def save_checkpoint(path: str | Path, tree: Tree, seconds: float, starts: int) -> None:
    """Write the state of a search, atomically."""
    nodes, N = tree.open_nodes(), tree.reduced.problem.n_models
    masks = np.array([n.allowed.reshape(-1) for n in nodes], bool)
    xi = np.array([np.full(N, np.nan) if n.xi is None else n.xi for n in nodes]).reshape(-1, N)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "problem": fingerprint(tree.reduced),
        "gap": tree.gap,  # nodes were closed at it: a smaller one cannot be proven from here
        "nodes": tree.nodes,
        "seconds": seconds,
        "starts": starts,
        "rounding": tree.rounding,
        "error": tree.error,
    }
    with atomic_write(path, "wb") as file:
        np.savez_compressed(
            file,
            meta=np.array(json.dumps(meta)),
            decision=tree.decision,
            closed=np.array(tree.closed),
            allowed=np.packbits(masks.reshape(-1, tree.reduced.allowed.size), axis=1),
            bound=np.array([n.bound for n in nodes]),
            xi=xi,
            depth=np.array([n.depth for n in nodes], np.int64),
        )


def load_checkpoint(path: str | Path, reduced: Reduced, gap: float) -> Checkpoint:
    """Read a state back, for the same problem and a gap no smaller than before."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            stored = dict(file)
        meta = parse(str(stored["meta"]))
        reason = _not_resumable(meta, reduced, gap)
        if not reason:
            return _state(stored, meta, reduced.allowed, reduced.problem.n_models)
    except (*DAMAGED, ValueError) as error:
        reason = f"it cannot be read ({error})"
    raise InputError(
        f"The search in '{path}' cannot be resumed: {reason}. "
        "To start afresh, remove the file or name another."
    )


def _not_resumable(meta: dict[str, Any], reduced: Reduced, gap: float) -> str:
    if meta["format"] != FORMAT or meta["version"] != VERSION:
        return f"its format is {meta['format']!r}, {meta['version']!r}"
    if meta["problem"] != fingerprint(reduced):
        return (
            "it belongs to another problem (models, rewards, start, discount or objective). Repeat "
            "the input and the options of the run that wrote it"
        )
    if meta["gap"] > gap:
        return f"it closed nodes at a gap of {meta['gap']:g}, and {gap:g} is asked"
    return ""


def _state(
    stored: dict[str, Any], meta: dict[str, Any], allowed: BoolArray, n_models: int
) -> Checkpoint:
    shape = allowed.shape
    if stored["decision"].shape != (shape[0],) or stored["xi"].shape[1:] != (n_models,):
        raise ValueError("its arrays have other sizes than the problem")
    decision, floats = stored["decision"], [stored[name] for name in ("closed", "bound", "xi")]
    if decision.dtype.kind != "i" or any(array.dtype.kind != "f" for array in floats):
        raise ValueError("its arrays are not those of a search")
    sound = np.isfinite(stored["bound"]).all() and bool(stored["closed"] < np.inf)
    if not sound or ((decision < 0) | (decision >= shape[1])).any():
        raise ValueError("it holds actions or bounds that cannot be")
    masks = np.unpackbits(stored["allowed"], axis=1, count=allowed.size).astype(bool)
    masks = masks.reshape(-1, *shape)
    if (masks & ~allowed).any() or not masks.any(axis=2).all():
        raise ValueError("it holds nodes with actions that are not allowed, or with none")
    nodes = [
        Node(float(b), mask, None if np.isnan(xi).any() else xi, None, int(depth))
        for b, mask, xi, depth in zip(
            stored["bound"], masks, stored["xi"], stored["depth"], strict=True
        )
    ]
    names = ("nodes", "seconds", "starts", "rounding", "error")  # older files lack the last ones
    numbers = {
        name: float(meta[name] if name in names[:2] else meta.get(name, 0)) for name in names
    }
    if not all(0.0 <= number < np.inf for number in numbers.values()):
        raise ValueError("it holds counts or errors that cannot be")
    return Checkpoint(
        stored["decision"], float(stored["closed"]), int(numbers["nodes"]), numbers["seconds"],
        nodes, int(numbers["starts"]), numbers["rounding"], numbers["error"],
    )  # fmt: skip


def few_rules(problem: Problem) -> bool:
    """Whether all deterministic policies would be tried, one after another."""
    return _few(reduce(problem))


def _few(reduced: Reduced) -> bool:
    return enumeration_work(reduced, reduced.allowed) <= ENUMERATION_WORK
