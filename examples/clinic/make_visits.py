"""Makes the files of this folder: visits of a diabetes clinic, with a truth that is known here.

The truth is a Markov decision process with a step of four weeks (`truth`): blood pressure and HbA1c
move by a level, more or less, depending on the treatment; tablets fail above 9; insulin at low
HbA1c brings hypoglycaemia; both numbers bring hospital stays and death. What reaches the files is
what a real clinic has: one row per visit, text beside numbers, dates that wander around the
schedule, visits that did not take place, cells that nobody filled in, rows that stand twice or too
low, and rewards in another table. The doctors never try 22 of the 48 combinations of state and
treatment.

    python make_visits.py                     writes the CSV files
    python make_visits.py --score policy.csv  the true value of a policy, beside those of others
"""

import argparse
import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
GAMMA = 0.95  # per four weeks
STEP = 28  # days
PRESSURE = ("normal", "high", "very high")
SUGAR = ("<7", "7–8", "8–9", "≥9")  # per cent HbA1c
RANGE = ((5.6, 6.9), (7.0, 7.9), (8.0, 8.9), (9.0, 11.4))
TREATMENTS = ("watch", "tablets", "insulin", "intensive")
N_SUGAR, N_ACTIONS = len(SUGAR), len(TREATMENTS)
N_STATES = len(PRESSURE) * N_SUGAR
DEAD = N_STATES

# Chance per step that a level falls and that it rises, by treatment.
SUGAR_MOVES = {
    "watch": (0.05, 0.22), "tablets": (0.27, 0.09), "insulin": (0.42, 0.06),
    "intensive": (0.45, 0.05),
}  # fmt: skip
PRESSURE_MOVES = {
    "watch": (0.06, 0.12), "tablets": (0.10, 0.11), "insulin": (0.08, 0.14),
    "intensive": (0.38, 0.04),
}  # fmt: skip
COST = {"watch": 0, "tablets": 1, "insulin": 3, "intensive": 5}
HOSPITAL, HYPO, DEATH = -5, -4, 0  # death earns nothing, and ends what could be earned
FIRST = {(0, 1): 0.15, (0, 2): 0.15, (1, 1): 0.15, (1, 2): 0.25, (1, 3): 0.15, (2, 3): 0.15}

# What the doctors do, (pressure, sugar) → treatment → share; what is not listed is never done.
PRACTICE: dict[tuple[int, int], dict[str, float]] = {
    (0, 0): {"watch": 0.75, "tablets": 0.25},
    (1, 0): {"watch": 0.6, "tablets": 0.4},
    (2, 0): {"tablets": 0.5, "intensive": 0.5},
    (0, 1): {"tablets": 0.8, "insulin": 0.2},
    (1, 1): {"tablets": 0.7, "insulin": 0.15, "intensive": 0.15},
    (2, 1): {"tablets": 0.6, "intensive": 0.4},
    (0, 2): {"tablets": 0.6, "insulin": 0.4},
    (1, 2): {"tablets": 0.5, "insulin": 0.3, "intensive": 0.2},
    (2, 2): {"insulin": 0.6, "intensive": 0.4},
    (0, 3): {"tablets": 0.4, "insulin": 0.6},
    (1, 3): {"insulin": 0.65, "intensive": 0.35},
    (2, 3): {"insulin": 0.6, "intensive": 0.4},
}
GUIDELINE = {
    (0, 0): "watch", (1, 0): "watch", (2, 0): "intensive",
    (0, 1): "tablets", (1, 1): "tablets", (2, 1): "tablets",
    (0, 2): "tablets", (1, 2): "insulin", (2, 2): "intensive",
    (0, 3): "insulin", (1, 3): "insulin", (2, 3): "intensive",
}  # fmt: skip


def state(pressure: int, sugar: int) -> int:
    return pressure * N_SUGAR + sugar


def name(s: int) -> str:
    """The name that `softrobust inspect` gives this state."""
    return f"bp={PRESSURE[s // N_SUGAR]}|hba1c={SUGAR[s % N_SUGAR]}"


def moves(level: int, top: int, fall: float, rise: float) -> dict[int, float]:
    """Where a level goes in one step."""
    out = {level: 1.0 - fall - rise}
    out[max(level - 1, 0)] = out.get(max(level - 1, 0), 0.0) + fall
    out[min(level + 1, top)] = out.get(min(level + 1, top), 0.0) + rise
    return out


def hospital(pressure: int, sugar: int) -> float:
    return 0.01 + 0.03 * pressure + 0.02 * sugar


def hypo(sugar: int, action: str) -> float:
    return {"insulin": (0.30, 0.15, 0.06, 0.02), "intensive": (0.35, 0.18, 0.08, 0.03)}.get(
        action, (0.0,) * N_SUGAR
    )[sugar]


def death(pressure: int, sugar: int) -> float:
    return 0.001 + 0.001 * pressure + 0.0005 * sugar


def score(pressure: int, sugar: int) -> int:
    """Wellbeing, as a questionnaire has it."""
    return 10 - 2 * pressure - sugar


def truth() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P (13, 4, 13), R (13, 4) and p0 (13,) of the true process; the last state is death."""
    P = np.zeros((N_STATES + 1, N_ACTIONS, N_STATES + 1))
    R = np.zeros((N_STATES + 1, N_ACTIONS))
    P[DEAD, :, DEAD] = 1.0
    for p in range(len(PRESSURE)):
        for h in range(N_SUGAR):
            for a, action in enumerate(TREATMENTS):
                fall, rise = SUGAR_MOVES[action]
                if action == "tablets" and h == N_SUGAR - 1:
                    fall, rise = 0.08, 0.0
                for p2, share in moves(p, len(PRESSURE) - 1, *PRESSURE_MOVES[action]).items():
                    for h2, other in moves(h, N_SUGAR - 1, fall, rise).items():
                        P[state(p, h), a, state(p2, h2)] += (1 - death(p, h)) * share * other
                P[state(p, h), a, DEAD] = death(p, h)
                R[state(p, h), a] = (
                    score(p, h) - COST[action] + HOSPITAL * hospital(p, h)
                    + HYPO * hypo(h, action) + DEATH * death(p, h)
                )  # fmt: skip
    p0 = np.zeros(N_STATES + 1)
    for (p, h), share in FIRST.items():
        p0[state(p, h)] = share
    return P, R, p0


def true_value(policy: np.ndarray) -> float:
    """Discounted reward of a policy (13, 4) in the true process."""
    P, R, p0 = truth()
    step = np.einsum("sa,sat->st", policy, P)
    gain = (policy * R).sum(axis=1)
    return float(p0 @ np.linalg.solve(np.eye(N_STATES + 1) - GAMMA * step, gain))


def best_policy() -> np.ndarray:
    P, R, _ = truth()
    v = np.zeros(N_STATES + 1)
    for _ in range(2000):
        v = (R + GAMMA * P @ v).max(axis=1)
    return np.eye(N_ACTIONS)[(R + GAMMA * P @ v).argmax(axis=1)]


def practice() -> np.ndarray:
    out = np.full((N_STATES + 1, N_ACTIONS), 1 / N_ACTIONS)
    for (p, h), shares in PRACTICE.items():
        out[state(p, h)] = [shares.get(action, 0.0) for action in TREATMENTS]
    return out


def guideline() -> np.ndarray:
    out = practice()
    for (p, h), action in GUIDELINE.items():
        out[state(p, h)] = np.eye(N_ACTIONS)[TREATMENTS.index(action)]
    return out


# -------------------------------------------------------------------- the files
def simulate(
    rng: np.random.Generator, n_patients: int, letter: str = "P"
) -> tuple[list[list], list[list]]:
    """Visits and events of all patients, as rows."""
    P, _, p0 = truth()
    doing = practice()
    visits: list[list] = []
    events: list[list] = []
    for i in range(n_patients):
        who = f"{letter}{i + 1:03d}"
        start = date(2022, 1, 3) + timedelta(int(rng.integers(0, 400)))
        s, a = int(rng.choice(N_STATES + 1, p=p0)), 0
        for k in range(int(rng.integers(8, 17))):
            came = k == 0 or rng.random() > 0.07
            day = start + timedelta(STEP * k + (int(rng.integers(-4, 6)) if k else 0))
            if came:
                a = int(rng.choice(N_ACTIONS, p=doing[s]))
                visits.append([who, day, *measured(s, rng), TREATMENTS[a]])
            events += happenings(who, day, s, a, came, rng)
            after = int(rng.choice(N_STATES + 1, p=P[s, a]))
            if after == DEAD:
                events.append([who, day + timedelta(int(rng.integers(8, 22))), "death", DEATH])
                break
            if rng.random() < 0.03:
                break  # moved away: the file just ends
            s = after
    return visits, events


def measured(s: int, rng: np.random.Generator) -> tuple[str, str]:
    low, high = RANGE[s % N_SUGAR]
    sugar = f"{rng.integers(round(10 * low), round(10 * high) + 1) / 10:.1f}"
    pressure = PRESSURE[s // N_SUGAR]
    return ("" if rng.random() < 0.01 else pressure, "" if rng.random() < 0.04 else sugar)


def happenings(
    who: str, day: date, s: int, a: int, came: bool, rng: np.random.Generator
) -> list[list]:
    """What is earned and suffered until the next visit."""
    p, h = divmod(s, N_SUGAR)
    action = TREATMENTS[a]
    out: list[list] = []
    if came:
        out.append([who, day, "wellbeing", score(p, h)])
        if COST[action]:
            out.append([who, day, "cost", -COST[action]])
    if rng.random() < hospital(p, h):
        out.append([who, day + timedelta(int(rng.integers(1, 20))), "hospital", HOSPITAL])
    if rng.random() < hypo(h, action):
        out.append([who, day + timedelta(int(rng.integers(1, 20))), "hypoglycaemia", HYPO])
    return out


def spoil(visits: list[list], rng: np.random.Generator) -> list[list]:
    """What happens to data: actions forgotten, rows twice, rows too far down."""
    rows = sorted(visits, key=lambda row: (row[1], row[0]))
    for row in rows:
        if rng.random() < 0.06:
            row[-1] = ""
    for i in sorted(rng.choice(len(rows), 12, replace=False), reverse=True):
        rows.insert(int(i) + 1, list(rows[i]))
    for i in rng.choice(len(rows) // 2, 15, replace=False):
        rows.insert(len(rows) - int(rng.integers(0, 200)), rows.pop(int(i)))
    return rows


def write(path: Path, header: list[str], rows: list[list]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def make(folder: Path) -> None:
    rng = np.random.default_rng(7)
    visits, events = simulate(rng, 300)
    header = ["patient", "date", "bp", "hba1c", "treatment"]
    write(folder / "visits.csv", header, spoil(visits, rng))
    events.sort(key=lambda row: (row[1], row[0]))
    write(folder / "events.csv", ["patient", "date", "kind", "reward"], events)
    late, later = simulate(np.random.default_rng(8), 25, "N")  # seen after the policy was chosen
    write(folder / "new_visits.csv", header, sorted(late, key=lambda row: (row[1], row[0])))
    write(folder / "new_events.csv", ["patient", "date", "kind", "reward"], later)
    rules = [[name(state(p, h)), action] for (p, h), action in sorted(GUIDELINE.items())]
    write(folder / "guideline.csv", ["state", "action"], rules)


# -------------------------------------------------------------------- the truth about a policy
def read_policy(path: Path) -> np.ndarray:
    """A policy from `state,action[,probability]`; where it says nothing, practice goes on."""
    out = practice()
    names = {name(s): s for s in range(N_STATES)}
    found: dict[int, np.ndarray] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if row["state"] in names:
                share = found.setdefault(names[row["state"]], np.zeros(N_ACTIONS))
                share[TREATMENTS.index(row["action"])] += float(row.get("probability") or 1)
    for s, share in found.items():
        out[s] = share
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Files and truth of the clinic example.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the files")
    parser.add_argument("--score", type=Path, nargs="*", help="policy.csv files to score")
    given = parser.parse_args()
    if given.score is None:
        make(given.out)
        return
    policies = {"practice": practice(), "guideline": guideline(), "best possible": best_policy()}
    policies |= {str(path): read_policy(path) for path in given.score}
    for label, policy in policies.items():
        print(f"{true_value(policy):8.2f}  {label}")


if __name__ == "__main__":
    main()
