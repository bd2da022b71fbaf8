"""Figure 7: riverswim, mean against the worst 10 % of models, in three readings of the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from softrobust.experiments.claims import Claim
from softrobust.experiments.comparisons import (
    COMPARABLE,
    MORE,
    at_less_best,
    better_at,
    comparable,
    higher,
)
from softrobust.experiments.curves import MODELS, Curves
from softrobust.experiments.tradeoff import LAMS, TradeoffExperiment

WHERE = "appendix, riverswim, figure 7"
RSVF = ("rsvf", "rsvf-simple")


@final
class RiverswimFrontier(TradeoffExperiment):
    """SRVI, RSVF and BCR on riverswim."""

    __slots__ = ()
    name: ClassVar[str] = "riverswim"
    figure: ClassVar[str] = "figure 7"
    title: ClassVar[str] = "Riverswim: mean against the bad case"
    about: ClassVar[str] = (
        "Each data seed is 15 steps of a random swimmer. The text leaves the posterior open: an "
        "independent uniform Dirichlet for every state and action, as it reads, or one shared by "
        "all states; the group's own code (craam) has other rewards and chances. All three are "
        "shown. α is not given in the paper: 0.9. 100 draws to train on and 100 held out. Where "
        "the paper calls BCR's λ 0 it means the full set (erratum 8): λ = 1 here."
    )
    caption: ClassVar[str] = (
        "Averages over logs; the number beside a point is its λ. Thin crosses: 95 % intervals of "
        "the difference to the nominal policy on the same log. Up and right is better."
    )
    domain: ClassVar[str] = "riverswim"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "as the text reads": {"variant": "paper", "prior": "independent"},
        "one law for all states": {"variant": "paper", "prior": "tied"},
        "the group's code": {"variant": "craam", "prior": "tied"},
    }

    def settings(self, quick: bool) -> dict[str, Any]:
        """20 data seeds or more in full."""
        return {
            "variants": {k: dict(v) for k, v in self.variants.items()},
            "seeds": list(range(3 if quick else 30)),
            "methods": [
                "nominal", "static", "s-rect", "sa-rect", "bcr", "bcr-paper", "rsvf",
                "rsvf-simple", "var",
            ],
            "lams": LAMS,
            "alpha": 0.9,
            "n_train": 100,
            "n_test": 100,
            "nodes": 3 if quick else 20,
        }  # fmt: skip

    def claims(self, curves: Curves, label: str) -> list[Claim]:
        """What the appendix says of figure 7, on training and on held-out models."""
        out = []
        where = f"{WHERE} ({label})"
        others = [lam for lam in curves.lams["s-rect"] if lam != 0.75]
        for models in MODELS:
            out += [
                Claim("SRVI outperforms BCR (full set) in mean.", where, models, MORE,
                      (better_at(curves, "s-rect", 0.75, "bcr", 1.0, "mean", models),)),
                Claim("SRVI is comparable to RSVF in mean.", where, models, COMPARABLE,
                      tuple(comparable(curves, "s-rect", other, models) for other in RSVF)),
                Claim("SRVI at λ = 0.75 has the best bad case of all methods.",
                      where, models, MORE,
                      (better_at(curves, "s-rect", 0.75, "bcr", 1.0, "cvar", models),
                       *(at_less_best(curves, "s-rect", 0.75, other, models) for other in RSVF),
                       *(better_at(curves, "s-rect", 0.75, "s-rect", lam, "cvar", models)
                         for lam in others))),
                Claim("SRVI outperforms RSVF and BCR for well chosen λ (caption, as corrected).",
                      where, models, MORE,
                      tuple(higher(curves, "s-rect", other, models) for other in (*RSVF, "bcr"))),
            ]  # fmt: skip
        return out
