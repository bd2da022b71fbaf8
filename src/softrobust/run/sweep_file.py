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
    horizon = 20              # of a domain, too: steps of an episode; gamma may then be 1
    reference = "rule.csv"    # a policy to measure against, where [sweep] names none

Everything is checked before any work is done; a name that is not known gets its nearest neighbour.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

from softrobust._core.files import refuse_streams
from softrobust._core.settings import did_you_mean, one_of, real, whole
from softrobust.domains import DOMAINS, TabularDomain, make_domain
from softrobust.errors import InputError
from softrobust.objective import NONE, REFERENCES, SoftRobust, check_share
from softrobust.problem import HORIZON_MOST, check_gamma
from softrobust.solvers.base import KNOW_HORIZONS
from softrobust.solvers.registry import SOLVERS

T = TypeVar("T")
MOST_TASKS, MOST_MODELS = 100_000, 100_000  # beyond them a slip of the pen is likelier than a plan
FILES = ("log", "states", "initial", "allowed", "reward_table", "reference")


@final
@dataclass(frozen=True, slots=True)
class Source:
    """Where problems come from: a domain with its settings, or a log with its options."""

    name: str
    domain: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    horizon: int | None = None

    def record(self) -> dict[str, Any]:
        """Plain values, without the places of files."""
        files = {name: path.name for name, path in self.files.items()}
        known = {"name": self.name, "domain": self.domain}
        steps = {} if self.horizon is None else {"horizon": self.horizon}
        return known | {"settings": dict(self.settings), "files": files} | steps


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
    reference: str = NONE

    def record(self) -> dict[str, Any]:
        """Plain values for results.json."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: list(x) if isinstance(x, tuple) else x for name, x in held.items()}
        return plain | {"sources": [source.record() for source in self.sources]}


def read_sweep(path: str | Path) -> Sweep:
    """Read and check a sweep; errors begin with the name of the file."""
    file = Path(path)
    refuse_streams(file)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no file '{file}'.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
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
    _known("[sweep]", given, SWEEP)
    if "solvers" not in given:
        raise InputError('[sweep] needs solvers = [...], such as ["exact", "nominal"].')
    settings = {name: check(name, given.get(name, usual)) for name, (check, usual) in SWEEP.items()}
    sweep = Sweep(
        **settings, sources=tuple(_source(i, source, folder) for i, source in enumerate(sources, 1))
    )
    for source in sweep.sources:
        strange = [name for name in sweep.solvers if name not in KNOW_HORIZONS]
        if source.horizon is not None and strange:
            fit = ", ".join(name for name in SOLVERS if name in KNOW_HORIZONS)
            raise InputError(
                f"The solver '{strange[0]}' is for problems without end, and \"{source.name}\" has "
                f"a horizon. Solvers that know of horizons: {fit}."
            )
        if "reference" in source.files and sweep.reference != NONE:
            raise InputError(f'"{source.name}" has a reference, and [sweep] too. Leave one out.')
    grid = (sweep.solvers, sweep.lambdas, sweep.alphas, sweep.seeds, sweep.sources)
    if (n := math.prod(map(len, grid))) > MOST_TASKS:
        raise InputError(f"The sweep has {n:,} tasks; one folder takes {MOST_TASKS:,}. Split it.")
    if (twice := _twice([source.name.lower() for source in sweep.sources])) is not None:
        raise InputError(f'Two sources are called "{twice}". Give one of them another name = "…".')
    return sweep


def _source(number: int, given: Mapping[str, Any], folder: Path) -> Source:
    where = f"[[source]] number {number}"
    if ("domain" in given) == ("log" in given):
        raise InputError(f'{where} needs either domain = "…" or log = "…", and not both.')
    try:
        return _domain_source(given) if "domain" in given else _log_source(given, folder)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _domain_source(given: Mapping[str, Any]) -> Source:
    _known("It", given, ("name", "domain", "settings", "horizon"))
    name, settings = given["domain"], given.get("settings", {})
    if not isinstance(name, str) or name not in DOMAINS:
        raise InputError(f"There is no domain '{name}'.{_hint(name, DOMAINS)}")
    if not isinstance(settings, dict):
        raise InputError("settings must be a table, such as { steps = 30 }.")
    if not isinstance(make_domain(name, **settings), TabularDomain):
        raise InputError(
            f"The domain '{name}' has continuous states, and a sweep runs tabular solvers. "
            "Discretise a log of it, and give that as log = …"
        )
    return Source(_name(given, name), name, settings, horizon=_horizon(given))


def _log_source(given: Mapping[str, Any], folder: Path) -> Source:
    _known("It", given, ("name", "horizon", *FILES, *OPTIONS))
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
    settings = {name: check(name, given[name]) for name, check in OPTIONS.items() if name in given}
    check_gamma(settings["gamma"], _horizon(given))
    return Source(_name(given, files["log"].stem), None, settings, files, _horizon(given))


def _horizon(given: Mapping[str, Any]) -> int | None:
    steps = given.get("horizon")
    return None if steps is None else whole("horizon", steps, most=HORIZON_MOST)


def _name(given: Mapping[str, Any], default: str) -> str:
    name = given.get("name", default)
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"name must be a word; it is {name!r}.")
    return name


def _columns(name: str, given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(c, str) for c in given.values()):
        raise InputError('columns must be a table of names, such as { state = "site" }.')
    return given


def _seeds(name: str, given: Any) -> tuple[int, ...]:
    if isinstance(given, list):
        return _list(name, given, lambda value: whole("a seed", value, 0))
    hint = "Give how many, or a list such as [3, 4]."
    return tuple(range(whole(name, given, most=MOST_TASKS, hint=hint)))


def _solver(value: Any) -> str:
    if not isinstance(value, str) or value not in SOLVERS:
        raise InputError(f"There is no solver '{value}'.{_hint(value, SOLVERS)}")
    return value


def _shares(name: str, given: Any) -> tuple[float, ...]:
    one = name.removesuffix("s")
    return _list(name, given, lambda value: check_share(one, real(one, value)))


def _list(name: str, given: Any, check: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(given, list) or not given:
        raise InputError(f"{name} must be a list with at least one entry; it is {given!r}.")
    values = tuple(check(value) for value in given)
    if (twice := _twice(values)) is not None:
        raise InputError(f"{name} holds {twice!r} twice. Once is enough.")
    return values


def _twice(values: Sequence[T]) -> T | None:
    return next((value for value in values if values.count(value) > 1), None)


def _known(where: str, given: Mapping[str, Any], names: Iterable[str]) -> None:
    allowed = list(names)
    for name in given:
        if name not in allowed:
            raise InputError(f"{where} has no setting '{name}'.{_hint(name, allowed)}")


def _hint(word: Any, names: Iterable[str]) -> str:
    known = list(names)
    return f"{did_you_mean(word, known)} Known: {', '.join(known)}."


Check = Callable[[str, Any], Any]
SWEEP: dict[str, tuple[Check, Any]] = {  # how each setting is checked, and its default
    "solvers": (lambda name, given: _list(name, given, _solver), None),
    "lambdas": (_shares, [SoftRobust().lam]),
    "alphas": (_shares, [SoftRobust().alpha]),
    "reference": (partial(one_of, words=REFERENCES), NONE),
    "seeds": (_seeds, 1),
    "models": (partial(whole, most=MOST_MODELS), 100),
    "heldout": (partial(whole, most=MOST_MODELS, hint="Draw one or more."), 400),
    "node_limit": (partial(whole, least=0, most=2**31), 200),
    "seed": (partial(whole, least=0, most=2**63 - 1), 0),
}
OPTIONS: dict[str, Check] = {
    "gamma": partial(real, above=0, most=1),
    "columns": _columns,
    **dict.fromkeys(("reward_default", "strength", "per_cell"), real),
    "support": partial(one_of, words=("neighbours", "visited", "all")),
    "min_count": partial(whole, least=0),
}
