"""P | D: posteriors over transition models, one file each."""

from softrobust.posterior.base import Fitted as Fitted
from softrobust.posterior.base import FittedPosterior as FittedPosterior
from softrobust.posterior.base import Frame as Frame
from softrobust.posterior.base import Posterior as Posterior
from softrobust.posterior.belief import Belief as Belief
from softrobust.posterior.demand import DemandPosterior as DemandPosterior
from softrobust.posterior.demand import Shop as Shop
from softrobust.posterior.diagnostics import Diagnostics as Diagnostics
from softrobust.posterior.diagnostics import PosteriorWarning as PosteriorWarning
from softrobust.posterior.diagnostics import foresight as foresight
from softrobust.posterior.diagnostics import predictive_check as predictive_check
from softrobust.posterior.dirichlet import DirichletPosterior as DirichletPosterior
from softrobust.posterior.dirichlet import FittedDirichlet as FittedDirichlet
from softrobust.posterior.dirichlet import HierarchicalPosterior as HierarchicalPosterior
from softrobust.posterior.external import DrawsPosterior as DrawsPosterior
from softrobust.posterior.external import ExternalPosterior as ExternalPosterior
from softrobust.posterior.learned import FittedLearned as FittedLearned
from softrobust.posterior.learned import LearnedPosterior as LearnedPosterior
from softrobust.posterior.nuts import Nuts as Nuts
from softrobust.posterior.population import PopulationPosterior as PopulationPosterior
from softrobust.posterior.registry import load_posterior as load_posterior
from softrobust.posterior.regression import RegressionPosterior as RegressionPosterior
from softrobust.posterior.sampling import Draws as Draws
from softrobust.posterior.tied import TiedPosterior as TiedPosterior
