"""Results on the screen: colour where a person looks, plain in a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from softrobust.cli import screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from softrobust.data.inspection import Inspection
    from softrobust.problem import Problem
    from softrobust.report.inspection import Grid, Section
    from softrobust.run import Run
    from softrobust.study.explain import Explanation
    from softrobust.study.foreign import ForeignRehearsal
    from softrobust.study.frontier import Frontier
    from softrobust.study.rehearsal import Rehearsal
    from softrobust.study.value_of_data import DataValue


MOST_LINES = 23  # of a decision, and two to say where it was written


def print_run(
    run: Run, out: Path | None, as_json: bool, quiet: bool, details: bool = False
) -> None:
    """`solution.json`, or the summary wrapped to the terminal, or nothing."""
    if as_json:
        screen.print_record(run.record())
        return
    if quiet:
        return
    from softrobust.report.sentences import MOST_TOLD
    from softrobust.report.summary import summary_lines

    console = screen.make_console()
    styles = {"head": "bold", "text": "", "note": "dim", "row": "cyan", "caution": "yellow"}
    starts = {"head": "", "note": "  · ", "caution": "  ! "}
    for most, rows in ((MOST_TOLD, 4), (3, 4), (2, 4), (1, 4), (1, 3), (1, 2)):  # fits a screen
        told = [
            (styles[kind], ("\n" if kind == "head" else "")
             + screen.wrapped(console, line, starts.get(kind, "  ")))
            for kind, line in summary_lines(run, details, most, rows)
        ]  # fmt: skip
        if details or sum(text.count("\n") + 1 for _, text in told) <= MOST_LINES:
            break
    for style, text in told:
        console.print(screen.styled(text, style))
    more = "" if details else "How that was found: --details."
    if out is not None:
        more = f"Written to {out}: open {out / 'report.html'} in a browser. {more}"
    screen.say(f"\n{more.rstrip()}" if more else "")


def print_frontier(found: Frontier, out: Path | None) -> None:
    """A table for each α, and where the policy changes."""
    from softrobust._core.limits import time_bound
    from softrobust._core.notes import Note
    from softrobust.objective import SoftRobust
    from softrobust.report.pictures import alike, lams
    from softrobust.report.sentences import phrase, sentence
    from softrobust.report.words import measured, two_digits

    console = screen.make_console()
    head = ("λ", "mean", "bad case", "open", "price", "policy changes in")
    goal = found.points[0][0].certificate.objective
    of = "" if goal.against is None else f". {measured(goal)}"
    for j, alpha in enumerate(found.alphas):
        words = SoftRobust(1.0, alpha).words
        console.print()
        case = phrase("screen.frontier_case", words=words, alpha=alpha, of=of)
        screen.paragraph(console, case, "italic")
        rows = []
        for same in alike(found.column(j)):
            p = same[0]
            share = p.certificate.gap_share
            left = "unknown share" if share is None else two_digits(share)
            rows.append(
                (
                    lams(same),
                    f"{p.mean:.6g}",
                    f"{p.cvar:.6g}" + (" (dominated)" if p.dominated else ""),
                    "nothing" if p.certificate.nothing_better else left,
                    "" if p.price is None else f"{p.price:.3g}",
                    ", ".join(p.changed[:6]) + (" …" if len(p.changed) > 6 else ""),
                )
            )
        screen.show_table(console, head, rows, words={5})
    console.print()
    for name in ("open", "price"):
        screen.paragraph(console, phrase(f"screen.frontier_{name}"), "dim")
    if (clock := time_bound()).cut:
        facts = {"parts": list(clock.cut), "seconds": clock.limit}
        screen.paragraph(console, sentence(Note("cut_by_time", facts=facts)), "dim")
    if out is not None:
        screen.say(f"\nWritten to {out}: open {out / 'frontier.svg'} in a browser.")


def print_check(name: str, verdict: str, sentence: str, rule: str) -> None:
    """One check: its verdict in colour, its sentence and when it would be fine below."""
    console = screen.make_console()
    colour = {"fine": "green", "caution": "yellow"}.get(verdict, "dim")
    if rule:
        console.print()
    console.print(
        screen.styled(name, "bold").append(": ", "not bold").append(verdict, f"not bold {colour}")
    )
    screen.paragraph(console, sentence, indent="  ")
    if rule:
        screen.paragraph(console, rule, "dim", indent="  ")


def print_rehearsal(found: Rehearsal | ForeignRehearsal, details: bool) -> None:
    """What was promised and what came true, kind by kind."""
    from softrobust.report.study_words import KIND_HEAD, RULE, rehearsal_sentences, rehearsal_table
    from softrobust.study.foreign import ForeignRehearsal

    print_lines(rehearsal_sentences(found))
    if isinstance(found, ForeignRehearsal):
        console = screen.make_console()
        console.print()
        screen.show_table(console, KIND_HEAD, rehearsal_table(found))
        if details:
            screen.paragraph(console, RULE, "dim")


def print_lines(lines: list[str]) -> None:
    """Sentences, wrapped to the terminal; an indent at the start of a line is kept."""
    console = screen.make_console()
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        screen.paragraph(console, line.strip(), indent=indent, rest=indent + "  ")


def print_options(found: Explanation) -> None:
    """The actions of a state side by side."""
    from softrobust.report.sentences import phrase
    from softrobust.report.words import two_digits

    console = screen.make_console()
    console.print()
    screen.paragraph(console, phrase("screen.options"), "italic")
    rows = []
    for o in found.options:
        share = "" if o.chosen in (0, 1) else f" {two_digits(o.chosen)}"
        mark = f" ←{share}" if o.chosen > 0 else " (nominal)" if o.nominal else ""
        rows.append(
            (
                o.action + mark,
                f"{o.objective:.6g}",
                f"{o.q_mean:.5g}",
                f"{o.q_worst:.5g}",
                "" if o.seen is None else str(o.seen),
                "" if o.practice is None else f"{100 * o.practice:.0f} %",
            )
        )
    screen.show_table(
        console, ("action", "objective", "on average", "worst case", "seen", "practice"), rows
    )


def print_data_values(
    problem: Problem, found: Sequence[DataValue], observations: int, top: int
) -> None:
    """The pairs worth observing, the best first."""
    from softrobust.report.sentences import phrase

    console = screen.make_console()
    worth = [v for v in found if v.value > 0]
    if not worth:
        screen.say(phrase("screen.no_data"))
        return
    console.print()
    screen.paragraph(console, phrase("screen.data", n=observations), "italic")
    rows = [
        (
            problem.models.states[v.s],
            problem.models.actions[v.a],
            f"{v.value:.3g}",
            f"[{v.low:.3g}, {v.high:.3g}]",
            f"{100 * v.changes:.0f} %",
        )
        for v in worth[:top]
    ]
    head = ("state", "action", "value", "95 % interval", "changes the policy")
    screen.show_table(console, head, rows, words={0, 1})
    if len(worth) > top:
        screen.say(phrase("screen.more_pairs", n=len(worth) - top))
    if thin := sum(v.effective_size < 20 for v in worth[:top]):
        screen.paragraph(console, phrase("screen.thin", n=thin))


# --------------------------------------------------------------------------------------------------
# An inspection on the screen: tables and colour for a person, plain text in a pipe.

BAR = 36  # cells of the longest bar, where there is room


def print_inspection(found: Inspection) -> None:
    """What the file is, its sections, what to look at, and what to run."""
    from softrobust.report.commands import command_line
    from softrobust.report.inspection import WHY, at_stake, headline, sections
    from softrobust.report.sentences import phrase, sentence

    console = screen.make_console()
    screen.paragraph(console, headline(found), "bold")
    for section in sections(found):
        _section(console, section)
    shown = at_stake(found)
    if others := [finding for finding in found.findings if finding not in shown]:
        _title(console, "Worth a look")
        for finding in others:
            text = screen.styled(screen.wrapped(console, sentence(finding), "  ! "))
            text.stylize("bold yellow", 0, 4)
            console.print(text)
    if found.steps:
        _title(console, "Run next")
        for step in found.steps:
            screen.paragraph(console, WHY[step.code], "dim", "  # ", "    ")
            # Never wrapped by us: a command must survive being copied.
            console.print(
                screen.styled(f"  {command_line(step.verb, step.file, step.options)}", "bold green")
            )
        if any("gamma" in step.options for step in found.steps):
            screen.paragraph(console, phrase("screen.gamma"), "dim", "  ")
        if any(n.code == "guessed_reward" for n in found.facts.get("guesses", ())):
            screen.paragraph(console, phrase("screen.reward"), "dim", "  ")
    console.print()


def _title(console: Console, words: str) -> None:
    console.print()
    console.print(screen.styled(words, "bold cyan"))


def _section(console: Console, section: Section) -> None:
    _title(console, section.title)
    for sentence in section.sentences:
        inner = len(sentence) - len(sentence.lstrip())
        screen.paragraph(console, sentence.lstrip(), "dim" if inner else "", "  " + " " * inner)
    if section.grid is not None:
        if section.sentences and console.is_terminal:
            console.print()
        _grid(console, section.grid)
    if section.bars:
        _bars(console, section.bars)


def _grid(console: Console, grid: Grid) -> None:
    """Counts of pairs, or a profile of columns in words."""
    rows = [
        [
            screen.styled(cell, _shade(cell) if grid.counts and j else "")
            for j, cell in enumerate(row)
        ]
        for row in grid.rows
    ]
    words = {0} if grid.counts else set(range(len(grid.header)))
    screen.show_table(console, grid.header, rows, words=words, indent=2)


def _shade(count: str) -> str:
    """Red where nothing was seen, yellow where little was."""
    return "red" if not count.isdigit() else "yellow" if int(count) < 5 else ""


def _bars(console: Console, bars: tuple[tuple[str, int], ...]) -> None:
    from softrobust.report.words import percent

    most = max(n for _, n in bars)
    total = sum(n for _, n in bars)
    names = [screen.visible(name) for name, _ in bars]
    label = min(max(len(name) for name in names), 30)
    digits = len(str(most))
    room = max(min(BAR, screen.text_width(console) - label - digits - 15), 4)
    for name, (_, n) in zip(names, bars, strict=True):
        short = name if len(name) <= label else f"{name[: label - 1]}…"
        bar = "█" * round(room * n / most) or ("▏" if n else "")
        line = screen.styled(f"  {short:>{label}}  {n:>{digits}}  ")
        line.append(bar, style="blue")
        line.append(screen.plain(f" {percent(n / total)}") if n else "", style="dim")
        console.print(line)
