"""Local search where inverses would not fit: block moves by first-order change only.

The exact one-exchange neighbourhood costs N·S³ per step. Beyond that reach a step costs one exact
evaluation and one pass over the models: every state whose best first-order change is positive moves
at once, and where that does not raise the exact value, only the quarter of them that promise most,
then a quarter of those, down to one state. A rule from which not even that one rises is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.models.policy import Policy
from softrobust.returns import evaluate_policy
from softrobust.returns.late import Late, OutOfTime

if TYPE_CHECKING:
    from softrobust.bounds.reduction import Reduced
    from softrobust.solvers.base import Deadline

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RISE = 1e-10  # a rise below this share of the returns' size may be an evaluation's own error


@final
class BlockClimber:
    """The moves on one large problem; the interface of `local_search.Climber`."""

    __slots__ = ("V", "evaluated", "h", "moves", "reached", "reduced", "size", "x")

    def __init__(self, reduced: Reduced) -> None:
        self.reduced = reduced
        self.moves, self.size, self.evaluated = 0, 0.0, False
        self.V = self.h = np.zeros((0, 0))
        self.x = np.zeros(0)
        self.reached: tuple[IntArray, float] | None = None  # by the last climb, even a cut one

    def rise(self, value: float) -> float:
        """The least rise that counts as one."""
        return RISE * max(self.size, abs(value))

    def neighbours(self, decision: IntArray, late: Late | None = None) -> float:
        """Evaluate the decision exactly; its value. All but the first may be `OutOfTime`."""
        p = self.reduced.problem
        policy = Policy.from_decision(decision, p.models.states, p.models.actions)
        self.V, self.h = evaluate_policy(p, policy, late if self.evaluated else None)
        self.evaluated = True
        self.x = self.V @ p.p0
        self.size = max(self.size, float(np.abs(self.x).max()))
        return p.objective.value(self.x, p.models.f)

    def climb(self, decision: IntArray, deadline: Deadline) -> tuple[IntArray, float, bool]:
        """Moves until none helps; the rule, its value, and whether no move was left.

        The deadline is looked at within evaluations too: one that it cuts short is dropped.
        """
        self.reached = None
        value = self.neighbours(decision, deadline.late)
        while True:
            self.reached = decision, value
            target, gain = self._moves(decision)
            order = np.argsort(-gain, kind="stable")
            n = int((gain > self.rise(value)).sum())
            risen = False
            while n >= 1 and not risen and not deadline.passed:
                candidate = decision.copy()
                candidate[order[:n]] = target[order[:n]]
                try:
                    new = self.neighbours(candidate, deadline.late)
                except OutOfTime:
                    return decision, value, False
                if new > value + self.rise(value):
                    decision, value, risen = candidate, new, True
                    self.moves += 1
                n //= 4
            if not risen:
                return decision, value, not deadline.passed

    def _moves(self, decision: IntArray) -> tuple[IntArray, FloatArray]:
        """Every state's action of best first-order change, and how much it promises."""
        from softrobust.kernels.first_order import first_order

        p = self.reduced.problem
        m = p.models
        xi = p.objective.worst_case(self.x, m.f)
        score = np.empty(self.reduced.allowed.shape)
        first_order(
            m.indptr, m.next_states, m.prob, p.R, self.reduced.allowed, p.gamma, xi,
            self.V, self.h, score,
        )  # fmt: skip
        best = np.argmax(score, axis=1)
        rows = np.arange(decision.size)
        return best, score[rows, best] - score[rows, decision]
