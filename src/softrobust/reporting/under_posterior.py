"""The certificate under the posterior itself, as a short list of figures with their confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softrobust.reporting import words

if TYPE_CHECKING:
    from softrobust.certificate import Certificate

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
