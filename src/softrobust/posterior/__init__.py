"""P | D: posteriors over transition models, one file each."""

from softrobust.posterior.base import FittedPosterior, Posterior
from softrobust.posterior.dirichlet import DirichletPosterior, FittedDirichlet

__all__ = ["DirichletPosterior", "FittedDirichlet", "FittedPosterior", "Posterior"]
