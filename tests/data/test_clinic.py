"""The example of the clinic: what it promises, and that its log is drawn from its truth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.data import Trajectories, read_trajectories

CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic"


def clinic(**more: Any) -> Trajectories:
    choices: dict[str, Any] = {
        "id": "patient", "time": "date", "action": "treatment", "measurements": ["bp", "hba1c"],
        "bins": {"hba1c": [7, 8, 9]}, "events": CLINIC / "events.csv", "terminal": "kind=death",
        "grid": "28d", "missing_measurement": "carry",
    }  # fmt: skip
    return read_trajectories(CLINIC / "visits.csv", **(choices | more))


def clinic_script() -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("make_visits", CLINIC / "make_visits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_clinic_files_are_what_the_script_makes(tmp_path: Path) -> None:
    script = clinic_script()
    script.make(tmp_path)
    names = ("visits.csv", "events.csv", "guideline.csv", "new_visits.csv", "new_events.csv")
    for name in names:
        assert (tmp_path / name).read_bytes() == (CLINIC / name).read_bytes(), name
    assert sum(path.stat().st_size for path in CLINIC.iterdir() if path.is_file()) < 300_000


def test_the_clinic_has_the_defects_it_promises() -> None:
    made = clinic()
    log = made.log
    pairs = log.pair_counts[:-1]
    assert 0.35 <= (pairs == 0).mean() <= 0.45
    codes = {note.code for note in made.report.findings}
    assert {"unsorted", "duplicates", "missing_actions", "carried_cells"} <= codes
    carried = {n["column"] for n in made.report.findings if n.code == "carried_cells"}
    assert carried == {"bp", "hba1c"}
    assert made.report.gaps is not None
    assert not made.report.gaps.regular
    assert made.report.gaps.step == "28d"
    assert made.report.n_ended >= 5  # deaths, beside nearly 300 who are only lost from sight
    script = clinic_script()
    assert set(log.states) == {script.name(s) for s in range(12)} | {"(end)"}


def test_the_log_of_the_clinic_is_drawn_from_the_truth() -> None:
    """Without carried cells the transitions are draws of the true process: a χ² test says so."""
    made = clinic(missing_measurement="drop")
    log, script = made.log, clinic_script()
    P, _, _ = script.truth()
    index = [
        *(next(s for s in range(12) if script.name(s) == n) for n in log.states.names[:-1]),
        12,
    ]
    action = [script.TREATMENTS.index(a) for a in log.actions]
    statistic, freedom = 0.0, 0
    for s in range(12):
        for a in range(4):
            here = log.s_next[(log.s == s) & (log.a == a)]
            # Moves between living states: a death is seen even where the next visit is missed.
            seen = np.bincount(here, minlength=13)[:12].astype(float)
            p = P[index[s], action[a]][index[:12]]
            expected = seen.sum() * p / p.sum()
            big = expected >= 5
            if big.sum() >= 2:
                lump = np.append(expected[big], expected[~big].sum())
                have = np.append(seen[big], seen[~big].sum())
                lump, have = lump[lump > 1e-9], have[lump > 1e-9]
                statistic += float(((have - lump) ** 2 / lump).sum())
                freedom += lump.size - 1
    assert freedom > 40
    from scipy.stats import chi2

    assert chi2.sf(statistic, freedom) > 1e-3


def test_the_rewards_of_the_clinic_are_those_of_the_truth() -> None:
    made = clinic(missing_measurement="drop")
    log, script = made.log, clinic_script()
    assert log.reward is not None
    _, R, _ = script.truth()
    index = [next(s for s in range(12) if script.name(s) == n) for n in log.states.names[:-1]]
    expected = np.array(
        [
            R[index[s], script.TREATMENTS.index(log.actions[int(a)])]
            for s, a in zip(log.s, log.a, strict=True)
        ]
    )
    off = log.reward - expected
    assert abs(off.mean()) < 4 * off.std() / math.sqrt(off.size)
