"""Every note in words: one table from codes to templates, as `data_words` explains them.

A sentence is written for the page and for the terminal alike: what a user could type stands in
backticks, a number keeps to its sign by a narrow space. It says what is the case; advice that has
not been shown to help in worlds with a known truth has no place in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from softrobust._core.notes import RECORDED, Level, Note, read_notes
from softrobust.errors import InputError
from softrobust.report.data_words import DATA_WORDS, TEXTS, filled
from softrobust.report.data_words import some as some
from softrobust.report.data_words import times as times

GOOD_FIT = 0.999
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
                  "promise_unseen", "improve_not_allowed", "cut_by_time"})  # fmt: skip
MOST_TOLD = 4


def speaks_against(
    notes: Iterable[Note], suppress: bool = False, most: int = MOST_TOLD
) -> list[str]:
    """What to know before acting, the gravest first; remarks on rows of a file count as one."""
    told = [note for note in notes if note.level is not Level.INFO or note.code in TOLD]
    told.sort(key=lambda note: note.level is not Level.ALARM)
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
    words = WORDS[note.code]
    text = filled(words if isinstance(words, str) else words(note), note.facts)
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


# -- notes whose words depend on their facts ---------------------------------------------------


def _saturated(note: Note) -> str:
    need = "no number of" if note["needed"] is None else "{needed:,}"
    return (
        f"{{who}} builds its sets from the quantile at {{level:.6g}}, which {need} draws would "
        "show; {used:,} were used, so it is their extreme and alpha hardly matters."
    )


def _interval_wide(note: Note) -> str:
    wide = "unknown" if note["share"] is None else f"{100 * note['share']:.2g} % of the range"
    return f"The interval of the held-out bad case is {wide} ({{draws:,}} draws were affordable)."


def _judge(note: Note) -> str:
    by = "The promise is judged by the learned prior, whose promises were tested in known worlds"
    if note["solver"] == "improve":
        by = "`improve` chooses and promises by the learned prior"
    return f"{by}; models of the posterior '{{posterior}}' say what the policy earns on them."


def _cut(note: Note) -> str:
    parts = ", ".join(TEXTS["cut"][part] for part in note["parts"])
    return f"The time limit of {{seconds:.3g}} s cut short: {parts}. With more time figures differ."


def _reward_fitted(note: Note) -> str:
    start = "The reward is a linear fit of the reward column on (s, a, s′), R² = {r2:.6g}"
    if note["r2"] >= GOOD_FIT:
        return f"{start}."
    return (
        f"{start}: rewards of the log are not linear, and what is maximised is the fit "
        "(`--reward-now` and `--reward-next` say the reward itself)."
    )


def _box(note: Note) -> str:
    ends = note["box"].items()
    parts = ", ".join(f"{name} in {low:.4g} … {high:.4g}" for name, (low, high) in ends)
    wide = note["widened"]
    why = "" if wide is None else f", the range of the data widened by {wide:.0%}"
    # Names of variables may hold braces, which are no fields.
    safe = parts.replace("{", "{{").replace("}", "}}")
    return f"Models keep values in a box{why} (`--clip`): {safe}."


def _log_earned(note: Note) -> str:
    text = (
        "Of the log, {n_episodes:complete episode|complete episodes} earned {mean:.4g} ± "
        f"{1.96 * note['se']:.2g} on average; practice, simulated, earns {{simulated:.4g}}"
    )
    if note["apart"] is None:
        return f"{text}."
    return (
        f"{text}: {{apart:.1f}} standard errors apart. The models or the picture of practice do "
        "not fit; do not trust the comparison before you know why."
    )


# What rows may borrow from, by the bases of the learned prior (`posterior.learned`).
_BASES = TEXTS["bases"]
LOOSE = 1.0  # observations that borrowing must be worth to be called so


def _too_sharp(note: Note) -> str:
    cure = note.facts.get("cure")
    advice = "No setting of this posterior cures that; it fades with more rows."
    if cure:
        advice = f"Raise {cure} (the prior's mass), or let the prior be learned."
    return (
        "Models drawn from this posterior are surer of next states than the log is: where little "
        f"was seen they say too much. {advice}"
    )


def _learned(note: Note) -> str:
    """The source that most weight goes to, the blend's shares counted with their own."""
    if note["strength"] <= LOOSE:
        return "Nothing in the log resembles anything: every row rests on its own observations."
    shares = dict(note["bases"])
    blended = shares.pop("blend", 0.0)
    total: dict[str, float] = {}
    for name, share in shares.items():
        share += blended * note["blend"].get(name, 0.0)
        total[_BASES[name]] = total.get(_BASES[name], 0.0) + share
    source = max(total, key=lambda words: total[words])
    return f"Rows borrow mostly from {source} (worth {{strength:g}} observations)."


def _foreseen(note: Note) -> str:
    shown = [f"{score:.3g} under '{name}'" for name, score in note["scores"].items()]
    return (
        f"Held-out transitions have a mean log probability of {', '.join(shown)} (the higher, the "
        "better foreseen)."
    )


_TOO_LONG = "would take minutes: `softrobust {}` computes it"
WORDS: dict[str, str | Callable[[Note], str]] = {
    **DATA_WORDS,
    **TEXTS["notes"],
    "prior_too_sharp": _too_sharp,
    "prior_learned": _learned,
    "prior_foresight": _foreseen,
    "quantile_saturated": _saturated,
    "data_unknown": lambda note: (
        "The value of data is not known here" + (": {text}" if note["text"] else ".")
    ),
    "decisions_rarely_seen": lambda note: (
        f"{100 * note['share']:.0f} % of its decisions were seen fewer than {{fewer_than}} times "
        "in their state: what they bring is inferred from what resembles them."
    ),
    "heldout_interval_wide": _interval_wide,
    "cut_by_time": _cut,
    "verdict_close": lambda note: (
        f"A close verdict: {100 * note['shuffled']:.2g} % of logs in which actions change nothing "
        f"would show as much ({100 * note['most']:g} % is the limit); another `--seed` may decide "
        "otherwise."
    ),
    "caution_costs": lambda note: (
        f"By the posterior alone another policy would earn {note['more']:.4g} more by the "
        f"objective ({100 * note['share']:.2g} % of what is to be gained over acting at random): "
        "it makes changes whose gain is not clear of its own uncertainty, and those are left out."
    ),
    "promise_by_learned": _judge,
    "reward_fitted": _reward_fitted,
    "box": _box,
    "comparison_blurred": lambda note: (
        f"In {100 * note['share']:.2g} % of the models the difference to practice lies within the "
        "noise of the simulation: there the probability of beating it counts toss-ups."
    ),
    "log_earned": _log_earned,
}
