"""Mutated files through every verb: read whole or refused in words, never a traceback.

A refusal names the file. Where a run folder is damaged it also says how to make it again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.attack import Attack, Promise, TooLong, must, say, within
from tests.attack.mutate import mutate, pick

LONGEST = 60.0  # seconds; whole files take at most three
QUICK = ("--models", "8", "--test-models", "10", "--gamma", "0.9")
SWEEP = """[sweep]
solvers = ["exact", "nominal"]
lambdas = [0.5]
alphas = [0.9]
seeds = 1
models = 5
heldout = 6
node_limit = 20
[[source]]
log = "log.csv"
gamma = 0.9
[[source]]
domain = "riverswim"
settings = { steps = 30 }
"""
GUIDE = "state,action\ns0,x\ns1,x\ns2,y\n"
INITIAL = "state,probability\ns0,0.25\ns1,0.75\n"
VISITS = (
    "patient,date,level,dose,reward\n1,2020-01-01,1.5,low,1\n1,2020-02-01,2.5,high,0\n"
    "1,2020-03-01,3.5,low,2\n2,2020-01-05,0.5,low,1\n2,2020-02-05,2.0,high,1\n"
    "2,2020-03-09,2.2,low,0\n"
)
# Every verb that reads a run of a table; its words in brackets are files beside it.
RUN = tuple(
    verb.strip()
    for verb in """
    inspect run; apply run --state s1; explain run --state s1; evaluate run --policy guide.csv
    compare run --time-limit 1; check run; rules run; rules run --out rules.csv; value-of-data run
    report run --quick; report run; update run new.csv --out run2
    rehearse run --times 1 --workers 0 --resume
    evaluate run --policy run/policy.csv
    """.strip()
    .replace("\n", ";")
    .split(";")
)
HEAVY = ("check run", "report run", "update run new.csv --out run2")  # tried more rarely
LOG = (
    "inspect {0}", "solve {0} --gamma 0.9 --models 5 --solver exact --posterior dirichlet",
    "solve {0} --gamma 0.9 --models 5 --solver nominal", "sample {0} --models 3 --out m.npz",
    "evaluate {0} --policy guide.csv --gamma 0.9 --models 3",
    "frontier {0} --gamma 0.9 --models 3 --lambdas 0,1 --out fr",
)  # fmt: skip


def table_log(rng: np.random.Generator, episodes: int = 10) -> str:
    """A small log of three states in a row."""
    rows = ["state,action,next_state,reward,episode"]
    for e in range(episodes):
        s = 0
        for _ in range(6):
            a = int(rng.integers(2))
            t = min(2, max(0, s + (1 if a == 0 and rng.random() < 0.7 else -1)))
            rows.append(f"s{s},{'xy'[a]},s{t},{t - 0.3 * (a == 0)},{e}")
            s = t
    return "\n".join(rows) + "\n"


def vector_log(rng: np.random.Generator) -> str:
    """A small log of one measurement."""
    rows = ["episode,x,action,next_x,reward"]
    for e in range(8):
        x = float(rng.normal())
        for _ in range(6):
            a = int(rng.integers(2))
            y = 0.8 * x + (0.3, -0.3)[a] + 0.1 * float(rng.normal())
            rows.append(f"{e},{x:.4f},{'ab'[a]},{y:.4f},{-abs(y):.4f}")
            x = y
    return "\n".join(rows) + "\n"


def make_whole(folder: Path, more: bool = True) -> tuple[Path, Path]:
    """A folder of inputs and runs, now the current one, and where copies of it are attacked."""
    home = folder / "whole"
    home.mkdir()
    os.chdir(home)
    write_inputs()
    must("solve", "log.csv", *QUICK, "--out", "run")
    if more:
        must("solve", "log.csv", *QUICK, "--posterior", "dirichlet", "--out", "plain")
        must("sample", "log.csv", "--models", "5", "--out", "models.npz")
    return home, folder / "case"


def write_inputs() -> None:
    """Logs, a policy, a plan and the like, in the present folder."""
    rng = np.random.default_rng(1)
    for name, text in (
        ("log.csv", table_log(rng)), ("new.csv", table_log(rng, 3)), ("vec.csv", vector_log(rng)),
        ("sweep.toml", SWEEP), ("guide.csv", GUIDE), ("initial.csv", INITIAL),
        ("visits.csv", VISITS),
    ):  # fmt: skip
        Path(name).write_text(text, encoding="utf-8")


def open_search(out: str) -> None:
    """A run whose search was cut short at its third node, as by Ctrl-C."""
    from softrobust.problem import save_problem
    from softrobust.solvers.exact import branch_and_bound, exact
    from tests.solvers.test_exact import river

    save_problem("river.npz", river(8, 20))
    real, calls = branch_and_bound.Tree.process, []

    def process(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)

    nothing = mock.patch.object  # is enumerated, so that there are nodes to stop between
    with (
        nothing(branch_and_bound, "LEAF_WORK", 0.0),
        nothing(exact, "ENUMERATION_WORK", 0.0),
        mock.patch.object(branch_and_bound.Tree, "process", process),
    ):
        must("solve", "river.npz", "--solver", "exact", "--out", out, "--quiet")


def scenes() -> list[tuple[str, str, tuple[str, ...]]]:
    """Make all folders and files once: which file, of which scene, goes through which verbs."""
    from softrobust.data import read_log, save_log

    write_inputs()
    must("solve", "log.csv", *QUICK, "--out", "run")
    must("check", "run")
    must("rehearse", "run", "--times", "1", "--workers", "0")
    must("update", "run", "new.csv", "--out", "updated")
    exact = ("--posterior", "dirichlet", "--solver", "exact", "--validate", "episodes")
    must("solve", "log.csv", *QUICK, *exact, "--out", "plain")
    must("sample", "log.csv", "--models", "5", "--out", "models.npz", "--save", "post.npz")
    must("solve", "models.npz", "--gamma", "0.9", "--out", "models")
    vectors = "solve vec.csv --continuous --gamma 0.9 --models 4 --horizon 5 --solver srvi"
    must(*vectors.split(), "--test-models", "4", "--test-episodes", "5", "--out", "vec")
    must("sweep", "sweep.toml", "--out", "sw", "--workers", "0")
    open_search("cut")
    for suffix in ("npz", "parquet"):
        save_log(read_log("log.csv"), f"log.{suffix}")
    visits = "inspect visits.csv --id patient --time date --measurements level --action dose"
    binned = f"{visits} --reward reward --bins level=1:2:3"
    must(*binned.split(), "--write-log", "visited.npz", "--save-bins", "bins.npz")
    found: list[tuple[str, str, tuple[str, ...]]] = []
    for scene in ("run", "updated", "plain", "models"):
        for file in sorted(Path(scene).rglob("*")):
            if file.is_file() and file.suffix not in (".html", ".txt"):
                name = "run" + str(file)[len(scene) :]
                found += [(scene, name, RUN)] * (3 if file.suffix == ".json" else 1)
    for file in sorted(Path("vec").iterdir()):
        name = f"run/{file.name}"
        if file.suffix != ".html":
            found.append(("vec", name, ("inspect run", "apply run --observation 0.3", "report run",
                          "report run --quick")))  # fmt: skip
    for file in sorted(Path("sw").rglob("*")):
        if file.is_file() and file.suffix != ".txt":
            name = f"sw{str(file)[2:]}"
            found.append(("", name, ("sweep sweep.toml --out sw --workers 0 --resume",)))
    found += [("", "sweep.toml", ("sweep sweep.toml --out sw2 --workers 0",))] * 4
    resumed = "solve river.npz --solver exact --out run --resume --time-limit 2"
    found += [("cut", "run/search.npz", (resumed,))] * 3
    found += [("cut", "run/solution.json", (resumed, "report run --quick", "inspect run"))]
    for log in ("log.csv", "log.npz", "log.parquet", "visited.npz"):
        found.append(("", log, tuple(verb.format(log) for verb in LOG)))
    judged = "evaluate models.npz --policy guide.csv --gamma 0.9"
    lines = "frontier models.npz --gamma 0.9 --lambdas 0,1 --out fr"
    models = ("inspect models.npz", "solve models.npz --gamma 0.9", lines, judged)
    found.append(("", "models.npz", models))
    start = "solve models.npz --gamma 0.9 --initial initial.csv"
    found += [("", "initial.csv", (start,)), ("", "guide.csv", (judged,))]
    found.append(("", "vec.csv", (vectors, "inspect vec.csv")))
    cut = f"{visits} --reward reward --bins bins.npz"
    found += [("", "visits.csv", (binned, "inspect visits.csv")), ("", "bins.npz", (cut,))]
    found.append(("run", "new.csv", ("update run new.csv --out run2",)))
    return found


def prepare(folder: Path) -> Attack:
    """Everything whole in one folder; an attempt works in a copy of what it needs."""
    home = folder / "whole"
    home.mkdir()
    os.chdir(home)
    found = scenes()
    case = folder / "case"
    usual: dict[tuple[str, str], str] = {}  # what is refused of whole files, too

    def attack(rng: np.random.Generator) -> str | None:
        scene, file, verbs = pick(rng, found)
        verb = pick(rng, verbs)
        if verb in HEAVY and rng.random() < 0.8:
            verb = pick(rng, verbs)
        os.chdir(folder)
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        _copy(home, case, scene, file, verb)
        os.chdir(case)
        if (scene, verb) not in usual:
            usual[scene, verb] = say(*verb.split()).err
            os.chdir(folder)
            shutil.rmtree(case)
            case.mkdir()
            _copy(home, case, scene, file, verb)
            os.chdir(case)
        where = mutate(case / file, rng)
        what = f"{scene}:{file} ({where}) through `{verb}`"
        try:
            with within(LONGEST):
                said = say(*verb.split())
        except TooLong as error:
            return f"{what}: {error}"
        refused = said.err == usual[scene, verb] or not file.startswith(("run/", "sw/"))
        plain = refused or file == "run/policy.csv"  # which later verbs take like any other policy
        fault = _fault(said.code, said.err or said.out, "" if plain else file)
        return None if fault is None else f"{what}: {fault}: {said.err.strip()}"

    return attack


def _copy(home: Path, case: Path, scene: str, file: str, verb: str) -> None:
    """The folder `run` of the scene, and the files beside it that the line names."""
    if scene:
        shutil.copytree(home / scene, case / "run")
    for word in {*verb.split(), file.partition("/")[0], "log.csv"}:
        source = home / word
        if source.is_dir() and word == "sw":
            shutil.copytree(source, case / "sw")
        elif source.is_file():
            shutil.copy(source, case / word)


def _fault(code: int, words: str, file: str) -> str | None:
    """What is wrong with how it ended, if anything."""
    lines = " ".join(words.split())
    if any(sign in lines for sign in ("unexpected", "This is a bug", "Traceback", "Error:")):
        return "not refused in words"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code and not lines:
        return "refused without a word"
    if len(lines) > 3000 and words.startswith("softrobust:"):
        return "a message without end"
    if code and file and not _named(lines, file):
        return "the refusal does not name the file"
    if code and file and not any(word in lines for word in ("again", "afresh", "resume")):
        return "the refusal does not say how to make it again"
    return None


def _named(lines: str, file: str) -> bool:
    path = Path(file)  # tasks call the files of a run by what they are: 'log', 'problem'
    names: Iterable[str] = (path.name, f"'{path.stem}'", file.partition("/")[0] + "'")
    return any(name in lines for name in names)


PROMISES = (
    Promise("files", "a mutated file is read whole or refused in words", prepare, 3.0, 10_000),
)
