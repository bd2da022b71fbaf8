"""Settings as words on the command line: `--set name=value`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from softrobust.errors import InputError


def settings_of(words: list[str] | None) -> dict[str, Any]:
    """`["steps=100", "variant=craam"]` as a mapping; numbers, true and false become values."""
    out: dict[str, Any] = {}
    for word in words or []:
        name, sign, value = word.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise InputError(f"--set takes name=value, such as steps=100; it got '{word}'.")
        text = value.strip()
        if text.startswith("(") and text.endswith(")"):  # a tuple, as Python writes it
            text = f"[{text[1:-1].rstrip(', ')}]"
        try:
            out[name.strip().replace("-", "_")] = json.loads(text)
        except json.JSONDecodeError:
            out[name.strip().replace("-", "_")] = value.strip()
    return out


def pairs_of(text: str | None, flag: str = "--columns") -> dict[str, str] | None:
    """`state=site,action=dose` as a mapping; a name with a comma stands in quotes."""
    from softrobust.data.visit_rules import split_words

    if text is None:
        return None
    out: dict[str, str] = {}
    for part in split_words(text) or [text]:
        role, sign, name = part.partition("=")
        if not sign or not role.strip() or not name.strip():
            raise InputError(
                f"{flag} takes role=name pairs, such as state=site,action=dose; it got '{part}'."
            )
        out[role.strip()] = name.strip()
    return out


def numbers_of(flag: str, text: str) -> list[float]:
    """`0,.5,1` as numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{flag} takes numbers with commas, such as 0,.5,1; it got '{text}'."
        ) from None


# --------------------------------------------------------------------------------------------------
# What a shell offers after TAB: names of solvers, domains, posteriors, and states of a run.
#
# Nothing heavy is imported for names that never change; a test keeps the lists true. A mistake on
# the line offers nothing: the verb itself says what is wrong with it.

# In this file so that the help and the shell need no imports; a test keeps them true.
SOLVERS = (
    "exact", "milp", "local-search", "randomized", "s-rect", "sa-rect", "mvp", "wsu", "cadp",
    "bcr", "rsvf", "rsvf-simple", "var", "worst-model", "spibb", "nominal", "empirical",
)  # fmt: skip
CONTINUOUS = ("srvi", "srvi-sa", "rpvi-control", "sr-sac", "r-sac", "sac")
DOMAINS = ("pest-control", "inventory", "riverswim", "cancer", "random")
POSTERIORS = ("dirichlet", "tied", "hierarchical", "demand", "population", "regression")
EXPERIMENTS = (
    "optimizers-curse", "pest-density", "pest-frontier", "inventory", "riverswim", "cancer",
    "truth", "all",
)  # fmt: skip
MOST_STATES = 200  # more are no help on a screen


def solvers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Solvers; with --continuous those for continuous states."""
    names = CONTINUOUS if ctx.params.get("continuous") else SOLVERS
    return _begin(names, incomplete)


def solver_list(incomplete: str) -> list[str]:
    """Solvers with commas: what follows the last one."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begin(SOLVERS, last)]


def domains(incomplete: str) -> list[str]:
    """Domains."""
    return _begin(DOMAINS, incomplete)


def posteriors(incomplete: str) -> list[str]:
    """Posteriors."""
    return _begin(POSTERIORS, incomplete)


def experiments(incomplete: str) -> list[str]:
    """Experiments of the paper."""
    return _begin(EXPERIMENTS, incomplete)


def states(ctx: typer.Context, incomplete: str) -> list[str]:
    """States of the run that stands before on the line."""
    # An option still without its value ends the parsing early: the run is among the loose words.
    run = ctx.params.get("run") or next(iter(ctx.args), None)
    return _begin(_states_of(Path(run)), incomplete)[:MOST_STATES] if run else []


def _states_of(run: Path) -> list[str]:
    import csv

    path = run / "policy.csv" if run.is_dir() else run.parent / "policy.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            names = [row["state"] for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error):
        return []
    return list(dict.fromkeys(names))


def _begin(names: tuple[str, ...] | list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
