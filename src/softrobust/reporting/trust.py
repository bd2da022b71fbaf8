"""Section: can it be trusted. Diagnostics of the posterior, and the checks that were run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from softrobust.errors import InputError
from softrobust.reporting.counts import said

if TYPE_CHECKING:
    from softrobust.posterior import Diagnostics

MARKS = {"fine": "✓", "caution": "⚠", "cannot tell": "?"}
SHOWN_PARAMETERS = 12
GLOSS = {  # said below a check that uses the word
    "WIS ": "WIS, PDIS, DR and FQE are four ways to tell from what others did what this policy "
    "would have earned: weighing whole episodes by how likely this policy is to act so (WIS), "
    "weighing them step by step (PDIS), correcting a model's prediction by such weights (DR), and "
    "fitting values to the steps (FQE). The effective sample size is how many episodes count.",
    "marginal sensitivity model": "The question behind it: had something that nobody wrote down, "
    "such as how ill a patient looked, swayed which action was taken, how strongly would it have "
    "had to do so for this policy to be no better than practice? A factor near 1 is soon reached.",
}
NO_CHECKS = (
    "No checks are on record: `softrobust check RUN` asks whether the models fit the log, and what "
    "would change the answer; a report made after it shows them here."
)


@final
@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check."""

    name: str
    verdict: str
    mark: str
    style: str
    sentence: str
    gloss: str


@final
@dataclass(frozen=True, slots=True)
class Trust:
    """The section."""

    draws: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    checks: tuple[CheckLine, ...]
    missing: str


def trust(
    diagnostics: Diagnostics | None,
    checks: Sequence[Mapping[str, Any]] | None,
    suppress: bool,
    ask_for_checks: bool,
) -> Trust | None:
    """The section; None where nothing is known and nothing can be asked for."""
    if diagnostics is None and checks is None and not ask_for_checks:
        return None
    draws, parameters = ((), ()) if diagnostics is None else _draws(diagnostics)
    lines = tuple(_line(check, suppress) for check in checks or ())
    return Trust(draws, parameters, lines, "" if lines or not ask_for_checks else NO_CHECKS)


def misfits(d: Diagnostics) -> list[str]:
    """What is wrong with the draws, or with how they fit the log; nothing if all is well."""
    return list(d.problems)


def _line(check: Mapping[str, Any], suppress: bool) -> CheckLine:
    try:
        name, verdict, sentence = (str(check[key]) for key in ("name", "verdict", "sentence"))
    except (KeyError, TypeError):
        raise InputError(
            f"A check needs name, verdict and sentence; it is {check!r}. Run `softrobust check` "
            "again."
        ) from None
    sentence = said(sentence, suppress).removeprefix("Cannot tell: ")
    sentence = sentence[:1].upper() + sentence[1:]
    mark = MARKS.get(verdict, "?")
    gloss = " ".join(text for word, text in GLOSS.items() if word in sentence)
    return CheckLine(name, verdict, mark, verdict.split()[0], sentence, gloss)


def _draws(d: Diagnostics) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Sentences on the draws, and the parameters of a sampler."""
    lines = []
    if d.exact:
        lines.append("Models are exact and independent draws from the posterior.")
    else:
        lines.append(
            f"Models come from a sampler: {d.n_draws:,} draws, {d.divergences:,} of them divergent."
        )
    lines += [
        f"The posterior reproduces the log's {name} (predictive p-value {p:.3f})."
        for name, p in d.predictive.items()
        if name not in d.missed
    ]
    lines += misfits(d)
    worst = sorted(d.parameters.items(), key=lambda item: -_rhat(item[1].rhat))[:SHOWN_PARAMETERS]
    rows = tuple(
        (name, f"{p.mean:.4g}", f"{p.sd:.3g}", f"{p.rhat:.3f}", f"{p.ess_bulk:.0f}")
        for name, p in worst
    )
    return tuple(lines), rows


def _rhat(x: float) -> float:
    return x if x == x else 0.0  # a parameter that never moved has none
