"""All checks of a run folder, in the order in which a sceptic would ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust import __version__
from softrobust.checks.check import Check, Verdict, cannot_tell
from softrobust.checks.held_out_episodes import held_out_episodes
from softrobust.checks.replay import replay
from softrobust.checks.sensitivity import draws, goal, prior_strength
from softrobust.data.files import atomic_write
from softrobust.errors import InputError
from softrobust.offpolicy import tipping_point
from softrobust.pipeline.folder import Folder
from softrobust.solvers.behaviour import RARE, behaviour_policy, rare_share, unmasked

if TYPE_CHECKING:
    from pathlib import Path

MUCH = 0.1
WEAK = 1.5  # odds that a hidden cause could plausibly shift


def rare_pairs(folder: Folder) -> Check:
    """Share of discounted visits of the policy to pairs seen fewer than five times."""
    name = "rarely seen pairs"
    log, _ = folder.need_log("Coverage")
    share, (s, a) = rare_share(folder.problem, folder.solution.policy, log)
    sentence = (
        f"{100 * share:.1f} % of the policy's discounted decisions fall on pairs seen fewer than "
        f"{RARE} times"
    )
    if share > 0:
        sentence += (
            f", most of all '{log.actions[a]}' in '{log.states[s]}' "
            f"(seen {int(log.pair_counts[s, a])} times)"
        )
    verdict = Verdict.FINE if share <= MUCH else Verdict.CAUTION
    return Check(name, verdict, f"{sentence}.", {"share": share, "fewer_than": RARE})


def confounding(folder: Folder) -> Check:
    """How much hidden confounding would overturn the choice."""
    name = "hidden confounding"
    log, _ = folder.need_log("The check for confounding")
    problem = unmasked(folder.problem)
    practice, _ = behaviour_policy(problem, log)
    found = tipping_point(problem, folder.solution.policy, practice, np.asarray(log.behaviour), log)
    weak = found.tipping is not None and found.tipping < WEAK
    return Check(name, Verdict.CAUTION if weak else Verdict.FINE, found.words(), found.to_dict())


CHECKS: dict[str, Callable[[Folder, int], Check]] = {
    "behaviour replay": replay,
    "off-policy estimates": held_out_episodes,
    "rarely seen pairs": lambda folder, _: rare_pairs(folder),
    "prior strength": prior_strength,
    "the goal (λ, α)": goal,
    "number of models and seed": draws,
    "hidden confounding": lambda folder, _: confounding(folder),
}


def check_run(folder: Folder, seed: int = 0) -> Iterator[Check]:
    """Every check in turn; one that cannot be made says why."""
    for name, check in CHECKS.items():
        try:
            yield check(folder, seed)
        except InputError as error:
            yield cannot_tell(name, str(error))


def checks_record(folder: Folder, checks: list[Check], seed: int) -> dict[str, Any]:
    """What `checks.json` holds."""
    return {
        "format_version": 1,
        "version": __version__,
        "seed": seed,
        "data_hash": None if folder.log is None else folder.log.data_hash,
        "checks": [check.to_dict() for check in checks],
    }


def save_checks(path: Path, record: dict[str, Any]) -> None:
    """Write `checks.json`, atomically."""
    with atomic_write(path) as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
