"""The S-rectangular solver: nature picks ξ ∈ Ξ anew in every state (section 4.2).

Its policy may randomize. Its value is ρ^R, a lower bound of ρ^D.

    # ERRATUM: ρ^R does not bound ρ^S, on which no rectangular policy is reliably the better one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from softrobust.kernels.sweeps import S_GAME
from softrobust.solvers.rectangular_base import Rectangular


@final
@dataclass(frozen=True, slots=True)
class SRect(Rectangular):
    """Maximise ρ^R, the return where nature answers state by state; settings as in `Rectangular`.

    The policy is randomized in the states where that pays.
    """

    name: ClassVar[str] = "s-rect"
    kind: ClassVar[int] = S_GAME
