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
from softrobust.report.data_words import DATA_WORDS, filled
from softrobust.report.data_words import some as some
from softrobust.report.data_words import times as times

GOOD_FIT = 0.999
SHOWN_ROWS = 4
OF_PROMISE = frozenset({"comparison_blurred", "log_earned", "promise_by_learned", "promise_unseen"})
LEFT_OUT = "Notes that an older version wrote down are left out: counts in them cannot be hidden."


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
        more = f" {len(rows) - 1} more remarks on rows: in the details." if len(rows) > 1 else ""
        lines.append(f"{in_words([worst], suppress)[0]}{more}")
    if len(lines) > most:
        lines[most - 1 :] = [f"{len(lines) - most + 1} more cautions: in the details."]
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
    return out if len(hidden) == len(found) else [*out, LEFT_OUT]


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


_CUT = {
    "models": "models to choose on", "heldout": "held-out models", "bound": "the bound",
    "replications": "replications", "promise": "the promise", "nominal": "comparisons",
}  # fmt: skip


def _cut(note: Note) -> str:
    parts = ", ".join(_CUT[part] for part in note["parts"])
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
_NEAR = "what the same action did in near states"
_BASES = {
    **dict.fromkeys(("mid", "near", "place", "leave", "edge", "columns"), _NEAR),
    **dict.fromkeys(("same", "far"), "what the same action did in all states"),
    **dict.fromkeys(("plain", "other"), "what other actions did in the same state"),
    "drift": "what any action did in near states",
    "after": "any action that leads to the same place",
    **dict.fromkeys(("all", "marginal"), "where rows lead on the whole"),
}
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
    # models and posteriors
    "p0_from_beside": "Taken from {file} beside the models: p0.",
    "gamma_from_beside": "Taken from {file} beside the models: gamma = {gamma:g}.",
    "duplicate_rows_summed": (
        "Summed: {n_rows:duplicate row|duplicate rows} (same transition, model and reward)."
    ),
    "censored_rows_left_out": (
        "Left out: {n_rows:row|rows} in which the stock ran out. Demand is underestimated."
    ),
    "censored_rows_are_limits": (
        "The stock ran out in {n_rows:row|rows}, which count as ‘demand was at least …’."
    ),
    "chains_disagree": (
        "The chains disagree (R-hat of '{parameter}' is {rhat:.3f}, it should be at most {most:g}; "
        "{parameters} such parameters): double the warm-up."
    ),
    "few_effective_draws": (
        "Few independent draws (effective size of '{parameter}' is {effective_size:.0f}, it should "
        "exceed {least:g}): continue the chains with `extend(draws)`, or raise `draws`."
    ),
    "transitions_diverged": (
        "{diverged:,} of {draws:,} transitions diverged, so part of the posterior may be missing: "
        "raise `target_accept` towards 0.99."
    ),
    "prior_too_sharp": _too_sharp,
    "statistic_missed": (
        "The model does not reproduce the log's {statistic}: treat results as those of a wrong "
        "model."
    ),
    "prior_learned": _learned,
    "prior_foresight": _foreseen,
    "quantile_saturated": _saturated,
    # parts of a page that are not there
    "frontier_timed": (
        "The frontier is over policies that are the same at all steps, and this one is not."
    ),
    "frontier_without_lambda": (
        "The percentile criterion has no λ, so there is no frontier of mean against CVaR."
    ),
    "frontier_without_trade": (
        "Mean and bad case are the same figure here, so there is nothing to trade."
    ),
    "frontier_too_long": "With {states:,} states and {models:,} models the frontier "
    + _TOO_LONG.format("frontier RUN/problem.npz")
    + ".",
    "data_without_criterion": "The value of data is known for the soft-robust criterion only.",
    "data_without_decision": "There is nothing to decide, so no data would help.",
    "data_too_long": "With {states:,} states this "
    + _TOO_LONG.format("value-of-data RUN --draws 50")
    + " with fewer draws.",
    "data_unknown": lambda note: (
        "The value of data is not known here" + (": {text}" if note["text"] else ".")
    ),
    # a table of states
    "no_pair_free": "No allowed pair was seen {least:g} times: the policy is the log's own.",
    "pairs_seen_too_rarely": "Pairs not seen often enough ({pairs:,}) are not considered.",
    "pairs_forbidden": "Pairs that `--allowed` does not list ({pairs:,}) are not considered.",
    "states_without_actions": (
        "States without any action seen stay where they are with reward 0, and no action is "
        "recommended there."
    ),
    "start_unknown": "No start was given (`--initial`): every state is equally likely to be first.",
    "rewards_vary": (
        "Rewards of the same decision vary (standard deviation {deviation:.3g}), and the models "
        "know their means only: figures under the posterior alone are too sure of themselves."
    ),
    "decisions_rarely_seen": lambda note: (
        f"{100 * note['share']:.0f} % of its decisions were seen fewer than {{fewer_than}} times "
        "in their state: what they bring is inferred from what resembles them."
    ),
    "heldout_interval_wide": _interval_wide,
    "replications_bound_averages": (
        "Replications bound averages, and the percentile criterion is none."
    ),
    "replications_too_slow": "{least} replications would take much longer than {seconds:g} s.",
    "cut_by_time": _cut,
    "caution_costs": lambda note: (
        f"By the posterior alone another policy would earn {note['more']:.4g} more by the "
        f"objective ({100 * note['share']:.2g} % of what is to be gained over acting at random): "
        "it makes changes whose gain is not clear of its own uncertainty, and those are left out."
    ),
    "promise_by_learned": _judge,
    "promise_unseen": (
        "The policy takes actions that were never seen where it takes them, and no part of the log "
        "can judge those: nothing is promised of it."
    ),
    "improve_not_allowed": (
        "Some of what practice does is not allowed, so that the default solver is `exact`: "
        "`improve` would start from practice."
    ),
    "search_resumed": "The search was taken up again after {seconds:.3g} s.",
    "search_open": (
        "The search is not over ({nodes:,} open nodes): the same command with `--resume` goes on."
    ),
    "policy_silent": "Nothing is said of {states} in {file}: current practice goes on there.",
    "policy_forbidden": "The policy takes actions that are not allowed in {states}.",
    "own_value_of_return": (
        "The solver {solver} looks for a good return; its own value, {value:.6g}, is of the "
        "return. All other figures are against the reference '{reference}'."
    ),
    "other_question": (
        "'{run}' was solved for γ = {gamma:g}, λ = {lam:g}, α = {alpha:g}, reference {reference}; "
        "its figures here are for the question of '{first}'."
    ),
    "promise_not_timed": (
        "Halves of the log cannot judge a rule for each of {steps} steps, so nothing is promised: "
        "with `--stationary`, or the solver improve, something is."
    ),
    # vectors
    "reward_fitted": _reward_fitted,
    "actions_are_numbers": ("In the features of the models '{zero}' counts as 0 and '{one}' as 1."),
    "starts_anywhere": (
        "The log has no column 'episode': every state of it is equally likely to be first."
    ),
    "action_seen_too_rarely": (
        "The action '{action}' was seen {n_seen:times} in {n_rows:row|rows}: what it does is "
        "guesswork, and the policy does not take it."
    ),
    "horizon_is_longest": ("Episodes last {steps} steps, as the longest of the log (`--horizon`)."),
    "no_box": "Values are not kept in any box (`--clip none`): models may explode.",
    "box": _box,
    "ends_modelled": (
        "An episode ended for good (terminal) in {n_rows:row|rows}: how likely that is after each "
        "state and action is learned from them; an end adds {reward:.3g} to the reward of its "
        "step, and nothing is earned after it."
    ),
    "ends_not_modelled": (
        "An episode ended for good (terminal) in {n_rows:row|rows}. The models know no ends: what "
        "ending early costs or saves is in no figure below, unless the reward says it."
    ),
    "comparison_blurred": lambda note: (
        f"In {100 * note['share']:.2g} % of the models the difference to practice lies within the "
        "noise of the simulation: there the probability of beating it counts toss-ups."
    ),
    "log_earned": _log_earned,
}
