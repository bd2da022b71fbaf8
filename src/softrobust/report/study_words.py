"""Answers of the studies in words: explanations, rules, checks, rehearsals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softrobust._core.notes import RECORDED
from softrobust.report.sentences import some, times
from softrobust.report.words import bad_case, between
from softrobust.study.checks import Check, Verdict
from softrobust.study.confounding import MOST

if TYPE_CHECKING:
    from softrobust.study.explain import Explanation, Option
    from softrobust.study.rehearsal import Rehearsal
    from softrobust.study.rules import Rules

Facts = Mapping[str, Any]


# -- why this action here ----------------------------------------------------------------------


def explanation_sentences(e: Explanation) -> list[str]:
    """Why the policy does what it does in a state, one sentence a line."""
    lines = [
        f"In '{e.state}' the policy takes '{e.action}'. {100 * e.visits:.1f} % of (discounted) "
        "time is spent here."
    ]
    others = [o for o in e.options if o.action != e.action]
    if not others:
        lines.append("It is the only action allowed here.")
    lines += [_instead(e, o) for o in others]
    words = bad_case(e.objective)
    if e.shifts:
        moves = "; ".join(
            f"'{x.next_state}' {100 * x.mean:.0f} % → {100 * x.worst:.0f} %" for x in e.shifts
        )
        lines.append(
            f"In {words} for this policy, '{e.action}' leads more or less often to (all models → "
            f"these): {moves}."
        )
    mean, bad = e.price["mean"], e.price["cvar"]
    if abs(mean) + abs(bad) <= 1e-9 * max(abs(e.value), 1e-300):
        return [*lines, "On these models the whole policy earns what the nominal policy earns."]
    return [
        *lines,
        "Against the nominal policy, on the models it was chosen on, the whole policy earns "
        f"{mean:+.3g} on average and {bad:+.3g} in {words}; held-out models, which the report "
        "compares on, may say otherwise.",
    ]


def _instead(e: Explanation, o: Option) -> str:
    """Another action: taken always, and once, which may point the other way."""
    own = next(x for x in e.options if x.action == e.action)
    change = o.objective - e.value
    mean, worst = o.q_mean - own.q_mean, o.q_worst - own.q_worst
    once = "."
    if change * mean < 0 and change * worst < 0:
        once = (
            " that are the worst now; taken always, it makes other models the worst, and these "
            "decide."
        )
    seen = "" if o.seen is None else f" It was seen {times(o.seen)} here."
    return (
        f"Taking '{o.action}' instead would {'gain' if change > 0 else 'cost'} {abs(change):.3g} "
        f"by the objective, the rest of the policy unchanged: {o.mean - e.mean:+.3g} on average, "
        f"{o.cvar - e.cvar:+.3g} in {bad_case(e.objective)}. Taken once, it is worth {mean:+.3g} "
        f"on average and {worst:+.3g} in those models{once}{seen}"
    )


def rules_sentence(r: Rules) -> str:
    """The price of simplicity."""
    n = "1 rule earns" if r.n_leaves == 1 else f"{r.n_leaves} rules earn"
    if abs(r.loss) <= 1e-9 * max(abs(r.full_value), 1e-300):
        price = f"{n} exactly what the full policy earns, {r.full_value:.6g}."
    else:
        price = (
            f"{n} {r.value:.6g} by the objective: {abs(r.loss):.3g} "
            f"{'less' if r.loss > 0 else 'more'} than the full policy ({r.full_value:.6g}). Both "
            "figures are exact on the sampled models."
        )
    if r.met is not False:
        return price
    return (
        f"{price} That is more than the {r.max_loss:g} that was asked: of all rules that were "
        f"tried, up to {max(n for n, _ in r.steps)}, these lose least."
    )


# -- rehearsals --------------------------------------------------------------------------------

WIDE = 0.3  # an interval of a share that says nothing


def rehearsal_sentences(r: Rehearsal) -> list[str]:
    """What the repetitions say, one sentence a line."""
    lines = [
        f"{r.times} rehearsals in worlds drawn from the {r.world}"
        + (f" ({r.failed} failed)." if r.failed else ".")
    ]
    for level, (share, low, high) in sorted(r.coverage.items()):
        lines.append(
            f"A lower bound claimed with {100 * level:g} % held in {100 * share:.1f} % of them "
            f"{between(100 * low, 100 * high, '.1f')}: {_held(level, share, low, high)}."
        )
    for rival, (mean, low, high, share) in r.gains.items():
        lines.append(
            f"In those worlds the policy earned {mean:+.4g} {between(low, high)} against {rival}, "
            f"and was better in {100 * share:.0f} % of worlds."
        )
    return [*lines, f"Against the best policy of each world it lost {r.regret:.4g} on average."]


def _held(level: float, share: float, low: float, high: float) -> str:
    if high - low > WIDE:
        return "too few rehearsals to tell"
    if low <= level <= high:
        return "as often as it says"
    return "more often than it says" if share > level else "LESS often than it says"


# -- checks ------------------------------------------------------------------------------------

CHECK_NAMES = {
    "replay": "behaviour replay",
    "off_policy": "off-policy estimates",
    "rare_pairs": "rarely seen pairs",
    "prior_strength": "prior strength",
    "goal": "the goal (λ, α)",
    "draws": "number of models and seed",
    "confounding": "hidden confounding",
}
CHECK_GLOSS = {
    "off_policy": "WIS, PDIS, DR and FQE are four ways to tell from what others did what this "
    "policy would have earned: weighing whole episodes by how likely this policy is to act so "
    "(WIS), weighing them step by step (PDIS), correcting a model's prediction by such weights "
    "(DR), and fitting values to the steps (FQE). The effective sample size is how many episodes "
    "count.",
    "confounding": "The question behind it: had something that nobody wrote down, such as how ill "
    "a patient looked, swayed which action was taken, how strongly would it have had to do so for "
    "this policy to be no better than practice? A factor near 1 is soon reached.",
}


def check_name(check: Check) -> str:
    """What was asked, in a few words."""
    return str(check.facts["name"]) if check.code == RECORDED else CHECK_NAMES[check.code]


def check_sentence(check: Check) -> str:
    """The finding in plain words, with its figures and what it does not cover."""
    if check.verdict is Verdict.CANNOT_TELL and "why" in check.facts:
        return _REASONS[check.facts["why"]](check.facts)
    return _FINDINGS[check.code](check.facts)


def _recorded(f: Facts) -> str:
    if f["text"] is None:
        return "Its words may hold small counts and are not shown."
    return str(f["text"])


def _replay(f: Facts) -> str:
    text = (
        f"The {'' if f['n_episodes'] is None else format(f['n_episodes'], ',') + ' '}observed "
        f"episodes earned {f['observed']:.4g} on average, {'inside' if f['fits'] else 'outside'} "
        f"the range {between(f['low'], f['high'])} that the posterior predicts for current "
        f"practice; {100 * f['share_inside']:.0f} % of single episodes lie in their 90 % ranges."
    )
    if not f["fits"]:
        text += " The model does not reproduce what happened: look at states and rewards first."
    if f["spread_fits"] or not f["fits"]:
        return text
    return (
        f"{text} Single episodes vary more than the model says: rewards are noisier than their "
        "means, or patients and sites differ in ways that the states do not show."
    )


def _off_policy(f: Facts) -> str:
    told = "; ".join(f"{e['name']} {_estimated(e)}" for e in f["estimates"])
    text = (
        f"Learned on half of the episodes and estimated on the others: {told}. The posterior "
        f"predicted {between(*f['predicted'])}."
    )
    if f["tail"] > 0:
        text += (
            f" Beyond the last observed step the model's own value stands in: "
            f"{100 * f['tail']:.0f} % of the discounted future for WIS and PDIS."
        )
    if f.get("why") == "mostly_model":
        return f"{text} So much of it is the model's that agreement says little."
    return text + (f" Apart from the prediction: {', '.join(f['apart'])}." if f["apart"] else "")


def _estimated(e: Facts) -> str:
    if not e["can_tell"]:
        return f"cannot tell (effective sample size {e['effective_size']:.1f}, below 10)"
    span = "" if e["low"] is None else f" {between(e['low'], e['high'])}"
    return f"{e['value']:.4g}{span} (effective sample size {e['effective_size']:.0f})"


def _rare(f: Facts) -> str:
    text = (
        f"{100 * f['share']:.1f} % of the policy's discounted decisions fall on pairs seen fewer "
        f"than {f['fewer_than']} times"
    )
    if f["share"] == 0:
        return f"{text}."
    return (
        f"{text}, most of all '{f['action']}' in '{f['state']}' (seen {times(f['n_seen'])} there)."
    )


def _goal(f: Facts) -> str:
    rows = f["grid"]
    worst = max(rows, key=lambda row: row["visits"])
    same = sum(row["visits"] < 0.01 for row in rows)
    return (
        f"On a grid of {len(rows)} goals (λ from 0 to 1, α from 0.5 to 0.95), {same} "
        f"{'keeps' if same == 1 else 'keep'} at least 99 % of the actions taken; the most "
        f"different one (λ = {worst['lam']:g}, α = {worst['alpha']:g}) changes "
        f"{_share(worst['states'])} of states and {_share(worst['visits'])} of visits. Choose λ "
        "and α with care where this is much."
    )


def _alternatives(f: Facts) -> str:
    parts = []
    for row in f["alternatives"]:
        what = row.get("draw", f"a prior {row.get('factor', 1):g} times as strong")
        states, visits = _share(row["states"]), _share(row["visits"])
        text = f"{what} changes {states} of states ({visits} of visits)"
        if "gain" in row:
            word = "gains" if row["gain"] >= 0 else "loses"
            text += f" and {word} {abs(row['gain']):.3g} by the objective held out"
        parts.append(text)
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else f"{100 * share:.2g} %"


def _confounding(f: Facts) -> str:
    if f["tipping"] == 1.0:
        text = "Even without hidden confounding the policy is no better than current practice"
    elif f["tipping"] is None:
        text = f"Not even a factor of {MOST:g} on the odds would overturn the choice"
    else:
        text = (
            "The choice would be overturned only if something that the log does not show had "
            f"changed the odds of actions by a factor of {f['tipping']:.3g} or more"
        )
    return (
        f"{text} (marginal sensitivity model in the mean model). Not covered: hidden causes that "
        "last from step to step, mismeasured states or rewards, practice that changed."
    )


_FINDINGS: dict[str, Callable[[Facts], str]] = {
    RECORDED: _recorded,
    "replay": _replay,
    "off_policy": _off_policy,
    "rare_pairs": _rare,
    "prior_strength": _alternatives,
    "goal": _goal,
    "draws": _alternatives,
    "confounding": _confounding,
}
_REASONS: dict[str, Callable[[Facts], str]] = {
    "few_episodes": lambda f: (
        f"The log has {some(f['n_episodes'], 'episode')}, and this needs at least {f['needed']}."
    ),
    "unknown_rewards": lambda _: "Some rewards of simulated transitions are not known.",
    "no_strength": lambda _: "This posterior has no prior strength to vary.",
    "no_lambda": lambda _: "The percentile criterion has no λ to vary.",
    "half_too_little": lambda f: f"Half of the log is too little to learn from: {_recorded(f)}",
    "mostly_model": _off_policy,
    "too_uncertain": _off_policy,
    "refused": _recorded,
}
