"""Kernels compile where nothing can be cached, and only for that reason go without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

from softrobust.kernels import _jit


def test_no_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def refuse(f: Callable[..., Any], cache: bool = False, **settings: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available")
        return njit(f, **settings)

    monkeypatch.setattr(_jit, "njit", refuse)

    @_jit.kernel
    def double(x: float) -> float:
        return 2 * x

    assert double(3.0) == 6.0
    assert asked == [True, False]


def test_other_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setattr(_jit, "njit", fail)
    with pytest.raises(RuntimeError, match="something else"):
        _jit.kernel(lambda x: x)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NUMBA_DISABLE_JIT", "1"),
        ("NUMBA_NUM_THREADS", "0"),
        ("NUMBA_NUM_THREADS", "-2"),
        ("NUMBA_THREADING_LAYER", "nonsense"),
    ],
)
def test_settings_under_which_nothing_runs_are_named(name: str, value: str) -> None:
    code = "from softrobust.cli import main; main()"
    words = [sys.executable, "-c", code, "solve", "examples/pest_log.csv", "--gamma", ".9"]
    done = subprocess.run(
        [*words, "--models", "5"], cwd=Path(__file__).parents[2], env=os.environ | {name: value},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f"Unset {name}" in " ".join(done.stderr.split())


class Parts(NamedTuple):
    x: np.ndarray
    on: bool
    n: int
    table: np.ndarray


@_jit.kernel(inner=True)
def part(g: Any, k: int) -> Any:
    return g.x[k] + g.n + g.table[1, k] if g.on else -1.0


@_jit.kernel
def parts(g: Any) -> Any:
    g = _jit.bundled(g)
    return part(g, 0), part(g, 1)


def test_bundles_hold_what_they_were_made_of_and_constants_compile_nothing_anew() -> None:
    g = Parts(np.array([1.0, 2.0]), True, 10, np.array([[0, 0], [100, 200]]))
    assert parts(g) == (111.0, 212.0)
    assert parts(g._replace(on=False)) == (-1.0, -1.0)
    assert len(part.signatures) <= len(parts.signatures) == 1  # none of those that the cache holds


ONCE = """
from numba.core import event
from softrobust.kernels.passage import _factorise
from softrobust.kernels.tail import best_row
import numpy as np
with event.install_recorder("numba:compile") as found:
    best_row(np.ones((2, 3)), np.ones(2, bool), np.ones(3) / 3, 0.5, 0.9, np.ones(3) / 3, 0.0)
names = [e.data["dispatcher"].py_func.__module__ for _, e in found.buffer if e.is_start]
print(sum(name.startswith("softrobust") for name in names))
try:
    _factorise(np.ones((2, 2)), 1, 0.9, np.zeros(2, int), np.ones((2, 2)), np.ones((2, 2)))
except TypeError as error:
    print(error)
"""


def test_one_process_compiles_and_the_others_wait(tmp_path: Path) -> None:
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", ONCE]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0].splitlines() for process in both]
    counts = sorted(int(lines[0]) for lines in said)
    assert counts[0] < counts[1]  # what one compiled the other took
    assert all("called from Python" in lines[1] for lines in said)
    # Upgrades of other packages leave the cache what it is.
    later = "import numpy, scipy; numpy.__version__ += '99'; scipy.__version__ = '99'" + ONCE
    again = subprocess.check_output([sys.executable, "-c", later], env=env, text=True)
    assert again.splitlines()[0] == "0"


def test_threads_share_a_loop_out(monkeypatch: pytest.MonkeyPatch) -> None:
    @_jit.threaded
    def count(first: int, last: int, worst: int, out: np.ndarray) -> None:
        for i in range(first, last):
            if i == worst:
                raise ValueError("no such turn")
            out[i] += 1

    monkeypatch.setattr(_jit, "get_num_threads", lambda: 3)
    for threads in (False, True):
        out = np.zeros(50, np.int64)
        count(threads, 2, 49, -1, out)
        assert out.tolist() == [0, 0, *[1] * 47, 0]
        with pytest.raises(ValueError, match="no such turn"):
            count(threads, 0, 50, 30, out)


def test_the_helper_ends_with_its_master() -> None:
    helper = subprocess.Popen(_jit.isolated(_jit.BOOT, "nominal"), stdin=subprocess.PIPE)
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(timeout=60) == 0


# Solves the example, and a tiny problem with other solvers; prints what was compiled in vain.
VAIN = """
import sys
from pathlib import Path
from softrobust.kernels.ahead import kernels_for
from softrobust.run import Options, choose, set_up
from softrobust.run.folder import run_page
from softrobust.solvers.base import solve
from softrobust.solvers.registry import make_solver
setup = set_up(sys.argv[1], Options(gamma=0.9))
solver = make_solver("improve", log=setup.log, posterior=setup.posterior)
run_page(choose(setup, solver), Path("page.html"))
few = set_up(sys.argv[1], Options(gamma=0.9, posterior="dirichlet", n_models=12))
for name in ("s-rect", "sa-rect", "bcr", "rsvf"):
    solve(few.problem, make_solver(name, log=few.log, posterior=few.posterior))
    for kernel, types in kernels_for(name):
        if types not in kernel.overloads:
            print(name, kernel.__name__)
"""


def test_the_helper_compiles_what_runs_need() -> None:
    log = str(Path(__file__).parents[2] / "examples" / "pest_log.csv")
    found = subprocess.check_output([sys.executable, "-c", VAIN, log], text=True)
    assert found == ""


def test_settings_of_a_stranger_are_not_read(tmp_path: Path) -> None:
    """Numba would take where compiled code lies from a file of the current folder, and run it."""
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: evil\n", encoding="utf-8")
    code = (
        "import yaml, softrobust.kernels, sys; from numba.core import config; "
        "config.reload_config(); print(repr(config.CACHE_DIR), sys.modules['yaml'] is yaml)"
    )
    own = {name: x for name, x in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["''", "True"]
    assert done.stderr == ""
