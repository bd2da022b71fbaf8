"""P | D: posteriors over transition models, one file each."""

from softrobust.posterior.base import Fitted, FittedPosterior, Posterior
from softrobust.posterior.demand import DemandPosterior, Shop
from softrobust.posterior.diagnostics import Diagnostics, PosteriorWarning, predictive_check
from softrobust.posterior.dirichlet import (
    DirichletPosterior,
    FittedDirichlet,
    HierarchicalPosterior,
)
from softrobust.posterior.external import ExternalPosterior
from softrobust.posterior.frame import Frame
from softrobust.posterior.nuts import Nuts
from softrobust.posterior.population import PopulationPosterior
from softrobust.posterior.regression import RegressionPosterior
from softrobust.posterior.saved import load_posterior, save_posterior
from softrobust.posterior.tied import TiedPosterior

__all__ = [
    "DemandPosterior",
    "Diagnostics",
    "DirichletPosterior",
    "ExternalPosterior",
    "Fitted",
    "FittedDirichlet",
    "FittedPosterior",
    "Frame",
    "HierarchicalPosterior",
    "Nuts",
    "PopulationPosterior",
    "Posterior",
    "PosteriorWarning",
    "RegressionPosterior",
    "Shop",
    "TiedPosterior",
    "load_posterior",
    "predictive_check",
    "save_posterior",
]
