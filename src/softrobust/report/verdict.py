"""What the chosen policy is worth, in words: its promise, and how it fares against others.

On the models that a policy was chosen on it is ahead by construction, so where there are held-out
models the words rest on paired differences there, d_ω = ρ(π, P^ω) − ρ(π_other, P^ω), with 95 %
intervals (`certificate.comparison`). An interval that holds 0 is said to tell nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from softrobust._core.arguments import names_arguments
from softrobust.certificate import Certificate, Comparison, Sample
from softrobust.certificate.intervals import MUCH, NORMAL, Estimate, Quality
from softrobust.certificate.posterior import PosteriorCertificate
from softrobust.objective import Objective
from softrobust.problem import ContinuousProblem, Problem
from softrobust.report import words
from softrobust.report.sentences import phrase, sentence
from softrobust.solvers.improve import Improve
from softrobust.solvers.promise import Promise, Verdict

ALL = 1 - 1e-12  # ties of this weight are ties everywhere


# -- what is promised of the truth -------------------------------------------------------------


def first_sentences(c: Certificate, solver: str) -> list[str]:
    """What comes first of all: the promise, else practice under the posterior; none without."""
    if c.promise is not None:
        return promise_sentences(c.promise, solver)
    return [] if c.practice is None else [by_the_models(c.practice)]


def opening(
    c: Certificate, solver: str, problem: Problem | ContinuousProblem,
    number: Callable[[float], str] = "{:.6g}".format,
) -> str:  # fmt: skip
    """The sentence that comes first: what to do, or where nobody decided yet, what it earns."""
    if c.practice is not None and (only := only_action(problem)) is not None:
        return phrase("verdict.one_action", action=only, seen=problem.n_actions > 1)
    return next(iter([*first_sentences(c, solver), earns(c, number)]))


def only_action(problem: Problem | ContinuousProblem) -> str | None:
    """The one action that may be taken in vectors; None where there are several."""
    if not isinstance(problem, ContinuousProblem) or problem.allowed.sum() > 1:
        return None
    return problem.actions[int(problem.allowed.argmax())]


def advised(c: Certificate, problem: Problem | ContinuousProblem) -> bool:
    """Whether to do what the policy does: it gains, or is practice, or nobody decided yet."""
    if c.promise is not None:
        return c.promise.verdict == Verdict.CHANGE or c.promise.of_practice
    if c.practice is None or problem.n_actions == 1:
        return True
    return _gains(c.practice) and only_action(problem) is None


def _gains(c: Comparison) -> bool:
    """Whether, by the models, more is earned than now, by what is asked for."""
    return c.ties <= ALL and c.objective.value > 0


def promise_sentences(p: Promise, solver: str) -> list[str]:
    """What to do first, then how it was judged; `improve` keeps practice where in doubt."""
    own, low = solver == Improve.name, p.return_low
    size = max(map(abs, (p.return_value or 0.0, low or 0.0, p.gain.value, p.gain.low)))
    told = "" if low is None else words.plain(low, beside=size)
    earns = told and phrase("promise.earns", low=told, level=p.level)
    figures = phrase(
        "promise.figures", p=p, about=_amount(p.gain.value, size), least=_amount(p.gain.low, size),
        held=p.gain.low >= 0, chance=chance(p.chance),
    )  # fmt: skip
    sure = p.chance >= p.level and p.gain.low >= 0
    first = phrase(f"promise.{p.verdict}", own=own, sure=sure, figures=figures, earns=earns)
    if p.verdict != Verdict.CHANGE and (own or p.verdict != Verdict.KEEP):
        return [first]
    hidden = words.plain(p.hidden, beside=size) if p.hidden > 0 else ""
    optimism = _amount(p.optimism, size, "less", "more")
    return [first, phrase("promise.checked", optimism=optimism, hidden=hidden)]


def _amount(x: float, size: float = 0.0, up: str = "more", down: str = "less") -> str:
    told = words.plain(abs(x), beside=size)
    return f"{told} {up if x >= 0 or told == '0' else down}"


def chance(p: float) -> str:
    """A probability in words: never "100 %" for what is merely likely."""
    whole = round(100 * p, 9)  # 399 of 400 are as many, however their weights were summed
    if 99.9 < whole < 100:
        return "more than 99.9 %"
    if p > 0 and whole < 0.1:
        return "less than 0.1 %"
    return f"{whole:.3g} %"


def earns(c: Certificate, number: Callable[[float], str] = "{:.6g}".format) -> str:
    """The policy's own figures, held out where there are such models."""
    own, kind = (c.sample, "model") if c.heldout is None else (c.heldout, "held-out model")
    return phrase(
        "verdict.earns", n=own.n_models, mean=number(own.mean.value), bad=number(own.cvar.value),
        against=words.against(c.objective), models=words.count(own.n_models, kind),
        averaged=c.objective.tail == 1, words=words.bad_case(c.objective),
    )  # fmt: skip


# -- against others ----------------------------------------------------------------------------


def comparison_sentence(c: Comparison) -> str:
    """How probably the policy beats another one, by the models."""
    return phrase(
        "verdict.tie" if c.ties > ALL else "verdict.beats", c=c, chance=chance(c.chance.value),
        ties="" if c.ties < 5e-4 else chance(c.ties), mean=_gain(c.mean), bad=_gain(c.cvar),
        words=words.bad_case(c.goal),
    )  # fmt: skip


def by_the_models(c: Comparison) -> str:
    """The same as the first sentence of a run of which nothing is promised.

    Where no model says otherwise, that is all that is known of the probability.
    """
    gains = _gains(c)
    return phrase(
        "verdict.no_gain" if c.ties > ALL else "verdict.by_models", c=c, gains=gains,
        mean=_amount(c.mean.value), bad=_amount(c.cvar.value), words=words.bad_case(c.goal),
        aim="" if gains == (c.mean.value > 0) else _amount(c.objective.value),
        always=c.chance.value > ALL, chance=chance(c.chance.value), models=_models(c),
    )  # fmt: skip


def _models(c: Comparison) -> str:
    return words.count(c.n_models, "held-out model" if c.heldout else "model")


def _gain(e: Estimate) -> str:
    if e.low is None or e.high is None:
        return _amount(e.value)
    low, high = (e.low, e.high) if e.value >= 0 else (-e.high, -e.low)
    return f"{_amount(e.value)} {words.between(low, high)}"


def nominal_sentence(c: Comparison | None, number: words.Figures) -> str:
    """The policy minus nominal in pairs, and who is better where that is proven.

    `c` is None where the policy is the nominal one.
    """
    if c is None or c.ties > ALL:
        return phrase("verdict.nominal_itself" if c is None else "verdict.nominal_same")
    exact = Estimate(c.objective.value, c.objective.value, c.objective.value)
    found = {name: difference(getattr(c, name), number) for name in ("objective", "mean")}
    return phrase(
        "verdict.against_nominal", c=c, models=_models(c), **found, words=words.bad_case(c.goal),
        bad=difference(c.cvar, number), sign=sign(c.objective if c.heldout else exact),
    )  # fmt: skip


def difference(e: Estimate, number: words.Figures) -> str:
    """A difference with its sign and its 95 % interval."""
    text = number.signed(e.value)
    if e.low is None or e.high is None or text == "same":
        return text
    return f"{text} [{number(e.low)},{words.FIRM}{number(e.high)}]"


def sign(e: Estimate) -> int | None:
    """1 or −1 where the interval leaves 0 out, 0 where it holds it, None without an interval."""
    if e.low is None or e.high is None:
        return None
    return 1 if e.low > 0 else -1 if e.high < 0 else 0


# -- what the models say: the details ----------------------------------------------------------


@names_arguments
def certificate_sentences(c: Certificate) -> list[str]:
    """The certificate in words, one sentence a line: what is exact, proven or estimated."""
    lines = [] if c.practice is None else [comparison_sentence(c.practice)]
    lines += [text for text in (words.measured(c.objective),) if text]
    if c.sample.simulation is not None:
        return lines + _simulated(c)
    lines += [phrase("verdict.sample", c=c, words=words.bad_case(c.objective)), bound_sentence(c)]
    lines += [] if c.heldout is None else _heldout(c.heldout, c.objective)
    lines += [] if c.posterior is None else _under_posterior(c.posterior)
    lines += [] if c.indicative is None else [phrase("verdict.paper", e=c.indicative)]
    return lines


def bound_sentence(c: Certificate) -> str:
    """How far the best can be, on the models that the policy was chosen on."""
    random = c.gap_share is None or c.gap_share > 1
    who, best = words.COVERED[c.bound.covers], c.nothing_better
    return phrase("verdict.bound", c=c, who=who, best=best, random=random)


def _heldout(h: Sample, objective: Objective) -> list[str]:
    optimism, e = h.optimism or 0.0, h.objective
    size = max(abs(x.value) for x in (h.objective, h.mean, h.cvar))
    lines = [
        phrase(
            "verdict.heldout", h=h, **_figures(h), words=words.bad_case(objective),
            optimism=words.plain(abs(optimism), 3, size), optimistic=optimism >= 0,
        )
    ]  # fmt: skip
    if e.model_se is not None and e.simulation_se is not None:
        noise = {"models": NORMAL * e.model_se, "episodes": NORMAL * e.simulation_se}
        lines.append(phrase("verdict.noise", **noise))
    if h.lower_bound is not None and h.lower_bound.low is not None:
        lines.append(phrase("verdict.lower", e=h.lower_bound))
    return lines


def _figures(s: Sample) -> dict[str, str]:
    names = {"objective": s.objective, "mean": s.mean, "bad": s.cvar}
    return {name: words.estimate(e) for name, e in names.items()}


def _simulated(c: Certificate) -> list[str]:
    """Figures that were simulated, where they rest on less than the data, and rivals."""
    s = c.sample
    lines = [phrase("verdict.simulated", s=s, **_figures(s), words=words.bad_case(c.objective))]
    lines += [] if c.heldout is None else _heldout(c.heldout, c.objective)
    for name, sample in (("training", s), ("held-out", c.heldout)):
        if sample is not None and sample.simulation is not None:
            lines += _limits(sample.simulation, name)
    if c.practice is not None and "shares" in c.practice.about:
        lines.append(_practice(c.practice.about))
    gains = c.constant.items()
    return lines + [phrase("verdict.constant", name=n, gain=words.estimate(e)) for n, e in gains]


def _limits(q: Quality, where: str) -> list[str]:
    """Where figures rest on less than the data, or on too few episodes."""
    much = {"noise_share": q.noise_share > MUCH, "clipped": q.clipped > 0, "outside": q.outside}
    return [phrase(f"verdict.{name}", q=q, where=where) for name, is_so in much.items() if is_so]


def _practice(about: Mapping[str, Any]) -> str:
    """What practice was found to be, where states are vectors."""
    mix = ", ".join(f"'{name}' in {words.two_digits(p)}" for name, p in about["shares"].items())
    return phrase("verdict.practice", mix=mix, degree=about["degree"])


def _under_posterior(p: PosteriorCertificate) -> list[str]:
    """Limits under the posterior; none of it is certain, and each says how sure."""
    if p.upper is None:
        why = "" if p.reason is None else f" {sentence(p.reason)}"
        return [f"{phrase('verdict.not_known')}{why}"]
    missed = ""
    if p.gap is not None and not p.crossed:
        least = p.gap if p.paired_gap is None else p.paired_gap
        missed = "nothing" if p.negligible(least) else f"at most {p.gap:.3g}"
    lines = [phrase("verdict.posterior", p=p, who=words.COVERED[p.covers], missed=missed)]
    if p.paired_gap is not None and not p.negligible(p.paired_gap):
        lines.append(phrase("verdict.paired", p=p))
    return lines
