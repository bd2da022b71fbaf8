"""The page: what was found, put in the order in which a reader decides.

Each section is one entry of the context and one block of `template.html.j2`; a new section is a new
pair of the two. The template escapes everything that is not a picture of our own. The page carries
one style sheet and one script, both inline; its content policy lets nothing else run and forbids
any request. Without scripts it reads the same, less sorting, sifting and reading off.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from softrobust._core.files import atomic_write
from softrobust.certificate import certify
from softrobust.errors import InputError
from softrobust.report import policy as tables
from softrobust.report import sections, words
from softrobust.report.caution import caution
from softrobust.report.compare import Compared, compare
from softrobust.report.counts import Seen, said
from softrobust.report.plots import MARGIN
from softrobust.report.policy import policy_map, rule_list, rules_within
from softrobust.report.trust import DataFound, misfits, more_data, trust
from softrobust.report.verdict import under_posterior
from softrobust.report.why import why
from softrobust.report.words import evaluation_seconds
from softrobust.solvers.baselines.behaviour import behaviour_policy

if TYPE_CHECKING:
    from markupsafe import Markup

    from softrobust.certificate import Certificate
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.posterior import Diagnostics, FittedPosterior
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solution
    from softrobust.study.frontier import Frontier

SECONDS = 2.0  # for explanations and rules, as `effort` estimates them
CONTENTS = (
    ("asked", "What was asked"),
    ("returns", "How good, how bad"),
    ("caution", "What caution costs"),
    ("policy", "What to do"),
    ("why", "Why"),
    ("data", "What data would help"),
    ("certificate", "What can be promised"),
    ("trust", "Can it be trusted"),
    ("rerun", "To rerun it"),
)


@final
@dataclass(frozen=True, slots=True)
class Report:
    """One self-contained HTML page."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page, atomically, and return where."""
        with atomic_write(path) as file:
            file.write(self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame, so that its style stays its own."""
        from markupsafe import escape

        return (
            '<iframe style="width:100%;height:40em;border:0" sandbox="allow-scripts" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Report({len(self.html):,} characters of HTML; save it with .save('report.html'))"


def make_report(
    problem: Problem,
    solutions: Sequence[Solution] | Solution,
    heldout: ModelSet | None = None,
    log: TransitionLog | None = None,
    posterior: FittedPosterior | None = None,
    certificate: Certificate | None = None,
    notes: Sequence[str] = (),
    title: str | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    cautions: Sequence[str] = (),
    frontier: Frontier | str | None = None,
    data: DataFound | str | None = None,
    diagnostics: Diagnostics | None = None,
    checks: Sequence[Mapping[str, Any]] | None = None,
    ask_for_checks: bool = False,
    policy_csv: str | None = None,
    suppress_small: bool = False,
    seconds: float = SECONDS,
    hint: str = "",
) -> Report:
    """Write what was found as one HTML page.

    Parameters
    ----------
    problem : Problem
    solutions : sequence of Solution
        The first is the chosen one, the others are compared with it. The nominal policy is
        computed if no solution is named "nominal", current practice if there is a log.
    heldout : ModelSet, optional
        Models that the policies were not chosen on.
    log : TransitionLog, optional
        Gives how often each action was seen, and what was assumed on reading.
    posterior : FittedPosterior, optional
        Gives how much of each pair's posterior is prior.
    certificate : Certificate, optional
        Of the chosen policy; made here if not given.
    notes : sequence of str
        Further sentences on what was assumed.
    cautions : sequence of str
        What a reader must know before believing the first sentence; they stand right under it,
        and so do problems that `diagnostics` report.
    title : str, optional
    settings : mapping, optional
        What else is needed to rerun it: seed, number of draws, the command. Paths are shortened
        to their last part.
    frontier : Frontier or str, optional
        Mean against CVaR, for the problem's α; a sentence says why there is none.
    data : DataFound or str, optional
        What more observations would be worth; a sentence says why that is not known.
    diagnostics : Diagnostics, optional
        Of the posterior's draws.
    checks : sequence of mappings, optional
        As `checks.json` lists them: name, verdict, sentence.
    ask_for_checks : bool
        Whether to say that checks can be run, where there are none.
    policy_csv : str, optional
        Where the table links to if it has to leave states out.
    suppress_small : bool
        Show counts below five as "<5", and nothing that they follow from.
    seconds : float
        For explanations of single states and for rules, told from sizes: the same page on every
        machine.
    hint : str
        A sentence at the end: how to get a fuller page.
    """
    log = getattr(posterior, "log", None) if log is None else log
    _check_log(problem, log)
    compared = compare(problem, solutions, heldout, log)
    if certificate is None:
        certificate = _certified(problem, compared, heldout, log)
    _check_certificate(certificate, compared[0])
    number = words.Figures.of([c.train for c in compared])
    seen = Seen.of(log, suppress_small)
    time = tables.time_share(problem, compared[0].policy)
    reasons = why(problem, compared, log, seen, number, time, seconds)
    warned = [*cautions, *(() if diagnostics is None else misfits(diagnostics))]
    warned = [said(caution, suppress_small) for caution in dict.fromkeys(warned)]
    context: dict[str, Any] = {
        "title": title or "Which policy, and how sure",
        "words": problem.objective.words,
        "margin": MARGIN,
        "suppressed": suppress_small,
        "hint": hint,
        "csv": policy_csv,
        "answer": sections.answer(problem, compared, certificate, number, warned),
        "asked": sections.asked(problem, compared[0], heldout, log, settings, suppress_small),
        "notes": sections.notes(problem, compared, log, notes, suppress_small),
        "returns": sections.returns(problem, compared, heldout, number),
        "caution": caution(problem, compared, frontier, number),
        "table": tables.policy_table(problem, compared, seen, posterior, time),
        "map": _map(problem, compared, seen),
        "rules": _rules(problem, compared[0], seconds),
        "why": reasons,
        "explained": {state.key for state in reasons.states},
        "data": more_data(problem, compared[0].policy.decision.tolist(), data, seen, number),
        "certificate": sections.promises(certificate),
        "under_posterior": under_posterior(certificate, number),
        "trust": trust(diagnostics, checks, suppress_small, ask_for_checks),
        "rerun": sections.rerun(problem, compared[0], log, posterior, settings, suppress_small),
    }
    context["contents"] = [(key, name) for key, name in CONTENTS if key == "policy" or context[key]]
    return Report(render("template.html.j2", context))


def _certified(
    problem: Problem,
    compared: Sequence[Compared],
    heldout: ModelSet | None,
    log: TransitionLog | None,
) -> Certificate:
    bounds = [c.solution.bound for c in compared if c.solution.bound is not None]
    practice = None if log is None else behaviour_policy(problem, log)[0]
    return certify(problem, compared[0].policy, heldout, bounds, practice=practice)


def _map(problem: Problem, compared: Sequence[Compared], seen: Seen | None) -> str:
    nominal = next((c.policy for c in compared[1:] if c.nominal), None)
    practice = next((c.policy for c in compared[1:] if c.practice), None)
    return policy_map(problem, compared[0].policy, nominal, practice, seen)


def _rules(problem: Problem, chosen: Compared, seconds: float) -> Any:
    found = rules_within(problem, chosen.policy, evaluation_seconds(problem), seconds)
    return rule_list(problem, found)


def _check_log(problem: Problem, log: TransitionLog | None) -> None:
    m = problem.models
    if log is not None and (log.states != m.states or log.actions != m.actions):
        raise InputError(
            f"The log has {len(log.states)} states and {len(log.actions)} actions; the problem has "
            f"{m.n_states} and {m.n_actions}, or their labels or order differ. Give the log that "
            "the models were made from."
        )


def _check_certificate(certificate: Certificate, chosen: Compared) -> None:
    value, exact = certificate.static["objective"], chosen.static["objective"]
    if abs(value - exact) > 1e-7 * max(abs(value), abs(exact)):
        raise InputError(
            f"The certificate is for a policy worth {value!r}, the first solution is worth "
            f"{exact!r}. Certify the first solution, on this problem."
        )


def render(template: str, context: Mapping[str, Any]) -> str:
    """The page, with its one style sheet and its one script."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_file), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["ours"] = Markup  # our own SVG, style and script only
    environment.filters["tidy"] = words.tidy
    environment.filters["flagged"] = words.flagged
    environment.filters["broken"] = _broken
    environment.filters["lam"] = lambda lam: f"{lam:g}"
    environment.tests["long"] = words.unbroken
    style, script = _file("style.css"), _file("script.js")
    own = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
    }
    return environment.get_template(template).render(dict(context) | own).lstrip()


def _broken(label: str) -> Markup:
    """A label that may end a line between the columns of a state, and nowhere inside them."""
    from markupsafe import Markup, escape

    return Markup("|<wbr>").join(escape(part) for part in label.split("|"))


def _file(name: str) -> str:
    return resources.files("softrobust.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content policy names the one inline element that may stand."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
