"""The domains as Gymnasium environments.

    gymnasium.make("softrobust.domains.envs:softrobust/PestControl-v0")

Importing this module registers them; `register_envs()` does the same. Observations are state
indices (or the four variables of the tumour), actions are indices, episodes end by their length.
Settings of the domain are keyword arguments: gymnasium.make("softrobust/RiverSwim-v0",
variant="craam").
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from softrobust._core.settings import whole
from softrobust.domains.base import Domain, TabularDomain
from softrobust.domains.cancer import VARIABLES, CancerGrowth
from softrobust.domains.inventory import Inventory
from softrobust.domains.pest import PestControl
from softrobust.domains.riverswim import RiverSwim
from softrobust.errors import InputError, MissingExtraError


def import_gymnasium() -> Any:
    """Gymnasium, or the line that installs it."""
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "gym", "Simulating a domain") from error
    return gymnasium


def register_envs() -> None:
    """Register the four environments with Gymnasium; calling it again changes nothing."""
    gymnasium = import_gymnasium()
    for domain, maker in (
        (PestControl, "pest_control"),
        (Inventory, "inventory"),
        (RiverSwim, "riverswim"),
        (CancerGrowth, "cancer_growth"),
    ):
        if domain.env_id not in gymnasium.registry:
            gymnasium.register(
                domain.env_id,
                entry_point=f"softrobust.domains.envs:{maker}",
                max_episode_steps=domain.env_steps,
            )


def make_env(domain: Domain) -> Any:
    """The environment of a domain (without a limit of steps)."""
    if isinstance(domain, TabularDomain):
        return _tabular_class()(domain)
    if isinstance(domain, CancerGrowth):
        return _cancer_class()(domain)
    raise InputError(f"The domain {domain.name} has no environment.")


def pest_control(**settings: Any) -> Any:
    """Entry point of softrobust/PestControl-v0."""
    return make_env(PestControl(**_own(settings)))


def inventory(**settings: Any) -> Any:
    """Entry point of softrobust/Inventory-v0."""
    return make_env(Inventory(**_own(settings)))


def riverswim(**settings: Any) -> Any:
    """Entry point of softrobust/RiverSwim-v0."""
    return make_env(RiverSwim(**_own(settings)))


def cancer_growth(**settings: Any) -> Any:
    """Entry point of softrobust/CancerGrowth-v0."""
    return make_env(CancerGrowth(**_own(settings)))


def _own(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "render_mode"}


def _action(action: Any, n_actions: int) -> int:
    """The index of an action; Python would take −1 for the last one."""
    return whole("The action", action, 0, n_actions - 1, "It is an index of action_space.")


def _tumour(state: Any) -> Any:
    """(4,) the variables to start from."""
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


@cache
def _tabular_class() -> Any:
    gymnasium = import_gymnasium()

    class TabularEnv(gymnasium.Env):  # type: ignore[misc,name-defined]
        """States and actions by index; the domain's own mechanism moves."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's convention)

        def __init__(self, domain: TabularDomain) -> None:
            frame = domain.frame()
            if frame.rewards is None or frame.p0 is None:
                raise InputError(f"The domain {domain.name} lacks rewards or a start.")
            self.domain, self.rewards, self.p0 = domain, frame.rewards, np.asarray(frame.p0)
            self.observation_space = gymnasium.spaces.Discrete(len(frame.states))
            self.action_space = gymnasium.spaces.Discrete(len(frame.actions))
            self.render_mode = None
            self.s = 0

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[int, dict[str, Any]]:
            given = (options or {}).get("state")
            if given is not None:
                given = whole("options['state']", given, 0, self.p0.size - 1, "It is an index.")
            super().reset(seed=seed)
            drawn = int(self.np_random.choice(self.p0.size, p=self.p0))
            self.s = drawn if given is None else given
            return self.s, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            index = _action(action, int(self.action_space.n))
            s, a = np.array([self.s]), np.array([index])
            after = self.domain.step(s, a, self.np_random)
            reward = float(self.rewards.at(s, a, after)[0][0])
            self.s = int(after[0])
            return self.s, reward, False, False, {}

    return TabularEnv


@cache
def _cancer_class() -> Any:
    gymnasium = import_gymnasium()

    class CancerEnv(gymnasium.Env):  # type: ignore[misc,name-defined]
        """Observations (C, P, Q, Qp) with noise; rewards before noise, as the simulator pays."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's convention)

        def __init__(self, domain: CancerGrowth) -> None:
            self.world, frame = domain.true_model(), domain.frame()
            self.start = np.asarray(frame.start)[0]
            # Wide bounds that no value reaches: tissue stays near 100, the drug below 4.
            self.observation_space = gymnasium.spaces.Box(-1000.0, 1000.0, (4,), np.float64)
            self.action_space = gymnasium.spaces.Discrete(len(frame.actions))
            self.render_mode = None
            self.s = self.start

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            given = (options or {}).get("state")
            self.s = self.start.copy() if given is None else _tumour(given)
            super().reset(seed=seed)
            return self.s.copy(), {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            index = _action(action, int(self.action_space.n))
            self.s, reward = self.world.step(self.s, index, self.np_random)
            return self.s.copy(), float(reward), False, False, {}

    return CancerEnv


with suppress(MissingExtraError):  # raised again by whoever needs an environment
    register_envs()
