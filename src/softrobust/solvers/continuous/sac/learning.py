"""Discrete soft actor-critic in JAX: networks, one update, and the training loop.

Multi-layer perceptrons with rectified units read polynomial features of standardised states,

    z = (s − centre)/scale,   x = z, followed by the products z_i·z_j (i ≤ j) at degree 2
    h₁ = max(0, x W₁ + b₁),  h₂ = max(0, h₁ W₂ + b₂),  out = h₂ W₃ + b₃

(2nd-order features and hidden layers (400, 300) in the paper's table). Their parameters are plain
dicts of arrays, so that they can be saved, averaged and read back without JAX.

One update (appendix F.1 "Baselines"; Haarnoja et al. 2018): with the softmax actor π, the networks
Q and V, the target network V̄ and the temperature c,

    Q̄(s, a) = Σ_ω f_ω E_ω[r + γ V̄(s′)]  (soft-robust)   or   min_ω E_ω[r + γ V̄(s′)]  (robust)
    J(Q) = E[(Q(s, a) − Q̄(s, a))²]
    J(V) = E[(V(s) − Σ_a π(a|s)(Q(s, a) − c·log π(a|s)))²]
    J(π) = E[Σ_a π(a|s)(c·log π(a|s) − Q(s, a))]

E_ω is a mean over `next_states` draws; sums over actions are exact. All three gradients are taken
at the same parameters; then V̄ moves a share `target_rate` of the way to V.

One iteration rolls `episodes` episodes out in the mean model under the current policy, writes their
(s, a) over the oldest ones of the replay buffer, and makes `updates` updates on batches drawn from
it. Next states are not stored: targets draw their own from every model. A block of iterations is
one compiled `lax.scan`; agents (seeds) run side by side by `vmap` and share the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple, final

from softrobust.solvers.continuous.sac.traced import Data, Traced, jax, jnp, optax

NETWORKS = ("actor", "q", "v")
FINAL_SPREAD = 3e-3  # first values and logits near 0, so that no action starts ahead


def n_inputs(n_variables: int, degree: int) -> int:
    """The number of entries of x."""
    return n_variables if degree == 1 else n_variables * (n_variables + 3) // 2


def inputs(s: Any, centre: Any, scale: Any, degree: int) -> Any:
    """(…, n_inputs) of states (…, n_variables)."""
    z = (s - centre) / scale
    if degree == 1:
        return z
    pairs = [z[..., i] * z[..., j] for i, j in combinations_with_replacement(range(z.shape[-1]), 2)]
    return jnp.concatenate([z, jnp.stack(pairs, axis=-1)], axis=-1)


def first_parameters(normal: Any, sizes: Sequence[int]) -> dict[str, Any]:
    """He's start for hidden layers, a narrow one for the last; biases 0.

    `normal` (n_weights,) are draws from N(0, 1), `sizes` the widths from inputs to outputs.
    """
    out: dict[str, Any] = {}
    at, last = 0, len(sizes) - 2
    for i, (m, n) in enumerate(pairwise(sizes)):
        spread = FINAL_SPREAD if i == last else (2.0 / m) ** 0.5
        out[f"W{i}"] = spread * normal[at : at + m * n].reshape(m, n)
        out[f"b{i}"] = jnp.zeros(n, jnp.float32)
        at += m * n
    return out


def n_weights(sizes: Sequence[int]) -> int:
    """Of all layers, biases not counted."""
    return sum(m * n for m, n in pairwise(sizes))


def forward(parameters: dict[str, Any], x: Any, exact: bool = True) -> Any:
    """(…, n_out) of inputs (…, n_inputs).

    `exact` multiplies in full single precision; otherwise in what the device does fastest (TF32 on
    recent GPUs, about three digits: enough for the mean of thousands of target values).
    """
    precision = jax.lax.Precision.HIGHEST if exact else jax.lax.Precision.DEFAULT
    last = len(parameters) // 2 - 1
    for i in range(last + 1):
        x = jnp.matmul(x, parameters[f"W{i}"], precision=precision) + parameters[f"b{i}"]
        if i < last:
            x = jnp.maximum(x, 0.0)
    return x


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a compiled program depends on besides the world; hashable."""

    robust: bool  # whether models are combined by their minimum, else by their weights f
    n_models: int
    n_variables: int
    n_actions: int
    horizon: int
    hidden: tuple[int, ...]
    degree: int
    rates: tuple[float, float, float]
    target_rate: float
    entropy_coef: float
    batch: int
    next_states: int
    episodes: int
    updates: int
    memory: int  # iterations kept in the replay buffer
    model_chunk: int  # models whose next states are evaluated at a time

    @property
    def rows(self) -> int:
        """Rows that one iteration adds to the replay buffer."""
        return self.episodes * self.horizon


@final
class Learner(NamedTuple):
    """Parameters by network, the target network, and the optimisers' states by network."""

    networks: dict[str, Any]
    target: dict[str, Any]
    moments: dict[str, Any]


def optimisers(plan: Plan, data: Data) -> dict[str, Any]:
    """Adam for every network, at its own rate; on one long vector, which compiles faster.

    Rates, and the temperature, may come with the data: then agents of one program differ in them.
    """
    rates = data.get("rates", plan.rates)
    return {name: optax.flatten(optax.adam(rates[i])) for i, name in enumerate(NETWORKS)}


def first_learner(plan: Plan, key: Any) -> Learner:
    """Fresh networks; the target starts at V."""
    body = (n_inputs(plan.n_variables, plan.degree), *plan.hidden)
    ends = {"actor": plan.n_actions, "q": plan.n_actions, "v": 1}
    sizes = {name: (*body, ends[name]) for name in NETWORKS}
    # One draw for all networks: every random operation costs time to compile.
    normal = jax.random.normal(key, (sum(map(n_weights, sizes.values())),))
    networks, at = {}, 0
    for name in NETWORKS:
        networks[name] = first_parameters(normal[at:], sizes[name])
        at += n_weights(sizes[name])
    moments = {name: adam.init(networks[name]) for name, adam in optimisers(plan, {}).items()}
    return Learner(networks, dict(networks["v"]), moments)


def model_targets(
    plan: Plan, world: Traced, data: Data, target: dict[str, Any], s: Any, a: Any, key: Any
) -> Any:
    """(n_models, batch) E_ω[r + γ V̄(s′)], by `next_states` draws each; chunks of models in turn.

    Where an episode ends for good, the end's own reward stands for γV̄.
    """

    def one(omega: Any) -> Any:
        # A key per model: the draws do not depend on how models are chunked.
        own = jax.random.fold_in(key, omega)
        s_next = world.draw(data, omega, s, a, own, plan.next_states)
        r = world.reward(data, s, a, s_next)
        x = inputs(s_next, data["input_centre"], data["input_scale"], plan.degree)
        v = forward(target, x, exact=False)[..., 0]
        over = world.ends(data, "models", omega, s, a)
        ahead = (1 - over) * data["gamma"] * v + over * data["end_reward"]
        return jnp.mean(r + ahead, axis=0)

    every = jnp.arange(plan.n_models)
    return jax.lax.map(one, every, batch_size=min(plan.model_chunk, plan.n_models))


def combined(plan: Plan, f: Any, y: Any) -> Any:
    """(batch,) of (n_models, batch): Σ_ω f_ω y_ω, or the least of models with f_ω > 0."""
    if plan.robust:
        return jnp.min(jnp.where(f[:, None] > 0, y, jnp.inf), axis=0)
    return (f[:, None] * y).sum(axis=0)


def losses(networks: dict[str, Any], x: Any, a: Any, q_bar: Any, c: Any) -> dict[str, Any]:
    """J(Q), J(V), J(π) on a batch of inputs x (batch, n_inputs); c is the temperature."""
    fixed = jax.lax.stop_gradient
    log_pi = jax.nn.log_softmax(forward(networks["actor"], x))
    q, v = forward(networks["q"], x), forward(networks["v"], x)[:, 0]
    taken = jnp.take_along_axis(q, a[:, None], axis=1)[:, 0]
    soft = (jnp.exp(log_pi) * (fixed(q) - c * log_pi)).sum(axis=1)
    return {
        "q": jnp.mean((taken - q_bar) ** 2),
        "v": jnp.mean((v - fixed(soft)) ** 2),
        "actor": -jnp.mean(soft),
    }


def update_networks(
    plan: Plan, world: Traced, data: Data, learner: Learner, s: Any, a: Any, key: Any
) -> tuple[Learner, Any]:
    """The next learner and its losses, ordered as `NETWORKS`."""
    y = model_targets(plan, world, data, learner.target, s, a, key)
    q_bar = jax.lax.stop_gradient(combined(plan, data["f"], y))
    x = inputs(s, data["input_centre"], data["input_scale"], plan.degree)

    def total(networks: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        parts = losses(networks, x, a, q_bar, data.get("entropy_coef", plan.entropy_coef))
        return parts["q"] + parts["v"] + parts["actor"], parts

    gradients, parts = jax.grad(total, has_aux=True)(learner.networks)
    networks, moments = {}, {}
    for name, adam in optimisers(plan, data).items():
        steps, moments[name] = adam.update(gradients[name], learner.moments[name])
        networks[name] = optax.apply_updates(learner.networks[name], steps)
    rate = plan.target_rate
    target = {k: (1 - rate) * w + rate * networks["v"][k] for k, w in learner.target.items()}
    return Learner(networks, target, moments), jnp.stack([parts[name] for name in NETWORKS])


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
    key, own = jax.random.split(jax.random.PRNGKey(seed))
    size = plan.memory * plan.rows
    return State(
        first_learner(plan, own),
        jnp.zeros((size, plan.n_variables), jnp.float32),
        jnp.zeros(size, jnp.int32),
        key,
        jnp.zeros((), jnp.int32),
    )


def play_episodes(plan: Plan, world: Traced, data: Data, actor: dict[str, Any], key: Any) -> Any:
    """States (horizon, episodes, d), actions, mean discounted return, mean entropy."""
    first, rest = jax.random.split(key)
    s = world.start(data, first, plan.episodes)

    def one(now: Any, own: Any) -> Any:
        s, on = now  # the chance that an episode has come this far
        choose, move = jax.random.split(own)
        x = inputs(s, data["input_centre"], data["input_scale"], plan.degree)
        log_pi = jax.nn.log_softmax(forward(actor, x))
        a = jax.random.categorical(choose, log_pi)
        s_next = world.step(data, s, a, move)
        r = world.reward(data, s, a, s_next)
        entropy = -(jnp.exp(log_pi) * log_pi).sum(axis=1)
        over = world.ends(data, "mean", 0, s, a)
        earned = (on * (r + over * data["end_reward"])).mean()
        return (s_next, on * (1 - over)), (s, a.astype(jnp.int32), earned, entropy.mean())

    begin = (s, jnp.ones(plan.episodes))
    _, (states, actions, r, entropy) = jax.lax.scan(
        one, begin, jax.random.split(rest, plan.horizon)
    )
    weights = data["gamma"] ** jnp.arange(plan.horizon)
    return states, actions, (weights * r).sum(), entropy.mean()


def train_once(plan: Plan, world: Traced, data: Data, state: State) -> tuple[State, Trace]:
    """One iteration: episodes, then updates."""
    key, roll, learn = jax.random.split(state.key, 3)
    s, a, value, entropy = play_episodes(plan, world, data, state.learner.networks["actor"], roll)
    at = (state.iteration % plan.memory) * plan.rows
    replay_s = jax.lax.dynamic_update_slice(
        state.replay_s, s.reshape(plan.rows, plan.n_variables), (at, 0)
    )
    replay_a = jax.lax.dynamic_update_slice(state.replay_a, a.reshape(plan.rows), (at,))
    filled = jnp.minimum(state.iteration + 1, plan.memory) * plan.rows

    def one(learner: Learner, own: Any) -> tuple[Learner, Any]:
        pick, draw = jax.random.split(own)
        rows = jax.random.randint(pick, (plan.batch,), 0, filled)
        return update_networks(plan, world, data, learner, replay_s[rows], replay_a[rows], draw)

    learner, lost = jax.lax.scan(one, state.learner, jax.random.split(learn, plan.updates))
    after = State(learner, replay_s, replay_a, key, state.iteration + 1)
    return after, Trace(value, entropy, lost)


@lru_cache(maxsize=16)
def compiled_block(plan: Plan, world: Traced, length: int, own_data: bool = False) -> Any:
    """`block(state, data) → state, trace` for agents side by side; compiled once per process.

    They share the data, or each has its own (a first axis on every array).
    """

    def block(state: State, data: Data) -> Any:
        return jax.lax.scan(
            lambda now, _: train_once(plan, world, data, now), state, None, length=length
        )

    return jax.jit(jax.vmap(block, in_axes=(0, 0 if own_data else None)))


@lru_cache(maxsize=16)
def compiled_start(plan: Plan) -> Any:
    """`start(seeds) → state` of agents side by side."""
    return jax.jit(jax.vmap(lambda seed: first_state(plan, seed)))
