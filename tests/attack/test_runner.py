"""The runner of the attack survives what it attacks, and its table adds up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.attack import Attack, Promise
from tests.attack.__main__ import MARK, Row, Tally, keep, promises, read_table, share_out


def _deadly(folder: Path) -> Attack:
    def attack(rng: np.random.Generator) -> str | None:
        luck = rng.random()
        if luck < 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        return "broke" if luck > 0.8 else None

    return attack


def deaths() -> None:
    """Every process that dies is found, and so is every attack that breaks something."""
    luck = [np.random.default_rng([3, n]).random() for n in range(30)]
    for block in (None, 4):
        tally = Tally(Promise("deadly", "nobody dies", _deadly, block=block))
        share_out(tally, 3, 60.0, range(30), 2)
        assert tally.tried == 30
        for n, x in enumerate(luck):
            found = [line for line in tally.broken if f"--case {n}:" in line]
            assert len(found) == int(x < 0.2 or x > 0.8)
            assert all(("ended with -9" in line) == (x < 0.2) for line in found)


def test_a_process_that_dies_is_a_finding_and_the_others_go_on() -> None:
    """In a process of its own: the runner forks, and other tests may have started threads here."""
    root = Path(__file__).parents[2]
    code = "from tests.attack.test_runner import deaths; deaths()"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        check=True,
    )


def test_rows_of_several_runs_are_added(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Words.\n\n{MARK}\n", encoding="utf-8")
    keep(page, {"a": Row(1000, 1, 1.5, "monday")}, add=False)
    keep(page, {"a": Row(2000, 0, 2.0, "tuesday"), "b": Row(5, 5, 0.1, "tuesday")}, add=True)
    assert read_table(page)["a"] == Row(3000, 1, 3.5, "monday; tuesday")
    keep(page, {"a": Row(7, 0, 0.0, "friday")}, add=False)
    assert read_table(page)["a"] == Row(7, 0, 0.0, "friday")
    assert read_table(page)["b"] == Row(5, 5, 0.1, "tuesday")
    assert page.read_text(encoding="utf-8").startswith("Words.")


@pytest.mark.parametrize(("seed", "case"), [(365614751, 26739), (2281168031, 8476)])
def test_one_policy_at_the_edge_of_a_percentile_is_not_called_proven(seed: int, case: int) -> None:
    """Its value is open by more than rounding, as the bound says: the status must not say less."""
    attack = next(p for p in promises() if p.name == "certificates").prepare(Path())
    assert attack(np.random.default_rng([seed, case])) is None
