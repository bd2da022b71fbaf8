"""Trees of rules: the columns of a state that they ask about, and how they are grown on costs.

A label such as "bp=high|hba1c=7.5" has the columns bp and hba1c; a label that is a number has one
column, `state`; any other label is one category. A column whose values are all numbers or intervals
("<7", "7–8", "≥8", as `Bins` writes them) is ordered and is asked about with ≥; another one with =.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust.data.labels import Labels
from softrobust.errors import InputError

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
    if table is None:
        table = _from_labels(states)
    numbers: dict[str, NDArray[np.float64]] = {}
    words: dict[str, tuple[str, ...]] = {}
    for name, values in table.items():
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
    threshold: float | None
    word: str | None

    def answer(self, columns: StateColumns) -> BoolArray:
        """(n_states,): where the answer is yes."""
        if self.threshold is not None:
            return np.asarray(columns.numbers[self.column] >= self.threshold)
        return np.array([value == self.word for value in columns.words[self.column]])

    def __str__(self) -> str:
        if self.threshold is not None:
            return f"{self.column} ≥ {self.threshold:g}"
        return f"{self.column} = {self.word or '(none)'}"


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
    answers = (
        np.array([q.answer(columns) for q in questions])
        if questions
        else np.zeros((0, cost.shape[0]), dtype=bool)
    )
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
        for value in cuts:
            yield Question(name, float(value), None)
    for name, words in columns.words.items():
        for word in dict.fromkeys(words):
            yield Question(name, None, word)


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

    def walk(node: Tree, first: int) -> tuple[Tree, int]:
        if isinstance(node, Leaf):
            return (by if first == number else node), first + 1
        yes, after = walk(node.yes, first)
        no, after = walk(node.no, after)
        return Split(node.question, yes, no), after

    return walk(tree, 0)[0]
