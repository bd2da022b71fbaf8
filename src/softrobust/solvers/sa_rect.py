"""The SA-rectangular solver: nature picks ξ ∈ Ξ anew for every state and action (appendix A).

Its policy is deterministic. Its value is ρ^RA ≤ ρ^R, the more cautious of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from softrobust.kernels.sweeps import SA_GAME
from softrobust.solvers.rectangular_base import Rectangular


@final
@dataclass(frozen=True, slots=True)
class SARect(Rectangular):
    """Maximise ρ^RA, the return where nature answers every action by itself.

    Settings as in `Rectangular`.
    """

    name: ClassVar[str] = "sa-rect"
    kind: ClassVar[int] = SA_GAME
