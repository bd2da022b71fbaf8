"""Training on disk: all arrays of the state by their place in it, with the curves so far.

One `.npz` file without pickled objects: `state:…` are the leaves of the state, named by their path
(networks, optimisers, replay buffer, key, iteration), `curve:…` what was recorded, `meta` a JSON
text. A digest of settings, models and seeds must agree: a run goes on as itself or not at all. Only
learning rates may be others, so that a run whose losses left the numbers can go on with lower ones
from its last good state; that is said aloud.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.npz import read_npz, write_npz
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.solvers.sac.training import State
    from softrobust.solvers.sac.update import Plan
    from softrobust.solvers.sac.worlds import Data, World

FORMAT, VERSION = "softrobust-actor-critic", 2  # 2: rates beside the digest
RATES = ("rates", "target_rate")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What training recorded, by agent and iteration.

    Attributes
    ----------
    returns : (n_agents, n_iterations)
        Mean discounted return of the iteration's episodes in the mean model.
    entropy : (n_agents, n_iterations)
        Mean entropy of the policy in the states of these episodes.
    losses : (n_agents, n_iterations, 3)
        Mean J(π), J(Q), J(V) over the iteration's updates.
    """

    returns: NDArray[np.float32]
    entropy: NDArray[np.float32]
    losses: NDArray[np.float32]

    @classmethod
    def empty(cls, agents: int) -> Curves:
        """Of no iterations."""
        none = np.zeros((agents, 0), np.float32)
        return cls(none, none, np.zeros((agents, 0, 3), np.float32))

    def thinned(self, agent: int, points: int) -> list[float]:
        """The returns of one agent, averaged over stretches so that about `points` are left."""
        x = self.returns[agent]
        stretch = max(1, x.size // points)
        whole = x[: x.size // stretch * stretch].reshape(-1, stretch)
        return [float(mean) for mean in whole.mean(axis=1)]

    def joined(self, more: Curves) -> Curves:
        """These followed by more."""
        pairs = ((getattr(self, k), getattr(more, k)) for k in self.__slots__)
        return Curves(*(np.concatenate(pair, axis=1) for pair in pairs))


def digest(plan: Plan, world: World, data: Data, seeds: tuple[int, ...]) -> str:
    """SHA-256 of arrays and settings that a run depends on (not of rates or a user's functions)."""
    import jax

    settings = {name: value for name, value in asdict(plan).items() if name not in RATES}
    out = hashlib.sha256(json.dumps([settings, list(seeds)], sort_keys=True).encode())
    out.update(type(world.dynamics).__name__.encode())
    for place, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
        out.update(jax.tree_util.keystr(place).encode() + np.asarray(leaf).tobytes())
    return out.hexdigest()


def rates_of(plan: Plan) -> dict[str, list[float]]:
    """The rates that a run may change on its way."""
    return {name: np.atleast_1d(getattr(plan, name)).tolist() for name in RATES}


def save_checkpoint(path: str | Path, own: str, plan: Plan, state: State, curves: Curves) -> None:
    """Write state and curves, atomically."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    arrays: dict[str, Any] = {_name(at): np.asarray(leaf) for at, leaf in leaves}
    arrays |= {f"curve:{k}": getattr(curves, k) for k in Curves.__slots__}
    meta = {"run": own, "iteration": int(np.asarray(state.iteration)[0]), "jax": jax.__version__,
            "rates": rates_of(plan)}  # fmt: skip
    write_npz(path, FORMAT, VERSION, arrays | {"meta": np.array(json.dumps(meta))})


def load_checkpoint(path: str | Path, own: str, plan: Plan, like: State) -> tuple[State, Curves]:
    """Read what `save_checkpoint` wrote, for the same run; `like` has the shapes of its state."""
    import jax

    arrays = read_npz(path, FORMAT, VERSION)
    try:
        meta = json.loads(str(arrays["meta"]))
        if meta["run"] != own:
            raise _unusable(path, "it belongs to other models, settings or seeds")
        _say_rates(path, meta, plan)
        places, tree = jax.tree_util.tree_flatten_with_path(like)
        leaves = [_leaf(arrays[_name(at)], shape) for at, shape in places]
        curves = Curves(*(arrays[f"curve:{k}"] for k in Curves.__slots__))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise _unusable(path, f"it is damaged ({error})") from None
    return jax.tree_util.tree_unflatten(tree, leaves), curves


def _say_rates(path: str | Path, meta: dict[str, Any], plan: Plan) -> None:
    if meta["rates"] != rates_of(plan):
        warnings.warn(
            f"The checkpoint {Path(path).name} was trained with other learning rates "
            f"({meta['rates']}); those of now ({rates_of(plan)}) count from iteration "
            f"{meta['iteration'] + 1} on.",
            stacklevel=4,
        )


def _name(path: Any) -> str:
    import jax

    return f"state:{jax.tree_util.keystr(path)}"


def _leaf(found: NDArray[Any], like: Any) -> Any:
    import jax.numpy as jnp

    if found.shape != like.shape or found.dtype != like.dtype:
        raise TypeError(f"an array of {found.shape} where {like.shape} belongs")
    return jnp.asarray(found)


def _unusable(path: str | Path, reason: str) -> InputError:
    return InputError(
        f"The checkpoint '{Path(path).name}' cannot be resumed: {reason}. "
        "Remove the file, or name another, to start afresh."
    )
