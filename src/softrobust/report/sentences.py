"""Every note in words: one table from codes to sentences.

A sentence is written for the page and for the terminal alike: what a user could type stands in
backticks, a number keeps to its sign by a narrow space. A count that may not be shown comes as
None: a small one is written "<5", a total is "some".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from softrobust._core.notes import RECORDED, SMALL, Level, Note, read_notes
from softrobust.report.data_words import DATA_WORDS, note_text

Words = Callable[[Note], str]
HIDDEN = f"<{SMALL}"
GOOD_FIT = 0.999
OF_PROMISE = frozenset({"comparison_blurred", "log_earned"})
LEFT_OUT = "Notes that an older version wrote down are left out: counts in them cannot be hidden."


def some(n: int | None, noun: str) -> str:
    """A number of things, "some" where it may not be known: "1 row", "2,912 rows", "some rows"."""
    if n is None:
        return f"some {noun}s"
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def times(n: int | None) -> str:
    """How often something was seen: "once" has no place here, as hidden counts look alike."""
    return f"{HIDDEN} times" if n is None else f"{n:,} time{'' if n == 1 else 's'}"


def sorted_notes(notes: Iterable[Note]) -> tuple[list[Note], list[Note], list[Note]]:
    """What to be careful about, what was assumed, and what belongs to the promise."""
    found = list(notes)
    cautions = [note for note in found if note.level is not Level.INFO]
    rest = [note for note in found if note.level is Level.INFO]
    promise = [note for note in rest if note.code in OF_PROMISE]
    return cautions, [note for note in rest if note.code not in OF_PROMISE], promise


def sentence(note: Note) -> str:
    """The note in words."""
    return WORDS[note.code](note)


def in_words(notes: Iterable[Note | Mapping[str, Any] | str], suppress: bool = False) -> list[str]:
    """Notes in words, each sentence once; with `suppress`, without small counts."""
    found = read_notes(notes)
    if not suppress:
        return list(dict.fromkeys(sentence(note) for note in found))
    hidden = [note.without_small_counts() for note in found if note.code != RECORDED]
    out = list(dict.fromkeys(sentence(note) for note in hidden))
    return out if len(hidden) == len(found) else [*out, LEFT_OUT]


# -- models and posteriors ---------------------------------------------------------------------


def _censored(note: Note) -> str:
    left = some(note["n_rows"], "row")
    if note.code == "censored_rows_left_out":
        return f"Left out: {left} in which the stock ran out. Demand is underestimated."
    return f"The stock ran out in {left}, which count as ‘demand was at least …’."


def _chains(note: Note) -> str:
    return (
        f"The chains disagree (R-hat of '{note['parameter']}' is {note['rhat']:.3f}, it should be "
        f"at most {note['most']:g}; {note['parameters']} such parameters): double the warm-up."
    )


def _effective(note: Note) -> str:
    return (
        f"Few independent draws (effective size of '{note['parameter']}' is "
        f"{note['effective_size']:.0f}, it should exceed {note['least']:g}): continue the chains "
        "with `extend(draws)`, or raise `draws`."
    )


def _sharp(note: Note) -> str:
    return (
        "Models drawn from this posterior are surer of next states than the log is (predictive "
        f"p-value {note['p']:.3f}): where little was seen the prior is too sharp."
    )


def _missed(note: Note) -> str:
    return (
        f"The model does not reproduce the log's {note['statistic']} (predictive p-value "
        f"{note['p']:.3f}): treat results as those of a wrong model, or choose another posterior."
    )


def _saturated(note: Note) -> str:
    need = "no number of" if note["needed"] is None else f"{note['needed']:,}"
    return (
        f"{note['who']} builds its sets from the quantile at {note['level']:.6g}, which {need} "
        f"draws would show; {note['used']:,} were used, so it is their extreme and alpha hardly "
        "matters."
    )


# -- runs --------------------------------------------------------------------------------------


def _rewards_vary(note: Note) -> str:
    return (
        f"Rewards of the same decision vary (standard deviation {note['deviation']:.3g}), and the "
        "models know their means only, not how vague those are: the probability above is too sure "
        "of itself, the more so where pairs were seen rarely. `softrobust check` and `rehearse` "
        "take the noise into account."
    )


def _rarely_seen(note: Note) -> str:
    return (
        f"{100 * note['share']:.0f} % of the policy's decisions fall on pairs seen fewer than "
        f"{note['fewer_than']} times. There the prior speaks louder than the data, and the best of "
        "many such pairs is often the luckiest: gains may be smaller than promised. "
        "`softrobust check` and `rehearse` tell more."
    )


def _interval_wide(note: Note) -> str:
    share = note["share"]
    wide = "unknown" if share is None else f"{100 * share:.2g} % of the range of returns"
    return (
        f"The interval of the held-out bad case is {wide}: {note['draws']:,} draws were affordable "
        "(`--test-models` draws more)."
    )


def _reward_fitted(note: Note) -> str:
    start = f"The reward is a linear fit of the reward column on (s, a, s′), R² = {note['r2']:.6g}"
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
    return f"Models keep values in a box{why} (`--clip`): {parts}."


def _log_earned(note: Note) -> str:
    episodes = some(note["n_episodes"], "complete episode")
    text = (
        f"Of the log, {episodes} earned {note['mean']:.4g} ± {1.96 * note['se']:.2g} on average; "
        f"practice, simulated, earns {note['simulated']:.4g}"
    )
    if note["apart"] is None:
        return f"{text}."
    return (
        f"{text}: {note['apart']:.1f} standard errors apart. The models or the picture of practice "
        "do not fit; do not trust the comparison before you know why."
    )


def _other_question(note: Note) -> str:
    return (
        f"'{note['run']}' was solved for γ = {note['gamma']:g}, λ = {note['lam']:g}, α = "
        f"{note['alpha']:g}; its figures here are for the question of '{note['first']}'."
    )


WORDS: dict[str, Words] = {
    **dict.fromkeys(DATA_WORDS, note_text),
    "p0_from_beside": lambda note: f"p0 was taken from {note['file']} beside the models.",
    "gamma_from_beside": lambda note: (
        f"gamma = {note['gamma']:g} was taken from {note['file']} beside the models."
    ),
    "duplicate_rows_summed": lambda note: (
        f"Summed: {some(note['n_rows'], 'duplicate row')} (same transition, model and reward)."
    ),
    "censored_rows_left_out": _censored,
    "censored_rows_are_limits": _censored,
    "chains_disagree": _chains,
    "few_effective_draws": _effective,
    "transitions_diverged": lambda note: (
        f"{note['diverged']:,} of {note['draws']:,} transitions diverged, so part of the posterior "
        "may be missing: raise `target_accept` towards 0.99."
    ),
    "prior_too_sharp": _sharp,
    "statistic_missed": _missed,
    "frontier_without_lambda": lambda _: (
        "The percentile criterion has no λ, so there is no frontier of mean against CVaR."
    ),
    "frontier_without_trade": lambda _: (
        "Mean and bad case are the same figure here, so there is nothing to trade."
    ),
    "frontier_too_long": lambda note: (
        f"With {note['states']:,} states and {note['models']:,} models the frontier would take "
        "minutes: `softrobust frontier RUN/problem.npz` computes it."
    ),
    "data_without_criterion": lambda _: (
        "The value of data is known for the soft-robust criterion only."
    ),
    "data_without_decision": lambda _: "There is nothing to decide, so no data would help.",
    "data_too_long": lambda note: (
        f"With {note['states']:,} states this would take minutes: `softrobust value-of-data RUN "
        "--draws 50` computes it with fewer draws."
    ),
    "data_unknown": lambda note: (
        "The value of data is not known here" + (f": {note['text']}" if note["text"] else ".")
    ),
    "quantile_saturated": _saturated,
    "no_pair_free": lambda note: (
        f"No allowed pair was seen {note['least']:g} times: the policy is the log's own."
    ),
    "pairs_seen_too_rarely": lambda note: (
        f"Pairs not seen often enough ({note['pairs']:,}) are not considered (`--min-count 0` "
        "keeps all pairs, with the prior)."
    ),
    "pairs_forbidden": lambda note: (
        f"Pairs that `--allowed` does not list ({note['pairs']:,}) are not considered."
    ),
    "states_without_actions": lambda _: (
        "States without any action seen stay where they are with reward 0, and no action is "
        "recommended there."
    ),
    "start_unknown": lambda _: (
        "No start was given (`--initial`): every state is equally likely to be first."
    ),
    "rewards_vary": _rewards_vary,
    "decisions_rarely_seen": _rarely_seen,
    "heldout_interval_wide": _interval_wide,
    "replications_bound_averages": lambda _: (
        "replications bound averages, and the percentile criterion is none."
    ),
    "replications_too_slow": lambda note: (
        f"{note['least']} replications would take much longer than {note['seconds']:g} s."
    ),
    "search_resumed": lambda note: f"The search was taken up again after {note['seconds']:.3g} s.",
    "search_open": lambda note: (
        f"The search is not over ({some(note['nodes'], 'open node')}): the same command with "
        "`--resume` goes on."
    ),
    "policy_silent": lambda note: (
        f"{note['file']} says nothing about {note['states']}: current practice goes on there."
    ),
    "policy_forbidden": lambda note: (
        f"The policy takes actions that are not allowed in {note['states']}."
    ),
    "other_question": _other_question,
    "reward_fitted": _reward_fitted,
    "actions_are_numbers": lambda note: (
        f"In the features of the models '{note['zero']}' counts as 0 and '{note['one']}' as 1."
    ),
    "starts_anywhere": lambda _: (
        "The log has no column 'episode': every state of it is equally likely to be first."
    ),
    "action_seen_too_rarely": lambda note: (
        f"The action '{note['action']}' was seen {times(note['n_seen'])} in "
        f"{some(note['n_rows'], 'row')}: what it does is guesswork, and the policy does not take "
        "it (`--min-count`; `--actions` says which actions there are)."
    ),
    "horizon_is_longest": lambda note: (
        f"Episodes last {note['steps']} steps, as the longest of the log (`--horizon`)."
    ),
    "no_box": lambda _: "Values are not kept in any box (`--clip none`): models may explode.",
    "box": _box,
    "ends_not_modelled": lambda note: (
        f"An episode ended for good (terminal) in {some(note['n_rows'], 'row')}. The models know "
        "no ends: simulated episodes go on to the horizon, and what ending early costs or saves is "
        "in no figure below. Say it by the reward, if it matters."
    ),
    "comparison_blurred": lambda note: (
        f"In {100 * note['share']:.2g} % of the models the difference to practice lies within the "
        "noise of the simulation: there the probability of beating it counts toss-ups. More "
        "episodes (`--test-episodes`) tell."
    ),
    "log_earned": _log_earned,
}
