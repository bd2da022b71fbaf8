"""Every note in words: one table from codes to templates, in `english.toml`.

A sentence is written for the page and for the terminal alike: what a user could type stands in
backticks, a number keeps to its sign by a narrow space. It says what is the case; advice that has
not been shown to help in worlds with a known truth has no place in it.

Another language is another file of that form. A template is a text whose fields are the facts of
its note, or several in a row; `{by = "rule", merge = …, else = …}` chooses by the value of a fact
(`of` names the table that it chooses from), `{if = "others", then = …, else = …}` by whether there
is any. `{n_rows:row has|rows have}` is a count with words that agree with it, `{n_rows:=is|are}`
the words alone, `{n_seen:times}` how often, `{names:#}` how many, `{share:% .2g}` a percentage; a
count that may not be shown is None and becomes "some", or "<5 times".
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from string import Formatter
from typing import Any, final

from softrobust._core.notes import RECORDED, SMALL, Count, Level, Note, read_notes
from softrobust.errors import InputError

TEXTS: dict[str, dict[str, Any]] = tomllib.loads(
    resources.files("softrobust.report").joinpath("english.toml").read_text(encoding="utf-8")
)
LOST, UNUSED = TEXTS["lost"], TEXTS["unused"]
HIDDEN = f"<{SMALL}"
SHOWN_NAMES = 8
GOOD_FIT = 0.999
LOOSE = 1.0  # observations that borrowing must be worth to be called so
SHOWN_ROWS = 4
OF_PROMISE = frozenset({"comparison_blurred", "log_earned", "promise_by_learned", "promise_unseen"})


def sorted_notes(notes: Iterable[Note]) -> tuple[list[Note], list[Note], list[Note]]:
    """What to be careful about, what was assumed, and what belongs to the promise."""
    found = list(notes)
    cautions = [note for note in found if note.level is not Level.INFO]
    rest = [note for note in found if note.level is Level.INFO]
    promise = [note for note in rest if note.code in OF_PROMISE]
    return cautions, [note for note in rest if note.code not in OF_PROMISE], promise


# What was assumed or happened that a reader must act on, or know at once.
TOLD = frozenset({"search_open", "search_resumed", "policy_silent", "policy_forbidden",
                  "start_unknown", "no_pair_free", "action_seen_too_rarely", "quantile_saturated",
                  "promise_unseen", "improve_not_allowed", "models_in_memory",
                  "cut_by_time"})  # fmt: skip
MOST_TOLD = 4


def speaks_against(
    notes: Iterable[Note], suppress: bool = False, most: int = MOST_TOLD
) -> list[str]:
    """What to know before acting, the gravest first; remarks on rows of a file count as one."""
    told = [note for note in notes if note.level is not Level.INFO or note.code in TOLD]
    told.sort(key=lambda note: (note.level is not Level.ALARM, note.code != "cut_by_time"))
    rows = [note for note in told if note.level is Level.CAUTION and note.facts.get("rows")]
    lines = in_words((note for note in told if note not in rows), suppress)
    if rows:
        worst = max(rows, key=lambda note: note["n_rows"] or 0)
        others = f"{len(rows) - 1} more remark{'s' if len(rows) > 2 else ''} on rows"
        more = f" {others}: in the details." if len(rows) > 1 else ""
        lines.append(f"{in_words([worst], suppress)[0]}{more}")
    if len(lines) > most and most > 1:
        lines[most - 1 :] = [f"{len(lines) - most + 1} more cautions: in the details."]
    elif len(lines) > most:  # the gravest is said whatever else there is
        more = f"{len(lines) - 1} more caution{'s' if len(lines) > 2 else ''}: in the details."
        lines = [f"{lines[0]} {more}"]
    return lines


def sentence(note: Note) -> str:
    """The note in words; rows that it names follow in brackets."""
    try:
        return _sentence(note)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"The note '{note.code[:60]}' lacks or garbles a fact ({error})."
        ) from error


def _sentence(note: Note) -> str:
    more = COMPUTED[note.code](note.facts) if note.code in COMPUTED else {}
    text = told(WORDS[note.code], {**note.facts, **more})
    if note.facts.get("rows") and note["n_rows"] is not None:
        n, shown = note["n_rows"], ", ".join(map(str, note["rows"][:SHOWN_ROWS]))
        rest = f" and {n - SHOWN_ROWS} more" if n > SHOWN_ROWS else ""
        place = f"row{'s' if n > 1 else ''} {shown}{rest} of {note['source']}"
        text = f"{text.removesuffix('.')} ({place})."
    if note.facts.get("elsewhere"):
        text = f"Elsewhere: {text[0].lower()}{text[1:]}"
    return text[:1].upper() + text[1:]


def in_words(notes: Iterable[Note | Mapping[str, Any] | str], suppress: bool = False) -> list[str]:
    """Notes in words, each sentence once; with `suppress`, without small counts."""
    found = read_notes(notes)
    if not suppress:
        return list(dict.fromkeys(sentence(note) for note in found))
    hidden = [note.without_small_counts() for note in found if note.code != RECORDED]
    out = list(dict.fromkeys(sentence(note) for note in hidden))
    return out if len(hidden) == len(found) else [*out, TEXTS["page"]["left_out"]]


# -- from templates to words -------------------------------------------------------------------


def phrase(key: str, /, **facts: Any) -> str:
    """What stands under "section.name" in the file of words, with its facts."""
    section, _, name = key.partition(".")
    return told(TEXTS[section][name], facts)


def told(words: Any, facts: Mapping[str, Any]) -> str:
    """A template with its facts."""
    if isinstance(words, str):
        return words.format_map({name: _Fact(value) for name, value in facts.items()})
    if isinstance(words, list):
        return "".join(told(part, facts) for part in words)
    if "if" in words:
        return told(words.get("then" if _fact(words["if"], facts) else "else", ""), facts)
    value = _fact(words["by"], facts)
    if "of" in words:
        names = value if isinstance(value, list) else [value]
        return ", ".join(TEXTS[words["of"]][name] for name in names)
    case = "none" if value is None else str(value)
    return told(words[case if case in words and case != "by" else "else"], facts)


def times(n: int | None) -> str:
    """How often something was seen: "once" has no place here, as hidden counts look alike."""
    return f"{HIDDEN} times" if n is None else f"{n:,} time{'' if n == 1 else 's'}"


def _fact(name: str, facts: Mapping[str, Any]) -> Any:
    """A fact, or a part of one: "e.low", "e[low]"; None where there is none."""
    try:
        return Formatter().get_field(name, (), facts)[0]
    except LookupError:
        return None


@final
class _Fact:
    """A fact inside a template; its parts are facts."""

    def __init__(self, value: Any) -> None:
        self._held = value

    def __getattr__(self, name: str) -> _Fact:
        return _Fact(getattr(self._held, name))

    def __getitem__(self, name: str | int) -> _Fact:
        return _Fact(self._held[name])

    def __format__(self, spec: str) -> str:
        value = self._held
        if "|" in spec:
            one, many = spec.lstrip("=,").split("|")
            n = len(value) if isinstance(value, list) else 1 if isinstance(value, str) else value
            words, shown = one if n == 1 else many, f"{value:,}" if spec[0] == "," else f"{self}"
            return words if spec.startswith("=") else f"{shown} {words}"
        kind, _, digits = spec.partition(" ")
        if kind == "%":
            whole = round(100 * value, 9)  # as many, however weights were summed
            if not digits and value < 0.01:
                return "<1 %"
            text = f"{whole:{digits or '.0f'}}"
            return f"{f'{whole:,.0f}' if 'e+' in text else text} %"  # 100 %, and not 1e+02 %
        if kind == "share":
            return f"{100 * value:{'.0f' if value == 0 or value >= 0.01 else '.2g'}} %"
        if kind == "expm1":
            return f"{100 * math.expm1(value):{digits}} %"
        own: dict[str, Callable[[], str]] = {
            "": lambda: str(self),
            "and": lambda: " and ".join(f"'{name}'" for name in value),
            "times": lambda: times(value),
            "#": lambda: str(len(value)),
            "quoted": lambda: f"'{value}'" if isinstance(value, str) else str(self),
        }
        return own[spec]() if spec in own else f"{value:{spec}}"

    def __str__(self) -> str:
        if self._held is None:
            return "some"
        if isinstance(self._held, list):
            shown = self._held[:SHOWN_NAMES]
            text = ", ".join(f"'{x}'" if isinstance(x, str) else f"{x:g}" for x in shown)
            return text + (" and more" if len(self._held) > SHOWN_NAMES else "")
        return f"{self._held:,}" if isinstance(self._held, Count) else f"{self._held}"


# -- facts that follow from those of a note ----------------------------------------------------


def _learned(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The source that most weight goes to, the blend's shares counted with their own."""
    apart = facts.get("apart", [])  # runs of before do not say it
    if facts["strength"] <= LOOSE:
        return {"source": None, "apart": apart}
    shares = dict(facts["bases"])
    blended = shares.pop("blend", 0.0)
    total: dict[str, float] = {}
    for name, share in shares.items():
        source = TEXTS["bases"][name]
        total[source] = total.get(source, 0.0) + share + blended * facts["blend"].get(name, 0.0)
    return {"source": max(total, key=lambda words: total[words]), "apart": apart}


def _box(facts: Mapping[str, Any]) -> dict[str, Any]:
    ends = facts["box"].items()
    return {"told": ", ".join(f"{name} in {a:.4g} … {b:.4g}" for name, (a, b) in ends)}


def _foreseen(facts: Mapping[str, Any]) -> dict[str, Any]:
    scores = facts["scores"].items()
    return {"told": ", ".join(f"{score:.3g} under '{name}'" for name, score in scores)}


WORDS: dict[str, Any] = TEXTS["data"] | TEXTS["notes"]
COMPUTED: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "integers_not_filled": lambda facts: {"negative": facts["smallest"] < 0},
    "states_never_left": lambda facts: {"more": facts["count"] - len(facts["states"])},
    "reward_fitted": lambda facts: {"good": facts["r2"] >= GOOD_FIT},
    "log_earned": lambda facts: {"half": 1.96 * facts["se"]},
    "prior_learned": _learned,
    "prior_foresight": _foreseen,
    "box": _box,
}
