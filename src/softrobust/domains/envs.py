"""The domains as Gymnasium environments.

    gymnasium.make("softrobust.domains.envs:softrobust/PestControl-v0")

Importing this module registers them; `register_envs()` does the same. Observations are state
indices (or the four variables of the tumour), actions are indices, episodes end by their length.
Settings of the domain are keyword arguments: gymnasium.make("softrobust/RiverSwim-v0",
variant="craam").
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import cache
from typing import Any, final

import numpy as np

from softrobust._core.settings import whole
from softrobust.domains.base import Domain, TabularDomain
from softrobust.domains.cancer import VARIABLES, CancerGrowth
from softrobust.domains.inventory import Inventory
from softrobust.domains.pest import PestControl
from softrobust.domains.riverswim import RiverSwim
from softrobust.errors import InputError, MissingExtraError, optional

GYMNASIUM = ("gymnasium", "gym", "Simulating a domain")
SIMULATED: dict[str, type[Domain]] = {
    cls.name: cls for cls in (PestControl, Inventory, RiverSwim, CancerGrowth)
}


def register() -> None:
    """Register the four environments with Gymnasium; calling it again changes nothing."""
    gymnasium = optional(*GYMNASIUM)
    for name, domain in SIMULATED.items():
        if domain.env_id not in gymnasium.registry:
            how = {"max_episode_steps": domain.env_steps, "kwargs": {"domain": name}}
            gymnasium.register(domain.env_id, "softrobust.domains.envs:make_env", **how)


def make_env(domain: str, render_mode: str | None = None, **settings: Any) -> Any:
    """The environment of a domain, without a limit of steps."""
    made = SIMULATED[domain](**settings)
    return _env_class()(Tumour(made) if isinstance(made, CancerGrowth) else Table(made))


@final
class Table:
    """States and actions by index; the domain's own mechanism moves."""

    def __init__(self, domain: Any) -> None:
        self.domain: TabularDomain = domain
        self.frame: Any = domain.frame()

    def space(self, spaces: Any) -> Any:
        """Of observations."""
        return spaces.Discrete(len(self.frame.states))

    def start(self, rng: np.random.Generator) -> int:
        """Drawn from p0."""
        return int(rng.choice(self.frame.p0.size, p=self.frame.p0))

    def checked(self, state: Any) -> int:
        """An index of a state."""
        return whole("options['state']", state, 0, self.frame.p0.size - 1, "It is an index.")

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        """Next state and reward."""
        s, a = np.array([state]), np.array([action])
        after = self.domain.step(s, a, rng)
        return int(after[0]), float(self.frame.rewards.at(s, a, after)[0][0])


@final
class Tumour:
    """Observations (C, P, Q, Qp) with noise; rewards before noise, as the simulator pays."""

    def __init__(self, domain: CancerGrowth) -> None:
        self.world, self.frame = domain.true_model(), domain.frame()

    def space(self, spaces: Any) -> Any:
        """Wide bounds that no value reaches: tissue stays near 100, the drug below 4."""
        return spaces.Box(-1000.0, 1000.0, (len(VARIABLES),), np.float64)

    def start(self, rng: np.random.Generator) -> Any:
        """Always the same."""
        return np.array(self.frame.start)[0]

    def checked(self, state: Any) -> Any:
        """The variables to start from."""
        try:
            s = np.array(state, dtype=np.float64)
        except (TypeError, ValueError):
            s = np.empty(0)
        if s.shape != (len(VARIABLES),) or not np.isfinite(s).all() or (s < 0).any():
            raise InputError(
                f"options['state'] must be {len(VARIABLES)} finite numbers ≥ 0 "
                f"({', '.join(VARIABLES)}); it is {state!r}. Correct it, or leave it out."
            )
        return s

    def step(self, state: Any, action: int, rng: np.random.Generator) -> tuple[Any, float]:
        """Next state and reward."""
        s_next, reward = self.world.step(state, action, rng)
        return s_next, float(reward)


@cache
def _env_class() -> Any:
    gymnasium = optional(*GYMNASIUM)

    class DomainEnv(gymnasium.Env):  # type: ignore[misc,name-defined]
        """One world; `s` is where it stands."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's convention)

        def __init__(self, world: Table | Tumour) -> None:
            self.world: Any = world
            self.n_actions = len(world.frame.actions)
            self.observation_space = world.space(gymnasium.spaces)
            self.action_space = gymnasium.spaces.Discrete(self.n_actions)
            self.render_mode = None
            self.s: Any = None

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            given = (options or {}).get("state")
            given = None if given is None else self.world.checked(given)
            super().reset(seed=seed)
            start = self.world.start(self.np_random)
            self.s = start if given is None else given
            return copy(self.s), {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            # Python would take −1 for the last action.
            a = whole("The action", action, 0, self.n_actions - 1, "It is an index of the actions.")
            self.s, reward = self.world.step(self.s, a, self.np_random)
            return copy(self.s), reward, False, False, {}

    return DomainEnv


with suppress(MissingExtraError):  # raised again by whoever needs an environment
    register()
