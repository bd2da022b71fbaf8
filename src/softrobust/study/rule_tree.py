"""Trees of rules: what they ask about, how they are grown on costs, and the search among them.

A label such as "bp=high|hba1c=7.5" has the columns bp and hba1c; a label that is a number has one
column, `state`; any other label is one category. A column whose values are all numbers or intervals
("<7", "7–8", "≥8", as `Bins` writes them) is ordered and is asked about with ≥; another one with =.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import measured, static_return

SEPARATORS = ("|", ";", ",")
STATE = "state"


@final
@dataclass(frozen=True, slots=True, eq=False)
class StateColumns:
    """Values of every state: `numbers[name]` (n_states,) or `words[name]`, a tuple."""

    numbers: Mapping[str, NDArray[np.float64]]
    words: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Ordered columns first."""
        return (*self.numbers, *self.words)


def state_columns(
    states: Labels, table: Mapping[str, Sequence[object]] | None = None
) -> StateColumns:
    """The columns of the states; `table` gives them by name, one value per state in order."""
    numbers: dict[str, NDArray[np.float64]] = {}
    words: dict[str, tuple[str, ...]] = {}
    for name, values in (_from_labels(states) if table is None else table).items():
        if len(values) != len(states):
            raise InputError(
                f"The column '{name}' needs one value per state, {len(states)}; it has "
                f"{len(values)}."
            )
        parsed = [_number(value) for value in values]
        if all(value is not None for value in parsed):
            numbers[name] = np.array(parsed, dtype=np.float64)
        else:
            words[name] = tuple(str(value) for value in values)
    return StateColumns(numbers, words)


def _from_labels(states: Labels) -> dict[str, list[str]]:
    split = [_pairs(label) for label in states]
    named = [pairs for pairs in split if pairs is not None]
    names = list(dict.fromkeys(name for pairs in named for name in pairs))
    # "(end)" and the like have no columns of their own: they are asked about by their label.
    if not named or len(named) < 0.5 * len(split):
        return {STATE: list(states)}
    out = {name: [(pairs or {}).get(name, "") for pairs in split] for name in names}
    if len(named) < len(split):
        other = [label if pairs is None else "" for label, pairs in zip(states, split, strict=True)]
        out[STATE] = other
        for name in names:  # a number that is missing sorts below all others
            if all(_number(pairs[name]) is not None for pairs in named if name in pairs):
                out[name] = [value or "-inf" for value in out[name]]
    return out


def _pairs(label: str) -> dict[str, str] | None:
    """{"bp": "high"} for "bp=high|…"; None where the label is not made so."""
    separator = next((mark for mark in SEPARATORS if mark in label), None)
    parts = [label] if separator is None else label.split(separator)
    if not all("=" in part for part in parts):
        return None
    return {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in parts)}


def _number(value: object) -> float | None:
    """A number, or the lower end of an interval."""
    text = str(value).strip().replace("−", "-")
    if text.startswith("<"):
        return None if _plain(text[1:]) is None else -np.inf
    low, dash, high = text.removeprefix("≥").partition("–")
    if dash and _plain(high) is None:
        return None
    return _plain(low)


def _plain(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if np.isnan(number) else number


# --------------------------------------------------------------------------------------------------
# Cost-sensitive trees: split the states so that one action per leaf costs least.
#
# A leaf L with action a costs Σ_{s∈L} c(s, a). Leaves are split best-first, each time the one split
# anywhere that saves most, so that the trees with 1, 2, 3 … leaves come out on the way.

MOST_CUTS = 500  # thresholds of a column: more cost memory and hardly tell more


@final
@dataclass(frozen=True, slots=True)
class Question:
    """`column ≥ threshold` or `column = word`."""

    column: str
    value: float | str

    def answer(self, columns: StateColumns) -> BoolArray:
        """(n_states,): where the answer is yes."""
        if isinstance(self.value, float):
            return np.asarray(columns.numbers[self.column] >= self.value)
        return np.array([value == self.value for value in columns.words[self.column]])

    def __str__(self) -> str:
        if isinstance(self.value, float):
            return f"{self.column} ≥ {self.value:g}"
        return f"{self.column} = {self.value or '(none)'}"


@final
@dataclass(frozen=True, slots=True)
class Leaf:
    """Take this action."""

    action: int


@final
@dataclass(frozen=True, slots=True)
class Split:
    """Ask, and go on."""

    question: Question
    yes: Leaf | Split
    no: Leaf | Split


Tree = Leaf | Split


def leaves(tree: Tree) -> list[Leaf]:
    """The leaves, yes before no."""
    if isinstance(tree, Leaf):
        return [tree]
    return [*leaves(tree.yes), *leaves(tree.no)]


def leaf_of(tree: Tree, columns: StateColumns, n_states: int) -> IntArray:
    """(n_states,): the number of the leaf each state falls into, as `leaves` lists them."""
    out = np.zeros(n_states, dtype=np.int64)

    def walk(node: Tree, where: BoolArray, number: int) -> int:
        if isinstance(node, Leaf):
            out[where] = number
            return number + 1
        yes = node.question.answer(columns)
        return walk(node.no, where & ~yes, walk(node.yes, where & yes, number))

    walk(tree, np.ones(n_states, dtype=bool), 0)
    return out


def with_actions(tree: Tree, actions: Iterator[int]) -> Tree:
    """The tree with new actions in its leaves, in the order of `leaves`."""
    if isinstance(tree, Leaf):
        return Leaf(next(actions))
    yes = with_actions(tree.yes, actions)
    return Split(tree.question, yes, with_actions(tree.no, actions))


def merged(tree: Tree) -> Tree:
    """Drop questions whose two answers lead to the same action."""
    if isinstance(tree, Leaf):
        return tree
    yes, no = merged(tree.yes), merged(tree.no)
    if isinstance(yes, Leaf) and isinstance(no, Leaf) and yes.action == no.action:
        return yes
    return Split(tree.question, yes, no)


def grow(cost: FloatArray, columns: StateColumns, most: int, purity: float = 0.0) -> Iterator[Tree]:
    """Trees with 1, 2, … up to `most` leaves for costs (n_states, n_actions).

    With `purity`, a split also earns that share of the fall in impurity (Gini's, weighted by what
    is at stake in each state): where no single question saves anything, two together may.
    """
    questions = list(_questions(columns))
    answers = np.array([q.answer(columns) for q in questions], dtype=bool)
    answers = answers.reshape(len(questions), cost.shape[0])
    parts = [np.ones(cost.shape[0], dtype=bool)]
    tree: Tree = Leaf(int(np.argmin(cost.sum(axis=0))))
    shares = _shares(cost)
    best = [_best_split(cost, answers, parts[0], shares, purity)]
    yield tree
    while len(parts) < most:
        i = int(np.argmax([saving for saving, _ in best]))
        saving, q = best[i]
        if q is None or saving <= 0:
            return
        yes, no = parts[i] & answers[q], parts[i] & ~answers[q]
        made = [Leaf(int(np.argmin(cost[part].sum(axis=0)))) for part in (yes, no)]
        tree = replaced(tree, i, Split(questions[q], *made))
        parts[i : i + 1] = [yes, no]
        best[i : i + 1] = [_best_split(cost, answers, part, shares, purity) for part in (yes, no)]
        yield tree


def _questions(columns: StateColumns) -> Iterator[Question]:
    for name, numbers in columns.numbers.items():
        cuts = np.unique(numbers)[1:]  # a value of the data reads better than a midpoint
        if cuts.size > MOST_CUTS:
            cuts = cuts[np.linspace(0, cuts.size - 1, MOST_CUTS).astype(np.int64)]
        yield from (Question(name, float(value)) for value in cuts)
    for name, words in columns.words.items():
        yield from (Question(name, word) for word in dict.fromkeys(words))


def _shares(cost: FloatArray) -> FloatArray:
    """(n_states, n_actions): what is at stake in a state, on its best action."""
    stake = np.minimum(cost.max(axis=1) - cost.min(axis=1), np.abs(cost).sum())
    out = np.zeros_like(cost)
    out[np.arange(cost.shape[0]), np.argmin(cost, axis=1)] = stake
    return out


def _impurity(weight: FloatArray) -> FloatArray:
    """Gini's impurity of rows of weights by action, times their total."""
    total = weight.sum(axis=1)
    return np.asarray(total - (weight**2).sum(axis=1) / np.maximum(total, 1e-300))


def _best_split(
    cost: FloatArray, answers: BoolArray, part: BoolArray, shares: FloatArray, purity: float
) -> tuple[float, int | None]:
    """What the best question saves in this part, and its number."""
    if not answers.size:
        return 0.0, None
    whole = cost[part].sum(axis=0)
    yes = (answers & part).astype(np.float64) @ cost
    saving = whole.min() - yes.min(axis=1) - (whole - yes).min(axis=1)
    if purity > 0:
        all_of, some = shares[part].sum(axis=0), (answers & part).astype(np.float64) @ shares
        fall = _impurity(all_of[None, :])[0] - _impurity(some) - _impurity(all_of - some)
        saving = saving + purity * fall
    # A question with one empty side saves nothing; rounding must not say otherwise.
    size = (answers & part).sum(axis=1)
    saving[(size == 0) | (size == part.sum())] = 0.0
    q = int(np.argmax(saving))
    tiny = 1e-12 * float(np.abs(cost[part]).sum())
    return (float(saving[q]), q) if saving[q] > tiny else (0.0, None)


def replaced(tree: Tree, number: int, by: Tree) -> Tree:
    """The tree with leaf `number` replaced."""
    if isinstance(tree, Leaf):
        return by
    n = len(leaves(tree.yes))
    if number < n:
        return Split(tree.question, replaced(tree.yes, number, by), tree.no)
    return Split(tree.question, tree.yes, replaced(tree.no, number - n, by))


# --------------------------------------------------------------------------------------------------
# Exact search over rules: give a part of a leaf another action, and see what that earns.
#
# From a tree, every question that splits a leaf, either side of it and every action is tried; the
# exact objective of all these policies comes from one inverse per model (`kernels.exchange`: the
# states of a leaf change one after another, in the order of a column). A policy is then written as
# the smallest tree that is found for it, so that a move may shift a threshold, add a rule or merge
# several. First-order costs around the full policy see none of this: where rules differ from it in
# many states, only exact values tell.

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
            moved, grown = _edited(at.tree, move), self.grown(labels)
            tree = min((moved if grown is None else grown, moved), key=lambda t: len(leaves(t)))
            if len(leaves(tree)) <= most:
                return Ruled(tree, self.named(tree), move.value)
        return None

    def named(self, tree: Tree) -> IntArray:
        """(n_states,): the action that the tree names."""
        actions = np.array([leaf.action for leaf in leaves(tree)], dtype=np.int64)
        return actions[leaf_of(tree, self.columns, self.problem.n_states)]

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
        policy, _ = rules_policy(self.problem, self.full, at.labels)
        base = _Base(self.problem, self.P, policy.probs)
        where = leaf_of(at.tree, self.columns, self.problem.n_states)
        acts = [leaf.action for leaf in leaves(at.tree)]
        found: list[_Move] = []
        for a in range(self.problem.n_actions):
            others = [i for i, own in enumerate(acts) if own != a]
            parts = [(i, chain) for i in others for chain in _chains(self.columns, where == i)]
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
        return [replace(move, value=objective.value(x[i], f)) for i, move in ends]


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
        asked = [(Question(name, float(t)), numbers >= t) for t in cuts]
        yield [(question, leaf & yes, True) for question, yes in reversed(asked)]
        yield [(question, leaf & ~yes, False) for question, yes in asked]
    for name, words in columns.words.items():
        values = np.array(words, dtype=object)
        there = dict.fromkeys(values[leaf])
        for word in there if len(there) > 1 else ():
            question, yes = Question(name, word), leaf & (values == word)
            yield [(question, yes, True)]
            yield [(question, leaf & ~yes, False)]


def _edited(tree: Tree, move: _Move) -> Tree:
    """The tree after a move, questions that decide nothing dropped."""
    old, new = leaves(tree)[move.leaf], Leaf(move.action)
    by: Tree = new
    if move.question is not None:
        by = Split(move.question, new, old) if move.inside else Split(move.question, old, new)
    return merged(replaced(tree, move.leaf, by))
