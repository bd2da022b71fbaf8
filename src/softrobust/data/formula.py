"""Rewards in words: a mapping of categories, or a linear formula of columns of now and next.

    headache=yes:-1,no:0          every category of the column has its reward
    next(pain)=mild:0,severe:-5   the same, of the next row of the id
    profit - 0.5*next(stock) + 1  numbers of this row and the next
    -10*(status=poor) - 2*end     1 where a cell is 'poor'; 1 where the step leads to a true end

Names with other signs than letters, digits, points and underscores stand in quotes. The grammar is
all there is: text is cut into tokens, and tokens become terms; nothing is ever run as code.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray
from softrobust._core.settings import did_you_mean
from softrobust.data.columns import NUMBER, listed, numbers_in
from softrobust.errors import InputError

NO_NEXT = -2  # the code of a cell of the next row, where the step leads to an end
ENDS = "(end)"  # stands for the word end, where no column is called so
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])"
    r"|(?P<quoted>\"[^\"]*\"|'[^']*'|`[^`]*`)|(?P<word>[\w.]+)|(?P<sign>[-+*/():=,])"
)
_HINT = (
    "Write a column, a mapping such as headache=yes:-1,no:0, or a linear formula such as "
    "profit - 0.5*next(stock) - 10*(status=poor); names with other signs stand in quotes."
)


@final
class Cells(NamedTuple):
    """Cells of a column: codes of `texts`, -1 where missing, `NO_NEXT` where there is no row."""

    codes: CodeArray
    texts: Sequence[str]


Look = Callable[[str, bool], Cells]  # of a column, in this row or the next
Where = Callable[[int], str]  # the place of a row, for messages


@final
@dataclass(frozen=True, slots=True)
class Term:
    """`weight` times the number of a column, times what its category is worth, or times 1.

    `values` are worths of categories; with `whole`, each category that occurs must be among them.
    """

    weight: float
    column: str = ""
    later: bool = False
    values: Mapping[str, float] | None = None
    whole: bool = False

    def worth(self, look: Look, where: Where) -> FloatArray:
        """What the term is worth in every row, NaN where its cell is missing."""
        codes, texts = look(self.column, self.later)
        used = np.unique(codes[codes >= 0])
        if self.values is None:
            worth = numbers_in(texts)[:-1]
            unfit, rule = used[np.isnan(worth[used])], "A reward formula takes numbers"
            advice = f"Say what it is worth: {self.column}={{}}:0,…"
        else:
            known = {_plain(text): worth for text, worth in self.values.items()}
            other = np.nan if self.whole else 0.0
            worth = np.array([known.get(_plain(text), other) for text in texts])
            unfit, rule = used[np.isnan(worth[used])], "A mapping to rewards names every category"
            advice = "Add it: {}:0, or the reward it stands for."
            absent = sorted(set(known) - set(map(_plain, texts)))
            if absent and not self.whole:
                raise InputError(
                    f"No cell of column '{self.column}' is '{absent[0]}'."
                    + did_you_mean(absent[0], texts, f" There are {listed(texts)}.")
                )
        if unfit.size:
            text = texts[int(unfit[0])]
            raise InputError(
                f"{rule}: {where(int(np.argmax(codes == unfit[0])))} has '{text}' in column "
                f"'{self.column}'. {advice.format(text)}",
                arguments={"reward": ""},
            )
        # The last two serve NO_NEXT, which earns nothing, and cells that are missing.
        return self.weight * np.concatenate([worth, [0.0, np.nan]])[codes]


def _plain(text: str) -> str:
    """One way to write a number, so that 2 and 2.0 are one category."""
    return f"{float(text):.15g}" if NUMBER.fullmatch(text) else text


@final
@dataclass(frozen=True, slots=True)
class Formula:
    """A reward as a sum of terms."""

    text: str
    terms: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return tuple(dict.fromkeys(t.column for t in self.terms if t.column not in ("", ENDS)))

    def rewards(self, n: int, look: Look, ends: BoolArray, where: Where) -> FloatArray:
        """The reward of each of n steps, NaN where a cell is missing; `ends`, (n,), lead to one."""
        total = np.zeros(n)
        for term in self.terms:
            if term.column and term.column != ENDS:
                total += term.worth(look, where)
            else:
                total += term.weight * ends if term.column else term.weight
        return total


def reward_formula(text: str, columns: Sequence[str]) -> Formula | None:
    """The formula that a text is, of the columns there are; None if it names a column."""
    return None if text in columns else _Parser(text, columns).formula()


def action_costs(costs: Mapping[str, float], actions: Sequence[str]) -> FloatArray:
    """What each action costs, (n_actions,); each must be named."""
    for name in (*actions, *costs):
        if name not in costs or name not in actions:
            there = actions if name in costs else list(costs)
            raise InputError(
                "Costs are named for every action, and for no other: the action "
                f"'{name}' {'does not occur' if name in costs else 'has none'}."
                + did_you_mean(name, there, f" Named are {listed(there)}."),
                arguments={"cost": ",".join(f"{action}=0" for action in actions[:6])},
            )
    return np.array([float(costs[name]) for name in actions])


@final
class _Parser:
    """Tokens of a text become terms."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text, self.columns, self.at = text, columns, 0
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            place += len(text[place:]) - len(text[place:].lstrip())
            found = _TOKEN.match(text, place)
            if not found:
                raise self.error(f"'{text[place]}' has no meaning in it")
            kind, word = str(found.lastgroup), found.group()
            self.tokens.append((kind, word[1:-1] if kind == "quoted" else word))
            place = found.end()

    def error(self, what: str) -> InputError:
        return InputError(
            f"The reward '{self.text[:80]}' cannot be read: {what}. {_HINT}",
            arguments={"reward": ""},
        )

    def peek(self, *signs: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] in [("sign", s) for s in signs]

    def take(self, what: str, *kinds: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] in kinds:
            self.at += 1
            return self.tokens[self.at - 1][1]
        got = self.tokens[self.at][1] if self.at < len(self.tokens) else "its end"
        raise self.error(f"{what} is needed where '{got}' stands")

    def sign(self, sign: str) -> None:
        if not self.peek(sign):
            self.take(f"'{sign}'")
        self.at += 1

    def formula(self) -> Formula:
        if not self.tokens:
            raise self.error("it is empty")
        terms = [self.mapping()] if ("sign", ":") in self.tokens else []
        sign = 1.0
        while self.at < len(self.tokens):
            if self.peek("+", "-"):
                sign = -1.0 if self.peek("-") else 1.0
                self.at += 1
            elif terms:
                raise self.error(f"'+' or '-' is needed before '{self.tokens[self.at][1]}'")
            terms.append(self.term(sign))
        sizes = [x for term in terms for x in (term.weight, *(term.values or {}).values())]
        if not np.isfinite(sizes).all():
            raise self.error("a number in it is too large")
        return Formula(self.text, tuple(terms))

    def mapping(self) -> Term:
        """column=value:number,…"""
        column, later = self.cell()
        self.sign("=")
        values: dict[str, float] = {}
        while not values or self.peek(","):
            self.at += bool(values)
            value = self.take("a category", "word", "quoted", "number")
            self.sign(":")
            negative = self.peek("-")
            self.at += self.peek("+", "-")
            if value in values:
                raise self.error(f"the category '{value}' stands twice")
            values[value] = float(self.take("a number", "number")) * (-1 if negative else 1)
        if self.at < len(self.tokens):
            raise self.error(f"'{self.tokens[self.at][1]}' follows the mapping")
        return Term(1.0, column, later, values, whole=True)

    def term(self, weight: float) -> Term:
        """[number *] factor [* number | / number], or a number."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "number":
            weight *= float(self.take("a number", "number"))
            if not self.peek("*"):
                return Term(weight)
            self.at += 1
        term = self.factor(weight)
        while self.peek("*", "/"):
            divide = self.peek("/")
            self.at += 1
            factor = float(self.take("a number (formulas are linear)", "number"))
            if divide and factor == 0:
                raise self.error("it divides by 0")
            weight = term.weight / factor if divide else term.weight * factor
            term = Term(weight, term.column, term.later, term.values)
        return term

    def factor(self, weight: float) -> Term:
        """A column, next(column), or (column=value), which is 1 where it holds."""
        if not self.peek("("):
            return Term(weight, *self.cell())
        self.at += 1
        column, later = self.cell()
        self.sign("=")
        value = self.take("a category", "word", "quoted", "number")
        self.sign(")")
        return Term(weight, column, later, {value: 1.0})

    def cell(self) -> tuple[str, bool]:
        name = self.take("a column", "word", "quoted")
        later = name == "next" and self.peek("(")
        if later:
            self.at += 1
            name = self.take("a column", "word", "quoted")
            self.sign(")")
        if name == "end" and not later and name not in self.columns:
            return ENDS, False
        if name not in self.columns:
            tip = did_you_mean(name, self.columns, f" there are {listed(self.columns, 20)}")
            tip = f"{tip[1].lower()}{tip[2:].removesuffix('?')}"
            raise self.error(f"there is no column '{name}' ({tip})")
        return name, later
