"""Training on disk: all arrays of the state by their place in it, with the curves so far.

One `.npz` file without pickled objects: `state:…` are the leaves of the state, named by their path
(networks, optimisers, replay buffer, key, iteration), `curve:…` what was recorded, `meta` a JSON
text. A digest of settings, models and seeds must agree: a run goes on as itself or not at all.
"""

from __future__ import annotations

import hashlib
import json
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

FORMAT, VERSION = "softrobust-actor-critic", 1


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
    """SHA-256 of all arrays and settings that a run depends on (not of a user's functions)."""
    import jax

    out = hashlib.sha256(json.dumps([asdict(plan), list(seeds)], sort_keys=True).encode())
    out.update(type(world.dynamics).__name__.encode())
    for place, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
        out.update(jax.tree_util.keystr(place).encode() + np.asarray(leaf).tobytes())
    return out.hexdigest()


def save_checkpoint(path: str | Path, own: str, state: State, curves: Curves) -> None:
    """Write state and curves, atomically."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    arrays: dict[str, Any] = {_name(at): np.asarray(leaf) for at, leaf in leaves}
    arrays |= {f"curve:{k}": getattr(curves, k) for k in Curves.__slots__}
    meta = {"run": own, "iteration": int(np.asarray(state.iteration)[0]), "jax": jax.__version__}
    write_npz(path, FORMAT, VERSION, arrays | {"meta": np.array(json.dumps(meta))})


def load_checkpoint(path: str | Path, own: str, like: State) -> tuple[State, Curves]:
    """Read what `save_checkpoint` wrote, for the same run; `like` has the shapes of its state."""
    import jax

    arrays = read_npz(path, FORMAT, VERSION)
    try:
        meta = json.loads(str(arrays["meta"]))
        if meta["run"] != own:
            raise _unusable(path, "it belongs to other models, settings or seeds")
        places, tree = jax.tree_util.tree_flatten_with_path(like)
        leaves = [_leaf(arrays[_name(at)], shape) for at, shape in places]
        curves = Curves(*(arrays[f"curve:{k}"] for k in Curves.__slots__))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise _unusable(path, f"it is damaged ({error})") from None
    return jax.tree_util.tree_unflatten(tree, leaves), curves


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
