"""Multi-model files: every column order, companions, duplicates, and what is refused."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.notes import Note
from softrobust.errors import InputError
from softrobust.models import read_models, write_models_csv
from softrobust.problem import Problem

ROWS = """idstatefrom,idaction,idstateto,idoutcome,probability,reward
0,0,0,0,1,5
0,1,1,0,0.5,0
0,1,0,0,0.5,1
1,0,0,0,1,0
0,0,0,1,1,5
0,1,1,1,1,0
1,0,0,1,1,0
"""


def write(tmp_path: Path, text: str, name: str = "models.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_storage_is_shared_over_models(tmp_path: Path) -> None:
    models = read_models(write(tmp_path, ROWS))
    assert (models.n_states, models.n_actions, models.n_models) == (2, 2, 2)
    np.testing.assert_array_equal(models.available, [[True, True], [True, False]])
    np.testing.assert_array_equal(models.P[:, 0, 1], [[0.5, 0.5], [0, 1]])
    problem = Problem(models, gamma=0.5)
    np.testing.assert_allclose(problem.R[0, 1], [0.5, 0.0])
    assert problem.R[0, 0].tolist() == [5, 5]


def test_any_column_order_and_compression(tmp_path: Path) -> None:
    header, *rows = ROWS.split()
    swapped = "\n".join(",".join(reversed(line.split(","))) for line in [header, *rows]) + "\n"
    path = tmp_path / "models.csv.xz"
    path.write_bytes(lzma.compress(swapped.encode()))
    np.testing.assert_array_equal(
        read_models(path).P, read_models(write(tmp_path, ROWS, "m.csv")).P
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.xz"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    models = read_models(write(tmp_path, ROWS))
    write_models_csv(tmp_path / f"again{suffix}", models)
    again = read_models(tmp_path / f"again{suffix}")
    np.testing.assert_array_equal(again.P, models.P)
    np.testing.assert_array_equal(Problem(again, gamma=0.5).R, Problem(models, gamma=0.5).R)


def test_companions_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, "idstate,probability\n1,1\n", "initial.csv")
    write(tmp_path, "parameter,value\ndiscount,0.8\n", "parameters.csv")
    models = read_models(write(tmp_path, ROWS))
    assert models.gamma == 0.8
    assert models.p0 is not None
    assert models.p0.tolist() == [0, 1]
    assert len(models.notes) == 2
    assert read_models(tmp_path / "models.csv", gamma=0.7).gamma == 0.7


def test_weights_file(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    weights = write(tmp_path, "weight,idoutcome\n0.25,1\n0.75,0\n", "w.csv")
    np.testing.assert_array_equal(read_models(path, weights=weights).f, [0.75, 0.25])
    for text, message in [
        ("idoutcome,weight\n0,1\n", "model '1' has none"),
        ("idoutcome,weight\n0,0.5\n7,0.5\n", "row 3 of w.csv has '7'"),
        ("idoutcome,weight\n0,0.5\n0,0.5\n", "rows 2 and 3 of w.csv both give model '0'"),
        ("idoutcome,weight\n0,0.5\n1,0.4\n", "sum to 1"),
        ("idoutcome,weight\n0,0\n1,0\n", "all zero"),
    ]:
        with pytest.raises(InputError, match=message):
            read_models(path, weights=write(tmp_path, text, "w.csv"))


def test_duplicates_of_equal_reward_are_summed_with_a_notice(tmp_path: Path) -> None:
    text = ROWS.replace("0,0,0,0,1,5", "0,0,0,0,0.4,5\n0,0,0,0,0.6,5")
    models = read_models(write(tmp_path, text))
    assert models.P[0, 0, 0, 0] == 1.0
    assert models.notes[0] == Note("duplicate_rows_summed", facts={"n_rows": 1})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0,0,0,0,1,5", "0,0,0,0,0.4,5\n0,0,0,0,0.6,7", r"row 2 .*row 3 .*rewards 5 and 7"),
        ("0,1,1,1,1,0\n", "", r"state '0', action '1' is in 1 of 2 models and missing in model 1"),
        ("0,1,1,0,0.5,0", "0,1,1,0,-0.5,0", r"row 3 .*state '0', action '1'\) has -0.5"),
        ("0,1,1,0,0.5,0", "0,1,1,0,1.5,0", r"row 3 .*has 1.5"),
        ("0,1,1,0,0.5,0", "0,1,1,0,nan,0", r"row 3"),
        ("0,1,1,0,0.5,0", "0,1,1,0,0.47,0", r"model 0, state '0', action '1' sums to 0.97"),
        ("0,1,1,0,0.5,0", "0,1,1,0,half,0", r"row 3"),
        ("probability", "chance", "probability"),
    ],
)
def test_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_models(write(tmp_path, ROWS.replace(old, new, 1)))


def test_normalise(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS.replace("0,1,1,0,0.5,0", "0,1,1,0,0.5000005,0"))
    with pytest.raises(InputError, match="normalise=True"):
        read_models(path)
    assert read_models(path, normalise=True).P[0, 0, 1].sum() == pytest.approx(1, abs=1e-15)


def test_truncated_xz(tmp_path: Path) -> None:
    path = tmp_path / "models.csv.xz"
    path.write_bytes(lzma.compress((ROWS * 50).encode())[:-20])
    with pytest.raises(InputError, match="cut off"):
        read_models(path)


def test_public_files(shared_data: Path) -> None:
    riverswim = read_models(shared_data / "riverswim" / "training.csv")
    assert (riverswim.n_states, riverswim.n_actions, riverswim.n_models) == (20, 2, 100)
    assert riverswim.gamma == 0.9
    true = read_models(shared_data / "riverswim" / "true.csv")
    assert true.n_models == 1
    assert true.notes[0] == Note("duplicate_rows_summed", facts={"n_rows": 2})
    hiv = read_models(shared_data / "hiv" / "training.csv")
    assert (hiv.n_states, hiv.n_actions, hiv.n_models) == (4, 3, 50)
