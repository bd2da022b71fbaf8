"""What the page asks for: a look at a file, and processes that solve it.

All that the app knows of a solve lies in its folder. While a process works on the run NAME there is
`.NAME.solving/` beside the run folder to be: `job.json` says what was asked, `status.json` what is
being done (touched while the process lives), a file `stop` asks it to come to an end with the best
so far, and `error.json` says why there is no answer. It goes when the answer is there. Whoever
starts the app anew, reloads the page or opens a second tab reads the same files; a server that is
killed takes no process with it.

`main(["solve", FOLDER])` is the process, and so for `frontier` and `trust`; it imports nothing that
lies in the current folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, final

import numpy as np

import softrobust.run as verbs
from softrobust._core.files import atomic_write, numbered
from softrobust._core.limits import Deadline, stage, watched, within
from softrobust._core.notes import Note
from softrobust._core.schema import Schema, read_json
from softrobust._core.settings import real
from softrobust.certificate.record import write_json
from softrobust.data.columns import LOG_ROLES, MISSING, numbers_in, resolve_columns, with_points
from softrobust.data.inspection import GAMMA, Inspection
from softrobust.data.table import TableFile, opened
from softrobust.errors import InputError, SoftRobustError
from softrobust.kernels._jit import compile_beside, isolated
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import SoftRobust
from softrobust.report.pictures import Spot, frontier_svg, picture_log, spots
from softrobust.report.policy import changed, does, mixed, picture_changes, spans
from softrobust.report.words import Figures, label, measure, percent
from softrobust.run.inspect import inspect_file
from softrobust.run.rehearsal import rehearse
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.registry import default_solver, make_solver
from softrobust.study.checks import check_run, checks_record
from softrobust.study.frontier import FrontierPoint

SOLVING = ".solving"
JOB, STATUS, STOP, ERROR, MADE = "job.json", "status.json", "stop", "error.json", "made.json"
BEAT, SILENT = 0.3, 20.0  # seconds: of the heart, and after which a silent one is thought dead
ALPHA = SoftRobust().alpha
LAMS = tuple(np.linspace(0, 1, 11).round(10).tolist())
FRONTIER_SECONDS = 40.0
WORLDS, REHEARSAL_SECONDS = 50, 90.0  # of a rehearsal
MOST_STRIP = 60  # states that are shown one by one
MOST_ROWS, SHOWN_BYTES = 20, 64 * 2**20  # of a finding; of a file whose rows are looked up at once
TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npz", ".gz", ".xz")
# Solver and λ; the default of both for the first.
GOALS = {"improve": (None, None), "average": ("exact", 0.0), "careful": ("exact", 1.0)}
# The files are read through these, as all that lies in a folder.
TEXT, NUMBER, OBJECT = {"type": "string"}, {"type": "number"}, {"type": "object"}
OPTIONS = {"additionalProperties": False, "properties": {f.name: {} for f in fields(verbs.Options)}}
SCHEMAS: dict[str, Schema] = {
    JOB: {**OBJECT, "required": ["file", "options"], "properties": {
        "file": TEXT, "solver": {"type": ["string", "null"]},
        "options": OBJECT | OPTIONS}},
    STATUS: {**OBJECT, "required": ["began", "stages", "detail"], "properties": {
        "began": NUMBER, "detail": TEXT,
        "stages": {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}}}},
    ERROR: {**OBJECT, "required": ["error"], "properties": {
        "error": TEXT, "arguments": {"type": "array", "items": TEXT}}},
    MADE: {**OBJECT, "required": ["points", "cover"], "properties": {
        "cover": TEXT, "points": {"type": "array", "minItems": 1, "items": OBJECT}}},
    "solution.json": {**OBJECT, "properties": {"source": TEXT, "solver": TEXT}},
}  # fmt: skip
BOOT = "from softrobust.app.work import main; sys.exit(main(sys.argv[1:]))"


def number_of(words: str) -> float | None:
    """A number as people write it: 0.95, 0,95, 1.234,5 or 1 000; None if it is none."""
    plain = words.replace("−", "-").replace("\u00a0", "").replace(" ", "").strip()
    if "," in plain and "." in plain:  # the last of the two is that of decimals
        group = "," if plain.rfind(",") < plain.rfind(".") else "."
        plain = plain.replace(group, "")
    told = with_points([plain], comma=True) or [plain]
    value = float(numbers_in(told)[0]) if told[0] else np.nan
    return value if np.isfinite(value) else None


def costs_of(words: str) -> dict[str, float] | None:
    """What actions cost, "spray=2; none=0,5"; None if it is not said so."""
    pairs = [part.rpartition("=") for part in re.split(r"[;,]\s*(?=[^;,=]+=)", words.strip(" ;,"))]
    found = {name.strip(): number_of(value) for name, _, value in pairs}
    told = {name: value for name, value in found.items() if name and value is not None}
    return told if len(told) == len(pairs) else None


# -- A look at a file --------------------------------------------------------------------------


@final
@dataclass
class Draft:
    """What was said about a file so far; every tab sees the same."""

    path: Path
    kind: str = ""
    columns: dict[str, str] = field(default_factory=dict)
    visits: dict[str, Any] = field(default_factory=dict)
    gamma: float = GAMMA
    goal: str = "improve"
    lam: float = 0.5
    alpha: float = ALPHA
    seconds: float | None = None
    anyway: bool = False

    def job(self, found: Inspection) -> dict[str, Any]:
        """What a process is told: the file, the solver, and `Options` by name."""
        solver, lam = GOALS.get(self.goal, ("exact", self.lam))
        rules = found.facts.get("rules")
        options = {
            "gamma": None if found.facts.get("gamma") else self.gamma,
            "lam": lam,
            "alpha": None if self.alpha == ALPHA else self.alpha,
            "columns": self.columns or None,
            "visits": None if rules is None else rules.given(),
            "time_limit": self.seconds,
            "anyway": self.anyway,
        }
        given = {k: v for k, v in options.items() if v is not None and v is not False}
        return {"file": str(self.path), "solver": solver, "options": given}


@final
@dataclass(frozen=True)
class Look:
    """A file as `inspect` sees it, its columns, and the rows that its findings speak of.

    `found` is None, and `error` says why, where nothing can be said yet.
    """

    names: Sequence[str]
    found: Inspection | None = None
    error: str = ""
    taken: Mapping[str, str] = field(default_factory=dict)  # role → column, of a log
    rows: Mapping[int, Sequence[str]] = field(default_factory=dict)  # number of a row → its cells


def look(draft: Draft) -> Look:
    """What `inspect` says of the file, with the choices made so far."""
    names: list[str] = []
    try:
        with opened(TableFile(draft.path)) as table:
            names = [] if table.kind == "npz" else list(dict.fromkeys(table.names))
        columns = None if draft.kind == "visits" else draft.columns or None
        visits = draft.visits or None if draft.kind == "visits" else None
        found = inspect_file(draft.path, columns=columns, visits=visits)
        taken: dict[str, str] = {}
        if found.kind == "log" and names:
            places = resolve_columns(names, LOG_ROLES, columns, found.source)
            taken = {role: names[i] for role, i in places.items()}
        return Look(names, found, "", taken, _rows(draft.path, names, found.findings))
    except (SoftRobustError, OSError) as error:
        called = {name.strip().casefold(): name for name in reversed(names)}
        fits = {r.name: [called[a] for a in r.aliases if a in called] for r in LOG_ROLES}
        return Look(names, None, str(error), {role: f[0] for role, f in fits.items() if f})


def _rows(path: Path, names: Sequence[str], findings: Sequence[Note]) -> dict[int, list[str]]:
    """The cells of rows that findings name; of large files none, which would be read again."""
    wanted = {n for note in findings for n in (note.facts.get("rows") or ())[:MOST_ROWS]}
    if not wanted or not names or path.stat().st_size > SHOWN_BYTES:
        return {}
    with opened(TableFile(path)) as table:
        read = table.cells(list(names))
    n_rows = max(codes.size for codes in read.codes.values())
    places = {read.rows.number(i): i for i in range(n_rows)}
    found = [(n, places[n]) for n in sorted(wanted) if n in places]
    return {
        n: ["" if (c := read.codes[name][i]) == MISSING else read.names[name][c] for name in names]
        for n, i in found
    }


# -- processes, as the server sees them --------------------------------------------------------


@final
@dataclass(frozen=True)
class Job:
    """A solve that is on its way, or ended without an answer."""

    name: str
    file: str
    stages: Sequence[tuple[str, float]]  # what was done, each with the second of its beginning
    detail: str
    seconds: float
    stopping: bool
    alive: bool
    error: str = ""
    arguments: Sequence[str] = ()


_children: dict[str, subprocess.Popen[bytes]] = {}


def place_of(folder: Path, name: str) -> Path:
    """Where the files of a solve lie while it is on its way."""
    return folder / f".{name}{SOLVING}"


def _run_of(place: Path) -> Path:
    """The run folder to be."""
    return place.with_name(place.name.removeprefix(".").removesuffix(SOLVING))


def start(verb: str, place: Path, job: Mapping[str, Any]) -> None:
    """Begin a process; the place is made here, so that nobody else begins the same."""
    place.mkdir()
    _write(place / JOB, job)
    _write(place / STATUS, {"began": time.time(), "stages": [], "detail": ""})
    how: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
    with (place / "words.txt").open("wb") as words:
        _children[str(place)] = subprocess.Popen(
            isolated(BOOT, verb, str(place)),
            stdin=subprocess.DEVNULL, stdout=words, stderr=words, **how,
        )  # fmt: skip


def start_solve(folder: Path, name: str, job: Mapping[str, Any]) -> str:
    """Solve into the first free folder of this name; what it is called."""
    for free in numbered(name):
        if not (folder / free).exists():
            with suppress(FileExistsError):
                start("solve", place_of(folder, free), job)
                return free
    raise LookupError(name)  # names never end


def start_trust(folder: Path, name: str) -> None:
    """Check a run and rehearse it, unless somebody else began that."""
    job = {"file": name, "out": str(folder / name), "options": {}}
    with suppress(FileExistsError):
        start("trust", place_of(folder, name), job)


def ask_to_stop(place: Path) -> None:
    """Ask a process for what it has."""
    with suppress(FileNotFoundError):
        (place / STOP).touch()


def give_up(place: Path) -> None:
    """End a process whose result nobody waits for any more."""
    child = _children.pop(str(place), None)
    if child is not None and child.poll() is None:
        child.terminate()
        child.wait()


def stop_all() -> None:
    """Ask solves that were begun here to write down what they have; end everything else."""
    for place in map(Path, list(_children)):
        if place.name.endswith(SOLVING):
            _children[str(place)].poll()
            ask_to_stop(place)
        else:
            give_up(place)


def status(place: Path) -> Job | None:
    """How a solve stands; None where there is none."""
    child = _children.get(str(place))
    over = child is not None and child.poll() is not None
    name = _run_of(place).name
    try:
        told, job = _read(place / STATUS), _read(place / JOB)
        silent = time.time() - (place / STATUS).stat().st_mtime
        error = _read(place / ERROR) if (place / ERROR).exists() else {}
    except (OSError, InputError) as fault:
        if not (place / STATUS).exists() or not (place / JOB).exists():
            return None  # it came to its end in this moment
        return Job(name, "", (), "", 0.0, False, False, str(fault))
    return Job(
        name=name,
        file=job["file"],
        stages=tuple((str(stage), at) for stage, at in told["stages"]),
        detail=told["detail"],
        seconds=max(time.time() - told["began"], 0.0),
        stopping=(place / STOP).exists(),
        alive=not error and not over and silent < SILENT,
        error=error.get("error", ""),
        arguments=tuple(error.get("arguments", ())),
    )


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path, SCHEMAS[path.name])
    return found


def made(place: Path) -> dict[str, Any]:
    """What a process worked out: the points of the frontier, and what the log covers."""
    return _read(place / MADE)


def solves(folder: Path) -> list[Job]:
    """All solves of a folder that have no answer yet."""
    found = (status(path) for path in sorted(folder.glob(f".*{SOLVING}")) if path.is_dir())
    return [job for job in found if job is not None]


def forget(place: Path) -> None:
    """Remove what is left of a solve."""
    give_up(place)
    shutil.rmtree(place, ignore_errors=True)


def runs(folder: Path) -> list[tuple[str, str, str]]:
    """(name, source, solver) of every run in the folder, the newest first; damaged ones bare."""
    files = [path / "solution.json" for path in folder.iterdir() if path.name[0] != "."]
    there = sorted((f for f in files if f.is_file()), key=lambda f: -f.stat().st_mtime)
    out = []
    for file in there:
        record: dict[str, Any] = {}
        with suppress(InputError):  # its own page says what is wrong
            record = _read(file)
        out.append((file.parent.name, record.get("source", ""), record.get("solver", "")))
    return out


def tables(folder: Path) -> list[str]:
    """Names of the tables in a folder."""
    files = (path for path in folder.iterdir() if path.name[0] != "." and path.is_file())
    return sorted(path.name for path in files if path.suffix.lower() in TABLES)


# -- the process itself: the same calls as on the command line ---------------------------------


def main(words: Sequence[str]) -> int:
    """Do the job that lies in the place; what went wrong is left there."""
    verb, place = words[0], Path(words[1])
    try:
        job = _read(place / JOB)
        limit = job["options"].get("time_limit")
        if limit is not None:
            limit = real(f"{JOB}: time_limit", limit, above=0, infinite=True)
        with within(limit) as bound, _alive(place, bound):
            {"solve": _solve, "frontier": _frontier, "trust": _trust}[verb](job, place)
    except SoftRobustError as error:
        _write(place / ERROR, {"error": str(error), "arguments": list(error.arguments)})
        return 2
    except (OSError, MemoryError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        traceback.print_exc()
        words = f"An unexpected {type(error).__name__} stopped the work: {error}."
        _write(place / ERROR, {"error": words})
        return 1
    return 0


@contextmanager
def _alive(place: Path, bound: Deadline) -> Iterator[None]:
    """Show that the process lives, write down its stages, and hear when it is to stop."""
    told = _read(place / STATUS)
    over = threading.Event()

    def note(line: str) -> None:
        name, at = line.removesuffix(" …"), time.time() - told["began"]
        if line.endswith(" …") and name not in [stage for stage, _ in told["stages"]]:
            told["stages"].append((name, round(at, 2)))
            line = ""
        told["detail"] = line
        with suppress(FileNotFoundError):
            _write(place / STATUS, told)

    def beat() -> None:
        asked = False
        while not over.wait(BEAT):
            with suppress(OSError):
                os.utime(place / STATUS)
            if not asked and (place / STOP).exists():
                asked = True
                bound.end()

    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        with watched(note):
            yield
    finally:
        over.set()
        heart.join()


def _solve(job: Mapping[str, Any], place: Path) -> None:
    options, out, asked = verbs.Options(**job["options"]), _run_of(place), job.get("solver")
    stage("reading the file")
    compile_beside(asked)
    setup = verbs.set_up(Path(job["file"]), options)
    name = asked or default_solver(setup.problem, setup.posterior)
    search = verbs.prepare_search(out, name, False)
    solver = make_solver(
        name, log=setup.log, time_limit=options.time_limit, seed=options.seed,
        posterior=setup.posterior, checkpoint=search,
    )  # fmt: skip
    run = verbs.choose(setup, solver, options.seed, named=asked is not None)
    stage("writing the run folder")
    verbs.save_with_search(run, out, False, search)
    if not (place / STOP).exists():
        _full_page(out)
    shutil.rmtree(place, ignore_errors=True)


def _full_page(out: Path) -> None:
    stage("writing the full page")
    verbs.run_page(verbs.load_run(out), out / "report.html", full=True).save(out / "report.html")


def _trust(job: Mapping[str, Any], place: Path) -> None:
    """`check` and `rehearse`, and the page with what they found."""
    run = verbs.load_table_run(Path(job["out"]))
    stage("checking")
    record = checks_record(run, list(check_run(run, run.seed)), run.seed)
    write_json(run.path / "checks.json", record)
    stage("rehearsing in known worlds")
    again = run.path / "rehearsal"
    rehearse(
        run, again, WORLDS, seed=run.seed, workers=0, resume=again.exists(), progress=False,
        time_limit=REHEARSAL_SECONDS,
    )  # fmt: skip
    _full_page(run.path)
    shutil.rmtree(place, ignore_errors=True)


def _frontier(job: Mapping[str, Any], place: Path) -> None:
    """The best policy of every degree of caution, as a slider shows it."""
    options = verbs.Options(**{k: v for k, v in job["options"].items() if k != "lam"})
    setup = verbs.set_up(Path(job["file"]), options)
    goal = setup.problem.objective
    alpha = goal.alpha
    with within(FRONTIER_SECONDS):  # on the models that a solve has, however long they take
        points = verbs.run_frontier(setup, LAMS, (alpha,), time_limit=FRONTIER_SECONDS).column(0)
    practice = None if setup.log is None else behaviour_policy(setup.problem, setup.log)[0]
    number = Figures.of([np.array([[p.mean, p.cvar] for p in points]).ravel()])
    made = []
    for point in points:
        own = Spot("here", point.mean, point.cvar)
        drawn = frontier_svg([(goal.words, spots(points, "caution"))], own=own, of=measure(goal))
        made.append(_told(point, practice, number) | {"frontier": str(drawn)})
    cover = "" if setup.log is None else str(picture_log(setup.log))
    _write(place / MADE, {"points": made, "cover": cover})


def _told(point: FrontierPoint, practice: Policy | None, number: Figures) -> dict[str, Any]:
    policy = point.policy
    moved = changed(policy, practice)
    just = set(point.changed)
    decided = np.asarray(policy.decided)
    told = np.flatnonzero(moved if practice is not None else decided)
    return {
        "lam": point.lam,
        "mean": number(point.mean),
        "bad": number(point.cvar),
        "policy": point.policy_id,
        "n_changed": int(moved.sum()),
        "n_states": int(decided.sum()),
        "picture": str(picture_changes(policy, practice)),
        "strip": [
            {
                "state": label(policy.states[s]),
                "now": "" if practice is None else usual(practice, s),
                "then": does(policy, practice, s),
                "just": policy.states[s] in just,
            }
            for s in told[:MOST_STRIP].tolist()
        ],
    }


def usual(policy: Policy, s: int) -> str:
    """What is mostly done in a state."""
    a = int(policy.decision[s])
    share = float(policy.probs[s, a])
    return label(policy.actions[a]) + ("" if share == 1 else f" ({percent(share)})")


def differences(first: verbs.Run, second: verbs.Run) -> list[tuple[str, str, str]]:
    """(state, what the first does, what the second does) wherever they differ."""
    a, b = first.solution.policy, second.solution.policy
    if isinstance(a, TimedPolicy) or isinstance(b, TimedPolicy):  # by what is told of their steps
        H = max(getattr(policy, "horizon", 1) for policy in (a, b))
        a, b = _by_step(a, H), _by_step(b, H)
        rows = [(label(name), spans(a, s), spans(b, s)) for s, name in enumerate(a.states)]
        return [row for row in rows if row[1] != row[2]][:MOST_STRIP]
    apart = np.flatnonzero(changed(b, a))[:MOST_STRIP]
    return [(label(a.states[int(s)]), mixed(a, int(s)), mixed(b, int(s))) for s in apart]


def _by_step(policy: Policy | TimedPolicy, horizon: int) -> TimedPolicy:
    """The same rule at every step, where there is one."""
    if isinstance(policy, TimedPolicy):
        return policy
    return TimedPolicy(np.stack([policy.probs] * horizon), policy.states, policy.actions)


def _write(path: Path, record: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        json.dump(record, file)
