"""The page: what was found, put in the order in which a reader decides.

Each section is one entry of the context and one block of `template.html.j2`; a new section is a new
pair of the two. The template escapes everything that is not a picture of our own. The page carries
one style sheet and one script, both inline; its content policy lets nothing else run and forbids
any request. Without scripts it reads the same, less sorting, sifting and reading off.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, final

from markupsafe import Markup, escape

from softrobust._core.arguments import names_arguments
from softrobust._core.files import atomic_write
from softrobust._core.notes import Level, Note, read_notes
from softrobust._core.settings import instance
from softrobust.data.reward_rules import NOISY
from softrobust.report import sections, words
from softrobust.report.continuous import vector_context
from softrobust.report.counts import Seen, count_text
from softrobust.report.policy import policy_map, policy_table, rule_list
from softrobust.report.sentences import in_words, speaks_against
from softrobust.report.svg import Picture
from softrobust.report.verdict import certificate_sentences, promise_sentences
from softrobust.study.review import Review, VectorReview

TITLE = "Which policy, and how sure"
LEARNED = "prior_learned"


@final
@dataclass(frozen=True, slots=True)
class Report:
    """One self-contained HTML page."""

    html: str
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # what changes, gain, coverage …

    def save(self, path: str | Path) -> Path:
        """Write the page, atomically, and return where."""
        with atomic_write(path) as file:
            file.write(self.html)
        return Path(path)

    def save_pictures(self, folder: str | Path) -> list[Path]:
        """Write the pictures of the page one by one, as PDF, SVG and PNG; returns where."""
        Path(folder).mkdir(exist_ok=True)
        kinds = ("pdf", "svg", "png")
        made = [Path(folder) / f"{name}.{kind}" for name in self.pictures for kind in kinds]
        for path in made:
            self.pictures[path.stem].save(path)
        return made

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame, so that its style stays its own."""
        return (
            f'<iframe title="{escape(TITLE)}" style="width:100%;height:56em;border:0" '
            f'sandbox="allow-scripts" srcdoc="{escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Report({len(self.html):,} characters of HTML; save it with .save('report.html'))"


@names_arguments
def make_report(
    found: Review | VectorReview,
    notes: Iterable[Note | str] = (),
    cautions: Iterable[Note | str] = (),
    *,
    title: str | None = None,
    settings: Mapping[str, object] | None = None,
    ask_for_checks: bool = False,
    policy_csv: str | None = None,
    suppress_small: bool = False,
    hint: str = "",
) -> Report:
    """Write what was found as one HTML page.

    Parameters
    ----------
    found : Review or VectorReview
        As `study.review` makes it.
    notes : iterable of Note
        What was assumed, beyond what the log and the models say themselves.
    cautions : iterable of Note
        What to know before believing the first sentence: right under it, with problems of draws.
    settings : mapping, optional
        What else is needed to rerun it: seed, draws, the command; paths lose their folders.
    ask_for_checks : bool
        Whether to say that checks can be run, where there are none.
    policy_csv : str, optional
        Where the table links to if it has to leave states out.
    suppress_small : bool
        Show counts below five as "<5", and nothing that they follow from.
    hint : str
        A sentence at the end: how to get a fuller page.
    """
    instance("found", found, Review, VectorReview, hint="Make one by softrobust.study.review.")
    if isinstance(found, VectorReview):
        vectors = vector_context(found, notes, cautions, dict(settings or {}))
        return _page("continuous.html.j2", title, settings, vectors)
    number = words.Figures.of([c.train for c in found.compared])
    seen, given = Seen.of(found.log, suppress_small), dict(settings or {})
    told = NOISY if found.problem.paid.drawn else ""  # by a note among those given
    own = [note for note in (found.log.notes if found.log else ()) if note.code != told]
    said = read_notes(notes)
    learned = in_words([note for note in said if note.code == LEARNED])
    said = tuple(note for note in said if note.code != LEARNED)
    problems = () if found.diagnostics is None else found.diagnostics.problems
    other = words.other_questions(found.problem, found.compared)
    grave = [
        note if note.level is not Level.INFO else replace(note, level=Level.CAUTION)
        for note in read_notes(cautions)
    ]
    warned = speaks_against([*grave, *problems, *said], suppress_small)
    assumed = in_words([*grave, *own, *found.problem.models.notes, *said], suppress_small)
    solution, promise = found.chosen.solution, found.certificate.promise
    judged = [] if promise is None else promise_sentences(promise, solution.solver)
    context: dict[str, Any] = {
        "words": words.bad_case(found.problem.objective),
        "suppressed": suppress_small,
        "hint": hint,
        "csv": policy_csv,
        "number": number,
        "labels": found.problem.models,
        "seen": seen,
        "answer": sections.answer(found, number, warned, seen),
        "asked": sections.asked(
            found.problem, solution, sections.table_size(found, suppress_small),
            None if found.heldout is None else found.heldout.n_models,
            given.get("seed", solution.stats.get("seed")),
        ) + [("Prior", line) for line in learned],
        "notes": [text for text in assumed if text not in warned] + other,
        "returns": sections.returns(found, number),
        "caution": sections.caution(found, number),
        "table": policy_table(found, seen),
        "map": policy_map(found, seen),
        "rules": rule_list(found),
        "why": sections.why(found, seen, number),
        "explained": set(found.reasons),
        "data": sections.more_data(found),
        "certificate": [*judged[1:], *certificate_sentences(found.certificate)],
        "beside": sections.beside(found, suppress_small),
        "trust": sections.trust(found, suppress_small, ask_for_checks),
        "rerun": sections.rerun(
            found.problem, solution, found.log, found.posterior, given, suppress_small
        ),
    }  # fmt: skip
    return _page("template.html.j2", title, settings, context)


def _page(
    template: str, title: str | None, settings: Mapping[str, object] | None, context: dict[str, Any]
) -> Report:
    """The page, with the file and its size named on the first screen."""
    size = [value for name, value in context["asked"] if name in ("Data", "Size", "Measured")]
    source = sections.without_folder((settings or {}).get("input", ""))
    named = {"title": title or TITLE, "source": ", ".join(filter(None, [source, *size]))}
    trusted = context.get("trust") or {}
    drawn = {
        "changes": context["answer"]["strip"],
        "gain": context["answer"]["gain"],
        "coverage": context["policy"]["map"] if "policy" in context else context["map"],
        "rehearsal": trusted.get("worlds"),
    }
    made = {name: picture for name, picture in drawn.items() if picture}
    return Report(render(template, context | named), made)


def render(template: str, context: Mapping[str, Any]) -> str:
    """The page, with its one style sheet and its one script."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    suppress = bool(context["suppressed"])
    environment.filters |= {
        "ours": Markup,  # our own SVG, style and script only
        "broken": _broken,
        "percent": words.percent,
        "label": words.label,
        "times": lambda n: count_text(n, suppress),
    }
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
    return Markup("|<wbr>").join(escape(part) for part in label.split("|"))


def _file(name: str) -> str:
    return resources.files("softrobust.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content policy names the one inline element that may stand."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
