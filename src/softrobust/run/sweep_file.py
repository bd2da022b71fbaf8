"""`sweep.toml`: which solvers, λ, α and seeds are to meet which domains or logs.

    [sweep]
    solvers = ["exact", "s-rect", "nominal"]
    lambdas = [0.0, 0.5, 1.0]
    alphas = [0.9]
    seeds = 5                 # 0 … 4, or a list
    models = 100              # drawn to choose on
    heldout = 400             # drawn to judge on
    node_limit = 200          # of solvers that prove: nodes, never a clock

    [[source]]
    domain = "riverswim"
    settings = { steps = 30 }

    [[source]]
    log = "pest_log.csv"      # beside this file
    gamma = 0.95

Everything is checked before any work is done; a name that is not known gets its nearest neighbour.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

from softrobust._core.settings import did_you_mean, one_of, real, whole
from softrobust.domains import DOMAINS, make_domain
from softrobust.domains.base import TabularDomain
from softrobust.errors import InputError
from softrobust.objective import SoftRobust, check_share
from softrobust.solvers.registry import SOLVERS

FILES = ("log", "states", "initial", "allowed", "reward_table")
PRIOR = ("strength", "per_cell", "support", "min_count")
OPTIONS = ("gamma", "columns", "reward_default", *PRIOR)
SWEEP_KEYS = (
    "solvers", "lambdas", "alphas", "seeds", "models", "heldout", "node_limit", "seed"
)  # fmt: skip
T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Source:
    """Where problems come from: a domain with its settings, or a log with its options."""

    name: str
    domain: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Plain values, without the places of files."""
        files = {name: path.name for name, path in self.files.items()}
        known = {"name": self.name, "domain": self.domain}
        return known | {"settings": dict(self.settings), "files": files}


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """A checked sweep; `seed` is the root that all randomness is derived from."""

    solvers: tuple[str, ...]
    lambdas: tuple[float, ...]
    alphas: tuple[float, ...]
    seeds: tuple[int, ...]
    models: int
    heldout: int
    node_limit: int
    seed: int
    sources: tuple[Source, ...]

    def record(self) -> dict[str, Any]:
        """Plain values for results.json."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: list(x) if isinstance(x, tuple) else x for name, x in held.items()}
        return plain | {"sources": [source.record() for source in self.sources]}


def read_sweep(path: str | Path) -> Sweep:
    """Read and check a sweep; errors begin with the name of the file."""
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file '{file}'.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file.name} cannot be read as TOML: {error}.") from None
    try:
        return _sweep(table, file.resolve().parent)
    except InputError as error:
        raise InputError(f"{file.name}: {error}") from None


def _sweep(table: Mapping[str, Any], folder: Path) -> Sweep:
    _known("the file", table, ("sweep", "source"))
    given, sources = table.get("sweep"), table.get("source")
    if not isinstance(given, dict):
        raise InputError('The table [sweep] is missing. It needs at least solvers = ["exact"].')
    if not isinstance(sources, list) or not all(isinstance(s, dict) for s in sources):
        raise InputError(
            'There is no [[source]]. Add one with domain = "riverswim", or with log = "log.csv" '
            "and gamma = 0.95. Mind the double brackets: there may be several."
        )
    _known("[sweep]", given, SWEEP_KEYS)
    if "solvers" not in given:
        raise InputError('[sweep] needs solvers = [...], such as ["exact", "nominal"].')
    objective = SoftRobust()
    sweep = Sweep(
        solvers=_list("solvers", given["solvers"], _solver),
        lambdas=_list("lambdas", given.get("lambdas", [objective.lam]), partial(_share, "lambda")),
        alphas=_list("alphas", given.get("alphas", [objective.alpha]), partial(_share, "alpha")),
        seeds=_seeds(given.get("seeds", 1)),
        models=whole("models", given.get("models", 100)),
        heldout=whole("heldout", given.get("heldout", 400), hint="Draw one or more."),
        node_limit=whole("node_limit", given.get("node_limit", 200), 0),
        seed=whole("seed", given.get("seed", 0), 0),
        sources=tuple(_source(i, source, folder) for i, source in enumerate(sources, 1)),
    )
    names = [source.name.lower() for source in sweep.sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f'Two sources are called "{twice}". Give one of them another name = "…".')
    return sweep


def _source(number: int, given: Mapping[str, Any], folder: Path) -> Source:
    where = f"[[source]] number {number}"
    if ("domain" in given) == ("log" in given):
        raise InputError(f'{where} needs either domain = "…" or log = "…", and not both.')
    try:
        if "domain" in given:
            return _domain_source(where, given)
        return _log_source(where, given, folder)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(where) else f"{where}: {text}") from None


def _domain_source(where: str, given: Mapping[str, Any]) -> Source:
    _known(where, given, ("name", "domain", "settings"))
    name, settings = given["domain"], given.get("settings", {})
    if not isinstance(name, str) or name not in DOMAINS:
        raise InputError(f"There is no domain '{name}'.{_hint(name, DOMAINS)}")
    if not isinstance(settings, dict):
        raise InputError("settings must be a table, such as { steps = 30 }.")
    domain = make_domain(name, **settings)
    if not isinstance(domain, TabularDomain):
        raise InputError(
            f"The domain '{name}' has continuous states, and a sweep runs tabular solvers. "
            "Discretise a log of it, and give that as log = …"
        )
    return Source(_name(given, name), name, settings)


def _log_source(where: str, given: Mapping[str, Any], folder: Path) -> Source:
    _known(where, given, ("name", *FILES, *OPTIONS))
    files = {}
    for name in FILES:
        if name in given:
            if not isinstance(given[name], str):
                raise InputError(f"{name} must be the name of a file; it is {given[name]!r}.")
            files[name] = folder / given[name]
            if not files[name].is_file():
                raise InputError(f"{name} = \"{given[name]}\": there is no file '{files[name]}'.")
    if "gamma" not in given:
        raise InputError("A log does not know its discount. Add gamma = 0.95, say.")
    settings: dict[str, Any] = {"gamma": real("gamma", given["gamma"], above=0, below=1)}
    for name in ("reward_default", "strength", "per_cell"):
        if name in given:
            settings[name] = real(name, given[name])
    if "min_count" in given:
        settings["min_count"] = whole("min_count", given["min_count"], 0)
    if "support" in given:
        settings["support"] = one_of("support", given["support"], ("neighbours", "visited", "all"))
    if "columns" in given:
        columns = given["columns"]
        if not isinstance(columns, dict) or not all(isinstance(c, str) for c in columns.values()):
            raise InputError('columns must be a table of names, such as { state = "site" }.')
        settings["columns"] = columns
    return Source(_name(given, files["log"].stem), None, settings, files)


def _name(given: Mapping[str, Any], default: str) -> str:
    name = given.get("name", default)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"name must be a word; it is {name!r}.")
    return name


def _seeds(given: Any) -> tuple[int, ...]:
    if isinstance(given, list):
        return _list("seeds", given, lambda value: whole("a seed", value, 0))
    return tuple(range(whole("seeds", given, hint="Give how many, or a list such as [3, 4].")))


def _solver(value: Any) -> str:
    if not isinstance(value, str) or value not in SOLVERS:
        raise InputError(f"There is no solver '{value}'.{_hint(value, SOLVERS)}")
    return value


def _share(name: str, value: Any) -> float:
    return check_share(name, real(name, value))


def _list(name: str, given: Any, check: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(given, list) or not given:
        raise InputError(f"{name} must be a list with at least one entry; it is {given!r}.")
    values = tuple(check(value) for value in given)
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise InputError(f"{name} holds {twice!r} twice. Once is enough.")
    return values


def _known(where: str, given: Mapping[str, Any], names: Iterable[str]) -> None:
    allowed = list(names)
    for name in given:
        if name not in allowed:
            raise InputError(f"{where} has no setting '{name}'.{_hint(name, allowed)}")


def _hint(word: Any, names: Iterable[str]) -> str:
    known = list(names)
    return f"{did_you_mean(word, known)} Known: {', '.join(known)}."
