"""What a posterior draw is: sets of tabular models, policies, and their files."""

from softrobust.models.files import load_models, save_models
from softrobust.models.gaussian import (
    GaussianFrame,
    GaussianModels,
    load_gaussian,
    save_gaussian,
)
from softrobust.models.interop import from_gymnasium, from_mdptoolbox, to_gymnasium, to_mdptoolbox
from softrobust.models.model_set import MDP, ModelSet
from softrobust.models.multi_model import read_models, write_models_csv
from softrobust.models.policy import Policy
from softrobust.models.timed_policy import TimedPolicy

__all__ = [
    "MDP",
    "GaussianFrame",
    "GaussianModels",
    "ModelSet",
    "Policy",
    "TimedPolicy",
    "from_gymnasium",
    "from_mdptoolbox",
    "load_gaussian",
    "load_models",
    "read_models",
    "save_gaussian",
    "save_models",
    "to_gymnasium",
    "to_mdptoolbox",
    "write_models_csv",
]
