"""No stranger's code, and the same answer everywhere.

Modules of well-known names lie in the current folder, and arrays that are pickles in its files:
none of them runs. And `solution.json` is the same, clocks aside, for any number of threads, locale,
time zone, hash seed and folder.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.attack import Attack, Promise, must, own_place, say
from tests.attack.files import QUICK, write_inputs
from tests.attack.kills import plain, state
from tests.attack.mutate import pick

NAMES = (
    "json", "numpy", "random", "struct", "zipfile", "csv", "queue", "signal", "threading", "typing",
    "numba", "scipy", "softrobust", "sitecustomize", "usercustomize", "string", "tomllib", "typer",
    "highspy", "pyarrow", "encodings", "io", "os", "hashlib", "site", "runpy", "rich",
)  # fmt: skip
LINES = (
    "sweep sweep.toml --out sw2 --workers 2", "sweep sweep.toml --out sw2 --cluster local:2",
    "rehearse run --times 2 --workers 2", "solve log.csv --gamma 0.9 --models 5 --solver nominal",
    "report run --quick", "inspect log.csv",
)  # fmt: skip
SOLVERS = ("improve", "exact", "milp", "s-rect", "sa-rect", "randomized", "local-search")


class Payload:
    """What a stranger would pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch RAN",))


def command(folder: Path) -> list[str]:
    """The words that run the command line as an installed script does, from a place of its own."""
    script = folder / "bin" / "softrobust"
    script.parent.mkdir()
    script.write_text("from softrobust.cli import main\nmain()\n", encoding="utf-8")
    return [sys.executable, str(script)]


def prepare_strangers(folder: Path) -> Attack:
    """Inputs and a run; every attempt adds files of strangers."""
    home = folder / "whole"
    home.mkdir()
    os.chdir(home)
    write_inputs()
    must("solve", "log.csv", *QUICK, "--out", "run")
    start = command(folder)

    def attack(rng: np.random.Generator) -> str | None:
        case = own_place(folder)
        os.chdir(folder)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(home, case)
        os.chdir(case)
        if rng.random() < 0.8:
            return _pickled(rng)
        for name in NAMES:
            (case / f"{name}.py").write_text(
                f"import pathlib; pathlib.Path({str(case / 'RAN')!r}).write_text({name!r})\n"
            )
        (case / ".numba_config.yaml").write_text("cache_dir: evil\n")  # compiled code is run
        line = pick(rng, LINES)
        done = subprocess.run(
            [*start, *line.split()], capture_output=True, text=True, check=False, timeout=300
        )
        if (case / "RAN").exists():
            return f"`{line}`: the module {(case / 'RAN').read_text()} of a stranger ran"
        if (case / "evil").exists():
            return f"`{line}`: numba took the settings of a stranger"
        return None if done.returncode == 0 else f"`{line}`: {done.stderr}"

    return attack


def _pickled(rng: np.random.Generator) -> str | None:
    """An array of a file becomes a pickle; in this process."""
    file = pick(rng, sorted(Path("run").glob("*.npz")))
    with np.load(file, allow_pickle=False) as known:
        arrays = dict(known)
    name = pick(rng, sorted(arrays))
    arrays[name] = np.array([Payload()], dtype=object)
    if rng.random() < 0.2:
        file.write_bytes(pickle.dumps(Payload()))
    else:
        np.savez(file, **arrays)
    line = pick(rng, ("report run --quick", "evaluate run --policy guide.csv", "inspect "
                      f"{file}", f"solve {file} --gamma 0.9"))  # fmt: skip
    said = say(*line.split())
    if Path("RAN").exists():
        return f"`{line}`: the pickle in {file} ran"
    fine = said.code == 2 or line == f"inspect {file}"
    return None if fine else f"`{line}`: {said.code} {said.err}"


def prepare_same(folder: Path) -> Attack:
    """What every solver says of one log, in this process and its environment."""
    os.chdir(folder)
    write_inputs()
    start, known = command(folder), {}
    for solver in SOLVERS:
        must("solve", "log.csv", *QUICK, "--solver", solver, "--out", solver)
        known[solver] = plain(state(Path(solver) / "solution.json"))

    def attack(rng: np.random.Generator) -> str | None:
        solver = pick(rng, SOLVERS)
        place = own_place(folder) / pick(rng, ["a", "ä ö", "deep/er", "x;y"])
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        shutil.copy(folder / "log.csv", place)
        threads = pick(rng, ["1", "2"])
        own = {
            "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
            "NUMBA_NUM_THREADS": threads, "PYTHONHASHSEED": str(rng.integers(1000)),
            "TZ": pick(rng, ["UTC", "Asia/Tokyo", "America/St_Johns"]),
            "LC_ALL": pick(rng, ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8"]),
            "COLUMNS": pick(rng, ["40", "200"]),
        }  # fmt: skip
        words = ["solve", "log.csv", *QUICK, "--solver", solver, "--out", "run", "--quiet"]
        done = subprocess.run(
            [*start, *words], capture_output=True, text=True, check=False, timeout=300,
            env=os.environ | own, cwd=place,
        )  # fmt: skip
        if done.returncode:
            return f"{solver} with {own} in {place.name}: {done.stderr}"
        found = plain(state(place / "run" / "solution.json"))
        return None if found == known[solver] else f"{solver} differs with {own} in {place.name}"

    return attack


PROMISES = (
    Promise("strangers", "no module or pickle of a stranger runs", prepare_strangers, 0.5, 300),
    Promise("same", "the same answer for any threads, locale, time zone, hash seed and folder",
            prepare_same, 0.5, 100),
)  # fmt: skip
