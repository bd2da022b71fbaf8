"""What can be promised of one policy: its exact value, how far the best can be, and fresh draws.

    ρ^S(π)  ≤  max ρ^S  ≤  bound          on the N sampled models: certain
    held-out mean, VaR, CVaR, objective   on other draws of the posterior: with intervals
    lower  ≤  ρ^S(π)  ≤  max ρ^S  ≤  upper   under the posterior itself: with confidence

None says that the posterior is right: all take the log and the prior at their word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.bounds import (
    Bound,
    Covers,
    PaperErrors,
    best_bound,
    clairvoyant_bound,
    paper_errors,
)
from softrobust.bounds.reduction import rounding
from softrobust.certificate.comparison import Comparison, compare_policies
from softrobust.certificate.intervals import TAIL_DRAWS, Estimate, HeldOut, held_out
from softrobust.certificate.posterior import (
    REPLICATIONS,
    Draw,
    PosteriorCertificate,
    certify_posterior,
)
from softrobust.data.labels import Labels
from softrobust.errors import InputError, SolverError
from softrobust.models.policy import Policy
from softrobust.objective import Objective, SoftRobust, make_objective
from softrobust.returns import policy_return, static_return, uniform_value
from softrobust.solvers.base import Solution, Status, gap_share

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem


DUAL_STATES = 300  # above this the safe dual costs more than a certificate should
INDICATIVE_WORK = 2e8  # N·S³ above which the paper's error terms would take seconds
PAIRED_DRAWS = 2000  # held-out models that a comparison needs at most: differences vary less
ROUNDING = 1e-9  # a value above its bound by more than this share is a bug, not rounding


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The promise: exact figures on the models, a bound and who it covers, held-out figures.

    `rounding` is the gap that may be rounding alone (see `bounds.rounding`).
    """

    static: dict[str, float]
    bound: Bound
    uniform_value: float
    objective: Objective
    n_models: int
    heldout: HeldOut | None = None
    practice: Comparison | None = None
    posterior: PosteriorCertificate | None = None
    indicative: PaperErrors | None = None
    rounding: float = 0.0

    @property
    def gap_abs(self) -> float:
        """Bound − exact value: what at most could still be gained."""
        return self.bound.value - self.static["objective"]

    @property
    def gap(self) -> float | None:
        """gap_abs over |exact value|; None where that is 0."""
        value = self.static["objective"]
        return None if value == 0 else self.gap_abs / abs(value)

    @property
    def gap_share(self) -> float | None:
        """gap_abs over bound − uniform policy: 0 is proven best, 1 no better than chance."""
        return gap_share(self.bound, self.static["objective"], self.uniform_value, self.rounding)

    @property
    def nothing_better(self) -> bool:
        """Whether value and bound meet, up to rounding or a millionth of value and of what is to be
        gained: one disastrous action makes every other gap a small share of that.
        """
        share, size = self.gap_share, max(abs(self.bound.value), abs(self.static["objective"]))
        if share is not None:
            return share <= 1e-6 and self.gap_abs <= max(self.rounding, 1e-6 * size)
        # Where the uniform policy reaches the bound there is no share, and this one may be worse.
        return self.gap_abs <= max(self.rounding, ROUNDING * size)

    def to_dict(self) -> dict[str, Any]:
        """The certificate's part of `solution.json`."""
        return {
            "static": dict(self.static),
            "bound": self.bound.value,
            "bound_covers": str(self.bound.covers),
            "bound_method": self.bound.method,
            "uniform_value": self.uniform_value,
            "gap_abs": self.gap_abs,
            "gap": self.gap,
            "gap_share": self.gap_share,
            "heldout": None if self.heldout is None else _heldout_dict(self.heldout),
            "practice": None if self.practice is None else self.practice.to_dict(),
            "posterior": None if self.posterior is None else self.posterior.to_dict(),
            "indicative": None if self.indicative is None else self.indicative.to_dict(),
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        # How an object is shown is for the last stage to say: looked up when somebody looks.
        html: str = import_module("softrobust.report.notebook").certificate_html(self)
        return html

    def plot(self, axes: Any = None) -> Any:
        """Mean, bad case and objective against the bound; returns the matplotlib axes."""
        return import_module("softrobust.report.notebook").plot_certificate(self, axes)

    def _bound_sentence(self) -> str:
        limit = f"No {self.bound.covers.words} can exceed {self.bound.value:.6g} on these models"
        if self.nothing_better:
            return f"{limit}: this one is the best there is."
        if self.gap_share is None or self.gap_share > 1:
            return f"{limit}: at most {self.gap_abs:.3g} more. Acting at random earns more too."
        return (
            f"{limit}: at most {self.gap_abs:.3g} more, which is {100 * self.gap_share:.3g} % of "
            "what is to be gained over acting at random."
        )

    def sentences(self) -> list[str]:
        """The certificate in words, one sentence a line."""
        value, words = self.static["objective"], self.objective.words
        lines = [] if self.practice is None else [self.practice.sentence()]
        lines += [
            f"On the {self.n_models} sampled models the policy earns {value:.6g} by the objective "
            f"(mean {self.static['mean']:.6g}; {words}: {self.static['cvar']:.6g}).",
            self._bound_sentence(),
        ]
        h = self.heldout
        if h is not None:
            lines.append(
                f"On {h.n_models} held-out models: objective {_words(h.objective)}, mean "
                f"{_words(h.mean)}, {words} {_words(h.cvar)}; training was "
                f"{abs(h.optimism):.3g} {'optimistic' if h.optimism >= 0 else 'pessimistic'}."
            )
            if self.objective.lam > 0 and h.cvar.low is None and self.objective.tail > 0:
                lines.append(
                    f"That is too few for an interval of {words}: hold out at least "
                    f"{math.ceil(TAIL_DRAWS / self.objective.tail)}."
                )
            if h.lower_bound is not None and h.lower_bound.low is not None:
                lines.append(
                    "Under the posterior that the held-out models were drawn from, the objective "
                    f"is at least {h.lower_bound.low:.6g} with 95 % confidence (estimate "
                    f"{h.lower_bound.value:.6g})."
                )
        if self.posterior is not None:
            lines += self.posterior.sentences()
        if self.indicative is not None:
            lines.append(self.indicative.sentence())
        return lines


def certify(
    problem: Problem,
    policy: Policy | Solution,
    heldout: ModelSet | None = None,
    bounds: Sequence[Bound] = (),
    time_limit: float = 5.0,
    practice: Policy | None = None,
    posterior: FittedPosterior | Draw | None = None,
    replications: int = REPLICATIONS,
    indicative: bool = False,
    seed: int | np.random.Generator = 0,
) -> Certificate:
    """Certify any policy for the problem.

    Parameters
    ----------
    policy : Policy or Solution
        A solution of this problem brings the bound that its solver proved; a policy alone does
        not, and is certified against a bound that is quick to have.
    heldout : ModelSet, optional
        Models the policy was not chosen on. With a `posterior` they must be draws of it.
    bounds : sequence of Bound
        Bounds that solvers proved; the tightest one that covers the policy's own class is used,
        and the clairvoyant bound is always among them.
    time_limit : float
        Seconds for a tighter bound by the safe dual, where no solver brought one for the policy's
        class; 0 leaves it at the clairvoyant bound.
    practice : Policy, optional
        Current practice, as `behaviour_policy` estimates it: the first sentence is how probably
        the policy beats it.
    posterior : FittedPosterior or callable, optional
        Draws fresh models, `posterior.sample(n, rng)` or `posterior(n, rng)`: the certificate then
        speaks of the posterior itself too, with confidence (see `certificate.posterior`).
    replications : int
        Sets of fresh models drawn for that, at most; they take some five seconds in all.
    indicative : bool
        Whether to add the paper's error terms ε₁, ε₂ and corollary 5.3, which promise nothing here
        (see `bounds.paper_errors`); left out where they would take long.
    seed : int or Generator
        For the fresh models.
    """
    if isinstance(policy, Solution):
        policy, bounds = _with_its_bound(problem, policy, bounds)
    returns = policy_return(problem, policy)
    static = problem.objective.summary(returns, problem.models.f)
    own = Covers.DETERMINISTIC if policy.deterministic else Covers.STATIONARY
    brought = any(b.covers is own for b in bounds)
    known = clairvoyant_bound(problem)
    if time_limit > 0 and not brought and problem.n_states <= DUAL_STATES:
        known = best_bound(problem, own, time_limit)
    held = None if heldout is None else _on_heldout(problem, policy, returns, heldout)
    under = None
    if posterior is not None:
        under = certify_posterior(problem, policy, posterior, held, replications, seed=seed)
    return Certificate(
        static=static,
        bound=_tightest(problem, policy, [known, *bounds], static),
        uniform_value=uniform_value(problem),
        objective=problem.objective,
        n_models=problem.n_models,
        heldout=held,
        practice=None if practice is None else _against(problem, policy, practice, heldout),
        posterior=under,
        indicative=_indicative(problem, policy) if indicative else None,
        rounding=rounding(problem),
    )


def _with_its_bound(
    problem: Problem, solution: Solution, bounds: Sequence[Bound]
) -> tuple[Policy, Sequence[Bound]]:
    """Policy and bounds; a solution's own bound holds only for the problem it was made on."""
    asked = (problem.gamma, problem.n_models, problem.objective)
    same = (solution.gamma, solution.n_models, solution.objective) == asked
    # Two values that every reward and every probability of an allowed action enters.
    pairs = [(static_return(problem, solution.policy), solution.static_value)]
    if solution.uniform_value is not None:
        pairs.append((uniform_value(problem), solution.uniform_value))
    differs = any(abs(a - b) > 1e-8 * max(abs(a), abs(b), 1e-300) for a, b in pairs)
    if not same or differs:
        raise InputError(
            f"The solution of '{solution.solver}' was found for another problem, where it earns "
            f"{solution.static_value:.6g} (γ = {solution.gamma:g}, {solution.n_models} models), so "
            "that its bound does not hold here. Certify its policy: certify(problem, "
            "solution.policy)."
        )
    return solution.policy, bounds if solution.bound is None else [*bounds, solution.bound]


def _indicative(problem: Problem, policy: Policy) -> PaperErrors | None:
    S, _, N = problem.R.shape
    if not isinstance(problem.objective, SoftRobust) or N * S**3 > INDICATIVE_WORK:
        return None
    return paper_errors(
        problem, [policy, problem.uniform_policy()], ["this policy", "the uniform policy"]
    )


def _against(
    problem: Problem, policy: Policy, practice: Policy, heldout: ModelSet | None
) -> Comparison:
    if heldout is not None and heldout.n_models > PAIRED_DRAWS:
        heldout = heldout.select(range(PAIRED_DRAWS))
    return compare_policies(problem, policy, practice, heldout)


def _tightest(
    problem: Problem, policy: Policy, bounds: Sequence[Bound], static: dict[str, float]
) -> Bound:
    valid = [b for b in bounds if policy.deterministic or b.covers is not Covers.DETERMINISTIC]
    best = min(valid, key=lambda b: b.value)
    value = static["objective"]
    scale = max(abs(value), abs(best.value), abs(static["mean"]), 1e-300)
    # A policy's rows may miss 1 by 1e-12, which its value shows 1/(1 − γ) times; around 0 the
    # size of the returns is what rounds, not the size of the value.
    room = (ROUNDING + 4e-12 / (1 - problem.gamma)) * scale + rounding(problem, excused=False)
    if value > best.value + room:
        raise SolverError(
            f"The policy earns {value!r}, above the {best.method} bound {best.value!r}: one of the "
            "two is wrong. Please report this with the problem file."
        )
    # Anything above a valid bound is a valid bound: rounding never makes the two cross.
    return replace(best, value=max(best.value, value))


def _on_heldout(problem: Problem, policy: Policy, returns: Any, heldout: ModelSet) -> HeldOut:
    other = problem.with_models(heldout)
    fresh = policy_return(other, policy)
    return held_out(returns, problem.models.f, fresh, heldout.f, problem.objective)


def _heldout_dict(h: HeldOut) -> dict[str, Any]:
    def figure(e: Estimate | None) -> dict[str, float | None] | None:
        return None if e is None else {"value": e.value, "low": e.low, "high": e.high}

    return {
        "n_models": h.n_models,
        "objective": figure(h.objective),
        "mean": figure(h.mean),
        "var": figure(h.var),
        "cvar": figure(h.cvar),
        "optimism": h.optimism,
        "lower_bound": figure(h.lower_bound),
    }


def _words(e: Estimate) -> str:
    if e.low is None or e.high is None:
        return f"{e.value:.6g}"
    return f"{e.value:.6g} [{e.low:.6g}, {e.high:.6g}]"


# --------------------------------------------------------------------------------------------------
# `solution.json`: a solution with its certificate, readable without log, models or this package.
#
# The JSON Schema is `softrobust/schemas/solution.schema.json`.

FORMAT_VERSION = 2  # 2: with the parts practice, posterior and indicative of the certificate


def solution_record(solution: Solution, certificate: Certificate) -> dict[str, Any]:
    """What `solution.json` holds; bound and gaps are the certificate's."""
    policy = solution.policy
    return {
        "format_version": FORMAT_VERSION,
        "solver": solution.solver,
        "status": str(solution.status),
        "gamma": solution.gamma,
        "criterion": solution.objective.criterion,
        "alpha": solution.objective.alpha,
        "tail": solution.objective.tail,
        "lam": solution.objective.lam,
        "n_states": len(policy.states),
        "n_actions": len(policy.actions),
        "n_models": solution.n_models,
        "states": list(policy.states),
        "actions": list(policy.actions),
        "model_value": solution.model_value,
        **certificate.to_dict(),
        "policy": policy.probs.tolist(),
        "decided": np.asarray(policy.decided).tolist(),
        "v": None if solution.v is None else solution.v.tolist(),
        "stats": dict(solution.stats),
    }


def save_solution(path: str | Path, solution: Solution, certificate: Certificate) -> None:
    """Write `solution.json`, atomically."""
    text = json.dumps(solution_record(solution, certificate), indent=1, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text + "\n")


def load_solution(path: str | Path) -> Solution:
    """Read a solution back from `solution.json`, or from the run folder that holds it."""
    file = Path(path)
    file = file / "solution.json" if file.is_dir() else file
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"There is no solution at {file}. Is it the folder given as --out?"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{file} is not a readable solution.json ({error}).") from None
    if not isinstance(record, dict) or "format_version" not in record:
        raise InputError(f"{file} is not a solution.json: it has no format_version.")
    if record.get("kind") == "continuous":
        raise InputError(
            f"{file} is of a run with continuous states. Read its policy with "
            "load_policy('policy.npz'), or ask `softrobust apply RUN --observation …`."
        )
    if not isinstance(record["format_version"], int):
        raise InputError(f"{file}: format_version must be a whole number.")
    if record["format_version"] > FORMAT_VERSION:
        raise InputError(
            f"{file} was written by a newer softrobust (format {record['format_version']}). "
            "Upgrade: pip install -U softrobust"
        )
    try:
        return _solution(record)
    except (KeyError, TypeError, ValueError) as error:  # an InputError is a ValueError
        raise InputError(f"{file} lacks or garbles a field of solution.json: {error}.") from None


def _solution(record: dict[str, Any]) -> Solution:
    policy = Policy(
        np.array(record["policy"], dtype=np.float64),
        Labels(tuple(record["states"]), noun="state"),
        Labels(tuple(record["actions"]), noun="action"),
        np.array(record["decided"], dtype=bool),
    )
    return Solution(
        solver=record["solver"],
        policy=policy,
        static_value=record["static"]["objective"],
        uniform_value=record["uniform_value"],
        gamma=record["gamma"],
        objective=make_objective(record["criterion"], record["lam"], record["alpha"]),
        n_models=record["n_models"],
        status=Status(record["status"]),
        v=None if record["v"] is None else np.array(record["v"], dtype=np.float64),
        model_value=record["model_value"],
        bound=Bound(record["bound"], Covers(record["bound_covers"]), record["bound_method"]),
        stats=record["stats"],
    )
