"""Figure 6: inventory, mean against the worst 20 % of models, by method and λ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from softrobust.experiments.claims import Claim
from softrobust.experiments.comparisons import (
    COMPARABLE,
    FAR,
    MORE,
    MUCH,
    at_less_best,
    better_at,
    comparable,
    higher,
    rises,
)
from softrobust.experiments.curves import MODELS, Curves
from softrobust.experiments.tradeoff import LAMS, TradeoffExperiment

WHERE = "appendix, inventory, figure 6"
RSVF = ("rsvf-paper", "rsvf-simple-paper")  # their quantile would take 10 455 draws at every step


@final
class InventoryFrontier(TradeoffExperiment):
    """SRVI, RSVF and BCR on the inventory."""

    __slots__ = ()
    name: ClassVar[str] = "inventory"
    figure: ClassVar[str] = "figure 6"
    title: ClassVar[str] = "Inventory: mean against the bad case"
    about: ClassVar[str] = (
        "Each data seed is 50 steps of ordering the maximum against Poisson demand of mean 10; the "
        "posterior of the mean demand is a Gamma, 100 draws to train on and 100 held out; α = 0.8, "
        "γ = 0.99. Where the paper calls BCR's λ 0 it means the full set (erratum 8): λ = 1 here."
    )
    caption: ClassVar[str] = (
        "Averages over logs; the number beside a point is its λ. Thin crosses: 95 % intervals of "
        "the difference to the nominal policy on the same log. Up and right is better."
    )
    domain: ClassVar[str] = "inventory"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": {}}

    def settings(self, quick: bool) -> dict[str, Any]:
        """20 data seeds or more in full."""
        return {
            "variants": {k: dict(v) for k, v in self.variants.items()},
            "seeds": list(range(3 if quick else 24)),
            "methods": [
                "nominal", "static", "s-rect", "sa-rect", "bcr", "bcr-paper", *RSVF, "var",
            ],
            "lams": [0.0, 0.5, 1.0] if quick else LAMS,
            "alpha": 0.8,
            "n_train": 100,
            "n_test": 100,
            "nodes": 0 if quick else 10,
        }  # fmt: skip

    def claims(self, curves: Curves, label: str) -> list[Claim]:
        """What the appendix says of figure 6, on training and on held-out models."""
        out = []
        for models in MODELS:
            out += [
                Claim("SRVI's mean rises as λ falls, and its bad case rises with λ.",
                      WHERE, models, MORE,
                      (rises(curves, "s-rect", "mean", models, up=False),
                       rises(curves, "s-rect", "cvar", models, up=True))),
                Claim("BCR (full set) performs very poorly against SRVI and RSVF.",
                      WHERE, models, MUCH,
                      tuple(better_at(curves, other, 1.0, "bcr", 1.0, key, models, FAR)
                            for other in ("s-rect", *RSVF) for key in ("mean", "cvar"))),
                Claim("SRVI and RSVF are comparable in mean.", WHERE, models, COMPARABLE,
                      tuple(comparable(curves, "s-rect", other, models) for other in RSVF)),
                Claim("SRVI at λ = 1 outperforms BCR and RSVF in the bad case.",
                      WHERE, models, MORE,
                      (better_at(curves, "s-rect", 1.0, "bcr", 1.0, "cvar", models),
                       *(at_less_best(curves, "s-rect", 1.0, other, models) for other in RSVF))),
                Claim("SRVI outperforms RSVF and BCR for well chosen λ (caption, as corrected).",
                      WHERE, models, MORE,
                      tuple(higher(curves, "s-rect", other, models) for other in (*RSVF, "bcr"))),
            ]  # fmt: skip
        return out
