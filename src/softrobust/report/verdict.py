"""What the chosen policy is worth, in words: its promise, and how it fares against others.

On the models that a policy was chosen on it is ahead by construction, so where there are held-out
models the words rest on paired differences there, d_ω = ρ(π, P^ω) − ρ(π_other, P^ω), with 95 %
intervals (`certificate.comparison`). An interval that holds 0 is said to tell nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softrobust.certificate.intervals import MUCH, NORMAL, Estimate
from softrobust.report.sentences import sentence
from softrobust.report.words import (
    COVERED,
    FIRM,
    Figures,
    against,
    bad_case,
    between,
    count,
    estimate,
    measured,
    plain,
)
from softrobust.solvers.improve import Improve
from softrobust.solvers.promise import Verdict

if TYPE_CHECKING:
    from softrobust.certificate import Certificate, Comparison, Sample
    from softrobust.certificate.intervals import Quality
    from softrobust.certificate.posterior import PosteriorCertificate
    from softrobust.objective import Objective
    from softrobust.solvers.promise import Promise

NOMINAL = "the nominal policy (best for the average model, blind to risk)"
ALL = 1 - 1e-12  # ties of this weight are ties everywhere


# -- what is promised of the truth -------------------------------------------------------------


def first_sentences(c: Certificate, solver: str) -> list[str]:
    """What comes first of all: the promise, else practice under the posterior; none without."""
    if c.promise is not None:
        return promise_sentences(c.promise, solver)
    return [] if c.practice is None else [by_the_models(c.practice)]


def promise_sentences(p: Promise, solver: str) -> list[str]:
    """What to do first, then how it was judged; `improve` keeps practice where in doubt."""
    level, low = f"{100 * p.level:g} % confidence", p.return_low
    earns = "" if low is None else f" In all it earns at least {plain(low)} ({level})."
    if p.verdict == Verdict.TOO_SMALL:
        return [
            "Keep doing what you do: the log is too small for one part of it to judge what another "
            "proposes, so nothing is promised of any change."
        ]
    if p.verdict == Verdict.NO_TIME:
        return [
            "Keep doing what you do: the time was over before any change could be judged. A longer "
            "`--time-limit` may find one."
        ]
    if p.verdict == Verdict.NO_CHOICE and solver != Improve.name:
        return [f"This policy is what you do now: nothing changes.{earns}"]
    if p.verdict == Verdict.NO_CHOICE:
        return [f"Keep doing what you do: nothing else that was seen looks better.{earns}"]
    least = "at least" if p.gain.low >= 0 else "at most"
    figures = (
        f"it earns about {_amount(p.gain.value)} than what you do now ({least} "
        f"{_amount(p.gain.low)}, with {level}), and is better with a probability of "
        f"{chance(p.chance)}."
    )
    checked = (
        f"Halves of the log judged each other: {_amount(p.optimism, 'less', 'more')} is promised "
        "than the models alone say."
    )
    if p.hidden > 0:
        checked += (
            f" {plain(p.hidden)} of it because cases that get more of an action than usual fare "
            "otherwise at other times, too: decisions seem to follow something that the log lacks."
        )
    if p.verdict == Verdict.CHANGE:
        sure = "pays" if p.chance >= p.level and p.gain.low >= 0 else "probably pays"
        return [f"A change {sure}: {figures}{earns}", checked]
    if solver == Improve.name:
        return [
            "Keep doing what you do: no change shows a gain that other parts of the log "
            f"confirm.{earns}"
        ]
    return [f"Keep doing what you do: this policy is not clearly better; {figures}", checked]


def _amount(x: float, up: str = "more", down: str = "less") -> str:
    return f"{plain(abs(x))} {up if x >= 0 else down}"


def chance(p: float) -> str:
    """A probability in words: never "100 %" for what is merely likely."""
    if 0.999 < p < 1:
        return "more than 99.9 %"
    if 0 < p < 0.001:
        return "less than 0.1 %"
    return f"{100 * p:.3g} %"


def earns(c: Certificate, number: Callable[[float], str] = "{:.6g}".format) -> str:
    """The policy's own figures, held out where there are such models."""
    own, kind = (c.sample, "model") if c.heldout is None else (c.heldout, "held-out model")
    mean, bad = number(own.mean.value), number(own.cvar.value)
    if own.n_models == 1:
        only = "in the one model given: how bad it can get is not known."
        return f"This policy earns {mean}{against(c.objective)} {only}"
    start = f"This policy earns {mean}{against(c.objective)} on average over "
    start += count(own.n_models, kind)
    return f"{start}." if c.objective.tail == 1 else f"{start}, {bad} in {bad_case(c.objective)}."


# -- against others ----------------------------------------------------------------------------


def comparison_sentence(c: Comparison) -> str:
    """How probably the policy beats another one, by the models."""
    if c.ties > ALL:
        return f"This policy does exactly what {c.rival} does, as far as returns go."
    where = "held-out posterior models" if c.heldout else "sampled models"
    tie = "" if c.ties < 5e-4 else f" (and equals it with {chance(c.ties)})"
    return (
        f"This policy beats {c.rival} with a probability of {chance(c.chance.value)} over "
        f"{c.n_models:,} {where}{tie}: {_gain(c.mean)} on average, {_gain(c.cvar)} in "
        f"{bad_case(c.goal)} for the change. This takes the log and the prior at their word."
    )


def by_the_models(c: Comparison) -> str:
    """The same as the first sentence of a run of which nothing is promised."""
    if c.ties > ALL:
        return f"This policy earns what {c.rival} earns: no gain is to be had by it."
    return (
        f"By the models alone, it earns {_amount(c.mean.value)} than what you do now "
        f"({_amount(c.cvar.value)} in {bad_case(c.goal)} for the change), and is better "
        f"{_often(c)}. Of the truth nothing is promised."
    )


def _often(c: Comparison) -> str:
    """With what probability; where no model says otherwise, that is all that is known."""
    if c.chance.value < 1:
        return f"with a probability of {chance(c.chance.value)}"
    return f"in each of {count(c.n_models, 'held-out model' if c.heldout else 'model')}"


def _gain(e: Estimate) -> str:
    if e.low is None or e.high is None:
        return _amount(e.value)
    low, high = (e.low, e.high) if e.value >= 0 else (-e.high, -e.low)
    return f"{_amount(e.value)} {between(low, high)}"


def nominal_sentence(c: Comparison | None, number: Figures) -> str:
    """The policy minus nominal in pairs, and who is better where that is proven.

    `c` is None where the policy is the nominal one.
    """
    if c is None:
        return "It is the nominal policy itself: best for the average model, blind to risk."
    if c.ties > ALL:
        return f"{NOMINAL.capitalize()} earns the same in every model: caution costs nothing here."
    where = count(c.n_models, "held-out model" if c.heldout else "model")
    parts = (
        f"Against {NOMINAL}, on {where}{'' if c.heldout else ' that it was chosen on'}: "
        f"{difference(c.objective, number)} by the objective, {difference(c.mean, number)} on "
        f"average, {difference(c.cvar, number)} in {bad_case(c.goal)}."
    )
    better = {1: "It is the better of the two.", -1: "Nominal is the better of the two.",
              0: "No difference is proven.", None: ""}  # fmt: skip
    exact = Estimate(c.objective.value, c.objective.value, c.objective.value)
    return f"{parts} {better[sign(c.objective if c.heldout else exact)]}".rstrip()


def difference(e: Estimate, number: Figures) -> str:
    """A difference with its sign and its 95 % interval."""
    text = number.signed(e.value)
    if e.low is None or e.high is None or text == "same":
        return text
    return f"{text} [{number(e.low)},{FIRM}{number(e.high)}]"


def sign(e: Estimate) -> int | None:
    """1 or −1 where the interval leaves 0 out, 0 where it holds it, None without an interval."""
    if e.low is None or e.high is None:
        return None
    return 1 if e.low > 0 else -1 if e.high < 0 else 0


# -- what the models say: the details ----------------------------------------------------------


def certificate_sentences(c: Certificate) -> list[str]:
    """The certificate in words, one sentence a line: what is exact, proven or estimated."""
    words = bad_case(c.objective)
    lines = [] if c.practice is None else [comparison_sentence(c.practice)]
    lines += [text for text in (measured(c.objective),) if text]
    if c.sample.simulation is not None:
        return lines + _simulated(c)
    lines += [
        f"On the {count(c.n_models, 'sampled model')} the policy earns "
        f"{c.static['objective']:.6g} by the objective (mean {c.static['mean']:.6g}; {words}: "
        f"{c.static['cvar']:.6g}).",
        bound_sentence(c),
    ]
    if c.heldout is not None:
        lines += _heldout(c.heldout, c.objective)
    if c.posterior is not None:
        lines += _under_posterior(c.posterior)
    if c.indicative is not None:
        e = c.indicative
        lines.append(
            f"The paper's error terms (corrected): ε₁ = {e.eps1:.3g}, ε₂ = {e.eps2:.3g}, r_max = "
            f"{e.r_max:.3g}; its corollary 5.3 would allow an error of {e.error:.3g}. That is "
            "no bound: the terms are needed for all policies, and were evaluated for those at hand."
        )
    return lines


def bound_sentence(c: Certificate) -> str:
    """How far the best can be, on the models that the policy was chosen on."""
    limit = f"No {COVERED[c.bound.covers]} can exceed {c.bound.value:.6g} on these models"
    if c.nothing_better:
        return f"{limit}: this one is the best there is."
    if c.gap_share is None or c.gap_share > 1:
        return f"{limit}: at most {c.gap_abs:.3g} more. Acting at random earns more too."
    return (
        f"{limit}: at most {c.gap_abs:.3g} more, which is {100 * c.gap_share:.3g} % of what is to "
        "be gained over acting at random."
    )


def _heldout(h: Sample, objective: Objective) -> list[str]:
    optimism, e = h.optimism or 0.0, h.objective
    lines = [
        f"On {count(h.n_models, 'held-out model')}: objective {estimate(e)}, mean "
        f"{estimate(h.mean)}, {bad_case(objective)} {estimate(h.cvar)}; training was "
        f"{abs(optimism):.3g} {'optimistic' if optimism >= 0 else 'pessimistic'}."
    ]
    if e.model_se is not None and e.simulation_se is not None:
        lines.append(
            f"Of the noise of that objective ± {NORMAL * e.model_se:.2g} is due to the number of "
            f"models, ± {NORMAL * e.simulation_se:.2g} to the number of episodes."
        )
    if h.lower_bound is not None and h.lower_bound.low is not None:
        lines.append(
            "Under the posterior that the held-out models were drawn from, the objective is at "
            f"least {h.lower_bound.low:.6g} with 95 % confidence (estimate "
            f"{h.lower_bound.value:.6g})."
        )
    return lines


def _simulated(c: Certificate) -> list[str]:
    """Figures that were simulated, where they rest on less than the data, and rivals."""
    s = c.sample
    assert s.simulation is not None  # the caller looked
    lines = [
        f"On the {count(s.n_models, 'training model')} ({count(s.simulation.episodes, 'episode')} "
        f"each) the policy earns {estimate(s.objective)} by the objective (mean "
        f"{estimate(s.mean)}; {bad_case(c.objective)}: {estimate(s.cvar)})."
    ]
    lines += [] if c.heldout is None else _heldout(c.heldout, c.objective)
    for name, sample in (("training", s), ("held-out", c.heldout)):
        if sample is not None and sample.simulation is not None:
            lines += [f"On {name} models {text}" for text in _limits(sample.simulation)]
    if c.practice is not None and "shares" in c.practice.about:
        lines.append(_practice(c.practice.about))
    return lines + [
        f"Gain of the objective over always '{name}': {estimate(gain)}."
        for name, gain in c.constant.items()
    ]


def _limits(q: Quality) -> list[str]:
    """Where figures rest on less than the data, or on too few episodes."""
    lines = []
    if q.noise_share > MUCH:
        lines.append(
            f"{100 * q.noise_share:.2g} % of the variance of average returns is noise of the "
            "simulation, not a difference of models (`--test-episodes` narrows it)."
        )
    if q.clipped > 0:
        lines.append(
            f"{100 * q.clipped:.2g} % of steps (in {100 * q.clipped_episodes:.2g} % of episodes) "
            "would have left the box that values are kept in: there the figures rest on the box."
        )
    if q.outside:
        lines.append(
            f"{100 * q.outside:.2g} % of the visited states lie outside the range of the data: "
            "there the models extrapolate."
        )
    return lines


def _practice(about: Mapping[str, Any]) -> str:
    """What practice was found to be, where states are vectors."""
    mix = ", ".join(f"'{name}' in {100 * p:.2g} %" for name, p in about["shares"].items())
    start = f"Current practice, as the log shows it, takes {mix} of decisions"
    if about["degree"] == 0:
        return f"{start}, and the measurements do not tell when."
    form = "linear" if about["degree"] == 1 else "quadratic"
    return f"{start}, depending on the measurements ({form} logistic regression)."


def _under_posterior(p: PosteriorCertificate) -> list[str]:
    """Limits under the posterior; none of it is certain, and each says how sure."""
    if p.upper is None:
        why = "" if p.reason is None else f" {sentence(p.reason)}"
        return [f"How far the best under the posterior can be is not known.{why}"]
    sure = f"{100 * p.confidence:g} %"
    first = (
        f"Under the posterior, no {COVERED[p.covers]} exceeds {p.upper:.6g} with {sure} confidence "
        f"({p.replications} replications of {count(p.n_models, 'fresh model')}, each bounded by "
        f"{p.method})"
    )
    if p.gap is not None and p.lower is not None:
        missed = "nothing" if p.negligible(p.gap) else f"at most {p.gap:.3g}"
        first += (
            f"; this one earns at least {p.lower:.6g}, so that {missed} is missed with "
            f"{100 * p.gap_confidence:g} % confidence"
        )
    lines = [f"{first}."]
    if p.paired_gap is not None and not p.negligible(p.paired_gap):
        lines.append(
            f"On the same fresh models, the best is at most {p.paired_gap:.3g} better than this "
            f"policy, with {sure} confidence."
        )
    return lines
