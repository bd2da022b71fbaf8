"""Settings as words on the command line: `--set name=value`."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
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


def split_words(text: str) -> list[str]:
    """Words with commas between; a word that holds a comma stands in quotes."""
    return [word.strip() for word in next(csv.reader([text]), []) if word.strip()]


def bins_of_words(words: str) -> dict[str, int | Sequence[float]]:
    """`hba1c=7:8:9,weight=4` as cuts and numbers of bins."""
    out: dict[str, int | Sequence[float]] = {}
    for word in split_words(words):
        column, sign, text = word.rpartition("=")
        try:
            cuts = [float(cut) for cut in text.split(":") if cut.strip()]
            found = cuts if ":" in text else int(text)
        except ValueError:
            sign = ""
        if not sign or not column.strip():
            raise InputError(
                "Bins are written column=cuts, such as hba1c=7:8:9, or column=number of bins, such "
                f"as weight=4; '{word}' is neither."
            )
        out[column.strip()] = found
    return out


def names_of(text: str | None) -> list[str] | None:
    """`a,b` as names; one with a comma stands in quotes."""
    return None if text is None else split_words(text)


def coefficients_of(flag: str, text: str | None) -> dict[str, float] | None:
    """`P=1,Q=-1` as a mapping."""
    if text is None:
        return None
    out: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        try:
            if not sign or not name.strip():
                raise ValueError
            out[name.strip()] = float(value)
        except ValueError:
            raise InputError(
                f"{flag} takes variable=coefficient pairs, such as P=1,Q=-1; it got '{part}'."
            ) from None
    return out


def clip_of(text: str | None) -> dict[str, tuple[float, float]] | float | None:
    """`none`, a share such as 0.5, or `x=0:10,y=-1:1`."""
    if text is None or text.strip() == "none":
        return None if text is None else float("inf")
    try:
        if "=" not in text:
            return float(text)
        out = {}
        for part in text.split(","):
            name, _, span = part.partition("=")
            low, _, high = span.partition(":")
            out[name.strip()] = (float(low), float(high))
        return out
    except ValueError:
        raise InputError(
            "--clip takes none, a share of the range of the data such as 0.5, or intervals such "
            f"as x=0:10,y=-1:1; it got '{text}'."
        ) from None


def observation_of(text: str, variables: Sequence[str]) -> list[float]:
    """`C=0,P=7.1` in any order, or plain numbers in the order of the variables."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    named = [part.partition("=") for part in parts]
    try:
        if all(sign for _, sign, _ in named):
            values = {name.strip(): float(value) for name, _, value in named}
        elif len(parts) == len(variables):
            values = dict(zip(variables, map(float, parts), strict=True))
        else:
            raise InputError(
                f"An observation has {len(variables)} numbers ({', '.join(variables)}); "
                f"{len(parts)} came."
            )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"An observation is written as x=1.5,y=2 or 1.5,2; it was '{text}'."
        ) from None
    unknown = [name for name in values if name not in variables]
    if unknown:
        raise InputError(f"Unknown variable '{unknown[0]}'; there are {', '.join(variables)}.")
    lacking = [name for name in variables if name not in values]
    if lacking:
        raise InputError(f"The observation lacks '{lacking[0]}'.")
    return [values[name] for name in variables]


def refuse(given: Mapping[str, Any], meant: str) -> None:
    """Flags that are of no use here are an error, not ignored."""
    names = [name for name, value in given.items() if not (value is None or value is False)]
    if names:
        flags = ", ".join("--" + name.rstrip("_").replace("_", "-") for name in names)
        raise InputError(f"{flags} is for {meant}. Leave it out.")


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
    "improve", "exact", "milp", "local-search", "randomized", "s-rect", "sa-rect", "mvp", "wsu", "cadp",
    "bcr", "rsvf", "rsvf-simple", "var", "worst-model", "spibb", "soft-spibb",
    "ramdp", "duipi", "nominal", "empirical",
)  # fmt: skip
CONTINUOUS = ("srvi", "srvi-sa", "rpvi-control", "sr-sac", "r-sac", "sac")
DOMAINS = ("pest-control", "inventory", "riverswim", "cancer", "random")
POSTERIORS = ("learned", "dirichlet", "tied", "hierarchical", "demand", "population", "regression")
EXPERIMENTS = (
    "optimizers-curse", "pest-density", "pest-frontier", "inventory", "riverswim", "cancer",
    "truth", "worlds", "all",
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
