"""Exact search over rules: give a part of a leaf another action, and see what that earns.

From a tree, every question that splits a leaf, either side of it and every action is tried, and the
exact objective of all these policies comes from one inverse per model (`kernels.exchange`:
the states of a leaf change one after another, in the order of a column). A policy is then written
as the smallest tree that is found for it, so that a move may shift a threshold, add a rule or merge
several. First-order costs around the full policy see none of this: where rules differ from it in
many states, only exact values tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import measured, static_return
from softrobust.study.rule_tree import (
    Leaf,
    Question,
    Split,
    StateColumns,
    Tree,
    grow,
    leaf_of,
    leaves,
    merged,
    replaced,
)

Chain = list[tuple["Question | None", BoolArray, bool]]  # growing parts, and what tells them apart

RISE = 1e-10  # a move must gain this share of the value
TRIED = 80  # moves whose tree is looked for, at each step
WORK = 1.2e10  # multiply-adds of a whole search, some seconds
MOST_LOOKS = 150
MOST_GROWN = 64  # rules of a tree that is grown for a policy


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ruled:
    """Rules: the tree, the action it names in every state (n_states,), and its exact value."""

    tree: Tree
    labels: IntArray
    value: float

    @property
    def n_leaves(self) -> int:
        """Number of rules."""
        return len(leaves(self.tree))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Move:
    """The states `part` of leaf number `leaf` take `action`; `question` tells them apart."""

    value: float
    leaf: int
    part: BoolArray
    action: int
    question: Question | None
    inside: bool  # whether `part` is where the answer is yes


@final
class Search:
    """Moves between rules for one problem; counts its looks, and stops when they are spent."""

    def __init__(self, problem: Problem, policy: Policy, columns: StateColumns) -> None:
        self.problem, self.full, self.columns = problem, policy, columns
        self.looks = looks(problem, columns)
        self.P = np.ascontiguousarray(problem.models.P) if self.looks else np.zeros(0)
        self.trees: dict[bytes, Tree | None] = {}

    def started(self, tree: Tree) -> Ruled:
        """A tree with its value."""
        labels = self.named(tree)
        made, _ = rules_policy(self.problem, self.full, labels)
        return Ruled(tree, labels, static_return(self.problem, made))

    def climb(self, at: Ruled, most: int) -> Ruled:
        """The best move with at most so many rules, again and again while the value rises."""
        while self.looks > 0:
            least = at.value + RISE * max(abs(at.value), 1e-300)
            better = (move for move in self._moves(at) if move.value > least)
            found = self._first(at, better, most)
            if found is None:
                return at
            at = found
        return at

    def shrink(self, at: Ruled) -> Ruled | None:
        """Fewer rules by the move that costs least; None where none is found."""
        if self.looks <= 0:
            return None
        return self._first(at, iter(self._moves(at)), at.n_leaves - 1, 4 * TRIED)

    def _first(
        self, at: Ruled, moves: Iterator[_Move], most: int, tried: int = TRIED
    ) -> Ruled | None:
        for _, move in zip(range(tried), moves, strict=False):
            labels = at.labels.copy()
            labels[move.part] = move.action
            tree = self.smaller(labels, _edited(at.tree, move))
            if len(leaves(tree)) <= most:
                return Ruled(tree, self.named(tree), move.value)
        return None

    def named(self, tree: Tree) -> IntArray:
        """(n_states,): the action that the tree names."""
        actions = np.array([leaf.action for leaf in leaves(tree)], dtype=np.int64)
        return actions[leaf_of(tree, self.columns, self.problem.n_states)]

    def smaller(self, labels: IntArray, tree: Tree) -> Tree:
        """The smaller one: this tree, or one grown for the actions it names."""
        known = self.grown(labels)
        return tree if known is None or len(leaves(tree)) < len(leaves(known)) else known

    def grown(self, labels: IntArray) -> Tree | None:
        """A tree that names these actions wherever it matters; None where none is found."""
        key = labels.tobytes()
        if key not in self.trees:
            self.trees[key] = self._grow(labels)
        return self.trees[key]

    def _grow(self, labels: IntArray) -> Tree | None:
        allowed, rows = self.problem.allowed, np.arange(labels.size)
        wrong = np.ones(allowed.shape)
        wrong[rows, labels] = 0.0
        barred = ~allowed[rows, labels]
        wrong[barred] = allowed[barred]  # the full policy stands there: any other barred one does
        wrong[~self.problem.decided] = 0.0
        for tree in grow(wrong, self.columns, MOST_GROWN, purity=1.0):
            if not wrong[rows, self.named(tree)].any():
                return merged(tree)
        return None  # no single question tells the rest apart

    def _moves(self, at: Ruled) -> list[_Move]:
        """All moves, the best first."""
        self.looks -= 1
        base = _Base(
            self.problem, self.P, rules_policy(self.problem, self.full, at.labels)[0].probs
        )
        where = leaf_of(at.tree, self.columns, self.problem.n_states)
        acts = [leaf.action for leaf in leaves(at.tree)]
        found: list[_Move] = []
        for a in range(self.problem.n_actions):
            parts = [
                (i, chain)
                for i, own in enumerate(acts)
                if own != a
                for chain in _chains(self.columns, where == i)
            ]
            found += self._valued(base, a, parts)
        return sorted(found, key=lambda move: -move.value)

    def _valued(self, base: _Base, a: int, parts: list[tuple[int, Chain]]) -> list[_Move]:
        """Exact values of chains of growing parts of leaves that take action a."""
        decided, can = self.problem.decided, self.problem.allowed[:, a]
        order: list[int] = []
        starts = [0]
        ends: list[tuple[int, _Move]] = []
        for leaf, chain in parts:
            done = np.zeros(decided.size, dtype=bool)
            for question, part, inside in chain:
                new = part & ~done & decided
                if not can[new].all():
                    break  # the rule would need an exception
                order += [int(s) for s in np.flatnonzero(new)]
                done |= part
                if len(order) > starts[-1]:
                    ends.append((len(order) - 1, _Move(0.0, leaf, part, a, question, inside)))
            if len(order) > starts[-1]:
                starts.append(len(order))
        if not order:
            return []
        x = measured(self.problem, base.returns(a, np.array(order), np.array(starts)))
        objective, f = self.problem.objective, self.problem.models.f
        return [
            _Move(objective.value(x[i], f), m.leaf, m.part, m.action, m.question, m.inside)
            for i, m in ends
        ]


@final
class _Base:
    """One policy in all models: (I − γP_π)⁻¹, values and occupancies."""

    def __init__(self, problem: Problem, P: FloatArray, probs: FloatArray) -> None:
        self.problem, self.P = problem, P
        self.rows = np.einsum("sa,nsat->nst", probs, P, optimize=True)
        self.inverse = np.linalg.inv(np.eye(problem.n_states) - problem.gamma * self.rows)
        reward = np.einsum("sa,san->ns", probs, problem.R)
        self.v = np.einsum("nst,nt->ns", self.inverse, reward)
        self.h = np.ascontiguousarray(np.einsum("s,nst->nt", problem.p0, self.inverse))

    def returns(self, a: int, order: IntArray, starts: IntArray) -> FloatArray:
        """(order.size, n_models): returns after each prefix of each sequence takes action a."""
        from softrobust.kernels.exchange import prefix_returns

        gamma, row = self.problem.gamma, self.P[:, :, a]
        d = self.problem.R[:, a].T + gamma * np.einsum("nst,nt->ns", row, self.v) - self.v
        G = gamma * ((row - self.rows) @ self.inverse)
        out = np.empty((order.size, self.problem.n_models))
        rho = self.v @ self.problem.p0
        threads = rho.size * order.size**2 > 4_000_000  # multiply-adds
        d = np.ascontiguousarray(d)
        prefix_returns(threads, 0, rho.size, rho, self.h, d, G, order, starts, out)
        return out


def rules_policy(problem: Problem, full: Policy, named: IntArray) -> tuple[Policy, tuple[int, ...]]:
    """What rules do that name these actions, and the states where the full policy must stand."""
    rows = np.arange(problem.n_states)
    barred = ~problem.allowed[rows, named]
    probs = np.zeros(full.probs.shape)
    probs[rows, named] = 1.0
    probs[barred] = full.probs[barred]
    exceptions = tuple(int(s) for s in np.flatnonzero(barred & problem.decided))
    return Policy(probs, full.states, full.actions, full.decided), exceptions


def looks(problem: Problem, columns: StateColumns) -> int:
    """How often a search may look at all moves; 0 where the problem is too large for it."""
    if problem.horizon is not None:
        return 0  # exchanges by inverses are of problems without end
    S, A, N = problem.R.shape
    # An inverse, and for every action a product and two factorisations for each column.
    work = N * S**3 * (2.0 + A * (1.0 + len(columns.names)))
    n = min(MOST_LOOKS, int(WORK / max(work, 1.0)))
    return n if n >= 10 and 8.0 * N * A * S**2 < 2**30 else 0


def _chains(columns: StateColumns, leaf: BoolArray) -> Iterator[Chain]:
    """Growing parts of a leaf: the whole, ≥ each threshold, below it, each word, all others."""
    yield [(None, leaf, True)]
    for name, numbers in columns.numbers.items():
        cuts = np.unique(numbers[leaf])[1:]
        asked = [(Question(name, float(t), None), numbers >= t) for t in cuts]
        yield [(question, leaf & yes, True) for question, yes in reversed(asked)]
        yield [(question, leaf & ~yes, False) for question, yes in asked]
    for name, words in columns.words.items():
        values = np.array(words, dtype=object)
        there = dict.fromkeys(values[leaf])
        for word in there if len(there) > 1 else ():
            question, yes = Question(name, None, word), leaf & (values == word)
            yield [(question, yes, True)]
            yield [(question, leaf & ~yes, False)]


def _edited(tree: Tree, move: _Move) -> Tree:
    """The tree after a move, questions that decide nothing dropped."""
    old = leaves(tree)[move.leaf]
    if move.question is None:
        return merged(replaced(tree, move.leaf, Leaf(move.action)))
    sides = (Leaf(move.action), old) if move.inside else (old, Leaf(move.action))
    return merged(replaced(tree, move.leaf, Split(move.question, *sides)))
