"""Certificates against brute force over all rules, in fractions (see `tests.agree.adversary`)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from softrobust.solvers.rectangular.rectangular import SARect, SRect
from tests.agree.adversary import (
    adversary,
    hedging_adversary,
    horizon_adversary,
    rectangular_adversary,
    wrong_certificate,
    wrong_program,
    wrong_rectangle,
    wrong_with_a_horizon,
    wrong_within_practice,
)
from tests.attack import Attack, Promise, own_place


def _certificates(folder: Path) -> Attack:
    def attack(rng: np.random.Generator) -> str | None:
        problem = adversary(rng) if rng.random() < 0.7 else hedging_adversary(rng)
        found = wrong_certificate(problem, rng)
        if found is None and rng.random() < 0.5:
            found = wrong_within_practice(problem, rng)
        return None if found is None else f"{problem!r}: {found}"

    return attack


def _horizons(folder: Path) -> Attack:
    def attack(rng: np.random.Generator) -> str | None:
        problem = horizon_adversary(rng)
        found = wrong_with_a_horizon(problem) or wrong_within_practice(problem, rng)
        return None if found is None else f"{problem!r}: {found}"

    return attack


def _programs(folder: Path) -> Attack:
    def attack(rng: np.random.Generator) -> str | None:
        problem = adversary(rng)
        place = own_place(folder)
        place.mkdir(exist_ok=True)
        found = wrong_program(problem, place / f"program{rng.choice(['.mps', '.lp'])}")
        return None if found is None else f"{problem!r}: {found}"

    return attack


def _rectangles(folder: Path) -> Attack:
    def attack(rng: np.random.Generator) -> str | None:
        problem = rectangular_adversary(rng)
        for solver in (SRect(), SARect()):
            found = wrong_rectangle(problem, solver)
            if found is not None:
                return f"{problem!r}: {found}"
        return None

    return attack


PROMISES = [
    Promise(
        "certificates",
        "No policy earns more than a bound of any solver, class, criterion or reference allows",
        _certificates,
        share=4.0,
        most=20_000,
    ),
    Promise(
        "horizons",
        "With a horizon no rule, and no plan of a rule for each step, earns more than its bound",
        _horizons,
        most=4_000,
    ),
    Promise(
        "rectangles",
        "Rectangular solves end within their tolerance, and their bounds hold in every state",
        _rectangles,
        most=4_000,
    ),
]
if find_spec("highspy"):
    PROMISES.append(
        Promise(
            "programs",
            "Stock HiGHS finds the optimum in the files that are written for other solvers",
            _programs,
            most=1_600,
        )
    )
