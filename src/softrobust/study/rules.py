"""Rules from a policy, with the exact price of simplicity.

The search (`rule_tree`) moves between trees by their exact objective on all models: down from
the tree that is the full policy, one rule at a time, and up from a single rule. Where the problem
is too large for that, a tree is grown on first-order costs: action a instead of π in state s costs

    c(s, a) = Σ_ω ξ_ω h^ω(s)·(Q^ω(s, π) − Q^ω(s, a)),

with ξ the worst-case weights, h the occupancies and Q the action values of the full policy
(`returns.evaluation`), summed over the steps of a horizon; then the actions of its leaves are
exchanged as long as the *exact* objective rises. What is reported is exact in either case: the
objective of the tree's policy on every model, and the loss against the full policy. Where a leaf's
action is not allowed in one of its states, the full policy's action stands there, and the state is
listed as an exception.

A policy that keeps to practice but for a few changes is written in its own terms: a rule names an
action that the policy itself turns to in all states of the rule, or what is done now. So rules are
of the class that the policy was chosen from; actions that only look good on the models are none of
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.settings import whole
from softrobust.data import Labels, TransitionLog
from softrobust.errors import InputError, SolverError
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import static_gradient, static_return
from softrobust.solvers import Improve, Solution, behaviour_policy
from softrobust.solvers.practice_class import Composite, mixed_problem
from softrobust.study import rule_tree
from softrobust.study.rule_tree import Leaf, Ruled, StateColumns, Tree, leaves
from softrobust.study.solved import need_stationary

MOST_EXCHANGES = 600  # evaluations of large problems, at most
WORK = 4e9  # multiply-adds of these evaluations: some ten seconds
LEAVES = 8
MOST_LEAVES = 64
NOW = "what is done now"
NEAR = 0.1  # share of decisions up to which a policy counts as practice
SAME = 1e-9
PURITIES = (0.0, 0.1, 1.0)  # ways to grow: by what is saved, and by that and purity


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """A tree of rules and what it costs."""

    tree: Tree
    policy: Policy  # what the rules do in every state
    # value, full_value: exact objective of the rules and of the full policy, on the problem's
    # models
    value: float
    full_value: float
    # states where the rule's action is not allowed, so that the full policy's one stands
    exceptions: tuple[int, ...]
    steps: tuple[tuple[int, float], ...]  # (n_leaves, value): what fewer leaves would earn
    max_loss: float | None = None  # what the rules were allowed to lose
    names: tuple[str, ...] = ()  # what the actions of the tree are called
    # whether rules name nothing but the policy's own changes and what is done now
    kept: bool = False
    same: bool = False  # whether the rules are the full policy, chance by chance

    @property
    def loss(self) -> float:
        """Exact objective given up for simplicity; negative where the rules happen to be better."""
        return self.full_value - self.value

    @property
    def n_leaves(self) -> int:
        """Number of rules."""
        return len(leaves(self.tree))

    @property
    def met(self) -> bool | None:
        """Whether the loss is within `max_loss`, but for rounding; None where none was asked."""
        if self.max_loss is None:
            return None
        return self.loss <= self.max_loss + 1e-12 * abs(self.full_value)

    def lines(self) -> list[str]:
        """The rules, indented, one a line."""
        out = _lines(self.tree, self.names, "")
        for s in self.exceptions:
            mix = self.policy.mix(s)
            digits = 2 + (max(mix.values()) > 0.99)
            taken = (a if p == 1 else f"{a} ({100 * p:.{digits}g} %)" for a, p in mix.items())
            out.append(f"except in {self.policy.states[s]}: {' or '.join(taken)}")
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = ("n_leaves", "value", "full_value", "loss", "max_loss", "met")
        return {
            "rules": self.lines(),
            **{name: getattr(self, name) for name in plain},
            "keeps_to_practice": self.kept,
            "is_full_policy": self.same,
            "exceptions": [self.policy.states[s] for s in self.exceptions],
            "steps": [{"n_leaves": n, "value": v} for n, v in self.steps],
        }


def kept_practice(problem: Problem, solution: Solution, log: TransitionLog | None) -> Policy | None:
    """Practice, where the policy keeps to it but for changes; None where it does not."""
    if log is None or (solution.policy.deterministic and solution.solver != Improve.name):
        return None
    return behaviour_policy(problem, log)[0]


def simplify(
    problem: Problem,
    policy: Policy,
    columns: StateColumns | None = None,
    most_leaves: int | None = None,
    max_loss: float | None = None,
    practice: Policy | None = None,
) -> Rules:
    """The policy as at most `most_leaves` rules; with `max_loss`, as few as lose no more than that.

    Parameters
    ----------
    columns : StateColumns, optional
        What rules may ask about; by default what the state labels hold.
    most_leaves : int, optional
        8 by default; with `max_loss` as many as it takes, up to 64.
    max_loss : float, optional
        In units of the objective. The smallest set of rules within it that was found is returned;
        where none was, the best one is, and its `met` is False.
    practice : Policy, optional
        What is done now, where the policy is to be written as changes of it.
    """
    need_stationary(policy, "A search for short rules")
    if max_loss is not None and not max_loss >= 0:
        raise InputError(
            f"max_loss must be a number ≥ 0, in units of the objective; it is {max_loss}."
        )
    default = LEAVES if max_loss is None else MOST_LEAVES
    most = whole(
        "most_leaves", default if most_leaves is None else most_leaves, 1, most=MOST_LEAVES
    )
    columns = rule_tree.state_columns(problem.models.states) if columns is None else columns
    full, original, whole_policy = static_return(problem, policy), problem, policy
    if practice is not None:
        composite, policy = _changes(problem, policy, practice)
        problem = composite.problem
    search = rule_tree.Search(problem, policy, columns)
    made = _Found(problem, policy, full, max_loss)
    if search.looks:
        _by_search(search, made, most)
    else:
        _to_first_order(made, columns, most if most_leaves is not None else LEAVES)
    found = made.chosen(most)
    lifted = found.policy if practice is None else composite.lift(found.policy)
    apart = np.abs(lifted.probs - whole_policy.probs)[original.decided]
    return replace(
        found, policy=lifted, names=tuple(problem.models.actions), kept=practice is not None,
        same=bool((apart <= SAME).all()),
    )  # fmt: skip


def _changes(problem: Problem, policy: Policy, practice: Policy) -> tuple[Composite, Policy]:
    """The problem whose actions are the policy's changes and practice; what it does most in it."""
    sinks = problem.models.sinks
    usual = np.where(np.asarray(practice.decided)[:, None], practice.probs, policy.probs)
    turned = (policy.probs > usual + SAME) | (policy.probs >= 1 - SAME)
    stays = ~((usual > 0) & ~problem.allowed).any(axis=1) | sinks
    S, A = policy.probs.shape
    mixtures = np.zeros((S, A + 1, A))
    for s, a in np.argwhere(turned & ~sinks[:, None]):
        mixtures[s, a, a] = 1.0
    mixtures[stays, A] = np.where(sinks[:, None], policy.probs, usual)[stays]
    made = mixed_problem(problem, mixtures)
    names = [*problem.models.actions, NOW if NOW not in problem.models.actions else f"{NOW} (all)"]
    models = replace(made.models, sinks=sinks, actions=Labels(tuple(names), noun="action"))
    near = stays & (0.5 * np.abs(policy.probs - usual).sum(axis=1) <= NEAR)
    best = np.where(turned, policy.probs, -1.0).argmax(axis=1)
    own = Policy.from_decision(np.where(near | sinks, A, best), models.states, models.actions)
    return Composite(replace(made, models=models), mixtures, problem), own


@final
class _Found:
    """The best rules of every size, with their exact values."""

    def __init__(
        self, problem: Problem, policy: Policy, full: float, max_loss: float | None
    ) -> None:
        self.problem, self.policy, self.full, self.max_loss = problem, policy, full, max_loss
        self.best: dict[int, Rules] = {}

    def note(self, tree: Tree, columns: StateColumns) -> Rules:
        """Evaluate the tree, and keep it if it is the best of its size."""
        where = rule_tree.leaf_of(tree, columns, self.problem.n_states)
        return self.keep(tree, where, [leaf.action for leaf in leaves(tree)])

    def keep(self, tree: Tree, where: IntArray, actions: list[int]) -> Rules:
        """`note`, with the leaf of every state at hand."""
        named = np.array(actions, dtype=np.int64)[where]
        made, exceptions = rule_tree.rules_policy(self.problem, self.policy, named)
        value = static_return(self.problem, made)
        shown = rule_tree.merged(rule_tree.with_actions(tree, iter(actions)))
        rules = Rules(shown, made, value, self.full, exceptions, (), self.max_loss)
        size = rules.n_leaves
        if size not in self.best or _better(rules, self.best[size]):
            self.best[size] = rules
        return rules

    def chosen(self, most: int) -> Rules:
        """The smallest within the loss, or the best: the fewest exceptions, then the value."""
        steps: list[tuple[int, float]] = []
        best: Rules | None = None
        for size in range(1, most + 1):
            new = self.best.get(size)
            if new is not None and (best is None or _better(new, best)):
                best = new
            if best is None:
                continue
            steps.append((size, best.value))
            if best.met or size >= max(self.best):
                break
        if best is None:
            raise SolverError("No rules were found at all. Please report this with the run.")
        return replace(best, steps=tuple(steps))


def _by_search(search: rule_tree.Search, made: _Found, most: int) -> None:
    """Down from the full policy one rule at a time, then up from a single rule."""
    problem, columns = search.problem, search.columns
    cost = exchange_costs(problem, made.policy)
    grown = [list(rule_tree.grow(cost, columns, min(most, LEAVES), purity)) for purity in PURITIES]
    first = [made.note(rule_tree.merged(tree), columns) for trees in grown for tree in trees]
    labels = np.where(problem.decided, np.argmax(made.policy.probs, axis=1), 0)
    tree = search.grown(labels)
    if tree is None:
        best = max(first, key=lambda rules: (-len(rules.exceptions), rules.value))
        tree = best.tree
    at: Ruled | None = Ruled(tree, search.named(tree), made.note(tree, columns).value)
    kept = search.looks // 3  # for the way up
    search.looks -= kept
    while at is not None:
        if at.n_leaves <= most:
            at = search.climb(at, at.n_leaves)
            if made.note(at.tree, columns).met is False or at.n_leaves == 1:
                break
        at = search.shrink(at)
    search.looks += kept
    up = max((search.started(Leaf(a)) for a in range(problem.n_actions)), key=lambda r: r.value)
    for size in range(1, min(most, LEAVES) + 1):
        known = made.best.get(size)
        if known is not None and not known.exceptions and known.value > up.value:
            up = Ruled(known.tree, search.named(known.tree), known.value)
        up = search.climb(up, size)
        if made.note(up.tree, columns).met:
            break


def _to_first_order(made: _Found, columns: StateColumns, most: int) -> None:
    """Trees on first-order costs; actions of leaves are exchanged while evaluations last."""
    cost = exchange_costs(made.problem, made.policy)
    p = made.problem
    stored = p.models.next_states.size / p.n_actions
    each = p.n_models * min(p.n_states**3 / 3.0, 400.0 * stored)  # multiply-adds of one evaluation
    left = max(most, min(MOST_EXCHANGES, int(WORK / each)))
    grown = [tree for purity in PURITIES for tree in rule_tree.grow(cost, columns, most, purity)]
    # The large ones first: where evaluations are dear, these are the ones worth having.
    trees = sorted(grown, key=lambda tree: -len(leaves(tree)))[:left]
    noted = [(made.note(tree, columns), tree) for tree in trees]
    left -= len(noted)
    noted.sort(key=lambda pair: (len(pair[0].exceptions), -pair[0].value))
    for rules, tree in noted:
        left = _exchange(made, tree, columns, rules, left)
        if left <= 0:
            return


def _better(one: Rules, other: Rules) -> bool:
    """Fewer exceptions first, then the higher value."""
    if len(one.exceptions) != len(other.exceptions):
        return len(one.exceptions) < len(other.exceptions)
    return one.value > other.value + 1e-12 * abs(other.value)


def exchange_costs(problem: Problem, policy: Policy) -> FloatArray:
    """c(s, a), (n_states, n_actions); where an action is not allowed, more than all else."""
    gradient = static_gradient(problem, policy)
    cost = (policy.probs * gradient).sum(axis=1, keepdims=True) - gradient
    cost[~problem.decided] = 0.0
    # An exception is worse than any loss: rules that are mostly exceptions are none.
    barred = 1.0 + float(np.abs(cost[problem.allowed]).sum())
    return np.asarray(np.where(problem.allowed | ~problem.decided[:, None], cost, barred))


def _exchange(made: _Found, tree: Tree, columns: StateColumns, rules: Rules, left: int) -> int:
    """Exchange actions of leaves while the exact objective rises; what is left to try."""
    where = rule_tree.leaf_of(tree, columns, made.problem.n_states)
    actions = [leaf.action for leaf in leaves(tree)]
    improved = True
    while improved:
        improved = False
        for leaf in range(len(actions)):
            for a in range(made.problem.n_actions):
                if a == actions[leaf]:
                    continue
                if left <= 0:
                    return left
                left -= 1
                trial = [*actions[:leaf], a, *actions[leaf + 1 :]]
                other = made.keep(tree, where, trial)
                if _better(other, rules):
                    actions, rules, improved = trial, other, True
    return left


def _lines(tree: Tree, names: tuple[str, ...], indent: str) -> list[str]:
    """if …: action / else if …: action / else: action, indented under each question."""
    if isinstance(tree, Leaf):
        return [f"{indent}{names[tree.action]}"]
    head = [f"{indent}if {tree.question}:"]
    if isinstance(tree.yes, Leaf):
        head = [f"{head[0]} {names[tree.yes.action]}"]
    else:
        head += _lines(tree.yes, names, indent + "  ")
    if isinstance(tree.no, Leaf):
        return [*head, f"{indent}else: {names[tree.no.action]}"]
    first, *rest = _lines(tree.no, names, indent)
    return [*head, f"{indent}else {first.strip()}", *rest]
