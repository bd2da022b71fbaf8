"""The policy as a short list of rules with the exact price of simplicity (`rules`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from softrobust.reporting import words
from softrobust.returns import uniform_value
from softrobust.rules import Rules, simplify

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

LEAVES = 6
TRIES = 600  # evaluations that finding the rules takes, at most about
MOST_LOSS = 0.1  # of what the policy gains over acting at random
FEWEST_STATES = 6


@final
@dataclass(frozen=True, slots=True)
class RuleList:
    """Rules as lines, indented by spaces, and what they cost."""

    lines: tuple[str, ...]
    sentence: str


def rules_within(problem: Problem, policy: Policy, each: float, seconds: float) -> Rules | None:
    """Rules for the policy; None where they would take long, or there is nothing to shorten."""
    decided = np.asarray(policy.decided)
    if each * TRIES > seconds or int(decided.sum()) < FEWEST_STATES or not policy.deterministic:
        return None
    if not (problem.allowed[decided].sum(axis=1) > 1).any():
        return None
    return simplify(problem, policy, most_leaves=LEAVES)


def rule_list(problem: Problem, rules: Rules | None) -> RuleList | None:
    """The rules where they say nearly the same as the policy; otherwise the sentence alone."""
    if rules is None:
        return None
    gain = rules.full_value - uniform_value(problem)
    decided = np.asarray(rules.policy.decided)
    short = 2 * (rules.n_leaves + len(rules.exceptions)) <= int(decided.sum())
    if rules.loss <= MOST_LOSS * max(gain, 0.0) + 1e-12:
        if not short:  # a list as long as the table helps nobody
            return None
        lines = tuple(words.label(line) for line in rules.lines())
        return RuleList(lines, f"As rules: {rules.sentence()}")
    return RuleList(
        (),
        f"No short list of rules comes close: {words.count(rules.n_leaves, 'rule')} would lose "
        f"{rules.loss:.3g} by the objective.",
    )
