"""What a given policy earns: on every model, statically, and under dynamic uncertainty."""

from softrobust.returns.dynamic import DynamicReturn, dynamic_return
from softrobust.returns.evaluation import (
    check_policy,
    occupancies,
    policy_return,
    policy_reward,
    policy_values,
    static_return,
)
from softrobust.returns.optimal import ModelOptima, optimal_returns
from softrobust.returns.rectangular import s_rect_return, sa_rect_return

__all__ = [
    "DynamicReturn",
    "ModelOptima",
    "check_policy",
    "dynamic_return",
    "occupancies",
    "optimal_returns",
    "policy_return",
    "policy_reward",
    "policy_values",
    "s_rect_return",
    "sa_rect_return",
    "static_return",
]
