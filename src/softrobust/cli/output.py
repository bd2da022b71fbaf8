"""Results on the terminal: colour where a person looks, plain in a pipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softrobust.insight import DataValue, Explanation
    from softrobust.pipeline import Run
    from softrobust.problem import Problem
    from softrobust.tradeoff import Frontier


def print_json(run: Run) -> None:
    """`solution.json` on stdout."""
    from softrobust.certificate import solution_record

    record = solution_record(run.solution, run.certificate)
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def print_summary(run: Run, out: Path | None) -> None:
    """The summary, wrapped to the terminal."""
    import textwrap

    from rich.console import Console
    from rich.text import Text

    from softrobust.pipeline import summary_lines

    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, 100)
    styles = {"head": "bold", "text": "", "note": "dim", "row": "cyan"}
    for kind, line in summary_lines(run):
        first = {"head": "\n", "note": "  · "}.get(kind, "  ")
        rest = "" if kind == "head" else " " * len(first)
        body = textwrap.fill(line, width, initial_indent=first.strip("\n"), subsequent_indent=rest)
        console.print(Text(("\n" if kind == "head" else "") + body, style=styles[kind]))
    if out is not None:
        console.print(Text(f"\nWritten to {out}: open {out / 'report.html'} in a browser."))


def print_frontier_json(found: Frontier) -> None:
    """One object per point on stdout."""
    from softrobust.reporting.frontier import HEADER, frontier_rows

    points = [dict(zip(HEADER, row, strict=True)) for row in frontier_rows(found)]
    sys.stdout.write(json.dumps(points, indent=1, allow_nan=False) + "\n")


def print_frontier(found: Frontier, out: Path | None) -> None:
    """A table for each α, and where the policy changes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from softrobust.objective import SoftRobust

    console = Console(highlight=False)
    for j, alpha in enumerate(found.alphas):
        words = SoftRobust(1.0, alpha).words
        table = Table(
            title=f"\nThe bad case is {words} (α = {alpha:g})", title_justify="left", box=None
        )
        for name in ("λ", "mean", "bad case", "open", "price", "policy changes in"):
            table.add_column(name, justify="left" if name.startswith("policy") else "right")
        for p in found.column(j):
            share = p.certificate.gap_share
            changed = ", ".join(p.changed[:6]) + (" …" if len(p.changed) > 6 else "")
            table.add_row(
                f"{p.lam:g}",
                f"{p.mean:.6g}",
                f"{p.cvar:.6g}" + (" (dominated)" if p.dominated else ""),
                "nothing" if share is None or share <= 1e-6 else f"{100 * share:.2g} %",
                "" if p.price is None else f"{p.price:.3g}",
                changed,
            )
        console.print(table)
    console.print(
        Text(
            "\nopen: what is not proven, as a share of what is to be gained over acting at random."
            "\nprice: mean given up for one unit of bad case gained, since the λ above.",
            style="dim",
        )
    )
    if out is not None:
        console.print(f"\nWritten to {out}: open {out / 'frontier.svg'} in a browser.")


def print_check(name: str, verdict: str, sentence: str) -> None:
    """One check: its verdict in colour, its sentence below."""
    import textwrap

    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    colour = {"fine": "green", "caution": "yellow"}.get(verdict, "dim")
    console.print(Text.assemble("\n", (name, "bold"), ": ", (verdict, colour)))
    width = min(console.width, 100)
    console.print(textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="  "))


def print_lines(lines: list[str]) -> None:
    """Sentences, wrapped to the terminal; an indent at the start of a line is kept."""
    import textwrap

    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False)
    width = min(console.width, 100)
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        console.print(textwrap.fill(line.strip(), width, initial_indent=indent,
                                    subsequent_indent=indent + "  "))  # fmt: skip


def print_options(found: Explanation) -> None:
    """The actions of a state side by side."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, title="\nActions here, the best exchange first", title_justify="left")
    for name in ("action", "objective", "on average", "worst case", "seen", "practice"):
        table.add_column(name, justify="left" if name == "action" else "right")
    for o in found.options:
        mark = " ←" if o.action == found.action else " (nominal)" if o.nominal else ""
        table.add_row(
            o.action + mark,
            f"{o.objective:.6g}",
            f"{o.q_mean:.5g}",
            f"{o.q_worst:.5g}",
            "" if o.seen is None else str(o.seen),
            "" if o.practice is None else f"{100 * o.practice:.0f} %",
        )
    Console(highlight=False).print(table)


def print_data_values(
    problem: Problem, found: Sequence[DataValue], observations: int, top: int
) -> None:
    """The pairs worth observing, the best first."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    worth = [v for v in found if v.value > 0]
    if not worth:
        console.print("No pair is worth observing more: no data would change the policy.")
        return
    table = Table(
        box=None,
        title=f"\nWhat {observations} more observations of one pair would add to the objective",
        title_justify="left",
    )
    for name in ("state", "action", "value", "95 % interval", "changes the policy"):
        table.add_column(name, justify="left" if name in ("state", "action") else "right")
    for v in worth[:top]:
        table.add_row(
            problem.models.states[v.s],
            problem.models.actions[v.a],
            f"{v.value:.3g}",
            f"[{v.low:.3g}, {v.high:.3g}]",
            f"{100 * v.changes:.0f} %",
        )
    console.print(table)
    if len(worth) > top:
        console.print(f"… and {len(worth) - top} more pairs (--json has them all).")
    thin = [v for v in worth[:top] if v.effective_size < 20]
    if thin:
        console.print(
            f"{len(thin)} of these rest on few effective models after the data: raise --draws."
        )
