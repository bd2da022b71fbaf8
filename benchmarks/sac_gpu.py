"""`python -m benchmarks.sac_gpu`: one SAC update on the accelerator and on 2 cores beside it.

The update is that of the paper's table: a batch of 150, 50 models, 100 next states each, hidden
layers (400, 300): 750 000 next states through the target network, then one step of each network.
The rival is the same compiled program on two cores of the same machine, in a process of its own
(JAX_PLATFORMS=cpu, affinity to two cores). Prints one JSON object; needs jax, optax, numba, numpy
and scipy, nothing else.

python -m benchmarks.sac_gpu                    accelerator against 2 cores
python -m benchmarks.sac_gpu --chunks 5 10 50   also: updates of 5 agents by models per chunk
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

WARM, LEAST_SECONDS = 2, 3.0


def main() -> int:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sac_gpu", description=__doc__)
    parser.add_argument("--worker", action="store_true", help="measure here and print")
    parser.add_argument("--cores", type=int, default=0, help="bind to so many cores first")
    parser.add_argument("--chunks", type=int, nargs="*", default=[], help="models per chunk")
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--numpy", action="store_true", help="also time the targets in NumPy")
    options = parser.parse_args()
    if options.worker:
        if options.cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        found = measure(options.agents, None)
        if options.numpy:
            found["numpy_seconds"] = numpy_targets()
        print(json.dumps(found))
        return 0
    here = measure(1, None)
    out: dict[str, Any] = {"accelerator": here, "two_cores": beside(), "machine": _machine()}
    out["times_faster"] = out["two_cores"]["seconds"] / here["seconds"]
    out["five_agents_by_chunk"] = [measure(5, chunk) for chunk in options.chunks]
    print(json.dumps(out, indent=1))
    return 0


def measure(agents: int, chunk: int | None) -> dict[str, Any]:
    """The median seconds of one update of `agents` agents side by side."""
    import jax

    from softrobust.solvers.continuous.sac.training import device_name

    step, state = prepared(agents, chunk)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < WARM + 5 or (sum(times[WARM:]) < LEAST_SECONDS and len(times) < 500):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state))
        times.append(time.perf_counter() - start)
    return {
        "device": device_name(),
        "jax": jax.__version__,
        "agents": agents,
        "model_chunk": chunk,
        "seconds": statistics.median(times[WARM:]),
        "first_seconds": times[0],
        "repeats": len(times) - WARM,
        "wall_seconds": time.perf_counter() - begin,
        "peak_gib": peak_gib(),
    }


def peak_gib() -> float:
    """The most memory that this process held; `ru_maxrss` counts what its parent held, too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return int(re.findall(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.M)[0]) / 2**20


def prepared(agents: int, chunk: int | None, small: bool = False) -> tuple[Any, Any]:
    """A compiled `step(state) → state`, one update at the table's sizes, and a first state."""
    import jax
    import jax.numpy as jnp

    from softrobust.domains import CancerGrowth
    from softrobust.solvers.continuous.sac import SoftRobustSAC
    from softrobust.solvers.continuous.sac.learning import (
        compiled_start,
        play_episodes,
        update_networks,
    )
    from softrobust.solvers.continuous.sac.traced import on_device

    problem = CancerGrowth().problem(0, 5 if small else 50)
    sizes = {"batch": 20, "next_states": 10, "hidden": (16, 16)} if small else {}
    solver = SoftRobustSAC(model_chunk=chunk, **sizes)  # type: ignore[arg-type]
    plan, world, arrays = solver.plan(problem, agents)
    data = on_device(arrays)
    state = compiled_start(plan)(jnp.arange(agents))
    s, a, _, _ = jax.jit(jax.vmap(lambda n, k: play_episodes(plan, world, data, n, k)))(
        state.learner.networks["actor"], state.key
    )
    rows = s.reshape(agents, -1, plan.n_variables)[:, : plan.batch]
    taken = a.reshape(agents, -1)[:, : plan.batch]

    @jax.jit
    def step(carry: Any) -> Any:
        learner, keys = carry
        split = jax.vmap(jax.random.split)(keys)
        after, _ = jax.vmap(lambda x, s, a, k: update_networks(plan, world, data, x, s, a, k))(
            learner, rows, taken, split[:, 1]
        )
        return after, split[:, 0]

    return step, (state.learner, state.key)


def numpy_targets() -> float:
    """Seconds for 750 000 values of the target network in NumPy, model by model."""
    import numpy as np

    rng = np.random.default_rng(0)
    sizes = (14, 400, 300, 1)
    shapes = pairwise(sizes)
    W = [rng.standard_normal(shape).astype(np.float32) / 20 for shape in shapes]
    start = time.perf_counter()
    for _ in range(50):
        x = rng.standard_normal((15_000, 14), dtype=np.float32)
        for w in W[:-1]:
            x = np.maximum(x @ w, 0, dtype=np.float32)
        (x @ W[-1]).mean()
    return time.perf_counter() - start


def beside(*more: str) -> dict[str, Any]:
    """The same on two cores of this machine, in a process that sees no accelerator."""
    command = [sys.executable, "-m", "benchmarks.sac_gpu", "--worker", "--cores", "2", *more]
    own = {**os.environ, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"The measurement on two cores failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _machine() -> str:
    from benchmarks.registry import machine

    return f"{machine()}; Python {platform.python_version()}"


if __name__ == "__main__":
    raise SystemExit(main())
