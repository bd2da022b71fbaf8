"""Answers of the studies in words: explanations, rules, checks, rehearsals."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from softrobust._core.notes import RECORDED
from softrobust.certificate import PRACTICE
from softrobust.certificate.record import objective_of
from softrobust.objective import Objective
from softrobust.report.sentences import TEXTS, in_words, phrase, told
from softrobust.report.words import bad_case, measured, two_digits
from softrobust.solvers.promise import LEVEL
from softrobust.study.checks import FEWEST_REPLAYED, MODEL_TAIL, MUCH, WEAK, Check, Verdict
from softrobust.study.confounding import MOST
from softrobust.study.explain import Explanation, Option
from softrobust.study.foreign import FEWEST, KEPT, OVERSAID, WORSE, ForeignRehearsal, KindFound
from softrobust.study.off_policy import LEAST_SHARE, LEAST_SIZE
from softrobust.study.rehearsal import WIDE, Rehearsal
from softrobust.study.rules import Rules
from softrobust.study.validation import Validation

Facts = Mapping[str, Any]
MOST_INSTEAD = 3  # other actions that have a sentence of their own, the best of them


# -- why this action here ----------------------------------------------------------------------


def explanation_sentences(e: Explanation) -> list[str]:
    """Why the policy does what it does in a state, one sentence a line."""
    mixture = " or ".join(f"'{name}' ({two_digits(p)})" for name, p in e.mix.items())
    taken = mixture if e.action is None else f"'{e.action}'"
    words, others = bad_case(e.objective), [o for o in e.options if o.action != e.action]
    lines = [phrase("explain.takes", e=e, taken=taken, kept=e.is_practice and e.action is None)]
    lines += [_instead(e, o) for o in others[:MOST_INSTEAD]] or [phrase("explain.only")]
    if e.shifts:
        moves = "; ".join(
            f"'{x.next_state}' {100 * x.mean:.0f} % → {100 * x.worst:.0f} %" for x in e.shifts
        )
        this = "this" if e.action is None else taken
        lines.append(phrase("explain.worst", words=words, this=this, moves=moves))
    mean, bad = e.price["mean"], e.price["cvar"]
    same = abs(mean) + abs(bad) <= 1e-9 * max(abs(e.value), 1e-300)
    price = phrase("explain.same" if same else "explain.price", mean=mean, bad=bad, words=words)
    return [*lines, price]


def _instead(e: Explanation, o: Option) -> str:
    """Another action, or one of several alone: always, and once, which may point elsewhere."""
    change, mean, bad = o.objective - e.value, o.q_mean - e.q_mean, o.q_worst - e.q_worst
    return phrase(
        "explain.instead", o=o, gains=change > 0, size=abs(change), mean=o.mean - e.mean,
        bad=o.cvar - e.cvar, words=bad_case(e.objective), once_mean=mean, once_bad=bad,
        turns=change * mean < 0 and change * bad < 0, known=o.seen is not None,
    )  # fmt: skip


def rules_sentence(r: Rules, promised: bool = False) -> str:
    """The price of simplicity, and whose the promise is where the policy has one."""
    same = abs(r.loss) <= 1e-9 * max(abs(r.full_value), 1e-300)
    parts = [phrase(f"rules.{'same' if same else 'price'}", r=r, size=abs(r.loss), less=r.loss > 0)]
    if promised and not r.same:
        parts.append(phrase("rules.promise"))
    if r.met is False:
        parts.append(phrase("rules.missed", r=r, most=max(n for n, _ in r.steps)))
    return " ".join(parts)


# -- rehearsals --------------------------------------------------------------------------------


def rehearsal_sentences(r: Rehearsal | ForeignRehearsal) -> list[str]:
    """What the repetitions say, one sentence a line."""
    failed = f" ({r.failed} failed)" if r.failed else ""
    if isinstance(r, ForeignRehearsal):
        came = _came_true(r.total)
        return [phrase("rehearsed.foreign", r=r, failed=failed), f"{came[0].upper()}{came[1:]}."]
    lines = [phrase("rehearsed.own", r=r, failed=failed)]
    for level, (share, low, high) in sorted(r.coverage.items()):
        held = _held(level, share, low, high)
        about = {"level": level, "share": share, "low": 100 * low, "high": 100 * high}
        lines.append(phrase("rehearsed.bound", **about, held=held))
    for rival, (mean, low, high, share) in r.gains.items():
        about = {"mean": mean, "low": low, "high": high, "share": share}
        lines.append(phrase("rehearsed.gain", rival=rival, **about))
    return [*lines, phrase("rehearsed.regret", r=r)]


KIND_NAMES = TEXTS["worlds"]
RULE = TEXTS["rehearsal"]["rule"].format(
    fewest=FEWEST, kept=100 * KEPT, worse=100 * WORSE, oversaid=100 * OVERSAID
)
KIND_HEAD = ("worlds", "number", "limit held", "better: said → true", "gain: said → true",
             "verdict")  # fmt: skip


def rehearsal_table(r: ForeignRehearsal) -> list[tuple[str, ...]]:
    """What was said and what came true in each kind of worlds, under `KIND_HEAD`."""
    cells = ("{k.chance:share} → {k.better[0]:share}", "{k.gain_said:.3g} → {k.gain_true:.3g}")
    return [
        (
            KIND_NAMES[k.kind], f"{k.n}",
            "–" if k.kept is None else told("{k.kept[0]:share}", {"k": k}),
            *(told(cell, {"k": k}) for cell in cells), str(k.verdict),
        )
        for k in r.kinds
    ]  # fmt: skip


def _came_true(k: KindFound) -> str:
    share, low, high = k.kept or (0.0, 0.0, 0.0)
    about = {"share": share, "low": 100 * low, "high": 100 * high}
    return phrase("rehearsed.came_true", k=k, level=LEVEL, **about)


def rehearsal_line(r: Rehearsal | ForeignRehearsal) -> str:
    """The same in a sentence, to stand beside the promise."""
    if isinstance(r, ForeignRehearsal):
        unlike = r.total.n - sum(k.n for k in r.kinds if k.kind == "posterior")
        came = _came_true(r.total)
        return phrase("rehearsed.foreign_line", r=r, unlike=unlike, came_true=came)
    level, (share, low, high) = next(iter(r.coverage.items()))
    about = {"level": level, "share": share, "low": 100 * low, "high": 100 * high}
    return phrase("rehearsed.line", r=r, **about)


def _held(level: float, share: float, low: float, high: float) -> str:
    if high - low > WIDE:
        return "too few rehearsals to tell"
    if low <= level <= high:
        return "as often as it says"
    return "more often than it says" if share > level else "LESS often than it says"


# -- held-out data -----------------------------------------------------------------------------


def validation_line(v: Validation) -> str:
    """The same in a sentence."""
    judged = v.gain is not None and v.chance is not None
    return phrase("validation.line", v=v, level=LEVEL) if judged else validation_sentences(v)[0]


def validation_sentences(v: Validation) -> list[str]:
    """What held-out data say, which held-out models cannot."""
    unit = v.unit if v.unit == "episodes" else "blocks of rows"
    unit += "" if v.unit == v.asked else " (the log has too few episodes)"
    if v.why == "too_small":
        return [phrase("validation.too_small", n=v.n_chosen + v.n_judged, unit=unit)]
    head, last = phrase("validation.head", v=v, unit=unit), phrase("validation.last")
    if v.gain is None or v.chance is None:
        return [f"{head}{phrase('validation.practice')}{last}"]
    known = "none" if v.estimate is None else "estimate"
    estimate = phrase(f"validation.{known}", e=v.estimate)
    return [f"{head}{phrase('validation.judged', v=v, level=LEVEL)}", f"{estimate}{last}"]


# -- checks ------------------------------------------------------------------------------------

CHECK_NAMES: dict[str, str] = TEXTS["check_names"]
CHECK_GLOSS: dict[str, str] = TEXTS["check_gloss"]
CHECK_RULES: dict[str, str] = {
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


def _plain(key: str) -> Callable[[Facts], str]:
    return partial(told, TEXTS["checks"][key])


def _off_policy(f: Facts) -> str:
    each = "; ".join(f"{e['name']} {phrase('checks.estimated', **e)}" for e in f["estimates"])
    model = f.get("why") == "mostly_model"
    more = {"told": each, "names": ", ".join(f["apart"]), "mostly_model": model}
    return phrase("checks.off_policy", **{**f, **more})


def _goal(f: Facts) -> str:
    rows = f["grid"]
    return phrase(
        "checks.goal", grid=rows, same=sum(row["visits"] < 0.01 for row in rows),
        worst=max(rows, key=_visits), several=len({row["alpha"] for row in rows}) > 1,
    )  # fmt: skip


def _visits(row: Facts) -> float:
    return float(row["visits"])


def _alternatives(f: Facts) -> str:
    text = "; ".join(
        phrase(
            "checks.alternative",
            **{"draw": "", "factor": 1, "gain": None, "verdict": "", **row},
            gains=row.get("gain", 0) >= 0,
            size=abs(row.get("gain", 0)),
        )
        for row in f["alternatives"]
    )
    return f"{text[0].upper()}{text[1:]}."


def _tipping(f: Facts) -> str:
    return phrase("checks.tipping", tipping=f["tipping"], most=MOST)


def _agreed(f: Facts) -> str:
    each = [
        f"{e['name']} {e['value']:.4g}"
        + ("" if e["low"] is None else f" [{e['low']:.4g},\u00a0{e['high']:.4g}]")
        for e in f["estimates"]
        if e["can_tell"]
    ]
    told = "; ".join(each)
    return phrase("checks.agreed" if each else "checks.untold", told=told, predicted=f["predicted"])


def _most_different(f: Facts) -> str:
    row = max(f["alternatives"], key=lambda row: (bool(row.get("verdict")), row["visits"]))
    return _alternatives({"alternatives": [{k: v for k, v in row.items() if k != "gain"}]})


BESIDE = ("off_policy", "confounding")  # they look beyond the posterior
_BRIEF: dict[str, Callable[[Facts], str]] = {
    "replay": _plain("replayed"),
    "off_policy": _agreed,
    "prior_strength": _most_different,
    "goal": lambda f: phrase("checks.other_goal", **max(f["grid"], key=_visits)),
    "draws": _most_different,
    "confounding": lambda f: f"{_tipping(f)}.",
}
_FINDINGS: dict[str, Callable[[Facts], str]] = {
    RECORDED: _plain("recorded"),
    "replay": _plain("replay"),
    "off_policy": _off_policy,
    "rare_pairs": _plain("rare_pairs"),
    "prior_strength": _alternatives,
    "goal": _goal,
    "draws": _alternatives,
    "confounding": lambda f: f"{_tipping(f)}{phrase('checks.confounding')}",
}
_REASONS: dict[str, Callable[[Facts], str]] = {
    **{why: partial(told, text) for why, text in TEXTS["check_reasons"].items()},
    "half_too_little": lambda f: f"{phrase('checks.half_too_little')}{_FINDINGS[RECORDED](f)}",
    "mostly_model": _off_policy,
    "too_uncertain": _off_policy,
    "refused": _plain("recorded"),
}


# -- policies side by side -----------------------------------------------------------------------


def side_by_side(found: Facts) -> tuple[list[str], list[list[str]], list[str]]:
    """Head and rows of a comparison (`run.evaluate.compare_runs`), and what its columns mean."""
    goal = objective_of(found)
    case = phrase("compared.case", goal=goal, gamma=found["gamma"])
    # Around 0, as regrets are, what arithmetic left is told as 0.
    least = 1e-9 * max(abs(x) for row in found["policies"] for x in row["static"].values())
    lines = [_ahead(found["policies"], goal, least), measured(goal), case, phrase("compared.open"),
             phrase("compared.action"), *in_words(found["notes"])]  # fmt: skip
    rows = [_side(row, least) for row in found["policies"]]
    return list(TEXTS["compared"]["head"]), rows, [line for line in lines if line]


def _ahead(policies: Iterable[Facts], goal: Objective, least: float) -> str:
    """What the first earns more or less than the next of the runs, practice or whoever it is."""
    first, *others = policies
    known = [p for p in others if p["name"] not in ("nominal", PRACTICE)] or others
    if not known:
        return ""
    mean, bad = (first["static"][k] - known[0]["static"][k] for k in ("mean", "cvar"))
    same = max(abs(mean), abs(bad)) <= least
    return phrase(
        "compared.same" if same else "compared.ahead", first=first["name"], next=known[0]["name"],
        mean=abs(mean), bad=abs(bad), more=mean >= 0, better=bad >= 0, words=bad_case(goal),
    )  # fmt: skip


def _side(row: Facts, least: float) -> list[str]:
    share, held, static = row["gap_share"], row["heldout"], row["static"]
    left = "unknown share" if share is None else two_digits(share)
    return [
        row["name"],
        *(_told(static[name], least, 6) for name in ("objective", "mean", "cvar")),
        "–" if row["bound"] is None else "nothing" if row["nothing_better"] else left,
        *("–" if held is None else _interval(held[name], least) for name in ("objective", "cvar")),
        f"{100 * row['same_action_visits']:.3g} %",
    ]


def _told(x: float, least: float, digits: int) -> str:
    return f"{0.0 if abs(x) <= least else x:.{digits}g}"


def _interval(e: Mapping[str, float], least: float) -> str:
    known = [_told(e[name], least, 5) for name in ("value", "low", "high") if e[name] is not None]
    return f"{known[0]} [{known[1]}, {known[2]}]" if len(known) == 3 else known[0]
