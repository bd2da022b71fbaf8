"""Mutated files through every verb: read whole or refused in words, never a traceback.

A refusal names the file. Where a run folder is damaged it also says how to make it again.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.attack import Attack, Promise, Said, TooLong, must, own_place, say, within
from tests.attack.mutate import mutate, pick

# The last one is what kernels say that were compiled with NUMBA_BOUNDSCHECK=1.
SIGNS = ("An unexpected", "This is a bug", "Traceback", "Error:", "(index is out of bounds)")
BLOCK = 500  # attempts that share a process
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
EXTRAS = {
    "allowed.csv": "state,action\ns0,x\ns0,y\ns1,x\n",
    "rewards.csv": "state,action,reward\n" + "".join(
        f"s{s},{a},{s - (a == 'x') / 4}\n" for s in range(3) for a in "xy"),
    "states.txt": "s0\ns1\ns2\n",
    "weights.csv": "idoutcome,weight\n0,0.5\n1,0.5\n",
    "timed.csv": "state,action,time\n" + "".join(
        f"s{s},{'xy'[t % 2]},{t}\n" for s in range(3) for t in range(3)),
    "events.csv": "patient,date\n2,2020-04-01\n",
    "cases.csv": "site,state\na,s0\nb,s2\n",
    "models.csv": "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n" + "".join(
        f"s{s},{a},s{t},{w},{1 / 3},{t - w}\n" for w in range(2) for s in range(3)
        for a in "xy" for t in range(3)),
}  # fmt: skip


def verbs_of(lines: str) -> tuple[str, ...]:
    """The verbs in a text, with semicolons or one a line."""
    return tuple(verb.strip() for verb in lines.strip().replace("\n", ";").split(";"))


# Every verb that reads a run of a table; with @ what the pages of the app ask for.
RUN = verbs_of("""
    inspect run; apply run --state s1; apply run --file cases.csv --out a.xlsx
    explain run --state s1; evaluate run --policy guide.csv; evaluate run --policy run/policy.csv
    compare run --time-limit 1; compare run run; check run; rules run; rules run --out rules.csv
    value-of-data run --draws 20; report run --quick; report run; update run new.csv --out run2
    rehearse run --times 1 --workers 0 --resume; @answer run; @list run; @compare run; @book run
    export run --out p.xlsx; export run --out p.py; export run --out p.json; export run --out p.csv
""")
VECTORS = verbs_of("""
    inspect run; apply run --observation 0.3; report run; report run --quick; @answer run
    export run --out p.xlsx; @compare run
""")
BINNED = verbs_of("""
    apply run --measure level=1.7; inspect run; report run --quick; @answer run
    export run --out p.py
""")
# Slower than the others by far: tried once in five times that they are drawn.
HEAVY = verbs_of("""
    check run; report run; update run new.csv --out run2
    rehearse run --times 1 --workers 0 --resume; @work job
    reproduce optimizers-curse --quick --out rep --workers 0 --resume
""")
PLAIN = "--gamma 0.9 --models 3 --posterior dirichlet --solver nominal"
LOG = (
    "inspect {0}", "solve {0} --gamma 0.9 --models 5 --solver exact --posterior dirichlet",
    f"solve {{0}} {PLAIN}", "sample {0} --models 3 --out m.npz", "@look {0}",
    "evaluate {0} --policy guide.csv --gamma 0.9 --models 3 --posterior dirichlet",
    "frontier {0} --gamma 0.9 --models 3 --posterior dirichlet --lambdas 0,1 --out fr",
    "solve {0} --gamma 0.9 --models 3 --solver nominal",
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


def make_whole(folder: Path, more: bool = True) -> Path:
    """A folder of inputs and runs, now the current one."""
    home = folder / "whole"
    home.mkdir()
    os.chdir(home)
    write_inputs()
    must("solve", "log.csv", *QUICK, "--out", "run")
    if more:
        must("solve", "log.csv", *QUICK, "--posterior", "dirichlet", "--out", "plain")
        must("sample", "log.csv", "--models", "5", "--out", "models.npz")
    return home


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
        nothing(branch_and_bound, "LEAST_LEAF", 0.0),
        nothing(branch_and_bound, "NODE_WORK", 0.0),
        nothing(exact, "ENUMERATION_WORK", 0.0),
        mock.patch.object(branch_and_bound.Tree, "process", process),
    ):
        must("solve", "river.npz", "--solver", "exact", "--out", out, "--quiet")


def make_runs() -> None:
    """Runs of every kind, in folders of the present one."""
    from softrobust.app import work
    from softrobust.paper.base import catalogue

    must("solve", "log.csv", *QUICK, "--out", "run")
    must("check", "run")
    must("rehearse", "run", "--times", "1", "--workers", "0")
    must("update", "run", "new.csv", "--out", "updated")
    exact = ("--posterior", "dirichlet", "--solver", "exact", "--validate", "episodes")
    must("solve", "log.csv", *QUICK, *exact, "--out", "plain")
    gain = ("--posterior", "dirichlet", "--solver", "exact", "--reference", "guide.csv")
    must("solve", "log.csv", *QUICK, *gain, "--out", "gain")
    steps = ("--posterior", "dirichlet", "--solver", "local-search", "--horizon", "3")
    must("solve", "log.csv", *QUICK, *steps, "--out", "timed")
    must("sample", "log.csv", "--models", "5", "--out", "models.npz", "--save", "post.npz")
    must("solve", "models.npz", "--gamma", "0.9", "--out", "models")
    must("solve", *f"{VISITED} --solver nominal --out visited".split(), *QUICK)
    must(*f"{VECTOR} --test-models 4 --test-episodes 5 --out vec".split())
    must("sweep", "sweep.toml", "--out", "sw", "--workers", "0")
    open_search("cut")
    tiny = {"repetitions": 4, "block": 2, "sizes": [5, 8], "main": 8, "fresh": 8, "steps": 20}
    catalogue()["optimizers-curse"]["quick"].update(tiny)
    must(*REPRODUCE.removesuffix(" --resume").split())
    place = Path("job") / f".run{work.SOLVING}"  # a solve of the app that is under way
    place.mkdir(parents=True)
    options = {"gamma": 0.9, "n_models": 5, "posterior": "dirichlet", "time_limit": 20.0}
    for name, record in (
        (work.JOB, {"file": "log.csv", "solver": "nominal", "options": options}),
        (work.STATUS, {"began": 1.7e9, "stages": [["reading the file", 0.1]], "detail": ""}),
        (work.ERROR, {"error": "It is wrong.", "arguments": ["gamma"]}),
        (work.MADE, {"points": [{"lam": 0.0, "mean": "1", "strip": []}]}),
    ):  # fmt: skip
        (place / name).write_text(json.dumps(record), encoding="utf-8")


VISITED = (
    "visits.csv --id patient --time date --measurements level --action dose --reward reward "
    "--bins level=1:2:3"
)
VECTOR = "solve vec.csv --continuous --gamma 0.9 --models 4 --horizon 5 --solver srvi"
REPRODUCE = "reproduce optimizers-curse --quick --out rep --workers 0 --resume"


def scenes() -> list[tuple[str, str, tuple[str, ...]]]:
    """Make all folders and files once: which file, of which scene, goes through which verbs."""
    from softrobust._core.files import write_workbook
    from softrobust.data import read_log, save_log

    write_inputs()
    for name, text in EXTRAS.items():
        Path(name).write_text(text, encoding="utf-8")
    make_runs()
    for suffix in ("npz", "parquet"):
        save_log(read_log("log.csv"), f"log.{suffix}")
    Path("log.csv.gz").write_bytes(gzip.compress(Path("log.csv").read_bytes()))
    for name in ("log", "visits", "cases") if find_spec("openpyxl") else ():
        head, *rows = (line.split(",") for line in Path(f"{name}.csv").read_text().splitlines())
        columns = dict(zip(head, zip(*rows, strict=True), strict=True))
        write_workbook(f"{name}.xlsx", {"rows": columns})
    must(*f"inspect {VISITED} --write-log visited.npz --save-bins bins.npz".split())
    found: list[tuple[str, str, tuple[str, ...]]] = []
    kinds = dict.fromkeys(("run", "updated", "plain", "gain", "timed", "models"), RUN)
    for scene, verbs in (kinds | {"vec": VECTORS, "visited": BINNED}).items():
        for file in sorted(Path(scene).rglob("*")):
            if file.is_file() and file.suffix not in (".html", ".txt"):
                name = "run" + str(file)[len(scene) :]
                found += [(scene, name, verbs)] * (3 if file.suffix == ".json" else 1)
    for folder, verb in (("sw", "sweep sweep.toml --out sw --workers 0 --resume"),
                         ("rep", REPRODUCE)):  # fmt: skip
        for file in sorted(Path(folder).rglob("*")):
            if file.is_file() and file.suffix in (".json", ".jsonl", ".toml", ".npz"):
                found.append(("", str(file), (verb,)))
    for file in sorted(Path("job").rglob("*.json")):
        verbs = ("@list job", "@status job", "@points job", "@work job")
        found += [("", str(file), verbs)] * 2
    return found + [(scene, file, verbs) for scene, file, verbs in inputs() if scene == "cut"
                    or file.startswith("run/") or Path(file).exists()]  # fmt: skip


def inputs() -> list[tuple[str, str, tuple[str, ...]]]:
    """Files that people bring, and the verbs that read them."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    found += [("", "sweep.toml", ("sweep sweep.toml --out sw2 --workers 0",))] * 6
    resumed = "solve river.npz --solver exact --out run --resume --time-limit 2"
    found += [("cut", "run/search.npz", (resumed,))] * 3
    found += [("cut", "run/solution.json", (resumed, "report run --quick", "inspect run"))]
    for log in ("log.csv", "log.npz", "log.parquet", "log.xlsx", "log.csv.gz", "visited.npz"):
        found.append(("", log, tuple(verb.format(log) for verb in LOG)))
    for name, lines in {
        "models.npz": """inspect models.npz; solve models.npz --gamma 0.9
            frontier models.npz --gamma 0.9 --lambdas 0,1 --out fr
            evaluate models.npz --policy guide.csv --gamma 0.9
            solve log.csv --gamma 0.9 --models 3 --posterior draws --set file=models.npz
            solve models.csv --gamma 0.9 --heldout models.npz""",
        "models.csv": """inspect models.csv; solve models.csv --gamma 0.9 --solver nominal
            solve models.npz --gamma 0.9 --heldout models.csv""",
        "river.npz": "inspect river.npz; solve river.npz --solver nominal",
        "weights.csv": "solve models.csv --gamma 0.9 --solver nominal --weights weights.csv",
        "initial.csv": "solve models.npz --gamma 0.9 --initial initial.csv",
        "guide.csv": f"""evaluate models.npz --policy guide.csv --gamma 0.9
            solve log.csv {PLAIN} --reference guide.csv""",
        "timed.csv": "evaluate models.npz --policy timed.csv --gamma 0.9 --horizon 3",
        "allowed.csv": f"solve log.csv {PLAIN} --allowed allowed.csv",
        "rewards.csv": f"solve log.csv {PLAIN} --reward-table rewards.csv",
        "states.txt": f"solve log.csv {PLAIN} --states states.txt",
        "vec.csv": f"{VECTOR}; inspect vec.csv; @look vec.csv",
        "visits.csv": f"inspect {VISITED}; inspect visits.csv; @look visits.csv",
        "visits.xlsx": f"inspect {VISITED.replace('.csv', '.xlsx')}; inspect visits.xlsx",
        "bins.npz": f"inspect {VISITED.replace('level=1:2:3', 'bins.npz')}",
        "events.csv": f"inspect {VISITED} --events events.csv",
    }.items():
        found.append(("", name, verbs_of(lines)))
    found.append(("run", "new.csv", ("update run new.csv --out run2",)))
    for name in ("cases.csv", "cases.xlsx"):
        found.append(("plain", name, (f"apply run --file {name} --out a.csv",)))
    return found


def ask(verb: str) -> Said:
    """What a line says; with @ what a page of the app would show."""
    if not verb.startswith("@"):
        return say(*verb.split())
    from softrobust.app import work
    from softrobust.errors import SoftRobustError
    from softrobust.report.study_words import side_by_side
    from softrobust.report.summary import summary_lines
    from softrobust.run import load_run, load_table_run
    from softrobust.run.evaluate import compare_runs
    from softrobust.run.export import export

    what, name = verb.removeprefix("@").split()
    place = Path(name) / f".run{work.SOLVING}"
    try:
        if what == "answer":
            told: Any = list(summary_lines(load_run(name)))
        elif what == "compare":
            runs = [load_table_run(name)] * 2
            told = side_by_side(compare_runs(runs)), work.differences(*runs)
        elif what == "book":
            export(load_run(name), Path("book.xlsx"))
            told = "written"
        elif what == "list":
            told = work.runs(Path(name).parent), work.solves(Path(name)), work.tables(Path())
        elif what == "look":
            told = work.look(work.Draft(Path(name))).error
        elif what == "status":
            told = work.status(place)
        elif what == "points":
            told = work.made(place)
        else:
            code = work.main(["solve", str(place)])
            job, left = work.status(place), place / work.ERROR
            if job is None and left.is_file():  # the page shows none; what it said is there
                return Said(code, "", str(json.loads(left.read_text("utf-8"))["error"]), 0.0)
            return Said(code, "", "" if job is None else job.error, 0.0)
    except SoftRobustError as error:
        return Said(2, "", str(error), 0.0)
    return Said(0, str(told), "", 0.0)


def prepare(folder: Path) -> Attack:
    """Everything whole in one folder; an attempt works in a copy of what it needs."""
    home = folder / "whole"
    home.mkdir()
    os.chdir(home)
    found = scenes()

    def attack(rng: np.random.Generator) -> str | None:
        case = own_place(folder) / str(rng.integers(10**9))  # nothing is known of its files
        scene, file, verbs = pick(rng, found)
        verb = pick(rng, verbs)
        if verb in HEAVY and rng.random() < 0.8:
            scene, file, verbs = pick(rng, found)
            verb = pick(rng, verbs)

        def fresh() -> None:
            os.chdir(folder)
            shutil.rmtree(case, ignore_errors=True)
            case.mkdir(parents=True)
            _copy(home, case, scene, file, verb)
            os.chdir(case)

        fresh()
        where = mutate(case / file, rng)
        what = f"{scene}:{file} ({where}) through `{verb}`"
        try:
            with within(LONGEST):
                said = ask(verb)
        except TooLong as error:
            os.chdir(folder)
            shutil.rmtree(case, ignore_errors=True)
            return f"{what}: {error}"
        # Later verbs take the policy of a run like any other; a page names the run itself.
        plain = not file.startswith(("run/", "sw/")) or file == "run/policy.csv"
        words = said.err or said.out
        fault = _fault(said.code, words, "" if plain else file)
        if fault is not None and _fault(said.code, words, "") is None:
            fresh()  # what is refused of whole files, too, need not name the one that is damaged
            fault = None if ask(verb).err == said.err else fault
        os.chdir(folder)
        shutil.rmtree(case, ignore_errors=True)
        return None if fault is None else f"{what}: {fault}: {words.strip()[-600:]}"

    return attack


def _copy(home: Path, case: Path, scene: str, file: str, verb: str) -> None:
    """The folder `run` of the scene, and the files beside it that the line names."""
    if scene:
        shutil.copytree(home / scene, case / "run")
    for word in {*verb.replace("file=", "").split(), file.partition("/")[0], "log.csv"}:
        source = home / word
        if source.is_dir() and word in ("sw", "rep", "job"):
            shutil.copytree(source, case / word)
        elif source.is_file():
            shutil.copy(source, case / word)


def _fault(code: int, words: str, file: str) -> str | None:
    """What is wrong with how it ended, if anything."""
    lines = " ".join(words.split())
    if any(sign in lines for sign in SIGNS):
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
    Promise(
        "files", "a mutated file is read whole or refused in words", prepare, 3.0, 10_000, BLOCK
    ),
)
