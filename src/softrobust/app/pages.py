"""The steps as pages: bring a file, look at it, say what you want, solve, read, take away, compare.

Everything that is shown comes from `inspect`, `frontier`, `solve` and `report` as the command line
has them. Labels of files are only ever text; the one HTML that is set are pictures of `report`.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any, final
from urllib.parse import quote

from fastapi import HTTPException
from fastapi.responses import FileResponse, Response
from nicegui import app as site
from nicegui import events, ui

from softrobust._core.files import numbered
from softrobust.app import work
from softrobust.app.texts import MOST_BYTES, size_words, stage_text, text
from softrobust.app.work import MADE, Draft, Look, costs_of, number_of
from softrobust.data.columns import LOG_ROLES
from softrobust.data.inspection import OFF
from softrobust.errors import SoftRobustError
from softrobust.models.policy import Policy
from softrobust.report.commands import command_line
from softrobust.report.inspection import headline, sections
from softrobust.report.sentences import sentence
from softrobust.report.study_words import side_by_side
from softrobust.report.summary import summary_lines
from softrobust.report.words import label, percent, shorten
from softrobust.run import load_run, load_table_run
from softrobust.run.evaluate import compare_runs
from softrobust.run.export import export

STYLE = Path(__file__).with_name("style.css")
LONGEST = 1500  # characters of a sentence, which may hold labels of any length
MOST_LISTED = 40  # files and runs on the first page
EVERY = 0.4  # seconds between two looks at a process
DOWNLOADS = {"report.html": "text/html", "policy.csv": "text/csv", "policy.npz": ""}
WORKBOOK = "run.xlsx"
ALONE = "sandbox allow-scripts allow-downloads"  # the page of a run may not act for the app
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SEVERAL = ("id", "measurements")
FEW = (0, 2, 3)  # columns of a comparison that everybody sees: policy, mean, bad case
PARTS = {"to_policy": "policy", "to_why": "why", "to_trust": "trust"}


@final
class Desk:
    """The folder, and what was said so far about files in it: one for all tabs."""

    def __init__(
        self, folder: Path, scratch: Path, file: Path | None, close: Callable[[], None]
    ) -> None:
        self.folder, self.scratch, self.close = folder, scratch, close
        self.elsewhere = {} if file is None else {file.name: file.resolve()}
        self.first = None if file is None else file.name
        self.drafts: dict[str, Draft] = {}
        self.frontiers: dict[tuple[str, str], Path] = {}
        self.number = count()
        # One at a time: compiled loops are not for several threads at once.
        self.thread = ThreadPoolExecutor(1)

    async def off_loop(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do what takes a moment beside the page."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, *given)

    def inside(self, name: str) -> Path:
        """A file or run folder by its name; nothing outside the folder has one."""
        if name in self.elsewhere:
            return self.elsewhere[name]
        path = self.folder / name
        if not is_name(name) or not path.exists() or path.resolve().parent != self.folder:
            raise LookupError(name)
        return path

    def draft(self, name: str) -> Draft:
        """What was said about a file."""
        path = self.inside(name)
        if not path.is_file():
            raise LookupError(name)
        return self.drafts.setdefault(name, Draft(path))

    def frontier(self, job: dict[str, Any]) -> Path:
        """The place of the process that works out what caution costs; begun where it is new."""
        options = {k: v for k, v in job["options"].items() if k not in ("lam", "time_limit")}
        asked = {"file": job["file"], "options": options}
        file = Path(job["file"]).stat()
        key = (job["file"], repr((options, file.st_mtime_ns, file.st_size)))
        if key not in self.frontiers:
            for other, place in list(self.frontiers.items()):
                if other[0] == key[0] and not (place / MADE).exists():  # asked otherwise before
                    work.give_up(self.frontiers.pop(other))
            self.frontiers[key] = self.scratch / str(next(self.number))
            work.start("frontier", self.frontiers[key], asked)
        return self.frontiers[key]


# -- pieces ----------------------------------------------------------------------------------------


def words(told: str, tag: str = "p", style: str = "") -> ui.label:
    """Text, whatever it holds."""
    made = ui.label(shorten(told, LONGEST)).classes(style)
    made.tag = tag
    return made


@cache
def style() -> str:
    """The style of the app, and that of the report's pictures."""
    page = resources.files("softrobust.report").joinpath("style.css").read_text(encoding="utf-8")
    pictures = page[page.index("/* pictures */") : page.index("/* end of pictures */")]
    return f"{STYLE.read_text(encoding='utf-8')} .drawn {{ {pictures} }}"


def frame(desk: Desk, title: str) -> ui.element:
    """What every page has: the head with its links, and the place of the content."""

    def leave() -> None:
        said = text("quit_said").replace("'", "’")
        ui.run_javascript(f"document.body.textContent='{said}'; document.body.className='closed'")
        ui.timer(0.3, desk.close, once=True)

    ui.add_css(style())
    ui.page_title(f"{shorten(title, 80)} · {text('title')}")
    with ui.element("header").classes("top"):
        ui.link(text("title"), "/").classes("brand")
        ui.button(text("quit"), on_click=leave).props("flat no-caps").mark("quit")
    main = ui.element("div").props('id="content"')  # in the <main> of the framework
    ui.skip_link(text("skip"), target=main)
    with main:
        words(title, "h1")
    return main


def section(title: str, part: str) -> ui.element:
    """A step with its heading."""
    with ui.element("section").mark(part).props(f'aria-labelledby="h-{part}"') as made:
        words(title, "h2").props(f'id="h-{part}"')
    return made


def details(title: str) -> ui.element:
    """What is opened by whoever wants to know."""
    with ui.element("details") as made:
        words(title, "summary")
    return made


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> None:
    """A table that scrolls by itself where it is wide."""
    with ui.element("div").classes("scroll").props('tabindex="0" role="region"') as box:
        box.props["aria-label"] = shorten(caption, 80)
        with ui.element("table"):
            with ui.element("thead"), ui.element("tr"):
                for cell in head:
                    words(label(cell), "th").props('scope="col"')
            with ui.element("tbody"):
                for row in rows:
                    with ui.element("tr"):
                        for cell in row:
                            words(label(cell), "td")


def alarm(*told: str) -> None:
    """What is wrong: the first in bold, where there is more."""
    with ui.element("div").classes("alarm").props('role="alert"'):
        for i, line in enumerate(told):
            words(line, "strong" if i < len(told) - 1 else "p")


def address(*parts: str) -> str:
    """A path of this server."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


# -- the first page --------------------------------------------------------------------------------


def start_page(desk: Desk) -> None:
    """Bring a file, or open what is there."""
    with frame(desk, text("start")):
        words(text("start_lead"), style="lead")
        with section(text("bring"), "bring"):
            _bring(desk)
            names = [*desk.elsewhere, *work.tables(desk.folder)]
            words(text("files_here"), "h3")
            if not names:
                words(text("no_files"), style="soft")
            _links([(name, address("file", name), "") for name in dict.fromkeys(names)])
            words(text("folder", folder=desk.folder), style="soft small")
        found = work.runs(desk.folder)
        with section(text("runs_here"), "runs"):
            there = {name for name, *_ in found}
            for job in (j for j in work.solves(desk.folder) if j.alive or j.name not in there):
                told = text("solving_now" if job.alive else "solving_lost", name=job.name)
                _links([(told, address("run", job.name), "")])
            if not found:
                words(text("no_runs"), style="soft")
            about = [
                (n, text("of_file", source=label(s), solver=label(by)) if by else text("not_read"))
                for n, s, by in found
            ]
            _links([(name, address("run", name), told) for name, told in about])
        if len(found) > 1:
            with section(text("compare"), "compare"):
                _compare_form([name for name, *_ in found])


def _links(items: Sequence[tuple[str, str, str]]) -> None:
    with ui.element("ul").classes("links"):
        for name, where, about in items[:MOST_LISTED]:
            with ui.element("li"):
                ui.link(label(name), where)
                if about:
                    words(about, "span", "soft small")
        if len(items) > MOST_LISTED:
            words(text("more_left", n=len(items) - MOST_LISTED), "li", "soft")


def _bring(desk: Desk) -> None:
    most = size_words(MOST_BYTES)

    async def take(e: events.UploadEventArguments) -> None:
        name = await desk.off_loop(_free_place, desk.folder, e.file.name)
        await e.file.save(desk.folder / name)
        ui.navigate.to(address("file", name))

    def refuse() -> None:
        told = text("too_large", name="", most=most, folder=desk.folder)
        ui.notify(told, type="negative", multi_line=True, timeout=0, close_button="OK")

    loader = ui.upload(
        max_file_size=MOST_BYTES, max_files=1, auto_upload=True, on_upload=take, on_rejected=refuse
    )
    loader.props("flat bordered hide-upload-btn").classes("bring").mark("upload")
    loader.props["label"] = text("drop", most=most)
    button = ui.button(text("choose_file")).props("no-caps unelevated").mark("choose")
    button.on("click", js_handler=f"() => getElement({loader.id}).pickFiles()")
    button.move(target_index=1)


def _free_place(folder: Path, told: str) -> str:
    """A name in the folder for a file that is brought: no path, not hidden, nothing replaced."""
    last = Path(told.replace("\\", "/")).name
    bare = "".join(c for c in last if c.isprintable() and c not in '<>:"|?*')
    bare = bare.lstrip(".").strip()[-100:] or "log.csv"
    names = numbered(Path(bare).stem, Path(bare).suffix)
    return next(name for name in names if not (folder / name).exists())


# -- a file: columns, what looks wrong, what is wanted ---------------------------------------------


@final
class FilePage:
    """Steps 1 to 4 of a file; any change of a column reads it anew."""

    def __init__(self, desk: Desk, name: str, draft: Draft) -> None:
        self.desk, self.name, self.draft = desk, name, draft
        self.seen: Look | None = None
        self.body = ui.element("div").props('aria-live="polite"')
        self.strip: ui.element | None = None
        self.points: list[dict[str, Any]] = []
        self.fields: dict[str, ui.element] = {}

    async def refresh(self) -> None:
        """Read the file with what was said about it, and show it."""
        self.body.clear()
        with self.body:
            words(text("looking", name=label(self.name)), style="soft")
        seen: Look = await self.desk.off_loop(work.look, self.draft)
        self.seen = seen
        self.body.clear()
        with self.body:
            self.show(seen)

    def show(self, seen: Look) -> None:
        """Every step that makes sense for this file."""
        found = seen.found
        with section(text("file"), "file"):
            if found is None:
                alarm(text("blocked"), seen.error)
            else:
                words(headline(found), style="lead")
                with details(text("whole_look")):
                    _sections(seen)
                    self.cover = ui.element("div")
        if seen.names:
            with section(text("columns"), "columns"):
                self.columns(seen)
        if found is None:
            return
        with section(text("odd"), "odd"):
            _odd(seen)
            if found.blocked is not None:
                alarm(text("blocked"), str(found.blocked))
        if found.steps and found.blocked is None and found.kind != "run":
            with section(text("goal"), "goal"):
                self.goal(seen)

    @property
    def job(self) -> dict[str, Any]:
        """What a process is told, where there is something to solve."""
        assert self.seen is not None
        assert self.seen.found is not None
        return self.draft.job(self.seen.found)

    # columns

    def columns(self, seen: Look) -> None:
        """Which column is what."""
        draft = self.draft
        kind = draft.kind or (seen.found.kind if seen.found else "log")
        words(text("columns_lead"), style="soft")

        async def choose_kind(e: events.ValueChangeEventArguments[Any]) -> None:
            draft.kind = e.value
            await self.refresh()

        choices = {name: text(f"kind_{name}") for name in ("log", "visits")}
        with ui.element("fieldset"):
            words(text("kind"), "legend")
            ui.radio(choices, value=kind if kind in choices else None, on_change=choose_kind).mark(
                "kind"
            )
        with ui.element("div").classes("fields"):
            if kind == "visits":
                self.visit_fields(seen)
            else:
                for role in LOG_ROLES:
                    taken = draft.columns.get(role.name) or seen.taken.get(role.name)
                    self.field(role.name, seen.names, taken, draft.columns, "log")

    def visit_fields(self, seen: Look) -> None:
        """The same for a table of visits."""
        rules = seen.found.facts.get("rules") if seen.found else None
        given = {} if rules is None else rules.given()
        known = {name: given.get(name) for name in ("id", "time", "action", "measurements")}
        known |= {k: v for k, v in self.draft.visits.items() if k in known}
        for role, value in known.items():
            self.field(role, seen.names, value, self.draft.visits, "visits")
        paid = "; ".join(f"{name}={cost:g}" for name, cost in given.get("cost", {}).items())
        for role in ("reward", "cost", "terminal"):
            self.rule(role, paid if role == "cost" else str(given.get(role, "")))

    def rule(self, role: str, value: str) -> None:
        """A box for what is said in letters: a formula, costs, what marks an end."""

        def wrong(told: str) -> str | None:
            costs = role == "cost" and told.strip()
            return text("cost_wrong") if costs and costs_of(told) is None else None

        async def take() -> None:
            told = box.value.strip()
            if wrong(told) is None:
                said = (costs_of(told) if told else None) if role == "cost" else told or OFF
                await self.said(role, said, self.draft.visits, "visits")

        box = ui.input(text(f"role_{role}_rule"), value=value, validation=wrong)
        box.props("outlined dense").classes("wide").mark(f"role-{role}").on("change", take)

    def field(
        self, role: str, names: Sequence[str], value: Any, into: dict[str, Any], kind: str
    ) -> None:
        """The columns that could be this."""
        several = kind == "visits" and role in SEVERAL
        options = {name: label(name) for name in names}
        if several:
            value = [value] if isinstance(value, str) else list(value or ())
            value = [name for name in value if name in options]
        elif value not in options:
            value = None

        async def change(e: events.ValueChangeEventArguments[Any]) -> None:
            await self.said(role, tuple(e.value) if several else e.value, into, kind)

        made = ui.select(
            options, label=text(f"role_{role}"), value=value, multiple=several, on_change=change
        )
        self.fields[role] = made.props("outlined dense options-dense").mark(f"role-{role}")

    async def said(self, role: str, value: Any, into: dict[str, Any], kind: str) -> None:
        """A column was corrected."""
        self.draft.kind = kind
        if value:
            into[role] = value
        else:
            into.pop(role, None)
        await self.refresh()
        if role in self.fields:  # whoever uses the keyboard goes on from here
            self.fields[role].run_method("focus")

    # what is wanted

    def goal(self, seen: Look) -> None:
        """The goal in words, the slider, and what else can be said."""
        draft, found = self.draft, seen.found
        assert found is not None
        log = found.kind in ("log", "visits")
        if not log and draft.goal == "improve":
            draft.goal = "average"
        if not found.facts.get("gamma"):
            with ui.element("div").classes("fields"):
                self.number("gamma", f"{draft.gamma:g}", lambda x: 0 < x < 1)
        names = [*(["improve"] if log else []), "average", "careful", "between"]
        with ui.element("fieldset"):
            words(text("goal"), "legend", "hidden")
            choice = ui.radio({n: text(n) for n in names}, value=draft.goal).mark("goal")
        with ui.element("div").classes("caution"):
            self.slider(choice)
        with details(text("advanced")), ui.element("div").classes("fields"):
            share = f"{100 * (1 - draft.alpha):g}"
            self.number("alpha", share, lambda x: 1 <= x <= 99)
            seconds = "" if draft.seconds is None else f"{draft.seconds:g}"
            self.number("seconds", seconds, lambda x: x > 0)
        with details(text("command")):
            self.line = words("", "code", "command")
        self.tell_command()
        with ui.element("div").classes("act"):
            button = ui.button(text("solve"), on_click=self.solve)
            self.button = button.props("no-caps unelevated size=lg").mark("solve")
        self.work_out()

    def number(self, role: str, value: str, fits: Callable[[float], bool]) -> None:
        """A box for a number in the way that anybody writes it."""

        def wrong(told: str) -> str | None:
            if not told.strip() and role == "seconds":
                return None
            x = number_of(told)
            return None if x is not None and fits(x) else text(f"{role}_wrong")

        def take() -> None:
            told = box.value or ""
            if wrong(told) is not None:
                return
            x = number_of(told)
            made = None if x is None else round(1 - 0.01 * x, 10) if role == "alpha" else x
            if made != getattr(self.draft, role):
                setattr(self.draft, role, made)
                self.tell_command()
                self.work_out()

        box = ui.input(text(role), value=value, validation=wrong)
        box.props('outlined dense inputmode="decimal"').mark(role)
        box.on("change", take)

    def slider(self, choice: ui.radio) -> None:
        """Goal and degree of caution follow one another."""
        draft = self.draft

        def choose_goal(e: events.ValueChangeEventArguments[Any]) -> None:
            draft.goal = e.value
            if e.value in ("average", "careful"):
                draft.lam = work.GOALS[e.value][1] or 0.0
                self.move.value = draft.lam
            self.show_point()
            self.tell_command()

        def moved(e: events.ValueChangeEventArguments[Any]) -> None:
            draft.lam = round(float(e.value), 10)
            own = work.GOALS.get(draft.goal, ("", None))
            if draft.lam != own[1] and draft.goal != "between":
                draft.goal = choice.value = "between"
            self.show_point()
            self.tell_command()

        choice.on_value_change(choose_goal)
        words(text("caution"), "h3").props('id="h-caution"')
        words(text("caution_lead", share=f"{100 * (1 - draft.alpha):g} %"), style="soft")
        self.move = ui.slider(min=0, max=1, step=0.1, value=draft.lam, on_change=moved)
        self.move.props('label snap markers aria-labelledby="h-caution"').mark("slider")
        with ui.element("div").classes("ends soft small"):
            for end in text("caution_ends").split("|"):
                words(end, "span")
        strip = ui.element("div").props('aria-live="polite"').classes("strip-box")
        self.strip = strip.mark("strip")

    def work_out(self) -> None:
        """Have the frontier computed, and show it when it is there."""
        assert self.strip is not None
        self.points, place = [], self.desk.frontier(self.job)
        self.strip.clear()
        with self.strip:
            words(text("caution_wait"), style="soft")
            timer = ui.timer(EVERY, lambda: self.look_for(place, timer))

    def look_for(self, place: Path, timer: ui.timer) -> None:
        """Whether the frontier is there."""
        job = work.status(place)
        if (place / MADE).exists():
            timer.cancel()
            found = work.made(place)
            self.points = found["points"]
            self.show_point()
            self.cover.clear()
            with self.cover:
                words(text("covers"), style="soft small" if found["cover"] else "hidden")
                drawn(found["cover"], "drawn map-box")
        elif place not in self.desk.frontiers.values():  # another tab has asked otherwise
            timer.cancel()
            self.work_out()
        elif job is not None and not job.alive:
            timer.cancel()
            self.show_refusal(job)

    def show_refusal(self, job: work.Job) -> None:
        """Why there is no frontier: then there would be no answer either."""
        assert self.strip is not None
        self.strip.clear()
        with self.strip:
            words(job.error or text("lost"), style="alarm").props('role="alert"')
            if "anyway" in job.arguments:

                def take(e: events.ValueChangeEventArguments[Any]) -> None:
                    self.draft.anyway = bool(e.value)
                    self.tell_command()
                    self.work_out()

                ui.checkbox(text("anyway"), value=self.draft.anyway, on_change=take).mark("anyway")

    def show_point(self) -> None:
        """What the degree of caution under the slider would do."""
        if not self.points or self.strip is None:
            return
        point = min(self.points, key=lambda p: abs(p["lam"] - self.draft.lam))
        self.strip.clear()
        with self.strip:
            if self.draft.goal == "improve":
                words(text("caution_improve"), style="soft")
            if len({p["policy"] for p in self.points}) == 1:
                words(text("caution_same"))
            at = {"lam": f"{point['lam']:g}", "share": percent(point["lam"])}
            words(text("at", **at, mean=point["mean"], bad=point["bad"]), style="figures")
            with ui.element("div").classes("panels"):
                drawn(point["frontier"])
                with ui.element("div"):
                    n, of = point["n_changed"], point["n_states"]
                    words(text("changes", n=n, of=of), style="soft small")
                    drawn(point["picture"])
            if point["strip"]:
                words(text("strip_lead"), style="soft small")
            strip_of((c["state"], c["now"], c["then"], c["just"]) for c in point["strip"])

    def tell_command(self) -> None:
        """What the button does, as a command."""
        job = self.job
        given = dict(job["options"])
        named = {} if job["solver"] is None else {"solver": job["solver"]}
        options = {**given.pop("visits", {}), **given, **named, "out": "run"}
        self.line.set_text(command_line("solve", self.draft.path.name, options))

    async def solve(self) -> None:
        """Begin, and follow it on its page."""
        self.button.disable()
        name = f"run-{''.join(c if c.isalnum() else '-' for c in Path(self.name).stem)[:40]}"
        made = await self.desk.off_loop(work.start_solve, self.desk.folder, name, self.job)
        ui.navigate.to(address("run", made))


def drawn(svg: str, style: str = "drawn") -> None:
    """A picture of `report`, which has made text of every label in it."""
    if svg:
        ui.html(svg, sanitize=False).classes(style)


def strip_of(states: Iterable[Sequence[Any]]) -> None:
    """States that change: what is done now, and what then."""
    with ui.element("ul").classes("strip") as strip:
        strip.props["aria-label"] = text("strip")
        for state, now, then, just in states:
            with ui.element("li"):
                words(state, "b")
                words(text("now_then", now=now, then=then) if now else then, "span")
                if just:
                    words(text("changed_since"), "small")


def _sections(seen: Look) -> None:
    """All that `inspect` says."""
    assert seen.found is not None
    for part in sections(seen.found):
        words(part.title, "h3")
        for told in part.sentences:
            words(told)
        if part.grid is not None:
            table(part.grid.header, part.grid.rows, part.title)
        if part.bars:
            total = max(sum(n for _, n in part.bars), 1)
            rows = [(name, f"{n:,}", f"{100 * n / total:.0f} %") for name, n in part.bars]
            table((part.title, "", ""), rows, part.title)


def _odd(seen: Look) -> None:
    """What is suspicious, with the rows that it is about."""
    assert seen.found is not None
    if not seen.found.findings:
        words(text("odd_none"), style="soft")
    for note in seen.found.findings:
        with ui.element("div").classes("finding"):
            words(sentence(note))
            numbers = [n for n in (note.facts.get("rows") or ()) if n in seen.rows]
            if numbers:
                with details(text("rows_shown")):
                    rows = [(str(n), *seen.rows[n]) for n in numbers]
                    table((text("row"), *seen.names), rows, text("rows_shown"))


# -- a run: on its way, and when it is there -------------------------------------------------------


@final
class RunPage:
    """A solve with its stages, and its answer as soon as the folder is there."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.desk, self.name = desk, name
        self.place = work.place_of(desk.folder, name)
        self.progress = ui.element("div").mark("progress")
        self.body = ui.element("div")
        self.phase, self.answered, self.turn = "", False, count()
        self.page: ui.element | None = None
        self.check: ui.button | None = None
        self.timer = ui.timer(EVERY, self.look)

    async def look(self) -> None:
        """Show how it stands; what is there already stays, so that a click finds its button."""
        job = work.status(self.place)
        there = (self.desk.folder / self.name / "solution.json").exists()
        alive = job is not None and job.alive
        before, self.phase = self.phase, "whole" if there else "failed" if job else "none"
        if alive:
            self.phase = "short" if there else "solving"
        else:
            self.timer.cancel()
            if there:  # what a process left that was killed while it wrote the full page
                work.forget(self.place)
            if there and job is not None and job.error:
                with self.body:
                    alarm(job.error)
        if self.phase != before:
            self.progress.clear()
            with self.progress:
                if self.phase == "solving" and job is not None:
                    self.solving(job)
                elif self.phase == "short":
                    self.soon = words(text("page_soon", stage="…"), style="soft")
                    self.soon.props('role="status"')
                elif self.phase == "failed" and job is not None:
                    self.failed(job)
                elif self.phase == "none":
                    words(text("no_run", name=label(self.name)))
            if there and not self.answered:
                self.answered = True
                await self.answer()
            elif self.phase == "whole" and self.page is not None:  # it was written anew
                where = address("run", self.name, "report.html")
                self.page.props["src"] = f"{where}?whole={next(self.turn)}"
            if self.check is not None:
                self.check.set_enabled(self.phase == "whole")
        if self.phase == "short" and job is not None and job.stages:
            self.soon.set_text(text("page_soon", stage=stage_text(job.stages[-1][0])))
        if self.phase == "solving" and job is not None:
            self.tell(job)

    def solving(self, job: work.Job) -> None:
        """What is being done, since when, and how to end it."""

        def stop() -> None:
            work.ask_to_stop(self.place)
            button.disable()
            self.detail.set_text(text("stopping"))

        with section(text("solving", file=label(Path(job.file).name)), "solving"):
            self.stages = ui.element("ol").classes("stages").props('role="status"')
            self.shown: list[str] = []
            self.spent = words("", style="soft")
            self.detail = words("", style="soft small")
            ui.element("div").classes("busy")
            button = ui.button(text("stop"), on_click=stop).props("no-caps outline").mark("stop")
            button.set_enabled(not job.stopping)
            words(text("reload_ok"), style="soft small")

    def tell(self, job: work.Job) -> None:
        """Stages that are new, and the time."""
        with self.stages:
            for name, _ in job.stages[len(self.shown) :]:
                words(stage_text(name), "li")
                self.shown.append(name)
        self.spent.set_text(text("elapsed", seconds=f"{job.seconds:.0f}"))
        self.detail.set_text(text("stopping") if job.stopping else shorten(job.detail, 200))

    def failed(self, job: work.Job) -> None:
        """Why there is no answer."""
        alarm(text("failed"), job.error or text("lost"))

        def drop() -> None:
            work.forget(self.place)
            ui.navigate.to("/")

        ui.button(text("forget"), on_click=drop).props("no-caps outline").mark("forget")
        ui.link(text("back"), address("file", Path(job.file).name)).classes("beside")

    async def answer(self) -> None:
        """The answer, its files and its page."""
        try:
            run = await self.desk.off_loop(load_run, self.desk.folder / self.name)
            lines = await self.desk.off_loop(lambda: list(summary_lines(run)))
        except SoftRobustError as error:
            with self.body:
                alarm(text("not_read"), str(error))
            return
        with self.body:
            with section(text("answer"), "answer"):
                _lines(lines)
            with section(text("download"), "download"):
                files = {"report.html": "download_report", "policy.csv": "download_policy"}
                for file, key in [*files.items(), (WORKBOOK, "download_workbook")]:
                    where = f"{address('run', self.name, file)}?download=1"
                    made = ui.link(text(key), where).classes("button").mark(key)
                    made.props(f'download="{file}"')
            with section(text("sections"), "page"):
                where = address("run", self.name, "report.html")
                with ui.element("nav").classes("parts"):
                    for key, part in PARTS.items():
                        ui.link(text(key), f"{where}#{part}").props('target="page"')
                    ui.link(text("open_page"), where, new_tab=True)
                if run.log is not None and isinstance(run.solution.policy, Policy):
                    self.trust()
                self.page = ui.element("iframe").props(
                    f'name="page" src="{where}" sandbox="allow-scripts"'
                )
                self.page.props["title"] = text("sections")

    def trust(self) -> None:
        """Have the run checked and rehearsed; its page then has what was found."""

        async def begin() -> None:
            made.disable()
            await self.desk.off_loop(work.start_trust, self.desk.folder, self.name)
            self.timer = ui.timer(EVERY, self.look)

        made = ui.button(text("trust_do"), on_click=begin).props("no-caps outline").mark("trust")
        self.check = made


def _lines(lines: Sequence[tuple[str, str]]) -> None:
    """The summary of the command line; its kinds are the styles here."""
    for i, (kind, told) in enumerate(lines):
        look = "lead" if i == 1 and kind == "text" else f"line-{kind}"
        words(told.replace("`", ""), "h3" if kind == "head" else "p", look)


# -- two runs --------------------------------------------------------------------------------------


def _compare_form(names: Sequence[str]) -> None:
    options = {name: label(name) for name in names}
    with ui.element("div").classes("fields"):
        made = [
            ui.select(options, label=text(key), value=value).props("outlined dense").mark(key)
            for key, value in (("compare_first", names[0]), ("compare_second", names[1]))
        ]
    ui.button(
        text("compare_do"),
        on_click=lambda: ui.navigate.to(address("compare", *(m.value for m in made))),
    ).props("no-caps unelevated").mark("compare")


async def compare_page(desk: Desk, first: str, second: str) -> None:
    """Both policies on the question of the first."""

    def compared() -> tuple[Any, Any]:
        names = (first, second)
        found = [replace(load_table_run(desk.inside(n)), path=Path(n)) for n in names]
        return compare_runs(found), work.differences(*found)

    with frame(desk, text("compare")):
        try:
            found, apart = await desk.off_loop(compared)
        except LookupError as error:
            words(text("no_run", name=label(str(error.args[0]))))
            return
        except SoftRobustError as error:
            words(str(error), style="alarm").props('role="alert"')
            return
        head, rows, (ahead, *lines) = side_by_side(found)
        words(ahead, style="lead")
        few = [[row[i] for i in FEW] for row in (head, *rows)]
        table(few[0], few[1:], text("compare"))
        with details(text("compare_all")):
            table(head, rows, text("compare_all"))
            for line in lines:
                words(line, style="soft small")
        with section(text("differ"), "differ"):
            if apart:
                words(text("differ_lead", first=label(first), second=label(second)), style="soft")
                strip_of([(*found, False) for found in apart])
            else:
                words(text("differ_none"))


# -- routes ----------------------------------------------------------------------------------------


def build(desk: Desk) -> str:
    """Lay all pages at their addresses; the address to begin with."""

    @ui.page("/")
    def _start() -> None:
        start_page(desk)

    @ui.page("/file/{name}")
    def _file(name: str) -> None:
        with frame(desk, label(name)):
            try:
                draft = desk.draft(name)
            except LookupError:
                words(text("no_file", name=label(name)))
                return
            page = FilePage(desk, name, draft)
            ui.timer(0.05, page.refresh, once=True)

    @ui.page("/run/{name}")
    def _run(name: str) -> None:
        with frame(desk, label(name)):
            if not is_name(name):
                words(text("no_run", name=label(name)))
                return
            RunPage(desk, name)

    @ui.page("/compare/{first}/{second}", response_timeout=60)
    async def _compare(first: str, second: str) -> None:
        await compare_page(desk, first, second)

    @site.get("/run/{name}/{file}")
    async def _download(name: str, file: str, download: int = 0) -> Response:
        try:
            folder = desk.inside(name)
            if file == WORKBOOK:
                book: Response = await desk.off_loop(_workbook, folder, name)
                return book
            if file not in DOWNLOADS or not (folder / file).is_file():
                raise LookupError(file)
        except LookupError:
            raise HTTPException(404) from None
        except SoftRobustError as error:
            return Response(str(error), 400, media_type="text/plain")
        sent = FileResponse(
            folder / file, media_type=DOWNLOADS[file] or None,
            filename=f"{name}-{file}" if download else None,
        )  # fmt: skip
        if file == "report.html":
            sent.headers["content-security-policy"] = ALONE
            sent.headers["cache-control"] = "no-cache"
        return sent

    return "/" if desk.first is None else address("file", desk.first)


def is_name(name: str) -> bool:
    """Whether it is the name of something in a folder, and of nothing hidden."""
    return Path(name).name == name and name.isprintable() and not name.startswith(".")


def _workbook(folder: Path, name: str) -> Response:
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / WORKBOOK
        export(load_run(folder), made)
        head = {"content-disposition": f"attachment; filename*=utf-8''{quote(name)}-{WORKBOOK}"}
        return Response(made.read_bytes(), media_type=XLSX, headers=head)
