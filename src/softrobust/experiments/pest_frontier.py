"""Figure 4: pest control, mean against the worst 30 % of models, by method and λ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

from softrobust.experiments.claims import Claim
from softrobust.experiments.comparisons import MORE, higher, rises
from softrobust.experiments.curves import MODELS, Curves
from softrobust.experiments.tradeoff import LAMS, TradeoffExperiment

WHERE = "section 6.1, figure 4"
EARLIER = ("bcr", "rsvf", "rsvf-simple")
NUTS = {"chains": 4, "warmup": 1000, "draws": 1000}


@final
class PestFrontier(TradeoffExperiment):
    """Soft-robust methods, BCR and RSVF on pest control."""

    __slots__ = ()
    name: ClassVar[str] = "pest-frontier"
    figure: ClassVar[str] = "figure 4"
    title: ClassVar[str] = "Pest control: mean against the bad case"
    about: ClassVar[str] = (
        "Each data seed is an episode of 300 steps; the growth rates are sampled by NUTS, with 100 "
        "draws to train on and 100 held out; α = 0.7. The paper evaluates on the training models; "
        "both are shown. BCR and RSVF shrink their sets by λ, as in the paper."
    )
    caption: ClassVar[str] = (
        "Averages over logs; the number beside a point is its λ. Thin crosses: 95 % intervals of "
        "the difference to the nominal policy on the same log. Up and right is better."
    )
    domain: ClassVar[str] = "pest-control"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": NUTS}

    def settings(self, quick: bool) -> dict[str, Any]:
        """20 data seeds or more in full."""
        short = {"": {"chains": 4, "warmup": 500, "draws": 500}}
        return {
            "variants": short if quick else {k: dict(v) for k, v in self.variants.items()},
            "seeds": list(range(2 if quick else 24)),
            "methods": [
                "nominal", "static", "s-rect", "sa-rect", "bcr", "bcr-paper", "rsvf",
                "rsvf-simple", "var",
            ],
            "lams": [0.0, 0.5, 1.0] if quick else LAMS,
            "alpha": 0.7,
            "n_train": 100,
            "n_test": 100,
            "nodes": 3 if quick else 10,
        }  # fmt: skip

    def claims(self, curves: Curves, label: str) -> list[Claim]:
        """Soft-robust methods are above the others, and λ trades one goal for the other."""
        out = []
        for models in MODELS:
            for method, words in (("static", "The static optimum"), ("s-rect", "SRVI")):
                out.append(Claim(
                    f"{words} outperforms the earlier methods BCR and RSVF.",
                    WHERE, models, MORE,
                    tuple(higher(curves, method, other, models) for other in EARLIER),
                ))  # fmt: skip
        for models in MODELS:
            for method, words in (("static", "the static optimum"), ("s-rect", "SRVI")):
                out.append(Claim(
                    f"λ trades well in {words}: the bad case rises with λ and the mean falls.",
                    WHERE, models, MORE,
                    (rises(curves, method, "cvar", models, up=True),
                     rises(curves, method, "mean", models, up=False)),
                ))  # fmt: skip
        return out
