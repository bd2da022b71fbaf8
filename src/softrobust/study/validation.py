"""Held-out data: chosen on two thirds of a log by the same procedure, judged on the rest alone.

Held-out *models* are other draws of the posterior that the choice was made under: they share its
prior and its data, and cannot tell where these are wrong. Held-out *data* had no part in the
choice. The rest of the log judges in two ways: by the gain over practice under the posterior of
these rows alone, and by an off-policy estimate from its episodes. What is judged is the procedure
on less data than there is; the recommendation itself uses all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.data import TransitionLog
from softrobust.models.policy import Policy
from softrobust.posterior import Belief, LearnedPosterior
from softrobust.problem import Problem
from softrobust.solvers.promise import FEWEST_ROWS, LEVEL, practice_of, units
from softrobust.study.checks import MODEL_TAIL, Verdict
from softrobust.study.off_policy import OffPolicy, episodes_of, off_policy
from softrobust.study.rehearsal import Interval
from softrobust.study.solved import judging_problem, rows_of

UNITS = ("episodes", "blocks")
SHARE = 2 / 3  # of the units, to choose on
FEWEST_UNITS = 12  # of which four judge
DRAWS = 400
MODEL_DRAWS = 40  # of the part that was chosen on, for off-policy estimates
PREFERRED = ("DR", "PDIS", "WIS", "FQE")
Chooser = Callable[["TransitionLog"], tuple[Policy, float | None]]


@final
@dataclass(frozen=True, slots=True)
class Validation:
    """What held-out data say of a policy that was chosen without them."""

    # asked, unit: what the log was to be split into, and was: "episodes", or "blocks" of rows, also
    # where there are too few episodes
    asked: str
    unit: str
    # n_chosen, n_judged: units to choose and to judge on
    n_chosen: int
    n_judged: int
    # why nothing was judged: "too_small", or "is_practice" where no change was chosen
    why: str | None = None
    said: float | None = None  # the gain that the part which was chosen on promised
    # (value, low, high): over practice, under the posterior of the held-out rows, with a 90 %
    # interval
    gain: Interval | None = None
    chance: float | None = None  # that it exceeds 0
    # the off-policy estimate that can tell, with `practice`: the same estimate of practice
    estimate: Mapping[str, Any] | None = None

    @property
    def verdict(self) -> Verdict:
        """Fine where held-out data are as sure of a gain as a promise is, caution below evens."""
        if self.chance is None:
            return Verdict.CANNOT_TELL
        if self.chance < 0.5:
            return Verdict.CAUTION
        return Verdict.FINE if self.chance >= LEVEL else Verdict.CANNOT_TELL

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"verdict": str(self.verdict), "level": LEVEL}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        plain = {k: v for k, v in record.items() if k not in ("verdict", "level")}
        return cls(**plain | {"gain": plain["gain"] and tuple(plain["gain"])})


def validate(
    log: TransitionLog, problem: Problem, chooser: Chooser, unit: str = UNITS[0], seed: int = 0
) -> Validation:
    """Choose on a random two thirds of a log, and judge on the rest.

    Parameters
    ----------
    chooser : callable
        The procedure: from a log to a policy, and the gain that it promises where it does.
    unit : str
        "episodes" (blocks of rows where there are too few of them), or "blocks".
    """
    found, groups = units(log if unit == UNITS[0] else replace(log, episode=None))
    rng = np.random.default_rng(np.random.SeedSequence([seed, 9]))
    n = int(groups.max()) + 1
    n_chosen = round(SHARE * n)
    if n < FEWEST_UNITS or SHARE * log.n_rows < FEWEST_ROWS:
        return Validation(unit, found, n_chosen, n - n_chosen, "too_small")
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[:n_chosen]] = True
    first = np.asarray(chosen[groups])
    part = rows_of(log, first)
    policy, said = chooser(part)
    rest = rows_of(log, ~first)
    settings = LearnedPosterior(min_count=0)  # any pair can be judged
    belief = Belief.of(rest, problem.gamma, DRAWS, rng, settings=settings, horizon=problem.horizon)
    usual = practice_of(log, belief.available)
    shares = practice_of(part, belief.available)
    moved = (np.abs(policy.probs - shares).max(axis=1) > 1e-9) & np.asarray(policy.decided)
    probs = np.where(moved[:, None], policy.probs, usual)  # as before, wherever it is practice
    made = Validation(unit, found, n_chosen, n - n_chosen, said=said)
    if not moved.any():
        return replace(made, why="is_practice", said=None)
    gain = belief.returns(probs) - belief.returns(usual)
    low, high = (float(q) for q in np.quantile(gain, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    if found == UNITS[1]:
        rest = replace(rest, episode=groups[~first].astype(np.int32))
    model = judging_problem(part, problem, MODEL_DRAWS, [seed, 10])
    return replace(
        made,
        gain=(float(gain.mean()), low, high),
        chance=float((gain > 0).mean()),
        estimate=_estimate(model, rest, probs, usual, log, found, seed),
    )


def _estimate(
    model: Problem, rest: TransitionLog, probs: FloatArray, usual: FloatArray, log: TransitionLog,
    unit: str, seed: int,
) -> dict[str, Any] | None:  # fmt: skip
    """The first off-policy estimate that can tell; blocks have no starts, and leave FQE alone."""
    if model.horizon is not None:
        return None  # the estimators are of problems without end
    episodes, behaviour = episodes_of(rest), np.asarray(log.behaviour)
    both = [
        {e.name: e for e in off_policy(model, policy, episodes, behaviour, seed=seed)}
        for policy in (Policy(p, log.states, log.actions) for p in (probs, usual))
    ]
    for name in PREFERRED if unit == UNITS[0] else PREFERRED[-1:]:
        own: OffPolicy = both[0][name]
        if own.can_tell and own.tail <= MODEL_TAIL:
            return own.to_dict() | {"practice": both[1][name].estimate.value}
    return None
