"""What the chosen policy is worth, in words: its promise, and how it fares against others.

On the models that a policy was chosen on it is ahead by construction, so where there are held-out
models the words rest on paired differences there, d_ω = ρ(π, P^ω) − ρ(π_other, P^ω), with 95 %
intervals (`certificate.comparison`). An interval that holds 0 is said to tell nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from softrobust.certificate.intervals import MUCH, NORMAL, TAIL_DRAWS
from softrobust.report.sentences import sentence
from softrobust.report.words import (
    COVERED,
    FIRM,
    Figures,
    bad_case,
    between,
    count,
    estimate,
    percent,
)
from softrobust.solvers.improve import Improve
from softrobust.solvers.promise import Verdict

if TYPE_CHECKING:
    from softrobust.bounds import PaperErrors
    from softrobust.certificate import Certificate, Comparison, Estimate, Sample
    from softrobust.certificate.intervals import Quality
    from softrobust.certificate.posterior import PosteriorCertificate
    from softrobust.objective import Objective
    from softrobust.solvers.promise import Promise
    from softrobust.study.compare import Compared


WHO = "The nominal policy (best for the average model, blind to risk)"
ALL = 1 - 1e-12  # ties of this weight are ties everywhere


# -- what can be promised ----------------------------------------------------------------------


def certificate_sentences(c: Certificate, *, brief: bool = False) -> list[str]:
    """The certificate in words, one sentence a line.

    With `brief`, less what a page says elsewhere: how it fares against practice comes first of all
    there, limits under the posterior and the paper's error terms are figures (`beyond`).
    """
    value, words = c.static["objective"], bad_case(c.objective)
    lines = [] if c.practice is None or brief else [comparison_sentence(c.practice)]
    if c.sample.simulation is not None:
        return lines + _simulated(c)
    lines += [
        f"On the {count(c.n_models, 'sampled model')} the policy earns {value:.6g} by the "
        f"objective (mean {c.static['mean']:.6g}; {words}: {c.static['cvar']:.6g}).",
        bound_sentence(c),
    ]
    if c.heldout is not None:
        lines += _heldout(c.heldout, c.objective)
    if c.posterior is not None and not (brief and c.posterior.upper is not None):
        lines += _under_posterior(c.posterior)
    if c.indicative is not None and not brief:
        lines.append(_errors(c.indicative))
    return lines


def promise_sentences(p: Promise, solver: str) -> list[str]:
    """What is promised of the truth: what to do first; `improve` keeps practice where in doubt."""
    level, low = f"{100 * p.level:g} %", p.return_low
    earns = "" if low is None else f" It earns at least {low:.4g} with a probability of {level}."
    if p.verdict == Verdict.TOO_SMALL:
        return [
            "Keep doing what you do: the log is too small for one part of it to judge what another "
            "proposes, so nothing can be promised."
        ]
    if p.verdict == Verdict.NO_CHOICE:
        return [f"Keep doing what you do: nothing else was seen often enough to tell.{earns}"]
    figures = (
        f"{_amount(p.gain.value)} than what you do now ({_amount(p.gain.low)} at the least, with "
        f"{level}), and better than it with a probability of {chance(p.chance)}."
    )
    checked = (
        f"Halves of the log judged each other: {_amount(p.optimism, 'less', 'more')} is promised "
        "than the models alone say."
    )
    if p.verdict == Verdict.CHANGE:
        sure = "pays" if p.chance >= p.level else "probably pays"
        return [f"A change {sure}: it earns {figures}{earns}", checked]
    if solver == Improve.name:
        return [
            "Keep doing what you do: no change shows a gain that other parts of the log "
            f"confirm.{earns}"
        ]
    doubtful = f"Keep doing what you do: this policy is not clearly better. It earns {figures}"
    return [doubtful, checked]


def _amount(x: float, up: str = "more", down: str = "less") -> str:
    return f"{abs(x):.4g} {up if x >= 0 else down}"


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
    words, optimism = bad_case(objective), h.optimism or 0.0
    lines = [
        f"On {count(h.n_models, 'held-out model')}: objective {estimate(h.objective)}, mean "
        f"{estimate(h.mean)}, {words} {estimate(h.cvar)}; training was {abs(optimism):.3g} "
        f"{'optimistic' if optimism >= 0 else 'pessimistic'}."
    ]
    e = h.objective
    if e.model_se is not None and e.simulation_se is not None:
        lines.append(
            f"Of the noise of that objective ± {NORMAL * e.model_se:.2g} is due to the number of "
            f"models, ± {NORMAL * e.simulation_se:.2g} to the number of episodes."
        )
    if objective.lam > 0 and h.cvar.low is None and objective.tail > 0:
        lines.append(
            f"That is too few for an interval of {words}: hold out at least "
            f"{math.ceil(TAIL_DRAWS / objective.tail)}."
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
    s, words = c.sample, bad_case(c.objective)
    assert s.simulation is not None  # the caller looked
    lines = [
        f"On the {count(s.n_models, 'training model')} ({count(s.simulation.episodes, 'episode')} "
        f"each) the policy earns {estimate(s.objective)} by the objective (mean "
        f"{estimate(s.mean)}; {words}: {estimate(s.cvar)})."
    ]
    lines += [] if c.heldout is None else _heldout(c.heldout, c.objective)
    for name, sample in (("training", s), ("held-out", c.heldout)):
        if sample is not None and sample.simulation is not None:
            lines += _limits(name, sample.simulation)
    if c.practice is not None and "shares" in c.practice.about:
        lines.append(_practice(c.practice.about))
    return lines + [
        f"Gain of the objective over always '{name}': {estimate(gain)}."
        for name, gain in c.constant.items()
    ]


def _limits(name: str, q: Quality) -> list[str]:
    """Where figures rest on less than the data, or on too few episodes."""
    lines = []
    if q.noise_share > MUCH:
        lines.append(
            f"On {name} models {100 * q.noise_share:.2g} % of the variance of average returns is "
            "noise of the simulation, not a difference of models: intervals are wide for it, and "
            "more episodes (`--test-episodes`) narrow them."
        )
    if q.clipped > 0:
        lines.append(
            f"On {name} models {100 * q.clipped:.2g} % of steps (in "
            f"{100 * q.clipped_episodes:.2g} % of episodes) would have left the box that values "
            "are kept in: there the figures rest on the box."
        )
    if q.outside:
        lines.append(
            f"On {name} models {100 * q.outside:.2g} % of the visited states lie outside the range "
            "of the data: there the models extrapolate."
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
        why = "" if p.reason is None else f": {sentence(p.reason)}"
        return [f"How far the best under the posterior can be is not known{why}"]
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


def _errors(e: PaperErrors) -> str:
    return (
        f"For orientation only, the paper's error terms (corrected): ε₁ = {e.eps1:.3g}, ε₂ = "
        f"{e.eps2:.3g}, r_max = {e.r_max:.3g}; its corollary 5.3 would allow an error of "
        f"{e.error:.3g}. This is not a bound: the terms are needed for all policies, and were "
        "evaluated for the ones at hand."
    )


def comparison_sentence(c: Comparison) -> str:
    """How probably the policy beats another one: the first thing to know."""
    if c.ties > ALL:
        return f"This policy does exactly what {c.rival} does, as far as returns go."
    where = "held-out posterior models" if c.heldout else "sampled models"
    tie = "" if c.ties < 5e-4 else f" (and equals it with {chance(c.ties)})"
    return (
        f"This policy beats {c.rival} with a probability of {chance(c.chance.value)} over "
        f"{c.n_models:,} {where}{tie}: {_gain(c.mean)} on average, {_gain(c.cvar)} in "
        f"{bad_case(c.goal)} for the change. This takes the log and the prior at their word."
    )


def chance(p: float) -> str:
    """A probability in words: never "100 %" for what is merely likely."""
    if p >= 1:
        return "100 %"
    if p > 0.999:
        return "more than 99.9 %"
    if 0 < p < 0.001:
        return "less than 0.1 %"
    return f"{100 * p:.3g} %"


def _gain(e: Estimate) -> str:
    text = f"{abs(e.value):.4g} {'more' if e.value >= 0 else 'less'}"
    if e.low is None or e.high is None:
        return text
    low, high = (e.low, e.high) if e.value >= 0 else (-e.high, -e.low)
    return f"{text} {between(low, high)}"


# -- against nominal ---------------------------------------------------------------------------


def against(chosen: Compared, nominal: Compared | None, number: Figures) -> str:
    """The chosen policy against the nominal one."""
    if nominal is None:
        return "It is itself the nominal policy: the best for the average model, blind to risk."
    if chosen.same_policy(nominal):
        return f"{WHO} is the same policy here: caution costs nothing and changes nothing."
    c = nominal.versus
    figures = f"{number(nominal.figure('mean'))} and {number(nominal.figure('cvar'))}"
    if c is None or not c.heldout:
        mean, bad = _exact(chosen, nominal)
        return f"{WHO} earns {figures}: {_trade(mean, bad, number, _ahead(chosen, nominal))}."
    lead = chosen.static["objective"] - nominal.static["objective"]
    held = f"{WHO} earns {figures} on the same held-out models."
    return f"{held} {judged(c, number, lead, chosen.train.size)}"


def judged(c: Comparison, number: Figures, lead: float, n_train: int) -> str:
    """Which of the two is better on held-out models, or that nobody can tell.

    Parameters
    ----------
    lead : float
        By how much the objective of the chosen policy exceeds nominal's on its own models.
    n_train : int
        How many models it was chosen on.
    """
    if c.ties > ALL:
        return "The two earn the same on every held-out model."
    parts = (
        f"{difference(c.objective, number)} by the objective, {difference(c.mean, number)} on "
        f"average, {difference(c.cvar, number)} in {bad_case(c.goal)} (this policy minus nominal, "
        "on the same models)"
    )
    ahead = sign(c.objective)
    if ahead is None:
        word = "ahead of" if c.objective.value >= 0 else "behind"
        return f"This policy is {word} it, how surely is not known: {parts}."
    if ahead > 0:
        return f"This policy is the better of the two: {parts}."
    who = "The nominal policy is the better of the two" if ahead < 0 else "No difference is proven"
    text = f"{who}: {parts}."
    if lead > 0:
        text += (
            f" On the {count(n_train, 'model')} that this policy was chosen on it was "
            f"{number.gap(lead)} ahead, which {'did not hold' if ahead < 0 else 'may be luck'}: "
            "choose on more models (`--models`)."
        )
    return text


def price(chosen: Compared, nominal: Compared | None, objective: Objective, number: Figures) -> str:
    """The price of robustness: mean given up and bad case gained against nominal."""
    if nominal is None or chosen.same_policy(nominal):
        return "Robustness costs nothing here: the policy is the nominal one."
    c = nominal.versus
    if c is None or not c.heldout:
        mean, bad = _exact(chosen, nominal)
        trade = _trade(mean, bad, number, _ahead(chosen, nominal))
        text = f"The price of robustness, against nominal: {trade}"
        return f"{text}{_rate(mean, bad, objective)}."
    both = (
        f"{difference(c.mean, number)} on average and {difference(c.cvar, number)} in "
        f"{bad_case(objective)}"
    )
    text = f"The price of robustness, against nominal and on held-out models: {both}"
    if sign(c.mean) == -1 and sign(c.cvar) == 1:
        return f"{text}{_rate(c.mean.value, c.cvar.value, objective)}."
    if sign(c.objective) == -1:
        return f"{text}. It was paid, and bought nothing there."
    return f"{text}."


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


# -- without held-out models: exact figures ----------------------------------------------------


def _exact(chosen: Compared, nominal: Compared) -> tuple[float, float]:
    """Differences of mean and bad case on the models themselves; rounding is no difference."""
    size = max(abs(nominal.static["mean"]), abs(nominal.static["cvar"]))
    up = (chosen.static[key] - nominal.static[key] for key in ("mean", "cvar"))
    mean, bad = (0.0 if abs(x) <= 1e-9 * size else x for x in up)
    return mean, bad


def _rate(mean: float, bad: float, objective: Objective) -> str:
    if not mean < 0 < bad:
        return ""
    return f": {-mean / bad:.2g} on average for each 1 gained in {bad_case(objective)}"


def _ahead(chosen: Compared, nominal: Compared) -> bool:
    """Whether it is better by the objective: one such as the percentile is no mix of the two."""
    return chosen.static["objective"] > nominal.static["objective"]


def _trade(mean: float, bad: float, number: Figures, ahead: bool) -> str:
    """What the chosen policy wins and loses against another, on average and in the bad case."""
    on_average, in_bad = number.gap(abs(mean)), number.gap(abs(bad))
    if mean == 0 and bad == 0:
        return "no different on these models"
    if mean < 0 < bad:
        return f"this one gives up {on_average} on average and gains {in_bad} in the bad case"
    if bad < 0 < mean:
        return f"this one earns {on_average} more on average and loses {in_bad} in the bad case"
    if mean >= 0 and bad >= 0:
        return f"this one earns {on_average} more on average and {in_bad} more in the bad case"
    less = f"this one earns {on_average} less on average and {in_bad} less in the bad case"
    if ahead:
        return f"{less}, and more by the objective"
    return f"{less}, so on these models nominal is the better of the two"


# -- beyond these models: the certificate under the posterior as figures ----------------------

Pairs = list[tuple[str, str]]
GLOSS = (
    "ε₁: how differently the models spread the policy's time over states; ε₂: what a worst case "
    "chosen anew at every step could cost; r_max: half the range of rewards."
)


def beyond(certificate: Certificate, number: Figures) -> Pairs:
    """(what, figure) pairs; none where no fresh models were drawn, or no limit is known.

    The paper's error terms close the list: indicative, and said to be.
    """
    out: Pairs = []
    p, errors = certificate.posterior, certificate.indicative
    if p is not None and p.upper is not None:
        sure = f"{percent(p.confidence)} confidence"
        if p.lower is not None:
            out.append(("This policy earns at least", f"{number(p.lower)} ({sure})"))
        out.append((f"No {COVERED[p.covers]} earns more than", f"{number(p.upper)} ({sure})"))
        if p.gap is not None:
            both = f"{percent(p.gap_confidence)} confidence"
            missed = number.gap(0.0 if p.negligible(p.gap) else p.gap)
            out.append(("So at most this is missed", f"{missed} ({both})"))
        if p.paired_gap is not None:
            paired = number.gap(0.0 if p.negligible(p.paired_gap) else p.paired_gap)
            out.append(("Or, compared on the same fresh models", f"{paired} ({sure})"))
        drawn = f"{p.replications} × {count(p.n_models, 'fresh model')}"
        out.append(("From", f"{drawn}, each bounded by {p.method}"))
    if errors is not None:
        terms = f"ε₁ {errors.eps1:.3g}, ε₂ {errors.eps2:.3g}, r_max {errors.r_max:.3g}"
        name = "The paper's corollary 5.3, corrected (indicative only, not a bound)"
        out.append((name, f"{errors.error:.3g} ({terms}). {GLOSS}"))
    return out
