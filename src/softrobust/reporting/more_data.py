"""Section: what data would help. Pairs ranked by the value of more observations (`insight`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from softrobust.insight import DataValue
from softrobust.reporting import words
from softrobust.reporting.counts import Seen
from softrobust.reporting.svg import Scale, dot, line, picture

if TYPE_CHECKING:
    from softrobust.problem import Problem

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
