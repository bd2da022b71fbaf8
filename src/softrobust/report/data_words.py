"""Notes on tables, logs and visits in words: one table from codes to sentences.

Sentences that are the same for all facts stand in `english.toml`, with other plain texts: another
language is another such file, and the functions here. A sentence is a template whose fields are the
facts of its note. `{n_rows:row has|rows have}` is a count with the words that agree with it,
`{n_rows:=is|are}` the words alone, `{n_seen:times}` how often; a count that may not be shown is
None and becomes "some", or "<5 times".
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, final

from softrobust._core.notes import RECORDED, SMALL, Count, Note

TEXTS: dict[str, dict[str, str]] = tomllib.loads(
    resources.files("softrobust.report").joinpath("english.toml").read_text(encoding="utf-8")
)
LOST, UNUSED = TEXTS["lost"], TEXTS["unused"]
HIDDEN = f"<{SMALL}"
SHOWN_NAMES = 8


def some(n: int | None, noun: str) -> str:
    """A number of things, "some" where it may not be known: "1 row", "2,912 rows", "some rows"."""
    return f"some {noun}s" if n is None else f"{n:,} {noun}{'' if n == 1 else 's'}"


def times(n: int | None) -> str:
    """How often something was seen: "once" has no place here, as hidden counts look alike."""
    return f"{HIDDEN} times" if n is None else f"{n:,} time{'' if n == 1 else 's'}"


def filled(template: str, facts: Mapping[str, Any]) -> str:
    """A template with its facts."""
    return template.format_map({name: _Fact(value) for name, value in facts.items()})


@final
class _Fact:
    """A fact inside a template."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, spec: str) -> str:
        if "|" in spec:
            one, many = spec.removeprefix("=").split("|")
            words = one if self.value == 1 else many
            return words if spec.startswith("=") else f"{self} {words}"
        if spec == "and":
            return " and ".join(f"'{name}'" for name in self.value)
        if spec == "times":
            return times(self.value)
        return f"{self.value:{spec}}" if spec else str(self)

    def __str__(self) -> str:
        if self.value is None:
            return "some"
        if isinstance(self.value, list):
            shown = self.value[:SHOWN_NAMES]
            text = ", ".join(f"'{x}'" if isinstance(x, str) else f"{x:g}" for x in shown)
            return text + (" and more" if len(self.value) > SHOWN_NAMES else "")
        return f"{self.value:,}" if isinstance(self.value, Count) else f"{self.value}"


# --------------------------------------------------------------------------------------------------
# Notes whose words depend on their facts.


def _unfilled(note: Note) -> str:
    kind = "negative" if note["smallest"] < 0 else "large (up to {largest})"
    return (
        f"Some integer {{noun}}s are {kind}: only the {{kept}} that occur are kept, in numeric "
        "order, and no gaps are filled."
    )


def _episode_starts(note: Note) -> str:
    if note["n_starts"] == 1:
        return _START.format("the start of the only episode")
    return _START.format(
        "the episode starts" if note["n_starts"] is None else "the {n_starts} episode starts"
    )


def _first_visits(note: Note) -> str:
    more = " ({n_others} more begin where no transition is known)" if note["n_others"] else ""
    return _START.format("the first visits of {n_ids} ids" + more)


def _never_left(note: Note) -> str:
    kind = "visited" if note["visited"] else "unvisited"
    if note["count"] == 1:
        return f"No action was seen in the {kind} state {{states}}."
    more = note["count"] - len(note["states"])
    rest = f" and {more} more" if more else ""
    return f"No action was seen in {{count}} {kind} states: {{states}}{rest}."


_FORMS = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}
_IS = {True: "are", False: "is"}
_UNKNOWN_STATE = "the state is unknown there."
_START = "The start distribution p0 is {}."
_KINDS = {"pair": "r(s,a)", "next": "r(s′)", "triple": "r(s,a,s′)"}


def _rewards_given(note: Note) -> str:
    if note["kind"] == "model":
        return "Rewards came with the models and differ between them."
    return f"Rewards {_KINDS[note['kind']]} were given."


def _rewards_of_log(note: Note) -> str:
    if note["kind"] == "next":
        rest = (
            "; a step to one of the {never_reached} states never reached there gets the mean of "
            "its pair"
        )
        words = "Rewards are a function r(s′) of the next state in the log"
        return words + (rest if note["never_reached"] else "") + "."
    rest = "; a transition never seen, of a pair that was, gets the pair's mean"
    words = f"Rewards are a function {_KINDS[note['kind']]} of the log"
    return words + (rest if note["kind"] == "triple" else "") + "."


def _missing_actions(note: Note) -> str:
    words = "{n_rows:visit has|visits have} no action: "
    if note["taken_as"] is None:
        return words + "no transition starts there."
    also = ", which other visits have too" if note["known"] else ""
    return words + f"taken as '{{taken_as}}'{also}."


def _same_point(note: Note) -> str:
    which = "first" if note["rule"] == "first" else "last"
    more = "; numbers are the mean of both" if note["rule"] == "mean" else ""
    words = "{n_rows:visit shares|visits share} a point of the grid with the "
    return f"{words}{which}, which counts{more}."


def _odd(note: Note) -> str:
    of = "{n_rows:reward|rewards}"
    if note["column"] is not None:
        of = "{n_rows:value|values} of '{column}'"
    if note.code == "codes_for_missing":
        return of + " {n_rows:=looks|look} like a code for «missing» ({examples})."
    rest = "far from the others, which are mostly {low:g} to {high:g} ({examples})."
    return of + " {n_rows:=lies|lie} " + rest


def _alike(note: Note) -> str:
    if note.code == "alike":
        words = "{noun} differ only in case or signs, and may be one: {names:and}."
    else:
        words = "values of '{column}' differ only in case or signs: {names:and}."
    return f"{len(note['names'])} {words}"


def _guessed_bins(note: Note) -> str:
    are = "are" if len(note["columns"]) > 1 else "is"
    return (
        f"{{columns}} {are} cut into {{bins}} bins with equally many visits each; cuts that mean "
        "something are better."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "<1 %"


def _rare_actions(note: Note) -> str:
    n = len(note["actions"])
    were = "action was" if n == 1 else "actions were"
    return f"{n} {were} seen fewer than {{fewer_than}} times: {{actions}}."


DATA_WORDS: dict[str, str | Callable[[Note], str]] = {
    **TEXTS["data"],
    RECORDED: lambda note: "{text}" if note["text"] else "A note of an older version is left out.",
    "integers_not_filled": _unfilled,
    "encoding": lambda note: (
        "Text is {encoding}."
        if note["encoding"] != "cp1252"
        else "Text is no UTF-8 and was read as Windows-1252 (such as '{example}'); another "
        "encoding is said with `--encoding`."
    ),
    "dates_read": lambda note: (
        f"Dates of '{{column}}' are taken as {_FORMS[note['form']]}: '{{example}}' is {{date}}."
    ),
    "p0_given": lambda note: _START.format(
        "given in {source}" if note["source"] else "given by the user"
    ),
    "p0_episode_starts": _episode_starts,
    "p0_first_visits": _first_visits,
    "p0_recorded": lambda note: _START.format(
        "that of the log's own starts" if note["text"] is None else "{text}"
    ),
    "rewards_given": _rewards_given,
    "rewards_of_log": _rewards_of_log,
    "states_never_left": _never_left,
    "steps_lost": lambda note: (
        "{n_rows:step is no transition|steps are no transitions}: " + LOST[note["reason"]] + "."
    ),
    "rewards_unused": lambda note: (
        "{n_rows:reward|rewards}"
        + ("" if note["n_rows"] is None else " (sum {total:.6g})")
        + f" {UNUSED[note['reason']]}: not used."
    ),
    "same_time": lambda note: (
        "{n_rows:row shares|rows share} id and time with another: "
        + ("merged with it." if note["rule"] == "merge" else "the {rule} of them counts.")
    ),
    "missing_cells": lambda note: (
        "{n_rows:missing cell|missing cells} of '{column}': "
        + ("a value of its own, 'missing'." if note["rule"] == "level" else _UNKNOWN_STATE)
    ),
    "missing_actions": _missing_actions,
    "same_point": _same_point,
    "shared_rewards": lambda note: (
        "{n_rows:visit shares a point|visits share a point} of the grid: "
        + TEXTS["shared"][note["rule"]]
    ),
    "rewards_formula": lambda note: (
        "Rewards are what actions cost ({costs})."
        if note["formula"] is None
        else "Rewards are {formula}"
        + (", less what actions cost ({costs})." if note["costs"] else ".")
    ),
    "codes_for_missing": _odd,
    "far_numbers": _odd,
    "alike_values": _alike,
    "alike": _alike,
    "actions_shifted": lambda note: (
        "Actions look shifted by a row: the action of the row before predicts what follows, and "
        f"that of the row itself does not (log-likelihood {note['gain']:+.3f} per row)."
    ),
    "not_markov": lambda note: (
        "The state is not enough: the previous one raises the probability of what happened next by "
        f"{100 * math.expm1(note['gain']):.1f} %. What is promised above takes it to be enough "
        "(`softrobust inspect` says which column would help)."
    ),
    "rare_actions": _rare_actions,
    "guessed_role": lambda note: (
        ("No column says when" if note["role"] == "time" else "All rows are taken for one id")
        + ": rows count in their order."
        if note["column"] == "none"
        else ("{column}" if isinstance(note["column"], list) else "'{column}'")
        + f" {_IS[isinstance(note['column'], list) and len(note['column']) > 1]} taken for "
        + {"measurements": "the state", "terminal": "the end"}.get(note["role"], "the {role}")
        + (" (next best: {others})." if note["others"] else ".")
    ),
    "split_id": lambda note: (
        f"{_percent(note['share'])} of the rows share id and time with another: "
        + (
            "'{id}' and '{column}' together are taken for the id."
            if note["done"]
            else "is the id '{id}' and '{column}' together (`--id {id},{column}`)?"
        )
    ),
    "guessed_dates": lambda note: (
        f"Dates of '{{column}}' such as '{{example}}' are taken as {_FORMS[note['form']]}"
        + (f"; they could be {_FORMS[note['other']]}." if note["other"] else ".")
    ),
    "guessed_reward": lambda note: (
        "Nothing says how good a step was: '{reward}' is taken for the reward, to begin with"
        + (
            ", since each step without an end counts."
            if note["reward"] == "1 - end"
            else ", since that is what actions move most. What is good is yours to say."
        )
        + (" Next best: {others}." if note["others"] else "")
    ),
    "guessed_bins": _guessed_bins,
}  # fmt: skip
