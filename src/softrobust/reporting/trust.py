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
THIN_PRIOR = (
    "With few observations a pair this is often the prior's doing: a little mass spread over many "
    "next states makes models that are more certain than the log (`--per-cell 1` spreads more)."
)
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
    return CheckLine(name, verdict, mark, verdict.split()[0], sentence)


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
        if not any(f"log's {name} (" in problem for problem in d.problems)
    ]
    lines += d.problems
    if d.exact and any("predictive p-value" in problem for problem in d.problems):
        lines.append(THIN_PRIOR)
    worst = sorted(d.parameters.items(), key=lambda item: -_rhat(item[1].rhat))[:SHOWN_PARAMETERS]
    rows = tuple(
        (name, f"{p.mean:.4g}", f"{p.sd:.3g}", f"{p.rhat:.3f}", f"{p.ess_bulk:.0f}")
        for name, p in worst
    )
    return tuple(lines), rows


def _rhat(x: float) -> float:
    return x if x == x else 0.0  # a parameter that never moved has none
