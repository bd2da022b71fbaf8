"""Beyond the paper: does it help, and are the promises kept, when the truth is known?

Many pairs (P*, D) are drawn from a prior (`worlds`), every method is run on the log D, and its
policy is put into the true model: return, regret against the true optimum, and whether what the
method promised came true (`promises`). With the right prior and an exact posterior, a promise of
probability p must hold in a share p of the pairs, within binomial error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust.experiments.base import Experiment, Findings, Results, finished
from softrobust.experiments.truth_tables import claims, remarks, tables
from softrobust.runner import Task, task_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]
# Methods with the λ they are run at; None where a method has no λ.
METHODS: dict[str, tuple[str, float | None]] = {
    "nominal": ("nominal", None),
    "empirical": ("empirical", None),
    "static@0": ("static", 0.0),
    "static@0.5": ("static", 0.5),
    "static@1": ("static", 1.0),
    "s-rect@0.5": ("s-rect", 0.5),
    "s-rect@1": ("s-rect", 1.0),
    "sa-rect@1": ("sa-rect", 1.0),
    "bcr": ("bcr", 1.0),
    "rsvf": ("rsvf", 1.0),
    "rsvf-simple": ("rsvf-simple", 1.0),
    "var": ("var", None),
    "worst-model": ("worst-model", None),
    "spibb": ("spibb", None),
}


@final
class Truth(Experiment):
    """True return, regret and kept promises over pairs of a true model and a log."""

    __slots__ = ()
    name: ClassVar[str] = "truth"
    figure: ClassVar[str] = "beyond the paper"
    title: ClassVar[str] = "The truth: regret and kept promises"
    about: ClassVar[str] = (
        "Pairs of a true model and a log of it, drawn from a prior that the methods know; 100 "
        "posterior draws to train on, α = 0.9. Five worlds: random (8 states, 3 actions, 100 steps "
        "of a random agent), riverswim (the group's rewards, 15 steps), the same with a posterior "
        "that leaves out the rows at the ends, an inventory of 20 places (10 steps), and pest "
        "control (20 steps of random treatment; growth laws from a list of 1500, which makes the "
        "posterior exact, where NUTS would take minutes and its likelihood is not the world's). "
        "Logs are short, so that there is something to be unsure of, and collected by agents that "
        "do not know the true model: the actions of one who does would tell more than the "
        "posterior hears. The static policies are those of the local search, without a proof. "
        "SPIBB trusts pairs that were seen three times."
    )
    caption: ClassVar[str] = (
        "Above: regret, the true optimum less the true return, on average (●) and in the worst "
        "tenth of the pairs (○), with 95 % intervals, on a root scale. Below: how often each "
        "promise came true, with exact binomial intervals; the bar is what was promised. In grey: "
        "numbers that come without a promise."
    )

    def settings(self, quick: bool) -> dict[str, Any]:
        """Some hundred pairs of each world in full."""
        river = {"riverswim": 400, "riverswim-inner": 400}
        full = {"random": 600, **river, "inventory": 250, "pest": 120}
        few = {"random": 20, "riverswim": 20, "riverswim-inner": 20, "inventory": 6, "pest": 6}
        return {
            "pairs": few if quick else full,
            "block": 10,
            "n_train": 100,
            "n_test": 300,
            "n_reference": 1000 if quick else 5000,
            "alpha": 0.9,
            "nodes": 0,
            "seed": 7,
        }

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """Blocks of pairs, world by world."""
        return [task for world in settings["pairs"] for task in self._of(settings, world)]

    def _of(self, settings: Mapping[str, Any], world: str) -> list[Task]:
        total, block = settings["pairs"][world], settings["block"]
        passed = ("n_train", "n_test", "n_reference", "alpha", "nodes", "seed")
        return [
            Task(
                task_key("truth", world, f"{first:04d}"),
                "softrobust.experiments.truth_pairs:pairs",
                {
                    "world": world,
                    "first": first,
                    "count": min(block, total - first),
                    **{name: settings[name] for name in passed},
                },
            )
            for first in range(0, total, block)
        ]

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Distributions over pairs, and shares of kept promises."""
        worlds: dict[str, dict[str, Any]] = {}
        for world in settings["pairs"]:
            blocks = finished(self._of(settings, world), results, least=1)
            worlds[world] = joined(blocks)
        made = {
            "alpha": settings["alpha"],
            "n_train": settings["n_train"],
            "n_test": settings["n_test"],
        }
        numbers = {**made, "worlds": {name: _stored(w) for name, w in worlds.items()}}
        return Findings(numbers, tables(worlds, made), claims(worlds, made), remarks(worlds, made))

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Regrets above, promises below, a column for each world."""
        from softrobust.experiments.truth_figure import draw

        return draw(numbers)


def joined(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Blocks of pairs as one: lists by method, and by promise."""
    out: dict[str, Any] = {"best": [x for b in blocks for x in b["best"]], "true": {}, "kept": {}}
    out["short"] = {}
    for name in blocks[0]["true"]:
        out["true"][name] = [x for b in blocks for x in b["true"][name]]
    for key in blocks[0]["claimed"]:
        claimed = np.array([x for b in blocks for x in b["claimed"][key]], dtype=np.float64)
        target = np.array([x for b in blocks for x in b["target"][key]], dtype=np.float64)
        # A promise that ties but for rounding is kept: some policies leave no choice.
        slack = 1e-9 * np.maximum(np.abs(claimed), np.abs(target))
        out["kept"][key] = [int(x) for x in claimed <= target + slack]
        out["short"][key] = float(np.mean(target - claimed))
    return out


def _stored(world: Mapping[str, Any]) -> dict[str, Any]:
    """Regrets to four digits and promises as text of 0 and 1: every pair, in little room."""
    best = np.asarray(world["best"])
    regret = {
        name: [float(f"{x:.4g}") for x in np.maximum(best - np.asarray(true), 0.0)]
        for name, true in world["true"].items()
    }
    kept = {key: "".join(map(str, bits)) for key, bits in world["kept"].items()}
    return {
        "best": [float(f"{x:.6g}") for x in best],
        "regret": regret,
        "kept": kept,
        "target_less_claimed": dict(world["short"]),
    }
