"""Answers of the studies in words: explanations, rules, checks, rehearsals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from softrobust._core.notes import RECORDED
from softrobust.certificate import PRACTICE
from softrobust.certificate.record import objective_of
from softrobust.report.data_words import TEXTS, filled
from softrobust.report.sentences import in_words, times
from softrobust.report.words import bad_case, between, count, measured
from softrobust.solvers.promise import LEVEL
from softrobust.study.checks import FEWEST_REPLAYED, MODEL_TAIL, MUCH, WEAK, Check, Verdict
from softrobust.study.confounding import MOST
from softrobust.study.foreign import FEWEST, KEPT, OVERSAID, WORSE, ForeignRehearsal
from softrobust.study.off_policy import LEAST_SHARE, LEAST_SIZE
from softrobust.study.rehearsal import WIDE, Rehearsal

if TYPE_CHECKING:
    from softrobust.objective import Objective
    from softrobust.study.explain import Explanation, Option
    from softrobust.study.foreign import KindFound
    from softrobust.study.rules import Rules
    from softrobust.study.validation import Validation

Facts = Mapping[str, Any]
MOST_INSTEAD = 3  # other actions that have a sentence of their own, the best of them


# -- why this action here ----------------------------------------------------------------------


def explanation_sentences(e: Explanation) -> list[str]:
    """Why the policy does what it does in a state, one sentence a line."""
    mixture = " or ".join(f"'{name}' ({100 * p:.2g} %)" for name, p in e.mix.items())
    taken = mixture if e.action is None else f"'{e.action}'"
    usual = ", as is done now" if e.is_practice and e.action is None else ""
    lines = [
        f"In '{e.state}' the policy takes {taken}{usual}. {100 * e.visits:.1f} % of (discounted) "
        "time is spent here."
    ]
    others = [o for o in e.options if o.action != e.action]
    if not others:
        lines.append("It is the only action allowed here.")
    lines += [_instead(e, o) for o in others[:MOST_INSTEAD]]
    words = bad_case(e.objective)
    if e.shifts:
        moves = "; ".join(
            f"'{x.next_state}' {100 * x.mean:.0f} % → {100 * x.worst:.0f} %" for x in e.shifts
        )
        lines.append(
            f"In {words} for this policy, {'this' if e.action is None else taken} leads more or "
            f"less often to (all models → these): {moves}."
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
    """Another action, or one of several alone: always, and once, which may point elsewhere."""
    change = o.objective - e.value
    mean, worst = o.q_mean - e.q_mean, o.q_worst - e.q_worst
    instead = f"Always taking '{o.action}'" if o.chosen > 0 else f"Taking '{o.action}' instead"
    once = "."
    if change * mean < 0 and change * worst < 0:
        once = (
            " that are the worst now; taken always, it makes other models the worst, and these "
            "decide."
        )
    seen = "" if o.seen is None else f" It was seen {times(o.seen)} here."
    return (
        f"{instead} would {'gain' if change > 0 else 'cost'} {abs(change):.3g} "
        f"by the objective, the rest of the policy unchanged: {o.mean - e.mean:+.3g} on average, "
        f"{o.cvar - e.cvar:+.3g} in {bad_case(e.objective)}. Taken once, it is worth {mean:+.3g} "
        f"on average and {worst:+.3g} in those models{once}{seen}"
    )


def rules_sentence(r: Rules, promised: bool = False) -> str:
    """The price of simplicity, and whose the promise is where the policy has one."""
    n = "1 rule earns" if r.n_leaves == 1 else f"{r.n_leaves} rules earn"
    if abs(r.loss) <= 1e-9 * max(abs(r.full_value), 1e-300):
        parts = [f"{n} exactly what the full policy earns, {r.full_value:.6g}."]
    else:
        parts = [
            f"{n} {r.value:.6g} by the objective: {abs(r.loss):.3g} "
            f"{'less' if r.loss > 0 else 'more'} than the full policy ({r.full_value:.6g}). Both "
            "figures are exact on the sampled models."
        ]
    if promised and not r.same:
        parts.append("The promise is the full policy's, not that of these rules.")
    if r.met is False:
        parts.append(
            f"That is more than the {r.max_loss:g} that was asked: of all rules that were tried, "
            f"up to {max(n for n, _ in r.steps)}, these lose least."
        )
    return " ".join(parts)


# -- rehearsals --------------------------------------------------------------------------------


def rehearsal_sentences(r: Rehearsal | ForeignRehearsal) -> list[str]:
    """What the repetitions say, one sentence a line."""
    failed = f" ({r.failed} failed)" if r.failed else ""
    if isinstance(r, ForeignRehearsal):
        head = f"The promise in {count(r.total.n, 'known world')}{failed}: {r.verdict}."
        told = _came_true(r.total)
        return [head, f"{told[0].upper()}{told[1:]}."]
    lines = [f"{r.times} rehearsals in worlds drawn from the {r.world}{failed}."]
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


KIND_NAMES = TEXTS["worlds"]
RULE = TEXTS["rehearsal"]["rule"].format(
    fewest=FEWEST, kept=100 * KEPT, worse=100 * WORSE, oversaid=100 * OVERSAID
)
KIND_HEAD = ("worlds", "number", "limit held", "better: said → true", "gain: said → true",
             "verdict")  # fmt: skip


def rehearsal_table(r: ForeignRehearsal) -> list[tuple[str, ...]]:
    """What was said and what came true in each kind of worlds, under `KIND_HEAD`."""
    return [
        (
            KIND_NAMES[k.kind], f"{k.n}", "–" if k.kept is None else _share(k.kept[0]),
            f"{_share(k.chance)} → {_share(k.better[0])}",
            f"{k.gain_said:.3g} → {k.gain_true:.3g}", str(k.verdict),
        )
        for k in r.kinds
    ]  # fmt: skip


def _came_true(k: KindFound) -> str:
    kept = "nothing was promised"
    if k.kept is not None:
        share, low, high = k.kept
        span = between(100 * low, 100 * high, ".0f")
        kept = f"the limit promised with {100 * LEVEL:g} % held in {_share(share)} {span} of them"
    return (
        f"{kept}; the policy was better than practice in {_share(k.better[0])} (said: "
        f"{_share(k.chance)}) and worse in {_share(k.worse[0])}"
    )


def rehearsal_line(r: Rehearsal | ForeignRehearsal) -> str:
    """The same in a sentence, to stand beside the promise."""
    if isinstance(r, ForeignRehearsal):
        own = sum(k.n for k in r.kinds if k.kind == "posterior")
        where = f"In {count(r.total.n, 'known world')}, {r.total.n - own} of them unlike the models"
        return f"{where}, {_came_true(r.total)}."
    level, (share, low, high) = next(iter(r.coverage.items()))
    return (
        f"In {count(r.times, 'world')} drawn from the {r.world}, a bound claimed with "
        f"{100 * level:g} % held in {_share(share)} {between(100 * low, 100 * high, '.0f')}."
    )


def _held(level: float, share: float, low: float, high: float) -> str:
    if high - low > WIDE:
        return "too few rehearsals to tell"
    if low <= level <= high:
        return "as often as it says"
    return "more often than it says" if share > level else "LESS often than it says"


# -- held-out data -----------------------------------------------------------------------------


def validation_line(v: Validation) -> str:
    """The same in a sentence."""
    if v.gain is None or v.chance is None:
        return validation_sentences(v)[0]
    value, low, high = v.gain
    return (
        f"Rows that were held out say: {value:.4g} {between(low, high)} more than practice "
        f"({100 * LEVEL:g} % interval), better with a probability of {100 * v.chance:.3g} %."
    )


def validation_sentences(v: Validation) -> list[str]:
    """What held-out data say, which held-out models cannot."""
    unit = v.unit if v.unit == "episodes" else "blocks of rows"
    if v.unit != v.asked:
        unit += " (the log has too few episodes)"
    if v.why == "too_small":
        return [
            f"No data were held out: {v.n_chosen + v.n_judged} {unit} of this log are too few to "
            "choose on some and to judge on others."
        ]
    head = (
        f"Held-out data (not held-out models): chosen again on {v.n_chosen} {unit} and judged on "
        f"{v.n_judged} others alone."
    )
    last = "The recommendation itself uses all data."
    if v.gain is None or v.chance is None:
        return [f"{head} That choice was current practice: there was no change to judge. {last}"]
    value, low, high = v.gain
    promised = "" if v.said is None else f"; {v.said:.4g} was promised without them"
    lines = [
        f"{head} By their posterior it earns {value:.4g} {between(low, high)} more than practice "
        f"({100 * LEVEL:g} % interval), and more at all with a probability of "
        f"{100 * v.chance:.3g} %{promised}."
    ]
    if v.estimate is None:
        return [*lines, f"No off-policy estimate on them can tell. {last}"]
    e = v.estimate
    span = "" if e["low"] is None else f" {between(e['low'], e['high'])}"
    return [
        *lines,
        f"Off-policy estimate on them ({e['name']}, effective sample size "
        f"{e['effective_size']:.0f} of {e['size']:,}): {e['value']:.4g}{span}, against "
        f"{e['practice']:.4g} of practice. {last}",
    ]


# -- checks ------------------------------------------------------------------------------------

CHECK_NAMES, CHECK_GLOSS = TEXTS["check_names"], TEXTS["check_gloss"]
CHECK_RULES = {
    code: rule.format(
        much=100 * MUCH, replayed=FEWEST_REPLAYED, size=LEAST_SIZE, share=100 * LEAST_SHARE,
        tail=100 * MODEL_TAIL, weak=WEAK,
    )
    for code, rule in TEXTS["check_rules"].items()
}  # fmt: skip
NAMED = {Verdict.CAUTION: "to be careful about"}


def check_name(check: Check) -> str:
    """What was asked, in a few words."""
    return str(check.facts["name"]) if check.code == RECORDED else CHECK_NAMES[check.code]


def checks_line(checks: Iterable[Check]) -> str:
    """What all of them come to."""
    found = Counter(check.verdict for check in checks)
    told = ", ".join(f"{found[v]} {NAMED.get(v, v)}" for v in Verdict if found[v])
    return f"In all: {told}. When a verdict is given: --details."


def check_rule(check: Check) -> str:
    """When the verdict is "fine"."""
    return CHECK_RULES.get(check.code, "")


def check_sentence(check: Check, *, brief: bool = False) -> str:
    """The finding in plain words, with its figures and, unless `brief`, what it does not cover."""
    why = check.facts.get("why") if check.verdict is Verdict.CANNOT_TELL else None
    if why is not None and not (brief and _REASONS[why] is _off_policy):
        return _REASONS[why](check.facts)
    return (_FINDINGS | (_BRIEF if brief else {}))[check.code](check.facts)


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


def _estimates(f: Facts) -> str:
    told = "; ".join(f"{e['name']} {_estimated(e)}" for e in f["estimates"])
    text = (
        f"Learned on half of the episodes and estimated on the others: {told}. The posterior "
        f"predicted {between(*f['predicted'])}."
    )
    return text + (f" Apart from the prediction: {', '.join(f['apart'])}." if f["apart"] else "")


def _off_policy(f: Facts) -> str:
    text = _estimates(f)
    if f["tail"] > 0:
        text += (
            f" Beyond the last observed step the model's own value stands in: "
            f"{100 * f['tail']:.0f} % of the discounted future for WIS and PDIS."
        )
    if f.get("why") == "mostly_model":
        return f"{text} So much of it is the model's that agreement says little."
    return text


def _estimated(e: Facts) -> str:
    if not e["can_tell"]:
        of = f" of {e['size']:,}" if "size" in e else ""  # an older version did not say
        return f"cannot tell (effective sample size {e['effective_size']:.1f}{of})"
    span = "" if e["low"] is None else f" {between(e['low'], e['high'])}"
    return f"{e['value']:.4g}{span} (effective sample size {e['effective_size']:.0f})"


def _rare(f: Facts) -> str:
    text = (
        f"{100 * f['share']:.1f} % of its decisions were seen fewer than {f['fewer_than']} times "
        "in their state"
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
    several = len({row["alpha"] for row in rows}) > 1
    alphas = ", α from 0.5 to 0.95" if several else ""
    return (
        f"Of {len(rows)} goals (λ from 0 to 1{alphas}), {same} "
        f"{'keeps' if same == 1 else 'keep'} at least 99 % of the actions taken; the most "
        f"different one (λ = {worst['lam']:g}, α = {worst['alpha']:g}) changes "
        f"{_share(worst['states'])} of states and {_share(worst['visits'])} of visits."
    )


def _alternatives(f: Facts) -> str:
    parts = []
    for row in f["alternatives"]:
        what = row.get("draw", f"a prior {row.get('factor', 1):g} times as strong")
        states, visits = _share(row["states"]), _share(row["visits"])
        text = f"{what} changes {states} of states ({visits} of visits)"
        if "gain" in row:
            word = "gains" if row["gain"] >= 0 else "loses"
            text += f" and {word} {abs(row['gain']):.3g} by the objective on held-out models"
        if row.get("verdict"):
            text += f" ({TEXTS['other_verdict'][row['verdict']]})"
        parts.append(text)
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else f"{100 * share:.2g} %"


def _tipping(f: Facts) -> str:
    if f["tipping"] == 1.0:
        return "Even without hidden confounding the policy is no better than current practice."
    if f["tipping"] is None:
        return f"Not even a factor of {MOST:g} on the odds would overturn the choice."
    return (
        "The choice would be overturned only if something that the log does not show had changed "
        f"the odds of actions by a factor of {f['tipping']:.3g} or more."
    )


def _confounding(f: Facts) -> str:
    return (
        f"{_tipping(f)[:-1]} (marginal sensitivity model in the mean model). Not covered: hidden "
        "causes that last from step to step, mismeasured states or rewards, practice that changed."
    )


def _replayed(f: Facts) -> str:
    return (
        f"The episodes of the log earned {f['observed']:.4g} on average, "
        f"{'inside' if f['fits'] else 'outside'} the range {between(f['low'], f['high'])} that the "
        "models predict for current practice."
    )


def _estimated_briefly(f: Facts) -> str:
    told = []
    for e in f["estimates"]:
        span = "" if e["low"] is None else f" {between(e['low'], e['high'])}"
        told += [f"{e['name']} {e['value']:.4g}{span}"] if e["can_tell"] else []
    if not told:
        return "The log shows too little of what this policy does for any estimate to tell."
    predicted = between(*f["predicted"])
    return f"Estimated from what was done: {'; '.join(told)}. The models predict {predicted}."


def _most_different(f: Facts) -> str:
    row = max(f["alternatives"], key=lambda row: (bool(row.get("verdict")), row["visits"]))
    return _alternatives({"alternatives": [{k: v for k, v in row.items() if k != "gain"}]})


def _most_different_goal(f: Facts) -> str:
    worst = max(f["grid"], key=lambda row: row["visits"])
    return (
        f"The goal that differs most (λ = {worst['lam']:g}, α = {worst['alpha']:g}) changes "
        f"{_share(worst['states'])} of states ({_share(worst['visits'])} of visits)."
    )


BESIDE = ("off_policy", "confounding")  # they look beyond the posterior
_BRIEF: dict[str, Callable[[Facts], str]] = {
    "replay": _replayed,
    "off_policy": _estimated_briefly,
    "prior_strength": _most_different,
    "goal": _most_different_goal,
    "draws": _most_different,
    "confounding": _tipping,
}
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
    **{why: partial(filled, text) for why, text in TEXTS["check_reasons"].items()},
    "half_too_little": lambda f: f"Half of the log is too little to learn from: {_recorded(f)}",
    "mostly_model": _off_policy,
    "too_uncertain": _off_policy,
    "refused": _recorded,
}


# -- policies side by side -----------------------------------------------------------------------


def side_by_side(found: Facts) -> tuple[list[str], list[list[str]], list[str]]:
    """Head and rows of a comparison (`run.evaluate.compare_runs`), and what its columns mean."""
    goal = objective_of(found)
    head = ["policy", "objective", "mean", "bad case", "open", "held-out\nobjective",
            "held-out\nbad case", "same\naction"]  # fmt: skip
    lines = [
        _ahead(found["policies"], goal),
        *filter(None, [measured(goal)]),
        f"The bad case is {goal.words}; γ = {found['gamma']:g}, λ = {goal.lam:g}.",
        "open: what no proof excludes, as a share of what is to be gained over acting at random.",
        "same action: as the first policy, by the time that it spends there.",
        *in_words(found["notes"]),
    ]
    return head, [_side(row) for row in found["policies"]], [line for line in lines if line]


def _ahead(policies: Iterable[Facts], goal: Objective) -> str:
    """What the first earns more or less than the next of the runs, practice or whoever it is."""
    first, *others = policies
    known = [p for p in others if p["name"] not in ("nominal", PRACTICE)] or others
    if not known:
        return ""
    mean, bad = (first["static"][k] - known[0]["static"][k] for k in ("mean", "cvar"))
    if max(abs(mean), abs(bad)) <= 1e-9 * max(abs(first["static"]["mean"]), 1e-300):
        return f"{first['name']} and {known[0]['name']} earn the same."
    told = [f"{abs(x):.4g} {'more' if x >= 0 else 'less'}" for x in (mean, bad)]
    return (
        f"{first['name']} earns {told[0]} on average than {known[0]['name']}, {told[1]} in "
        f"{bad_case(goal)}, on the models of the first run."
    )


def _side(row: Facts) -> list[str]:
    share, held, static = row["gap_share"], row["heldout"], row["static"]
    left = "unknown share" if share is None else f"{100 * share:.2g} %"
    return [
        row["name"],
        *(f"{static[name]:.6g}" for name in ("objective", "mean", "cvar")),
        "–" if row["bound"] is None else "nothing" if row["nothing_better"] else left,
        *("–" if held is None else _interval(held[name]) for name in ("objective", "cvar")),
        f"{100 * row['same_action_visits']:.3g} %",
    ]


def _interval(e: Mapping[str, float]) -> str:
    if e["low"] is None or e["high"] is None:
        return f"{e['value']:.5g}"
    return f"{e['value']:.5g} [{e['low']:.5g}, {e['high']:.5g}]"
