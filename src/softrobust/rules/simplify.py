"""Rules from a policy, with the exact price of simplicity.

To first order, taking action a instead of π in state s costs

    c(s, a) = Σ_ω ξ_ω h^ω(s)·(Q^ω(s, π) − Q^ω(s, a)),

with ξ the worst-case weights, h the occupancies and Q the action values of the full policy
(`returns.gradient`). A tree is grown on these costs; then the actions of its leaves are exchanged
one at a time as long as the *exact* objective rises. What is reported is exact too: the objective
of the tree's policy on every model, and the loss against the full policy. Where a leaf's action is
not allowed in one of its states, the full policy's action stands there, and the state is listed as
an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.settings import whole
from softrobust.models.policy import Policy
from softrobust.returns import evaluate_policy, static_return
from softrobust.returns.gradient import action_values
from softrobust.rules.columns import StateColumns, state_columns
from softrobust.rules.tree import Leaf, Tree, grow, leaf_of, leaves, merged, with_actions

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
MOST_EXCHANGES = 200
MOST_LEAVES = 64
PURITIES = (0.0, 0.1, 1.0)  # ways to grow: by what is saved, and by that and purity


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """A tree of rules and what it costs.

    Attributes
    ----------
    tree : Tree
    policy : Policy
        What the rules do in every state.
    value, full_value : float
        Exact objective of the rules and of the full policy, on the problem's models.
    exceptions : tuple of int
        States where the rule's action is not allowed, so that the full policy's one stands.
    steps : tuple of (n_leaves, value)
        What fewer leaves would earn.
    """

    tree: Tree
    policy: Policy
    value: float
    full_value: float
    exceptions: tuple[int, ...]
    steps: tuple[tuple[int, float], ...]

    @property
    def loss(self) -> float:
        """Exact objective given up for simplicity; negative where the rules happen to be better."""
        return self.full_value - self.value

    @property
    def n_leaves(self) -> int:
        """Number of rules."""
        return len(leaves(self.tree))

    def lines(self) -> list[str]:
        """The rules, indented, one a line."""
        out = _lines(self.tree, self.policy, "")
        for s in self.exceptions:
            action = self.policy.actions[int(self.policy.decision[s])]
            out.append(f"except in {self.policy.states[s]}: {action}")
        return out

    def sentence(self) -> str:
        """The price of simplicity in words."""
        n = "1 rule earns" if self.n_leaves == 1 else f"{self.n_leaves} rules earn"
        if abs(self.loss) <= 1e-9 * max(abs(self.full_value), 1e-300):
            return f"{n} exactly what the full policy earns, {self.full_value:.6g}."
        word = "less" if self.loss > 0 else "more"
        return (
            f"{n} {self.value:.6g} by the objective: {abs(self.loss):.3g} {word} than the "
            f"full policy ({self.full_value:.6g}). Both figures are exact on the sampled models."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "rules": self.lines(),
            "n_leaves": self.n_leaves,
            "value": self.value,
            "full_value": self.full_value,
            "loss": self.loss,
            "exceptions": [self.policy.states[s] for s in self.exceptions],
            "steps": [{"n_leaves": n, "value": v} for n, v in self.steps],
        }


def simplify(
    problem: Problem,
    policy: Policy,
    columns: StateColumns | None = None,
    most_leaves: int = 8,
    max_loss: float | None = None,
) -> Rules:
    """The policy as at most `most_leaves` rules; with `max_loss`, as few as lose no more than that.

    Parameters
    ----------
    columns : StateColumns, optional
        What rules may ask about; by default what the state labels hold.
    max_loss : float, optional
        In units of the objective. The smallest tree within it is returned; if even the largest one
        loses more, that one is (its `loss` says so).
    """
    most_leaves = whole("most_leaves", most_leaves, 1, most=MOST_LEAVES)
    columns = state_columns(problem.models.states) if columns is None else columns
    full = static_return(problem, policy)
    cost = exchange_costs(problem, policy)
    best: Rules | None = None
    steps: list[tuple[int, float]] = []
    grown = [list(grow(cost, columns, most_leaves, purity)) for purity in PURITIES]
    for size in range(1, most_leaves + 1):
        for trees in grown:
            if len(trees) < size:
                continue
            rules = _improved(problem, policy, trees[size - 1], columns, full)
            if best is None or _better(rules, best):
                best = rules
        assert best is not None  # every way to grow begins with the single leaf
        steps.append((size, best.value))
        if max_loss is not None and best.loss <= max_loss:
            break
    assert best is not None
    return Rules(best.tree, best.policy, best.value, full, best.exceptions, tuple(steps))


def _better(one: Rules, other: Rules) -> bool:
    """Fewer exceptions first, then the higher value."""
    if len(one.exceptions) != len(other.exceptions):
        return len(one.exceptions) < len(other.exceptions)
    return one.value > other.value + 1e-12 * abs(other.value)


def exchange_costs(problem: Problem, policy: Policy) -> FloatArray:
    """c(s, a), (n_states, n_actions); where an action is not allowed, more than all else."""
    v, h = evaluate_policy(problem, policy)
    q = action_values(problem, v)
    xi = problem.objective.worst_case(v @ problem.p0, problem.models.f)
    advantage = v[:, :, None] - q
    cost = np.einsum("n,ns,nsa->sa", xi, h, advantage)
    cost[~problem.decided] = 0.0
    # An exception is worse than any loss: rules that are mostly exceptions are none.
    barred = 1.0 + float(np.abs(cost[problem.allowed]).sum())
    return np.asarray(np.where(problem.allowed | ~problem.decided[:, None], cost, barred))


def _improved(
    problem: Problem, policy: Policy, tree: Tree, columns: StateColumns, full: float
) -> Rules:
    """Exchange actions of leaves while the exact objective rises."""
    where = leaf_of(tree, columns, problem.n_states)
    actions = [leaf.action for leaf in leaves(tree)]
    made, exceptions = _policy(problem, policy, where, actions)
    value = static_return(problem, made)
    tries = 0
    improved = True
    while improved and tries < MOST_EXCHANGES:
        improved = False
        for leaf in range(len(actions)):
            for a in range(problem.n_actions):
                if a == actions[leaf] or tries >= MOST_EXCHANGES:
                    continue
                tries += 1
                trial = [*actions[:leaf], a, *actions[leaf + 1 :]]
                other, barred = _policy(problem, policy, where, trial)
                if len(barred) > len(exceptions):
                    continue
                found = static_return(problem, other)
                if found > value + 1e-12 * abs(value):
                    actions, value, improved = trial, found, True
                    made, exceptions = other, barred
    shown = merged(with_actions(tree, iter(actions)))
    return Rules(shown, made, value, full, exceptions, ())


def _policy(
    problem: Problem, policy: Policy, where: NDArray[np.int64], actions: list[int]
) -> tuple[Policy, tuple[int, ...]]:
    decision = np.array(actions, dtype=np.int64)[where]
    rows = np.arange(problem.n_states)
    barred = ~problem.allowed[rows, decision]
    probs = np.zeros(policy.probs.shape)
    probs[rows, decision] = 1.0
    probs[barred] = policy.probs[barred]
    exceptions = tuple(int(s) for s in np.flatnonzero(barred & problem.decided))
    return Policy(probs, policy.states, policy.actions, policy.decided), exceptions


def _lines(tree: Tree, policy: Policy, indent: str) -> list[str]:
    """if …: action / else if …: action / else: action, indented under each question."""
    if isinstance(tree, Leaf):
        return [f"{indent}{policy.actions[tree.action]}"]
    head = [f"{indent}if {tree.question}:"]
    if isinstance(tree.yes, Leaf):
        head = [f"{head[0]} {policy.actions[tree.yes.action]}"]
    else:
        head += _lines(tree.yes, policy, indent + "  ")
    if isinstance(tree.no, Leaf):
        return [*head, f"{indent}else: {policy.actions[tree.no.action]}"]
    first, *rest = _lines(tree.no, policy, indent)
    return [*head, f"{indent}else {first.strip()}", *rest]
