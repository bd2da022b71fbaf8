"""Runs that are killed at random moments, or interrupted, and go on as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softrobust.run.jobs import run_tasks
from tests.run.jobs.folders import contents, load_results
from tests.run.jobs.jobs import many

ROOT = Path(__file__).resolve().parents[3]
# Tests may be run in the background of a shell, where interrupts are ignored. The child undoes it
# itself: a `preexec_fn` would fork this process, and JAX warns of forks.
INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
SWEEP = """
[sweep]
solvers = ["exact", "s-rect", "nominal", "empirical"]
lambdas = [0.0, 1.0]
seeds = 3
models = 20
heldout = 50
node_limit = 5
[[source]]
domain = "riverswim"
settings = { n_states = 6 }
[[source]]
log = "log.csv"
gamma = 0.9
"""


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTS + code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


def many_code(out: Path, workers: int) -> str:
    return (
        "from pathlib import Path; from softrobust.run.jobs import run_tasks; "
        "from tests.run.jobs.jobs import many; "
        f"run_tasks(many(), Path({str(out)!r}), workers={workers}, resume=True)"
    )


def kill_often(code: str, out: Path, times: int, rng: np.random.Generator) -> int:
    """Run `code` and kill it at a random moment, `times` times, then let it end.

    The moments are counted from the first sign of life in the folder, so that most of them fall
    into the work and not into the start of the interpreter. Returns how many kills struck.
    """
    struck = 0
    for _ in range(times):
        process = start(code)
        before = count(out)
        deadline = time.monotonic() + 60
        while count(out) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0.0, 0.12)))
        process.send_signal(signal.SIGKILL)
        struck += process.wait() == -signal.SIGKILL
        process.communicate()
    done = start(code)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 0, errors
    return struck


def count(out: Path) -> int:
    return sum(1 for _ in out.rglob("*")) if out.exists() else 0


def test_killed_ten_times(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    run_tasks(many(60), whole, workers=0)
    code = many_code(out, 2).replace("many()", "many(60)")
    struck = kill_often(code, out, 10, np.random.default_rng(0))
    assert struck >= 5  # the others came after the end
    assert contents(out) == contents(whole)


@pytest.mark.slow
def test_a_sweep_killed_ten_times(tmp_path: Path) -> None:
    log = ROOT / "examples" / "pest_log.csv"
    (tmp_path / "log.csv").write_bytes(log.read_bytes())
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)

    def code(out: Path) -> str:
        words = ["sweep", str(file), "--out", str(out), "--workers", "2", "--resume", "--quiet"]
        return f"from softrobust.cli import main; main({words!r})"

    whole = start(code(tmp_path / "whole"))
    _, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    rng = np.random.default_rng(1)
    struck = kill_often(code(tmp_path / "out"), tmp_path / "out", 10, rng)
    assert struck >= 5
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(contents(tmp_path / "out")) == 48 + 3  # tasks, plan.json, results.json, results.csv


@pytest.mark.parametrize("workers", [0, 2])
def test_interrupted(tmp_path: Path, workers: int) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    run_tasks(many(), whole, workers=0)
    process = start(many_code(out, workers))
    while len([*out.glob("results/*.json")]) < 3 and process.poll() is None:  # in any order
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Stopped: Interrupted:" in errors
    assert "of 30 tasks are done and kept" in errors
    assert "resume=True" in errors
    assert 1 <= len(load_results(out)) < 30  # two workers may finish out of order
    run_tasks(many(), out, workers=0, resume=True)
    assert contents(out) == contents(whole)


def test_an_interrupted_solver_leaves_no_result(tmp_path: Path) -> None:
    """Solvers answer Ctrl-C with an incumbent, which must not pass for a result."""
    code = (
        "from softrobust.run.jobs import Task, run_tasks; "
        "task = Task('t', 'tests.run.jobs.jobs:gives_in'); "
        f"run_tasks([task], {str(tmp_path / 'out')!r}, workers=0)"
    )
    process = start(code)
    while not (tmp_path / "out" / "plan.json").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "0 of 1 tasks are done" in errors
    assert load_results(tmp_path / "out") == {}


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    code = (
        "from softrobust.run.jobs import Task, run_tasks; "
        "run_tasks([Task('t', 'tests.run.jobs.jobs:note_and_sleep', "
        f"{{'folder': {str(tmp_path)!r}}})], {str(tmp_path / 'out')!r}, workers=1)"
    )
    process = start(code)
    note = tmp_path / "pid"
    while not note.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.05)
    process.kill()
    process.communicate()
    pid, deadline = int(note.read_text()), time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        entry = Path(f"/proc/{pid}/stat")
        if entry.exists() and entry.read_text().split()[2] == "Z":
            return  # dead, and waiting for whoever adopted it
        time.sleep(0.05)
    pytest.fail("the worker outlived its parent")
