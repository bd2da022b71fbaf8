"""The report in words: figures as people write them, and the sentences that come first.

A figure is shown to four digits of the *spread* of returns, not of their size: 10 012.3 against
10 009.8 is a difference worth reading when returns vary by 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.notes import Note
from softrobust.bounds import Covers
from softrobust.certificate import Estimate
from softrobust.errors import InputError
from softrobust.objective import OPTIMUM, PRACTICE_REFERENCE, Objective
from softrobust.problem import Problem
from softrobust.report.sentences import TEXTS, phrase
from softrobust.solvers.base import Status
from softrobust.study.compare import Compared

MINUS, NARROW, FIRM = "−", "\u202f", "\u00a0"  # spaces at which no line ends
NOTHING, ROUNDING = 1e-100, 1e-12  # a figure below this, or below this share of others, is 0
LONGEST_LABEL = 120
LONGEST_WORD = 20
COVERED = {Covers(name): words for name, words in TEXTS["covered"].items()}
STATUS = {Status(name): words for name, words in TEXTS["status"].items()}


@final
@dataclass(frozen=True, slots=True)
class Figures:
    """Writes returns with a fixed number of decimals, fit for their spread."""

    decimals: int
    scientific: bool = False

    @classmethod
    def of(cls, samples: Iterable[NDArray[np.float64]]) -> Figures:
        """Fit for all these returns together."""
        x = np.concatenate([np.atleast_1d(sample) for sample in samples])
        size, spread = float(np.abs(x).max()), float(x.max() - x.min())
        if size < NOTHING:
            return cls(0)
        flat = spread <= 1e-9 * size
        decimals = int(np.clip(3 - np.floor(np.log10(size if flat else spread)), 0, 12))
        while flat and decimals and abs(round(x[0], decimals - 1) - x[0]) <= 1e-9 * size:
            decimals -= 1  # one figure needs no trailing zeros
        return cls(decimals, size >= 1e12 or decimals > 8)

    def __call__(self, x: float | None) -> str:
        """The figure as text; a dash where there is none."""
        if x is None or not np.isfinite(x):
            return "–"
        text = f"{x:.4g}" if self.scientific else f"{round(x, self.decimals):,.{self.decimals}f}"
        negative = text.startswith("-") and any(c in "123456789" for c in text)
        return (MINUS if negative else "") + text.lstrip("-")

    def gap(self, x: float) -> str:
        """A difference: one that would round to nothing is written out instead."""
        return f"{x:.1g}" if x > 0 and round(x, self.decimals) == 0 else self(x)

    def signed(self, difference: float) -> str:
        """A difference with its sign; a tiny one is written out, none is "same"."""
        if abs(difference) <= 1e-6 * 10.0**-self.decimals:
            return "same"
        return ("+" if difference > 0 else MINUS) + self.gap(abs(difference))

    def interval(self, e: Estimate) -> tuple[str, ...]:
        """The two ends of the 95 % interval, or nothing where none is known."""
        if e.low is None and e.high is None:
            return ()
        return (f"{self(e.low)} to", self(e.high))


def plain(x: float, digits: int = 4, beside: float = 0.0) -> str:
    """A figure to so many digits as people write it: 439,000 and not 4.39e+05.

    What is nothing, by itself or against the size of what it stands `beside`, is 0.
    """
    if abs(x) < max(NOTHING, ROUNDING * abs(beside)):
        return "0"
    if not 1e-4 <= abs(x) < 1e12:
        return (MINUS if x < 0 else "") + f"{abs(x):.{digits}g}"
    places = digits - 1 - int(np.floor(np.log10(abs(x))))
    text = f"{round(abs(x), places):,.{max(places, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return (MINUS if x < 0 else "") + text


def count(n: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: "1 model", "1,200 models"."""
    return f"{n:,} {noun if n == 1 else many or noun + 's'}"


def rows_and_dates(log: Sized, notes: Iterable[Note]) -> str:
    """How many rows, of when."""
    dated = next((n for n in notes if n.code in ("visits_read", "rows_dated")), None)
    if dated is None:
        return count(len(log), "row")
    by = dated["column"] if dated.facts.get("numbers") else "from"
    when = f", {by} {dated['low']} to {dated['high']}"
    if dated.code == "visits_read":
        for name in ("n_rows", "n_ids"):
            if not isinstance(dated.facts.get(name), int | np.integer):
                raise InputError(f"A remark of the log has no number {name}. Make the log again.")
        return phrase("question.visits", **dated.facts, when=when, n=len(log))
    return f"{count(len(log), 'row')}{when}"


def percent(share: float) -> str:
    """A share as a percentage that never rounds something to nothing, nor less than all to all."""
    whole = round(100 * share, 9)  # 399 of 400 are as many, however their weights were summed
    if share > 0 and whole < 0.1:
        return f"<{NARROW}0.1{NARROW}%"
    if 99.9 < whole < 100:
        return f">{NARROW}99.9{NARROW}%"
    value = round(whole, 1 if whole < 9.95 or 99 < whole < 100 else 0)
    return f"{value:g}{NARROW}%"


def two_digits(share: float) -> str:
    """A share in two digits, however small; from 99 % on in whole ones, never as 1e+02."""
    whole = 100 * share
    return f"{whole:.2g} %" if whole < 99 else f"{whole:.1f}".removesuffix(".0") + " %"


def between(low: float, high: float, form: str = ".4g") -> str:
    """An interval that no line breaks: "[1.5, 2]"."""
    return f"[{low:{form}},{FIRM}{high:{form}}]"


def estimate(e: Estimate) -> str:
    """A value with its interval, or with the noise of its simulation, where these are known."""
    form = ".6g" if e.simulation_se is None else ".4g"
    if e.low is not None and e.high is not None:
        return f"{e.value:{form}} {between(e.low, e.high, form)}"
    noise = "" if e.simulation_se is None else f" (± {1.96 * e.simulation_se:.2g} from simulation)"
    return f"{e.value:{form}}{noise}"


def bad_case(objective: Objective) -> str:
    """The tail as people say it: "the worst 10 % of models"."""
    return objective.words.replace(" %", f"{NARROW}%")


def shorten(text: str, most: int) -> str:
    """The text, cut with a mark where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def label(text: str) -> str:
    """A label, shortened if it is longer than a line or two."""
    return shorten(text, LONGEST_LABEL)


def unbroken(text: str) -> bool:
    """Whether a word of the label is too long for a column, so that it must break inside."""
    return any(len(word) > LONGEST_WORD for word in re.split(r"[\s|–-]", text))


# -- what is measured --------------------------------------------------------------------------

RIVAL = {PRACTICE_REFERENCE: "current practice", OPTIMUM: "the best policy of each model"}


def rival(objective: Objective) -> str:
    """What returns are measured against, inside a sentence; empty where they are themselves."""
    name = objective.against
    return "" if name is None else RIVAL.get(name, f"the policy '{name}'")


def measure(objective: Objective) -> str:
    """What figures are of: "return", "gain over current practice", "regret"."""
    if objective.against is None:
        return "return"
    regret = objective.against == OPTIMUM
    return "regret" if regret else f"gain over {rival(objective)}"


def against(objective: Objective) -> str:
    """What follows a figure: nothing, or " against current practice"."""
    return f" against {rival(objective)}" if objective.against else ""


def measured(objective: Objective) -> str:
    """One sentence on what figures are of; empty where they are of the return."""
    if objective.against is None:
        return ""
    more = ": 0 is the best there is" if objective.against == OPTIMUM else ""
    return f"Figures are of the {measure(objective)}, model by model{more}."


# -- the answer --------------------------------------------------------------------------------


def no_choice(problem: Problem) -> str | None:
    """Said first where the data leave nothing to choose."""
    if not problem.decided.any():
        return phrase("question.nothing")
    several = (problem.allowed[problem.decided].sum(axis=1) > 1).any()
    return None if several else phrase("question.one_way")


# -- the question ------------------------------------------------------------------------------


def question(
    gamma: float, objective: Objective, horizon: int | None = None
) -> list[tuple[str, str]]:
    """γ, λ and α as people say them."""
    lam, whole = objective.lam, horizon is not None and gamma == 1
    facts = {
        "goal": objective, "gamma": gamma, "horizon": horizon, "whole": whole,
        "less": percent(1 - gamma), "ahead": 0 if whole else 1 / (1 - gamma),
        "lam": percent(lam), "rest": percent(1 - lam), "share": percent(objective.alpha),
        "measure": measure(objective), "words": bad_case(objective),
    }  # fmt: skip
    names = {"Discount γ": "discount", "Caution λ": "weight", "Bad case α": "tail"}
    asked = [(name, phrase(f"question.{key}", **facts)) for name, key in names.items()]
    if objective.against is not None:
        asked.append(("Measured against", f"{rival(objective)}. {measured(objective)}"))
    return asked


def other_questions(problem: Problem, compared: Iterable[Compared]) -> list[str]:
    """Solutions that were found for another question, which must be known of them."""
    out = []
    for c in compared:
        s = c.solution
        if s.solver != "nominal" and ((s.objective, s.gamma) != (problem.objective, problem.gamma)):
            out.append(phrase("question.other", name=c.name, s=s, against=against(s.objective)))
    return out
