"""What a given policy earns: on every model, statically, and under dynamic uncertainty."""

from softrobust.returns.clusters import ReducedModels, reduce_models
from softrobust.returns.dynamic import DynamicReturn, dynamic_return
from softrobust.returns.evaluation import (
    action_values,
    check_policy,
    evaluate_policy,
    occupancies,
    policy_return,
    policy_reward,
    policy_values,
    return_gradients,
    static_gradient,
    static_return,
    uniform_value,
)
from softrobust.returns.optimal import (
    ModelOptima,
    horizon_return,
    optimal_returns,
    state_probabilities,
)
from softrobust.returns.rectangular import s_rect_return, sa_rect_return
from softrobust.returns.simulation import (
    Paths,
    Rollouts,
    Simulation,
    follow,
    roll_out_policy,
    simulate,
    simulate_returns,
)

__all__ = [
    "DynamicReturn",
    "ModelOptima",
    "Paths",
    "ReducedModels",
    "Rollouts",
    "Simulation",
    "action_values",
    "check_policy",
    "dynamic_return",
    "evaluate_policy",
    "follow",
    "horizon_return",
    "occupancies",
    "optimal_returns",
    "policy_return",
    "policy_reward",
    "policy_values",
    "reduce_models",
    "return_gradients",
    "roll_out_policy",
    "s_rect_return",
    "sa_rect_return",
    "simulate",
    "simulate_returns",
    "state_probabilities",
    "static_gradient",
    "static_return",
    "uniform_value",
]
