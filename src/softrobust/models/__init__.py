"""What a posterior draw is: sets of tabular models, policies, and their files."""

from softrobust.models.continuous import (
    CallableModels,
    ContinuousModels,
    MixtureModel,
    TabularModels,
)
from softrobust.models.continuous_policy import (
    ConstantPolicy,
    ContinuousPolicy,
    NetworkPolicy,
    load_policy,
    save_policy,
)
from softrobust.models.continuous_rewards import LinearReward, fit_linear_reward
from softrobust.models.features import FourierFeatures, PolynomialFeatures, RBFFeatures
from softrobust.models.files import load_models, read_models, save_models, write_models_csv
from softrobust.models.gaussian import GaussianFrame, GaussianModels, load_gaussian, save_gaussian
from softrobust.models.interop import from_gymnasium, from_mdptoolbox, to_gymnasium, to_mdptoolbox
from softrobust.models.model_set import MDP, ModelSet
from softrobust.models.policy import Policy, TimedPolicy, read_policy

__all__ = [
    "MDP",
    "CallableModels",
    "ConstantPolicy",
    "ContinuousModels",
    "ContinuousPolicy",
    "FourierFeatures",
    "GaussianFrame",
    "GaussianModels",
    "LinearReward",
    "MixtureModel",
    "ModelSet",
    "NetworkPolicy",
    "Policy",
    "PolynomialFeatures",
    "RBFFeatures",
    "TabularModels",
    "TimedPolicy",
    "fit_linear_reward",
    "from_gymnasium",
    "from_mdptoolbox",
    "load_gaussian",
    "load_models",
    "load_policy",
    "read_models",
    "read_policy",
    "save_gaussian",
    "save_models",
    "save_policy",
    "to_gymnasium",
    "to_mdptoolbox",
    "write_models_csv",
]
