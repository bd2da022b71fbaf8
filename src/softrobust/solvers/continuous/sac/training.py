"""The training loop: episodes in the mean model, a replay buffer, updates; compiled in blocks.

One iteration rolls `episodes` episodes out in the mean model under the current policy, writes their
(s, a) over the oldest ones of the replay buffer, and makes `updates` updates on batches drawn from
it. Next states are not stored: targets draw their own from every model. A block of iterations is
one compiled `lax.scan`; agents (seeds) run side by side by `vmap` and share the models.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

from softrobust.solvers.continuous.sac.update import (
    Learner,
    Plan,
    first_learner,
    forward,
    inputs,
    update,
)

if TYPE_CHECKING:
    from softrobust.solvers.continuous.sac.worlds import Data, World


@final
class State(NamedTuple):
    """All that training carries: the learner, the replay buffer, the key and the iteration."""

    learner: Learner
    replay_s: Any
    replay_a: Any
    key: Any
    iteration: Any


@final
class Trace(NamedTuple):
    """What a block records: returns and entropies (length,), losses (length, updates, 3)."""

    returns: Any
    entropy: Any
    losses: Any


def first_state(plan: Plan, seed: Any) -> State:
    """Fresh networks and an empty buffer for one agent."""
    import jax
    import jax.numpy as jnp

    key, own = jax.random.split(jax.random.PRNGKey(seed))
    size = plan.memory * plan.rows
    return State(
        first_learner(plan, own),
        jnp.zeros((size, plan.n_variables), jnp.float32),
        jnp.zeros(size, jnp.int32),
        key,
        jnp.zeros((), jnp.int32),
    )


def roll_out(plan: Plan, world: World, data: Data, actor: dict[str, Any], key: Any) -> Any:
    """States (horizon, episodes, d), actions, mean discounted return, mean entropy."""
    import jax
    import jax.numpy as jnp

    first, rest = jax.random.split(key)
    s = world.start(data, first, plan.episodes)

    def one(s: Any, own: Any) -> Any:
        choose, move = jax.random.split(own)
        x = inputs(s, data["input_centre"], data["input_scale"], plan.degree)
        log_pi = jax.nn.log_softmax(forward(actor, x))
        a = jax.random.categorical(choose, log_pi)
        s_next = world.step(data, s, a, move)
        r = world.reward(data, s, a, s_next)
        entropy = -(jnp.exp(log_pi) * log_pi).sum(axis=1)
        return s_next, (s, a.astype(jnp.int32), r.mean(), entropy.mean())

    _, (states, actions, r, entropy) = jax.lax.scan(one, s, jax.random.split(rest, plan.horizon))
    weights = data["gamma"] ** jnp.arange(plan.horizon)
    return states, actions, (weights * r).sum(), entropy.mean()


def iterate(plan: Plan, world: World, data: Data, state: State) -> tuple[State, Trace]:
    """One iteration: episodes, then updates."""
    import jax
    import jax.numpy as jnp

    key, roll, learn = jax.random.split(state.key, 3)
    s, a, value, entropy = roll_out(plan, world, data, state.learner.networks["actor"], roll)
    at = (state.iteration % plan.memory) * plan.rows
    replay_s = jax.lax.dynamic_update_slice(
        state.replay_s, s.reshape(plan.rows, plan.n_variables), (at, 0)
    )
    replay_a = jax.lax.dynamic_update_slice(state.replay_a, a.reshape(plan.rows), (at,))
    filled = jnp.minimum(state.iteration + 1, plan.memory) * plan.rows

    def one(learner: Learner, own: Any) -> tuple[Learner, Any]:
        pick, draw = jax.random.split(own)
        rows = jax.random.randint(pick, (plan.batch,), 0, filled)
        return update(plan, world, data, learner, replay_s[rows], replay_a[rows], draw)

    learner, lost = jax.lax.scan(one, state.learner, jax.random.split(learn, plan.updates))
    after = State(learner, replay_s, replay_a, key, state.iteration + 1)
    return after, Trace(value, entropy, lost)


@lru_cache(maxsize=16)
def compiled_block(plan: Plan, world: World, length: int) -> Any:
    """`block(state, data) → state, trace` for agents side by side; compiled once per process."""
    import jax

    def block(state: State, data: Data) -> tuple[State, Trace]:
        def one(now: State, _: Any) -> tuple[State, Trace]:
            return iterate(plan, world, data, now)

        after, trace = jax.lax.scan(one, state, None, length=length)
        return after, trace

    return jax.jit(jax.vmap(block, in_axes=(0, None)))


@lru_cache(maxsize=16)
def compiled_start(plan: Plan) -> Any:
    """`start(seeds) → state` of agents side by side."""
    import jax

    return jax.jit(jax.vmap(lambda seed: first_state(plan, seed)))
