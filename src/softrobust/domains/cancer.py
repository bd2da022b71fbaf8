"""Cancer growth (section 6): a tumour in four compartments and a drug that is given or not.

State (C, P, Q, Qp): drug concentration, proliferating, quiescent and damaged quiescent tissue.
With P* = P + Q + Qp, in this order:

    C′  = (1 − KDE)(C + a)
    P′  = P + λP·P·(1 − P*/K) + k_QpP·Qp − k_PQ·P − γ_c·KDE·C′·P
    Q′  = Q + k_PQ·P′ − γ_c·KDE·C′·Q
    Qp′ = Qp + γ_c·KDE·C′·Q′ − (k_QpP + δ_Qp)·Qp

Observed: (C′, P′, Q′, Qp′) ⊙ (1 + 0.03·ε), ε ~ N(0, I). Reward: P* − P*′ − dose_penalty·C′. The
simulator pays it on the values before noise; a learner, who never sees those, on the observed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray, IntArray, refuse_if_too_large
from softrobust._core.settings import Count, Discount, NotNegative, Number, check_fields
from softrobust.data import ContinuousLog, Labels
from softrobust.domains.base import Domain, Seed
from softrobust.models.gaussian import GaussianFrame, GaussianModels
from softrobust.objective import SoftRobust
from softrobust.posterior import RegressionPosterior
from softrobust.problem import ContinuousProblem

KDE, GROWTH, K_QP_P, K_PQ = 0.24, 0.121, 0.0031, 0.0295
KILL, DEATH, CAPACITY = 0.729, 0.00867, 100.0
START = (0.0, 7.13, 41.2, 0.0)
# No value is negative, tissue does not outgrow its capacity, and a dose in every step leads to a
# concentration of 3.2 (plus noise): quadratic models leave this box, and then explode.
MOST = (4.0, CAPACITY, CAPACITY, CAPACITY)
VARIABLES = ("C", "P", "Q", "Qp")
TREAT_UNTIL = 15
RANDOM_SHARE = 0.1
PAPER_NOISE = 0.001  # scale of the prior of the variance, in standard units


@final
class Step(NamedTuple):
    """Next states (…, 4) and rewards (…)."""

    s_next: FloatArray
    reward: FloatArray


@final
@dataclass(frozen=True, slots=True)
class CancerSimulator:
    """The world itself: noise is a share of every value."""

    dose_penalty: float = 1.0
    noise: float = 0.03

    def step(self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator | None = None) -> Step:
        """One step of states (…, 4) under actions (…); without `rng`, free of noise."""
        s = np.asarray(s, dtype=np.float64)
        C, P, Q, Qp = np.moveaxis(s, -1, 0)
        total = P + Q + Qp
        C_next = (1 - KDE) * (C + np.asarray(a))
        killed = KILL * KDE * C_next
        P_next = P + GROWTH * P * (1 - total / CAPACITY) + K_QP_P * Qp - K_PQ * P - killed * P
        Q_next = Q + K_PQ * P_next - killed * Q
        Qp_next = Qp + killed * Q_next - (K_QP_P + DEATH) * Qp
        out = np.stack([C_next, P_next, Q_next, Qp_next], axis=-1)
        reward = total - (P_next + Q_next + Qp_next) - self.dose_penalty * C_next
        if rng is not None:
            out = out * (1.0 + self.noise * rng.standard_normal(out.shape))
        return Step(out, np.asarray(reward))


@final
@dataclass(frozen=True, slots=True)
class CancerGrowth(Domain):
    """Give the drug or not, for 30 steps."""

    name: ClassVar[str] = "cancer"
    summary: ClassVar[str] = "Dose a tumour: 4 continuous variables, 2 actions, 30 steps, γ = 0.9."
    env_id: ClassVar[str | None] = "softrobust/CancerGrowth-v0"
    env_steps: ClassVar[int] = 30
    paper_goal: ClassVar[SoftRobust] = SoftRobust(0.75, 0.9)  # λ of the figure: 0.25, 0.75, 1
    paper_models: ClassVar[int] = 50
    # what a unit of drug concentration costs; at 0, treating always is close to optimal
    dose_penalty: Number = 1.0
    noise: NotNegative = 0.03  # relative standard deviation of the observed values
    # episodes, horizon: size of the batch: 20 × 30 transitions
    episodes: Count = 20
    horizon: Count = 30
    # fit the noise as a function of the features (NUTS) instead of a constant (exact)
    varying: bool = False
    # keep the next states of posterior models within what is possible: 0 ≤ C ≤ 4, and each tissue
    # within 0 … 100. Without it, models explode under policies unlike those of the log.
    boxed: bool = True
    gamma: Discount = 0.9

    def __post_init__(self) -> None:
        check_fields(self)
        rows = self.episodes * self.horizon
        what = f"A batch of {rows} transitions"
        refuse_if_too_large(100.0 * rows, what, "Set fewer episodes or a shorter horizon.")

    def true_model(self) -> CancerSimulator:
        """The simulator."""
        return CancerSimulator(self.dose_penalty, self.noise)

    def frame(self) -> GaussianFrame:
        """Variables, the two doses, and r = P* − P*′ − dose_penalty·C′ on observed values."""
        return GaussianFrame(
            Labels(VARIABLES, noun="variable"),
            Labels(("0", "1"), noun="action"),
            action_values=np.array([0.0, 1.0]),
            reward_now=np.array([0.0, 1.0, 1.0, 1.0]),
            reward_next=np.array([-self.dose_penalty, -1.0, -1.0, -1.0]),
            start=np.array([START]),
            gamma=self.gamma,
            horizon=self.horizon,
            box=(np.zeros(4), np.array(MOST)) if self.boxed else None,
        )

    def behaviour(self, t: int, rng: np.random.Generator, n: int) -> IntArray:
        """Treat while t ≤ 15; after the first step one action in ten is random."""
        a = np.full(n, int(t <= TREAT_UNTIL))
        random = (rng.random(n) < RANDOM_SHARE) & (t > 0)
        return np.where(random, rng.integers(0, 2, size=n), a)

    def collect(self, seed: Seed = 0) -> ContinuousLog:
        """Episodes side by side; the rewards are those of the observed values."""
        rng = np.random.default_rng(seed)
        world, E, T = self.true_model(), self.episodes, self.horizon
        s = np.empty((E, T, 4))
        s_next, a = np.empty((E, T, 4)), np.empty((E, T), dtype=np.int64)
        now = np.tile(np.array(START), (E, 1))
        for t in range(T):
            s[:, t], a[:, t] = now, self.behaviour(t, rng, E)
            now = world.step(now, a[:, t], rng).s_next
            s_next[:, t] = now
        flat, flat_next = s.reshape(-1, 4), s_next.reshape(-1, 4)
        return ContinuousLog.from_arrays(
            flat, a.reshape(-1), flat_next, self.frame().reward(flat, flat_next),
            np.repeat(np.arange(E), T), variables=VARIABLES, action_names=("0", "1"),
            source="the log of cancer",
        )  # fmt: skip

    def posterior(self) -> RegressionPosterior:
        """Linear in 20 polynomial features."""
        noise: Any = "varying" if self.varying else "constant"
        return RegressionPosterior(noise=noise, noise_scale=PAPER_NOISE, frame=self.frame())

    def problem_on(self, models: GaussianModels, objective: SoftRobust) -> ContinuousProblem:
        """The models bring all that there is."""
        return ContinuousProblem(models, objective=objective)
