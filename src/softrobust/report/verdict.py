"""The chosen policy against nominal, in words: better, worse, or not to be told apart.

On the models that a policy was chosen on it is ahead by construction, so where there are held-out
models the words rest on paired differences there, d_ω = ρ(π, P^ω) − ρ(π_nominal, P^ω), with 95 %
intervals (`certificate.comparison`). An interval that holds 0 is said to tell nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from softrobust.report import words
from softrobust.report.words import Figures, count, signed

if TYPE_CHECKING:
    from softrobust.certificate import Certificate, Comparison, Estimate
    from softrobust.objective import Objective
    from softrobust.report.compare import Compared


WHO = "The nominal policy (best for the average model, blind to risk)"
ALL = 1 - 1e-12  # ties of this weight are ties everywhere


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
        f"average, {difference(c.cvar, number)} in {c.goal.words} (this policy minus nominal, on "
        "the same models)"
    )
    sign = _sign(c.objective)
    if sign is None:
        word = "ahead of" if c.objective.value >= 0 else "behind"
        return f"This policy is {word} it, how surely is not known: {parts}."
    if sign > 0:
        return f"This policy is the better of the two: {parts}."
    said = "The nominal policy is the better of the two" if sign < 0 else "No difference is proven"
    text = f"{said}: {parts}."
    if lead > 0:
        text += (
            f" On the {count(n_train, 'model')} that this policy was chosen on it was "
            f"{number.gap(lead)} ahead, which {'did not hold' if sign < 0 else 'may be luck'}: "
            "choose on more models (--models)."
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
        f"{objective.words}"
    )
    text = f"The price of robustness, against nominal and on held-out models: {both}"
    if _sign(c.mean) == -1 and _sign(c.cvar) == 1:
        return f"{text}{_rate(c.mean.value, c.cvar.value, objective)}."
    if _sign(c.objective) == -1:
        return f"{text}. It was paid, and bought nothing there."
    return f"{text}."


def difference(e: Estimate, number: Figures) -> str:
    """A difference with its sign and its 95 % interval."""
    text = signed(e.value, number)
    if e.low is None or e.high is None or text == "same":
        return text
    return f"{text} [{number(e.low)}, {number(e.high)}]"


def _sign(e: Estimate) -> int | None:
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
    return f": {-mean / bad:.2g} on average for each 1 gained in {objective.words}"


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


# --------------------------------------------------------------------------------------------------
# The certificate under the posterior itself, as a short list of figures with their confidence.

Pairs = list[tuple[str, str]]
GLOSS = (
    "ε₁: how differently the models spread the policy's time over states; ε₂: what a worst case "
    "chosen anew at every step could cost; r_max: half the range of rewards."
)


def under_posterior(certificate: Certificate, number: words.Figures) -> Pairs:
    """(what, figure) pairs; none where no fresh models were drawn, or no limit is known.

    The paper's error terms close the list: indicative, and said to be.
    """
    out: Pairs = []
    found = certificate.posterior
    if found is not None and found.upper is not None:
        sure = f"{words.percent(found.confidence)} confidence"
        if found.lower is not None:
            out.append(("This policy earns at least", f"{number(found.lower)} ({sure})"))
        out.append((f"No {found.covers.words} earns more than", f"{number(found.upper)} ({sure})"))
        if found.gap is not None:
            both = f"{words.percent(found.gap_confidence)} confidence"
            missed = number.gap(0.0 if found.negligible(found.gap) else found.gap)
            out.append(("So at most this is missed", f"{missed} ({both})"))
        if found.paired_gap is not None:
            paired = 0.0 if found.negligible(found.paired_gap) else found.paired_gap
            out.append(("Or, compared on the same fresh models", f"{number.gap(paired)} ({sure})"))
        drawn = f"{found.replications} × {words.count(found.n_models, 'fresh model')}"
        out.append(("From", f"{drawn}, each bounded by {found.method}"))
    errors = certificate.indicative
    if errors is not None:
        terms = f"ε₁ {errors.eps1:.3g}, ε₂ {errors.eps2:.3g}, r_max {errors.r_max:.3g}"
        out.append(
            (
                "The paper's corollary 5.3, corrected (indicative only, not a bound)",
                f"{errors.error:.3g} ({terms}). {GLOSS}",
            )
        )
    return out
