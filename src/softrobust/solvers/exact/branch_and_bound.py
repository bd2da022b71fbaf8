"""Policy branch and bound for the static soft-robust optimum, with the safe dual at every node.

A node is a set of allowed actions per state. Its bound is UB(ξ) of `bounds.best`, which is
never above the policy-based bound (the objective of the models' restricted optima: Ahluwalia,
Steimle and Denton's, reached with ξ the worst case of these optima and m = 0). What the bound says
of single choices takes actions away; that raises least occupancies and lowers optima, so the bound
is computed again. Once nodes are many, a potential (`bounds.potential`) bounds them once more, as
long as it closes much. Best node first; a branch fixes the state whose choice, by first-order
estimate, costs most.

Everything closed is closed against value + tolerance, and the greatest bound ever closed is kept:
the bound reported is the maximum over closed and open nodes, so it holds at any moment. The
tolerance is a share of |value|, but never less than rounding, or a value of 0 could not be proven.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final
from weakref import WeakSet

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.limits import Deadline, OutOfTime
from softrobust.bounds.advantage import Charges, Relaxation, relax
from softrobust.bounds.best import DualBound, dual_bound, either, percentile_bound
from softrobust.bounds.potential import LOOKS, SMOOTH, can_lower, lower
from softrobust.bounds.reduction import Reduced
from softrobust.objective import Percentile
from softrobust.returns import ModelOptima
from softrobust.solvers.base import Status
from softrobust.solvers.exact.enumeration import Enumerated, enumerate_rules, enumeration_work
from softrobust.solvers.exact.local_search import Climber, make_climber

LEAF_WORK = 2e8  # multiply-adds up to which a node's rules are enumerated instead of branched on,
LEAF_NODES = 25.0  # but no more than this many times N·S³: branching would be done sooner,
LEAST_LEAF = 1e7  # unless that is less than a node's linear program takes;
NODE_WORK = 2.0  # a node takes about LEAST_LEAF and this many times N·S³, and all nodes so far may
# be taken once more: where bounds close nothing, what is left is enumerated in twice the time
RELAXATION_MEMORY = 2**30  # bytes of parents' relaxations kept for their children
WORTH = 1e-3  # share of the gap that a state must promise for its occupancies to be bounded anew
ROUNDS = 20  # bound, take actions away, bound again; nodes are few where rounds are many
STALL = 0.01  # share of the gap that a round must close for another to follow,
SLOW = 0.03  # and the one before, where it looked at less,
STRIDE = 0.2  # and from which on priced occupancies alone are bounded anew in the next one
PAYS = 0.05  # share of the gap that new occupancies must have closed lately to be worth a node
FEW = 6  # actions of a state up to which they may be peeled off one by one;
QUARTER = 0.25  # of more, the most promising part goes together
LOOK_WORK = 2.0  # multiply-adds for every probability that a look for a potential takes,
LOOK_LEAST = 4e5  # and beside them; all nodes so far are to have taken as many as all looks of one
INSTEAD = 0.3  # share of the gap that they must have closed lately to go alone
LOWERINGS = 4  # potentials of a node, each with fewer actions than the one before
NO_GAP = 1e-9  # share of the returns up to which an enumeration's error is no gap
TIE = 0.05  # weight of the mean fall of a state's choices beside their least fall


@final
@dataclass(slots=True, eq=False)
class Node:
    """A set of allowed actions whose rules earn at most `bound`."""

    bound: float
    allowed: BoolArray
    xi: FloatArray | None = None
    parent: Relaxation | None = None
    depth: int = 0
    open: bool = True


@final
@dataclass(slots=True, eq=False)
class Tree:
    """The search: its open nodes, its incumbent and what was closed.

    Without `dual` there are no occupancies, no ξ and no enumeration: plain policy branch and bound,
    for comparison.
    """

    reduced: Reduced
    decision: IntArray  # the incumbent,
    value: float  # exactly evaluated
    gap: float  # nodes are closed at value + max(gap·|value|, rounding)
    dual: bool = True
    rounding: float = 0.0
    error: float = 0.0  # the greatest error of an enumeration, where it is small beside the returns
    closed: float = -np.inf
    nodes: int = 0
    enumerated: int = 0
    depth: int = 0
    root: Relaxation | None = None
    optima: ModelOptima | None = None  # of the models, to start the root from
    heap: list[tuple[float, int, Node]] = field(default_factory=list)
    counter: int = 0
    lowered: float = 1.0  # the same of what potentials close,
    instead: float = 0.0  # and of what they close where occupancies are bounded before
    payoff: float = 1.0  # moving average of the share of the gap that new occupancies close
    parents: WeakSet[Relaxation] = field(default_factory=WeakSet)
    climber: Climber = field(init=False)

    def __post_init__(self) -> None:
        self.climber = make_climber(self.reduced)

    @property
    def bound(self) -> float:
        """No rule earns more: the maximum over open nodes, closed nodes and the incumbent."""
        self._drop_closed()
        top = self.heap[0][2].bound if self.heap else -np.inf
        return max(top, self.closed, self.value)

    @property
    def floor(self) -> float:
        """Nodes at or below this are closed: the incumbent plus the tolerance asked for."""
        return self.value + max(self.gap * abs(self.value), self.rounding)

    def open_nodes(self) -> list[Node]:
        """The nodes still open, in no order."""
        return [node for _, _, node in self.heap if node.open]

    def push(self, node: Node) -> None:
        """Add an open node."""
        self.counter += 1
        heapq.heappush(self.heap, (-node.bound, self.counter, node))

    def run(self, deadline: Deadline, node_limit: int | None, watch: Callable[[], None]) -> Status:
        """Best first until the gap is closed or a limit met; `watch` is called after every node.

        A node stays open until its children are in, so an interrupt loses nothing.
        """
        while True:
            self._drop_closed()
            if not self.heap or self.heap[0][2].bound <= self.floor:
                return Status.TOLERANCE_REACHED
            if deadline.passed:
                return Status.TIME_LIMIT
            if node_limit is not None and self.nodes >= node_limit:
                return Status.NODE_LIMIT
            node = self.heap[0][2]
            try:
                self.process(node, deadline)
            except OutOfTime:  # the node stays open, as it was
                return Status.TIME_LIMIT
            watch()

    def process(self, node: Node, deadline: Deadline) -> None:
        """Bound the node, take actions away, then close, enumerate or branch."""
        relaxation, bound = self._tighten(node, deadline)
        if self.root is None:
            self.root = relaxation
        if self._pays(bound):
            relaxation, bound = self._lower(relaxation, bound, deadline)
        self.nodes += 1
        self.depth = max(self.depth, node.depth)
        value = min(bound.value, node.bound)
        if value <= self.floor:
            self._close(node, value)
            return
        last = bool((relaxation.allowed.sum(axis=1) == 1).all())  # one rule is left
        work = enumeration_work(self.reduced, relaxation.allowed)
        if last or (self.dual and work <= self._leaf_work()):
            seen = self.enumerate(relaxation.allowed, deadline)
            if seen.complete:
                self.enumerated += not last
                self._close(node, min(value, max(seen.bound, self.value)))
            return
        if self.nodes <= 32 or self.nodes % 8 == 0:  # what the bound itself would choose
            self.offer(np.argmax(bound.choice, axis=1), deadline)
        node.bound = value
        for child in self._children(node, relaxation, bound, value):
            self.push(child)
        node.open = False

    def enumerate(self, allowed: BoolArray, deadline: Deadline) -> Enumerated:
        """Look at every rule in `allowed`; the incumbent becomes the best one, if it is better."""
        seen = enumerate_rules(self.reduced, allowed, self.value, deadline)
        if seen.decision is not None:
            self.offer(seen.decision)
        self.error = max(self.error, min(seen.error, NO_GAP * seen.size))
        return seen

    def offer(self, decision: IntArray, climb: Deadline | None = None) -> None:
        """Take the rule as incumbent if its exact value is better; climb on from it until then.

        An interrupt on the way leaves the best rule reached.
        """
        value = self.climber.neighbours(decision)
        if value <= self.value:
            return
        self.decision, self.value = decision.copy(), value
        if climb is None:
            return
        try:
            self.climber.climb(decision, climb)
        except OutOfTime:
            pass  # the rule itself will do
        finally:
            reached = self.climber.reached
            if reached is not None and reached[1] > self.value:
                self.decision, self.value = reached[0].copy(), reached[1]

    def _tighten(self, node: Node, deadline: Deadline) -> tuple[Relaxation, DualBound]:
        """Bound and fix in turn; a child first tries its parent's occupancies, which are free."""
        if node.parent is None and self.root is None and node.depth > 0:  # of a resumed search
            self.root = relax(
                self.reduced, self.reduced.allowed, None, deadline, self.dual, optima=self.optima
            )
        parent = node.parent if node.parent is not None else self.root
        fresh = parent is None
        relaxation = relax(
            self.reduced, node.allowed, parent, deadline, self.dual and fresh, optima=self.optima
        )
        relaxation, bound = self._dual(relaxation, node.xi, deadline)
        if fresh and self.dual:  # what occupancies close of the clairvoyant bound's own gap
            self.payoff = (node.bound - bound.value) / max(node.bound - self.value, 1e-300)
        # Where occupancies have not paid lately, the parent's serve; every eighth node asks again.
        renew = self.dual and (self.payoff >= PAYS or self.nodes % 8 == 0)
        priced = not isinstance(self.reduced.problem.objective, Percentile)
        up_to_date = (fresh and not priced) or not renew  # are the occupancies of the actions left?
        free = True  # are least occupancies at any price bounded anew too?
        whole = not (priced and renew)  # and were they in the last round, or can they not be?
        lately = 1.0  # what the last round closed
        for _ in range(0 if self._alone(relaxation, bound) else ROUNDS):
            keep = relaxation.allowed & (bound.choice > self.floor)
            gone = relaxation.allowed & ~keep
            if bound.value <= self.floor or not keep.any(axis=1).all() or deadline.passed:
                break
            if up_to_date and whole and not gone.any():
                break
            if gone.any():  # what is taken away is closed
                self.closed = max(self.closed, float(bound.choice[gone].max()))
            worth, before = self._worth(relaxation, bound), bound.value
            whole = free or not (priced and renew)
            try:
                relaxation = relax(
                    self.reduced, keep, relaxation, deadline, renew, worth,
                    xi=bound.xi if priced else None, free=free, likely=self.decision,
                )  # fmt: skip
            except OutOfTime:
                break  # the bound before it holds
            relaxation, bound = self._dual(relaxation, bound.xi, deadline)
            closed = (before - bound.value) / max(before - self.value, 1e-300)
            if renew and not up_to_date:
                self.payoff += 0.5 * (closed - self.payoff)
            up_to_date = True
            if closed < STALL and (free or not priced or lately < SLOW):
                break
            free, lately = closed < STRIDE and not free, closed
        return relaxation, bound

    def _pays(self, bound: DualBound) -> bool:
        """Whether to look for a potential: once nodes are many, and as long as it closes much."""
        p = self.reduced.problem
        (S, _, N), pairs = p.R.shape, int(self.reduced.allowed.sum())
        looks = LOOKS * len(SMOOTH) * LOOK_WORK * (N * pairs * S + LOOK_LEAST)
        if not self.dual or bound.value <= self.floor or isinstance(p.objective, Percentile):
            return False
        if self.nodes * self._node_work() < looks or not can_lower(p):
            return False
        return self.lowered >= PAYS or self.nodes % 8 == 0

    def _alone(self, relaxation: Relaxation, bound: DualBound) -> bool:
        """Whether a potential takes the place of the rounds before it, as they close much less."""
        known = relaxation.potential is not None and self.nodes % 8 != 0
        return known and self.instead >= INSTEAD and self._pays(bound)

    def _lower(
        self, relaxation: Relaxation, bound: DualBound, deadline: Deadline
    ) -> tuple[Relaxation, DualBound]:
        """Bound by a potential, and take actions away, as long as that closes much."""
        alone = self._alone(relaxation, bound)
        for i in range(LOWERINGS):
            keep = relaxation.allowed & (bound.choice > self.floor)
            gone = relaxation.allowed & ~keep
            if bound.value <= self.floor or not keep.any(axis=1).all() or deadline.passed:
                break
            if gone.any():
                self.closed = max(self.closed, float(bound.choice[gone].max()))
                try:
                    relaxation = relax(
                        self.reduced, keep, relaxation, deadline, worth=np.zeros(len(keep), bool)
                    )
                except OutOfTime:
                    break
                bound = replace(bound, choice=np.where(keep, bound.choice, -np.inf))
            potential, found = lower(self.reduced, relaxation, bound.xi, self.floor, deadline)
            relaxation = replace(relaxation, potential=potential)
            closed = (bound.value - found.value) / max(bound.value - self.value, 1e-300)
            self.lowered += 0.5 * (max(closed, 0.0) - self.lowered)
            if i == 0 and not alone:
                self.instead += 0.5 * (max(closed, 0.0) - self.instead)
            bound = either(bound, found)
            if closed < STRIDE:
                break
        return relaxation, bound

    def _worth(self, relaxation: Relaxation, bound: DualBound) -> BoolArray:
        """States where larger least occupancies could take actions away or lower the bound."""
        allowed = relaxation.allowed
        estimate = bound.choice - spare_occupancy(relaxation, bound.xi)
        fixable = (allowed & (estimate <= self.floor)).any(axis=1)
        drop = bound.value - np.where(allowed, estimate, -np.inf).max(axis=1)
        return np.asarray(fixable | (drop > WORTH * (bound.value - self.value)))

    def _dual(
        self, relaxation: Relaxation, xi: FloatArray | None, deadline: Deadline
    ) -> tuple[Relaxation, DualBound]:
        """The bound, and the relaxation with the charges that led to it."""
        p, allowed = self.reduced.problem, relaxation.allowed
        if isinstance(p.objective, Percentile):
            terms = relaxation.terms if self.dual else np.zeros_like(relaxation.adv)
            return relaxation, percentile_bound(p, relaxation, terms)
        if not self.dual:
            none = Charges(relaxation.x, relaxation.size, np.zeros_like(relaxation.adv))
            return relaxation, dual_bound(p, allowed, none, xi, self.floor, deadline)
        known = p.objective.worst_case(relaxation.x, p.models.f) if xi is None else xi
        charges, older = relaxation.charges(known), relaxation.charged
        bound = dual_bound(p, allowed, charges, xi, self.floor, deadline, older)
        return replace(relaxation, charged=bound.charges), bound

    def _children(
        self, node: Node, relaxation: Relaxation, bound: DualBound, value: float
    ) -> list[Node]:
        """Two children: one action (or some) of the branching state, and its others.

        The one is the most promising action, whose fixing tells most. Where occupancies close
        little of the gap (the models disagree widely), single actions are peeled off from the
        least promising end instead: on the pest control posterior stretched four times that left
        about half the gap in the same time. Of many actions there a quarter goes together: one of
        40 order sizes alone tells nothing of its neighbours (13 nodes instead of 29 on inventory).
        """
        allowed = relaxation.allowed
        s = branching_state(relaxation, bound, value)
        actions = np.flatnonzero(allowed[s])
        weak = self.payoff < PAYS
        sign = 1.0 if weak and actions.size <= FEW else -1.0
        cut = int(QUARTER * actions.size) if weak and actions.size > FEW else 1
        actions = actions[np.argsort(sign * bound.choice[s, actions], kind="stable")]
        parent = self._keep(relaxation)
        children = []
        for group in (actions[:cut], actions[cut:]):
            mask = allowed.copy()
            mask[s] = False
            mask[s, group] = True
            top = min(value, float(bound.choice[s, group].max()))
            children.append(Node(top, mask, bound.xi, parent, node.depth + 1))
        return children

    def _keep(self, relaxation: Relaxation) -> Relaxation | None:
        """The relaxation to start children from: this one, or the root's where memory is short."""
        if len(self.parents) * relaxation.nbytes > RELAXATION_MEMORY:
            return self.root
        self.parents.add(relaxation)
        return relaxation

    def _leaf_work(self) -> float:
        S, _, N = self.reduced.problem.R.shape
        at_once = min(LEAF_WORK, max(LEAST_LEAF, LEAF_NODES * N * S**3))
        return float(max(at_once, self.nodes * self._node_work()))

    def _node_work(self) -> float:
        S, _, N = self.reduced.problem.R.shape
        return float(LEAST_LEAF + NODE_WORK * N * S**3)

    def _close(self, node: Node, bound: float) -> None:
        self.closed = max(self.closed, bound)
        node.open = False

    def _drop_closed(self) -> None:
        """Drop closed nodes from the top of the heap."""
        while self.heap and not self.heap[0][2].open:
            heapq.heappop(self.heap)


def spare_occupancy(relaxation: Relaxation, xi: FloatArray) -> FloatArray:
    """(S, A): Σ_ω ξ_ω (h_ω(s)·|adv_ω(s,a)| − charge)₊, what the bound does not charge yet."""
    charged = relaxation.terms if relaxation.charged is None else relaxation.charged.terms
    return np.asarray(np.maximum(charged - relaxation.h.T[:, None, :] * relaxation.adv, 0.0) @ xi)


def branching_state(relaxation: Relaxation, bound: DualBound, value: float) -> int:
    """The state whose every choice is estimated to lower the bound most.

    Fixing a in s charges each model its own occupancy h_ω(s) for the advantage lost there, where
    the bound so far charges m_ω(s,a): the estimate for a child is UB(s,a) − Σ_ω ξ_ω (h − m)₊·|adv|.
    """
    allowed = relaxation.allowed
    spare = spare_occupancy(relaxation, bound.xi)
    estimate = np.where(allowed, bound.choice - spare, -np.inf)
    count = allowed.sum(axis=1)
    drop = np.where(allowed, value - estimate, 0.0)
    # All children must fall for the bound to fall; among equals, the one whose children fall more.
    score = value - estimate.max(axis=1) + TIE * drop.sum(axis=1) / count
    return int(np.argmax(np.where(count > 1, score, -np.inf)))
