"""Section: can it be trusted. Diagnostics of the posterior, and the checks that were run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from softrobust.errors import InputError
from softrobust.report import words
from softrobust.report.counts import Seen, said
from softrobust.report.svg import Scale, dot, line, picture
from softrobust.study.value_of_data import DataValue

if TYPE_CHECKING:
    from softrobust.posterior import Diagnostics
    from softrobust.problem import Problem


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


# --------------------------------------------------------------------------------------------------
# Section: what data would help. Pairs ranked by the value of more observations (`insight`).

TOP = 12
THIN = 20.0  # effective models after the data below which a value is rough
WIDTH, HEIGHT = 150.0, 16.0


@final
@dataclass(frozen=True, slots=True)
class DataFound:
    """Values of `observations` more of each pair, the best first."""

    observations: int
    values: tuple[DataValue, ...]


@final
@dataclass(frozen=True, slots=True)
class DataRow:
    """One pair, as texts, with its interval as a small picture."""

    state: str
    action: str
    value: str
    between: str
    svg: str
    changes: str
    seen: str
    own: bool


@final
@dataclass(frozen=True, slots=True)
class MoreData:
    """The section; with `reason` alone where nothing was computed."""

    reason: str = ""
    lead: str = ""
    rows: tuple[DataRow, ...] = ()
    more: str = ""
    has_seen: bool = False


def more_data(
    problem: Problem,
    decision: Sequence[int],
    found: DataFound | str | None,
    seen: Seen | None,
    number: words.Figures,
) -> MoreData | None:
    """The section; None where nothing was asked for.

    Parameters
    ----------
    decision : (n_states,)
        The chosen policy's most probable actions.
    """
    if found is None:
        return None
    if isinstance(found, str):
        return MoreData(reason=found)
    worth = [v for v in found.values if v.value > 0 and v.high > 0]
    n = words.count(found.observations, "more observation")
    if not worth:
        return MoreData(
            reason=f"No pair is worth {n}: no data set that was simulated would "
            "change what is best."
        )
    top = worth[:TOP]
    reach = max(v.high for v in top)
    rows = tuple(_row(problem, v, decision, seen, number, reach) for v in top)
    lead = (
        f"What {n} of one pair would be expected to add to the objective, if the policy were "
        "chosen again with them."
    )
    return MoreData("", lead, rows, _more(worth, top), seen is not None)


def _more(worth: Sequence[DataValue], top: Sequence[DataValue]) -> str:
    parts = []
    if len(worth) > len(top):
        parts.append(
            f"{words.count(len(worth) - len(top), 'more pair')} with a value "
            f"{'is' if len(worth) == len(top) + 1 else 'are'} not shown: "
            "`softrobust value-of-data RUN --json` has them all."
        )
    thin = sum(v.effective_size < THIN for v in top)
    if thin:
        parts.append(
            f"{words.count(thin, 'value')} {'rests' if thin == 1 else 'rest'} on few effective "
            "models: draw more (--draws)."
        )
    return " ".join(parts)


def _row(
    problem: Problem,
    v: DataValue,
    decision: Sequence[int],
    seen: Seen | None,
    number: words.Figures,
    reach: float,
) -> DataRow:
    return DataRow(
        state=words.label(problem.models.states[v.s]),
        action=words.label(problem.models.actions[v.a]),
        value=number.gap(v.value),
        between=f"{number.gap(v.low)} to {number.gap(v.high)}",
        svg=_bar(v, reach),
        changes=words.percent(v.changes),
        seen="" if seen is None else seen.times(v.s, v.a),
        own=int(decision[v.s]) == v.a,
    )


def _bar(v: DataValue, reach: float) -> str:
    x = Scale(0.0, reach, 4.0, WIDTH - 4.0)
    middle = HEIGHT / 2
    parts = [
        line(x.start, 1, x.start, HEIGHT - 1, "axis"),
        line(x(v.low), middle, x(v.high), middle, "span"),
        dot(x(v.value), middle, 3.6, "own"),
    ]
    return picture(WIDTH, HEIGHT, parts, "bar")
