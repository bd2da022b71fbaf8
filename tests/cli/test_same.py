"""The same `solution.json`, clocks aside, whatever the machine is set to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.attack.files import QUICK, table_log
from tests.attack.kills import plain, state
from tests.conftest import ROOT

SOLVERS = ("improve", "exact", "milp", "randomized", "s-rect", "sa-rect")
CODE = """
import sys
from importlib import import_module
from softrobust.cli.main import run
for name in ("bounds.advantage", "solvers.exact.exact", "returns.rectangular_sweeps", "run"):
    import_module(f"softrobust.{name}")
for module in [m for n, m in sys.modules.items() if n.startswith("softrobust.")]:
    for name in [n for n in vars(module) if n.startswith("PARALLEL_")]:
        setattr(module, name, 0)  # threads, however little there is to do
for name in sys.argv[1].split(","):
    words = ["solve", "log.csv", *sys.argv[2:], "--solver", name, "--out", name, "--quiet"]
    assert run(words) == 0, name
for name, words in (("grown", []), ("searched", "--posterior dirichlet --solver exact".split())):
    assert run(["solve", "log.csv", "--gamma", "0.9", *words, "--out", name, "--quiet"]) == 0, name
"""


def answers(folder: Path, **own: str) -> dict[str, Any]:
    """What every solver says of one log, in a process with this environment."""
    import numpy as np

    folder.mkdir()
    (folder / "log.csv").write_text(table_log(np.random.default_rng(3)))
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | own
    words = [sys.executable, "-c", CODE, ",".join(SOLVERS), *QUICK]
    subprocess.run(words, cwd=folder, env=env, check=True, timeout=300)
    names = (*SOLVERS, "grown", "searched")  # the last two with as many models as they take
    return {name: plain(state(folder / name / "solution.json")) for name in names}


def threads(n: int) -> dict[str, str]:
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(n))


def test_the_answer_hangs_on_nothing_else(tmp_path: Path) -> None:
    here = answers(tmp_path / "here", **threads(1), TZ="UTC", LC_ALL="C", PYTHONHASHSEED="0")
    assert here["grown"]["n_models"] > 300
    assert here["grown"]["posterior"]["replications"] > 1
    other = {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7", "COLUMNS": "40"}
    assert answers(tmp_path / "ä ö", **threads(2), **other) == here
