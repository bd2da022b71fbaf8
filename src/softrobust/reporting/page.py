"""The page: what was found, put in the order in which a reader decides.

Each section is one entry of the context and one block of `template.html.j2`; a new section is a new
pair of the two. The template escapes everything that is not a picture of our own, the page runs no
script, and its content policy forbids any request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from softrobust.certificate import certify
from softrobust.data.files import atomic_write
from softrobust.errors import InputError
from softrobust.reporting import sections, tables, words
from softrobust.reporting.compare import Compared, compare
from softrobust.solvers.behaviour import behaviour_policy

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solution


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
            '<iframe style="width:100%;height:40em;border:0" sandbox '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Report({len(self.html):,} characters of HTML; save it with .save('report.html'))"


def report(
    problem: Problem,
    solutions: Sequence[Solution] | Solution,
    heldout: ModelSet | None = None,
    log: TransitionLog | None = None,
    posterior: FittedPosterior | None = None,
    certificate: Certificate | None = None,
    notes: Sequence[str] = (),
    title: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> Report:
    """Write what was found as one HTML page.

    Parameters
    ----------
    problem : Problem
    solutions : sequence of Solution
        The first is the chosen one, the others are compared with it. The nominal policy is
        computed if no solution is named "nominal".
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
    title : str, optional
    settings : mapping, optional
        What else is needed to rerun it: seed, number of draws, the command. Paths are shortened
        to their last part.
    """
    log = getattr(posterior, "log", None) if log is None else log
    _check_log(problem, log)
    compared = compare(problem, solutions, heldout)
    chosen = compared[0]
    if certificate is None:
        bounds = [c.solution.bound for c in compared if c.solution.bound is not None]
        practice = None if log is None else behaviour_policy(problem, log)[0]
        certificate = certify(problem, chosen.policy, heldout, bounds, practice=practice)
    _check_certificate(certificate, chosen)
    nominal = next((c for c in compared if c.nominal and not c.chosen), None)
    number = words.Figures.of([c.train for c in compared])
    context: dict[str, Any] = {
        "title": title or "Which policy, and how sure",
        "words": problem.objective.words,
        "answer": sections.answer(problem, chosen, nominal, certificate, number),
        "asked": sections.asked(problem, chosen, heldout, log, settings),
        "notes": sections.notes(problem, compared, log, notes),
        "returns": sections.returns(problem, compared, heldout, number),
        "table": tables.policy_table(problem, chosen, nominal, log, posterior),
        "certificate": certificate.sentences(),
        "rerun": sections.rerun(problem, chosen, log, posterior, settings),
    }
    return Report(_render(context))


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


def _render(context: Mapping[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = resources.files("softrobust.reporting").joinpath("template.html.j2")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["picture"] = Markup  # our own SVG only: see plots
    return environment.from_string(source.read_text(encoding="utf-8")).render(context)
