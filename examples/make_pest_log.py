"""Makes `pest_log.csv`: eight seasons of weekly pest counts on one farm, and what the grower did.

The truth is known here and nowhere else: pests grow by half a week, spraying kills most of them
but works worse on dense populations, and some fly in from the neighbours. The grower sprays when
it looks bad, and now and then tries something else; some pairs are therefore never seen.

    python examples/make_pest_log.py > examples/pest_log.csv
"""

import csv
import sys

import numpy as np

LEVELS = 12
COST = {"wait": 0.0, "spot": 12.0, "spray": 30.0}
SURVIVAL = {"wait": 1.55, "spot": 0.8, "spray": 0.25}


def next_level(n: int, action: str, rng: np.random.Generator) -> int:
    """One week: growth or control, then immigration."""
    survival = SURVIVAL[action]
    if action != "wait":
        survival += 0.05 * n  # dense stands shade the leaves: less of the spray arrives
    alive = rng.poisson(survival * n)
    return int(min(alive + rng.poisson(0.7), LEVELS - 1))


def grower(n: int, rng: np.random.Generator) -> str:
    """Spray when it looks bad; one week in four, try something else."""
    if rng.random() < 1 / 4:
        return str(rng.choice(list(COST)))
    return "wait" if n < 3 else "spot" if n < 6 else "spray"


def main() -> None:
    rng = np.random.default_rng(2024)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["episode", "week", "state", "action", "next_state", "reward"])
    for season in range(8):
        n = int(rng.integers(0, 5))
        for week in range(40):
            action = grower(n, rng)
            after = next_level(n, action, rng)
            reward = 100.0 - 0.8 * n**2 - COST[action]
            rows.writerow(
                [f"season {season + 1}", week, f"n={n}", action, f"n={after}", f"{reward:.1f}"]
            )
            n = after


if __name__ == "__main__":
    main()
