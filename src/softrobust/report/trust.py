"""Sections: what data would help, and can it be trusted (draws of the posterior, and checks)."""

from typing import Any

import numpy as np

from softrobust._core.notes import Note
from softrobust.posterior import Diagnostics
from softrobust.report.pictures import picture_rehearsal
from softrobust.report.sentences import TEXTS, in_words, phrase, sentence
from softrobust.report.study_words import (
    BESIDE,
    CHECK_GLOSS,
    check_name,
    check_rule,
    check_sentence,
    rehearsal_line,
    validation_sentences,
)
from softrobust.report.svg import Scale, dot, line, picture
from softrobust.study.checks import Check, Verdict
from softrobust.study.foreign import ForeignRehearsal
from softrobust.study.rehearsal import Rehearsal
from softrobust.study.review import Review
from softrobust.study.value_of_data import DataValue

MARKS = {"fine": "✓", "caution": "⚠", "cannot tell": "?"}
SHOWN_PARAMETERS = 12


def trust(found: Review, suppress: bool, ask_for_checks: bool) -> dict[str, Any] | None:
    """The section; None where nothing is known and nothing can be asked for."""
    d, again = found.diagnostics, found.rehearsal
    if d is None and found.checks is None and again is None and not ask_for_checks:
        return None
    checks = [_check(check, suppress) for check in found.checks or ()]
    # A parameter that never moved has no R-hat.
    known = {} if d is None else d.parameters
    worst = sorted(known.items(), key=lambda item: -np.nan_to_num(item[1].rhat))
    return {
        "draws": [] if d is None else _draws(d, suppress),
        "parameters": worst[:SHOWN_PARAMETERS],
        "checks": checks,
        "worlds": picture_rehearsal(again) if isinstance(again, ForeignRehearsal) else "",
        "missing": "" if checks or not ask_for_checks else TEXTS["page"]["no_checks"],
    }


def beside(found: Review, suppress: bool) -> list[dict[str, str]]:
    """What was looked into beyond the posterior, one line each, to stand beside the promise."""
    lines = []
    if found.validation is not None:
        told = " ".join(validation_sentences(found.validation))
        lines.append(_line("held-out data", found.validation.verdict, told))
    if found.rehearsal is not None:
        lines.append(rehearsal_lines(found.rehearsal))
    for check in found.checks or ():
        if check.code in BESIDE:
            lines.append(check_lines(check, suppress)[-1])
    return lines


def rehearsal_lines(found: Rehearsal | ForeignRehearsal) -> dict[str, str]:
    """A rehearsal beside the promise."""
    return _line("rehearsal", found.verdict, rehearsal_line(found))


def check_lines(check: Check, suppress: bool = False) -> list[dict[str, str]]:
    """A check in its section, and beside the promise where it belongs there."""
    shown = check.without_small_counts() if suppress else check
    lines = [_check(check, suppress)]
    if check.code in BESIDE:
        told = check_sentence(shown, brief=True)
        lines.append(_line(check_name(check), check.verdict, told))
    return lines


def _line(name: str, verdict: Verdict, told: str, gloss: str = "") -> dict[str, str]:
    style = verdict.split()[0]
    return {"name": name, "verdict": str(verdict), "mark": MARKS[verdict], "style": style,
            "sentence": told, "gloss": gloss}  # fmt: skip


def _check(check: Check, suppress: bool) -> dict[str, str]:
    shown = check.without_small_counts() if suppress else check
    gloss = " ".join(filter(None, [check_rule(check), CHECK_GLOSS.get(check.code, "")]))
    return _line(check_name(check), check.verdict, check_sentence(shown), gloss)


def _draws(d: Diagnostics, suppress: bool) -> list[str]:
    lines = [phrase("trust.exact" if d.exact else "trust.sampler", d=d)]
    seen = ((name, p) for name, p in d.predictive.items() if name not in d.missed)
    lines += [phrase("trust.reproduced", name=name, p=p) for name, p in seen]
    return [*lines, *in_words(d.problems, suppress)]


# -- section: what data would help. Pairs ranked by the value of more observations -------------

TOP = 12
THIN = 20.0  # effective models after the data below which a value is rough
WIDTH, HEIGHT = 150.0, 16.0


def more_data(found: Review) -> dict[str, Any] | None:
    """The section; None where nothing was asked for."""
    data = found.data
    if data is None:
        return None
    if isinstance(data, Note):
        return {"reason": sentence(data)}
    worth = [v for v in data.values if v.value > 0 and v.high > 0]
    if not worth:
        return {"reason": phrase("trust.no_data", n=data.observations)}
    top = worth[:TOP]
    reach = max(v.high for v in top)
    more = {"more_pairs": len(worth) - len(top), "thin": sum(v.effective_size < THIN for v in top)}
    return {
        "reason": "",
        "lead": phrase("trust.data", n=data.observations),
        "rows": [(v, _bar(v, reach)) for v in top],
        "own": found.chosen.policy.decision.tolist(),
        "more": " ".join(phrase(f"trust.{name}", n=n) for name, n in more.items() if n),
    }


def _bar(v: DataValue, reach: float) -> str:
    x = Scale(0.0, reach, 4.0, WIDTH - 4.0)
    middle = HEIGHT / 2
    parts = [
        line(x.start, 1, x.start, HEIGHT - 1, "axis"),
        line(x(v.low), middle, x(v.high), middle, "span"),
        dot(x(v.value), middle, 3.6, "own"),
    ]
    return picture(WIDTH, HEIGHT, parts, "bar", f"{v.value:.3g}, from {v.low:.3g} to {v.high:.3g}")
