"""Words of the command line as values, the options of raw tables, and what TAB offers."""

from __future__ import annotations

import csv
import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from softrobust.cli.places import keep_inputs
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.run import Options

T = TypeVar("T")
OWN = "posterior."  # before the name of a setting that is the posterior's
Split = Callable[[str, str], tuple[str, str, str]]


def split_words(text: str) -> list[str]:
    """Words with commas between; a word that holds a comma stands in quotes."""
    return [word.strip() for word in next(csv.reader([text]), []) if word.strip()]


def _read(text: str, read: Callable[[str], T], rule: str) -> T:
    """What a text says; `rule` says what is taken, where it is no such text."""
    try:
        return read(text)
    except ValueError:
        raise InputError(f"{rule}; it got '{text}'.") from None


def _pairs(
    words: Iterable[str], read: Callable[[str], T], rule: str, split: Split = str.partition
) -> dict[str, T]:
    """`name=value` words as a mapping."""

    def pair(word: str) -> tuple[str, T]:
        name, sign, value = map(str.strip, split(word, "="))
        if not (name and sign and value):
            raise ValueError
        return name, read(value)

    return dict(_read(word, pair, rule) for word in words)


def settings_of(words: list[str] | None) -> dict[str, Any]:
    """`["steps=100", "variant=craam"]` as a mapping; numbers, true and false become values."""
    found = _pairs(words or [], _setting, "--set takes name=value, such as steps=100")
    return {name.replace("-", "_"): value for name, value in found.items()}


def options_of(flags: Mapping[str, Any], **more: Any) -> Options:
    """What the flags of a verb say about its input, in the library's names; `more` goes before."""
    from softrobust.report.commands import CALLED
    from softrobust.run import Options

    names = {f.name: f.name if f.name in flags else CALLED.get(f.name, "") for f in fields(Options)}
    given = {name: flags[flag] for name, flag in names.items() if flag in flags}
    given |= {"columns": pairs_of(given["columns"]), "settings": settings_of(flags["set_"]) or None}
    return Options(**(given | more))


def settings_for(
    words: list[str] | None, continuous: bool, solver: str | None
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Settings of the posterior (None without any), and of the solver.

    With continuous states both have some: `posterior.noise=varying` is one of the posterior, and so
    is a name that the solver does not have.
    """
    found = settings_of(words)
    if not continuous:
        return {key.removeprefix(OWN): value for key, value in found.items()} or None, {}
    from softrobust.posterior.registry import settings_of as known
    from softrobust.solvers.registry import CONTINUOUS_SOLVERS

    kind: Any = CONTINUOUS_SOLVERS.get(solver or "srvi")
    its = set(known("regression")) - {f.name for f in fields(kind)} if kind else set()
    mine = {key: value for key, value in found.items() if key.startswith(OWN) or key in its}
    rest = {key: value for key, value in found.items() if key not in mine}
    return {key.removeprefix(OWN): value for key, value in mine.items()} or None, rest


def _setting(text: str) -> Any:
    tuple_ = text.startswith("(") and text.endswith(")")  # as Python writes it
    try:
        return json.loads(f"[{text[1:-1].rstrip(', ')}]" if tuple_ else text)
    except (json.JSONDecodeError, RecursionError):
        return text


def pairs_of(text: str | None, flag: str = "--columns") -> dict[str, str] | None:
    """`state=site,action=dose` as a mapping; a name with a comma stands in quotes."""
    if text is None:
        return None
    rule = f"{flag} takes role=name pairs, such as state=site,action=dose"
    if flag == "--measure":
        rule = f"{flag} takes name=value pairs, such as bili=3.2,albumin=3.4"
    return _pairs(split_words(text) or [text], str, rule)


def bins_of_words(words: str) -> dict[str, int | Sequence[float]]:
    """`hba1c=7:8:9,weight=4` as cuts and numbers of bins."""

    def read(text: str) -> int | Sequence[float]:
        return _span(text) if ":" in text else int(text)

    rule = "Bins are written column=cuts, such as hba1c=7:8:9, or column=number, such as weight=4"
    return _pairs(split_words(words), read, rule, str.rpartition)


def _span(text: str) -> list[float]:
    return [float(part) for part in text.split(":") if part.strip()]


def coefficients_of(flag: str, text: str | None) -> dict[str, float] | None:
    """`P=1,Q=-1` as a mapping."""
    rule = f"{flag} takes variable=coefficient pairs, such as P=1,Q=-1"
    return None if text is None else _pairs(split_words(text) or [text], float, rule)


def clip_of(text: str | None) -> dict[str, tuple[float, float]] | float | None:
    """`none`, a share such as 0.5, or `x=0:10,y=-1:1`."""
    if text is None or text.strip() == "none":
        return None if text is None else float("inf")

    def read(span: str) -> tuple[float, float]:
        low, high = _span(span)
        return low, high

    rule = (
        "--clip takes none, a share of the range of the data such as 0.5, or intervals such as "
        "x=0:10,y=-1:1"
    )
    return _pairs(split_words(text), read, rule) if "=" in text else _read(text, float, rule)


def observation_of(text: str, variables: Sequence[str]) -> list[float]:
    """`C=0,P=7.1` in any order, or plain numbers in the order of the variables."""
    parts, rule = split_words(text), "An observation is written as x=1.5,y=2 or 1.5,2"
    if not any("=" in part for part in parts):
        if len(parts) != len(variables):
            raise InputError(
                f"An observation has {len(variables)} numbers ({', '.join(variables)}); "
                f"{len(parts)} came."
            )
        return _read(text, lambda _: list(map(float, parts)), rule)
    values = _pairs(parts, float, rule)
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
    rule = f"{flag} takes numbers with commas, such as 0,.5,1"
    return _read(text, lambda text: list(map(float, text.split(","))), rule)


# -- what can be said about a raw table, by every verb that reads one --------------------------

_HELP: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("options.toml").read_text(encoding="utf-8")
)
_TYPES: dict[str, type] = {"header_row": int, "events": Path}
READING = ("sheet", "header_row", "encoding")
OUTPUT = "Output"


def spelled_out(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as the parser reads it: its parameters, with what `options.toml` says of each.

    All have --debug, which is looked for before parsing. A verb with the parameters `visits` and
    `reading` has the options of raw tables, and gets these mappings of them.
    """
    signature, named = inspect.signature(verb, eval_str=True), inspect.Parameter.KEYWORD_ONLY
    known = _by_name(_HELP[verb.__name__])
    raw = _by_name(_HELP["raw"]) if "visits" in signature.parameters else {}
    given = [
        p.replace(annotation=_annotated(name, p.annotation, *known.get(name, (None, {}))))
        for name, p in signature.parameters.items()
        if name not in ("visits", "reading")
    ]
    panel = OUTPUT if OUTPUT in _HELP[verb.__name__] else None
    debug = _annotated("debug", bool, panel, {})
    given.append(inspect.Parameter("debug", named, default=False, annotation=debug))
    for name, about in raw.items():
        kind = _annotated(name, _TYPES.get(name, str) | None, *about)
        given.append(inspect.Parameter(name, named, default=None, annotation=kind))

    @wraps(verb)
    def call(**flags: Any) -> None:
        del flags["debug"]
        keep_inputs(verb.__name__, flags)
        said = {name: flags.pop(name) for name in raw}
        reading = {name: said.pop(name) for name in READING if name in raw}
        if raw:
            flags["visits"] = _rules_of(said)
            flags["reading"] = {name: x for name, x in reading.items() if x is not None}
        verb(**flags)

    vars(call)["__signature__"] = signature.replace(parameters=given)
    call.__annotations__ = {p.name: p.annotation for p in given}
    return call


def _by_name(table: Mapping[str, Any]) -> dict[str, tuple[str | None, Any]]:
    """Option → its panel of the help, and what is said of it."""
    out: dict[str, tuple[str | None, Any]] = {}
    for name, about in table.items():
        panel = about if name[0].isupper() else {}
        out |= {n: (name, a) for n, a in panel.items()} if panel else {name: (None, about)}
    return out


def _annotated(name: str, kind: Any, panel: str | None, about: Any) -> Any:
    """A type with its option or argument; what a verb says nothing of is as everywhere."""
    about = about or _HELP["shared"][name]
    said: dict[str, Any] = {"help": about} if isinstance(about, str) else dict(about)
    words = said["help"].replace("{solvers}", ", ".join(SOLVERS))
    offered: dict[str, Any] = {"solvers": solvers, "solver_list": solver_list, "states": states,
        "domains": domains, "posteriors": posteriors, "experiments": experiments}  # fmt: skip
    offer = offered[said["complete"]] if "complete" in said else None
    if "argument" in said:
        argument = typer.Argument(metavar=said["argument"], help=words, autocompletion=offer)
        return Annotated[kind, argument]
    spelled = said.get("names", [f"--{name.replace('_', '-')}"] if kind is bool else [])
    more: dict[str, Any] = {name: said.get(name) for name in ("metavar", "min")}
    return Annotated[kind, typer.Option(
        *spelled, help=words, autocompletion=offer, rich_help_panel=panel, **more
    )]  # fmt: skip


def _rules_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said about visits, as settings of `TrajectoryRules`."""
    rules = {name: value for name, value in said.items() if value is not None}
    for name in ("measurements", "id"):
        if name in rules:
            rules[name] = tuple(split_words(rules[name]))
    if len(rules.get("id", ())) == 1:
        rules["id"] = rules["id"][0]
    if "bins" in rules and "=" in rules["bins"] and not Path(rules["bins"]).is_file():
        rules["bins"] = bins_of_words(rules["bins"])
    if "action_bins" in rules:
        rules["action_bins"] = bins_of_words(f"action={rules['action_bins']}")["action"]
    if "events_columns" in rules:
        rules["events_columns"] = pairs_of(rules["events_columns"], "--events-columns")
    if "cost" in rules:
        rule = "--cost takes action=number pairs, such as spray=2,none=0"
        rules["cost"] = _pairs(split_words(rules["cost"]), float, rule, str.rpartition)
    return rules


# --------------------------------------------------------------------------------------------------
# What a shell offers after TAB: names of solvers, domains, posteriors, and states of a run.
#
# Nothing heavy is imported for names that never change; a test keeps the lists true. A mistake on
# the line offers nothing: the verb itself says what is wrong with it.

SOLVERS, CONTINUOUS, DOMAINS, POSTERIORS, EXPERIMENTS = (
    tuple(_HELP["offered"][name].split())
    for name in ("solvers", "continuous", "domains", "posteriors", "experiments")
)
MOST_STATES = 200  # more are no help on a screen


def solvers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Solvers; with --continuous those for continuous states."""
    return _begin(CONTINUOUS if ctx.params.get("continuous") else SOLVERS, incomplete)


def solver_list(incomplete: str) -> list[str]:
    """Solvers with commas: what follows the last one."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begin(SOLVERS, last)]


def _offer(names: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: _begin(names, incomplete)


domains, posteriors, experiments = _offer(DOMAINS), _offer(POSTERIORS), _offer(EXPERIMENTS)


def states(ctx: typer.Context, incomplete: str) -> list[str]:
    """States of the run that stands before on the line."""
    # An option still without its value ends the parsing early: the run is among the loose words.
    run = ctx.params.get("run") or next(iter(ctx.args), None)
    return _begin(_states_of(Path(run)), incomplete)[:MOST_STATES] if run else []


def _states_of(run: Path) -> list[str]:
    path = run / "policy.csv" if run.is_dir() else run.parent / "policy.csv"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = [row["state"] for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error):
        return []
    return list(dict.fromkeys(names))


def _begin(names: Sequence[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
