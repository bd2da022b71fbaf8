"""Ten million rows within 1.5 GiB, measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

N_ROWS = 10_000_000
LIMIT_MIB = 1536

READ = """
import json, resource, sys, time
from softrobust.data import read_log

start = time.perf_counter()
log = read_log(sys.argv[1])
seconds = time.perf_counter() - start
counts = log.counts()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"rows": log.n_rows, "states": log.n_states, "count": int(counts.n.sum()),
                  "p0": float(log.p0.sum()), "MiB": peak, "seconds": seconds}))
"""


def write_rows(path: Path, n_states: int, n_rows: int = N_ROWS, piece: int = 500_000) -> None:
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    names = pa.array([f"field {i}" for i in range(n_states)])
    with path.open("wb") as file:
        for start in range(0, n_rows, piece):
            s, t = (names.take(pa.array(rng.integers(0, n_states, piece))) for _ in range(2))
            table = pa.table(
                {
                    "state": s,
                    "action": rng.integers(0, 10, piece),
                    "next_state": t,
                    "reward": rng.normal(size=piece),
                    "episode": np.arange(start, start + piece) // 20,
                    "terminal": rng.random(piece) < 0.01,
                }
            )
            csv.write_csv(table, file, csv.WriteOptions(include_header=start == 0))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("n_states", [1000, 100_000])
def test_ten_million_rows_within_one_and_a_half_gib(n_states: int, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    write_rows(path, n_states)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    path.unlink()
    found = json.loads(done.stdout)
    print(found)
    assert found["rows"] == found["count"] == N_ROWS
    assert found["states"] == n_states + 1
    assert found["p0"] == pytest.approx(1, abs=1e-8)
    assert found["MiB"] < LIMIT_MIB
