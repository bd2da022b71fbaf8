"""softrobust: choose a policy from a small log of past decisions, with a certificate.

The names below follow the pipeline: a log, models, a posterior, an objective, a problem, returns,
bounds, solvers, a certificate, a report. Each is loaded when first used, so that importing the
package costs nothing; `tests/test_public.py` keeps the two lists equal.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from softrobust.bounds import Bound as Bound
    from softrobust.bounds import Covers as Covers
    from softrobust.bounds import best_bound as best_bound
    from softrobust.bounds import clairvoyant_bound as clairvoyant_bound
    from softrobust.bounds import paper_errors as paper_errors
    from softrobust.bounds import replication_bound as replication_bound
    from softrobust.certificate import Certificate as Certificate
    from softrobust.certificate import Comparison as Comparison
    from softrobust.certificate import PosteriorCertificate as PosteriorCertificate
    from softrobust.certificate import SimulatedCertificate as SimulatedCertificate
    from softrobust.certificate import certify as certify
    from softrobust.certificate import certify_posterior as certify_posterior
    from softrobust.certificate import certify_simulated as certify_simulated
    from softrobust.certificate import compare_policies as compare_policies
    from softrobust.certificate import compare_simulated as compare_simulated
    from softrobust.certificate import draw_heldout as draw_heldout
    from softrobust.certificate import load_solution as load_solution
    from softrobust.certificate import paired_difference as paired_difference
    from softrobust.certificate import save_solution as save_solution
    from softrobust.continuous_problem import ContinuousProblem as ContinuousProblem
    from softrobust.data import Bins as Bins
    from softrobust.data import ContinuousLog as ContinuousLog
    from softrobust.data import Labels as Labels
    from softrobust.data import MarkovCheck as MarkovCheck
    from softrobust.data import Rewards as Rewards
    from softrobust.data import Trajectories as Trajectories
    from softrobust.data import TrajectoryReport as TrajectoryReport
    from softrobust.data import TransitionLog as TransitionLog
    from softrobust.data import markov_check as markov_check
    from softrobust.data import read_continuous_log as read_continuous_log
    from softrobust.data import read_log as read_log
    from softrobust.data import read_minari as read_minari
    from softrobust.data import read_trajectories as read_trajectories
    from softrobust.data import roll_out as roll_out
    from softrobust.data import save_log as save_log
    from softrobust.data import write_log_csv as write_log_csv
    from softrobust.data.inspection.findings import Inspection as Inspection
    from softrobust.domains import DOMAINS as DOMAINS
    from softrobust.domains import CancerGrowth as CancerGrowth
    from softrobust.domains import Domain as Domain
    from softrobust.domains import Inventory as Inventory
    from softrobust.domains import PestControl as PestControl
    from softrobust.domains import RandomMDP as RandomMDP
    from softrobust.domains import RiverSwim as RiverSwim
    from softrobust.domains import make_domain as make_domain
    from softrobust.domains import random_mdp as random_mdp
    from softrobust.domains import register_envs as register_envs
    from softrobust.errors import InputError as InputError
    from softrobust.errors import MissingExtraError as MissingExtraError
    from softrobust.errors import SoftRobustError as SoftRobustError
    from softrobust.errors import SolverError as SolverError
    from softrobust.models import CallableModels as CallableModels
    from softrobust.models import ConstantPolicy as ConstantPolicy
    from softrobust.models import ContinuousModels as ContinuousModels
    from softrobust.models import ContinuousPolicy as ContinuousPolicy
    from softrobust.models import FourierFeatures as FourierFeatures
    from softrobust.models import GaussianModels as GaussianModels
    from softrobust.models import LinearReward as LinearReward
    from softrobust.models import ModelSet as ModelSet
    from softrobust.models import NetworkPolicy as NetworkPolicy
    from softrobust.models import Policy as Policy
    from softrobust.models import PolynomialFeatures as PolynomialFeatures
    from softrobust.models import RBFFeatures as RBFFeatures
    from softrobust.models import TabularModels as TabularModels
    from softrobust.models import TimedPolicy as TimedPolicy
    from softrobust.models import fit_linear_reward as fit_linear_reward
    from softrobust.models import from_gymnasium as from_gymnasium
    from softrobust.models import from_mdptoolbox as from_mdptoolbox
    from softrobust.models import load_models as load_models
    from softrobust.models import load_policy as load_policy
    from softrobust.models import read_models as read_models
    from softrobust.models import read_policy as read_policy
    from softrobust.models import save_models as save_models
    from softrobust.models import save_policy as save_policy
    from softrobust.models import to_gymnasium as to_gymnasium
    from softrobust.models import to_mdptoolbox as to_mdptoolbox
    from softrobust.models import write_models_csv as write_models_csv
    from softrobust.objective import Objective as Objective
    from softrobust.objective import Percentile as Percentile
    from softrobust.objective import SoftRobust as SoftRobust
    from softrobust.objective import cvar as cvar
    from softrobust.objective import mean as mean
    from softrobust.objective import tail_weights as tail_weights
    from softrobust.objective import var as var
    from softrobust.objective import var_upper as var_upper
    from softrobust.posterior import DemandPosterior as DemandPosterior
    from softrobust.posterior import Diagnostics as Diagnostics
    from softrobust.posterior import DirichletPosterior as DirichletPosterior
    from softrobust.posterior import ExternalPosterior as ExternalPosterior
    from softrobust.posterior import Fitted as Fitted
    from softrobust.posterior import Frame as Frame
    from softrobust.posterior import HierarchicalPosterior as HierarchicalPosterior
    from softrobust.posterior import Nuts as Nuts
    from softrobust.posterior import PopulationPosterior as PopulationPosterior
    from softrobust.posterior import Posterior as Posterior
    from softrobust.posterior import PosteriorWarning as PosteriorWarning
    from softrobust.posterior import RegressionPosterior as RegressionPosterior
    from softrobust.posterior import Shop as Shop
    from softrobust.posterior import TiedPosterior as TiedPosterior
    from softrobust.posterior import load_posterior as load_posterior
    from softrobust.posterior import predictive_check as predictive_check
    from softrobust.posterior import save_posterior as save_posterior
    from softrobust.problem import Problem as Problem
    from softrobust.problem import load_problem as load_problem
    from softrobust.problem import save_problem as save_problem
    from softrobust.report import make_report as make_report
    from softrobust.report import plot_frontier as plot_frontier
    from softrobust.report import save_frontier_csv as save_frontier_csv
    from softrobust.returns import dynamic_return as dynamic_return
    from softrobust.returns import follow as follow
    from softrobust.returns import horizon_return as horizon_return
    from softrobust.returns import occupancies as occupancies
    from softrobust.returns import optimal_returns as optimal_returns
    from softrobust.returns import policy_return as policy_return
    from softrobust.returns import policy_values as policy_values
    from softrobust.returns import reduce_models as reduce_models
    from softrobust.returns import roll_out_policy as roll_out_policy
    from softrobust.returns import s_rect_return as s_rect_return
    from softrobust.returns import sa_rect_return as sa_rect_return
    from softrobust.returns import simulate as simulate
    from softrobust.returns import simulate_returns as simulate_returns
    from softrobust.returns import static_gradient as static_gradient
    from softrobust.returns import static_return as static_return
    from softrobust.run import load_run as load_run
    from softrobust.run.checks import Check as Check
    from softrobust.run.checks import check_run as check_run
    from softrobust.run.inspect import inspect_file as inspect_file
    from softrobust.run.rehearsal import Rehearsal as Rehearsal
    from softrobust.run.rehearsal import rehearse as rehearse
    from softrobust.solvers import BCR as BCR
    from softrobust.solvers import CADP as CADP
    from softrobust.solvers import MILP as MILP
    from softrobust.solvers import MVP as MVP
    from softrobust.solvers import RPVI as RPVI
    from softrobust.solvers import RSVF as RSVF
    from softrobust.solvers import SAC as SAC
    from softrobust.solvers import SPIBB as SPIBB
    from softrobust.solvers import SRVI as SRVI
    from softrobust.solvers import SRVISA as SRVISA
    from softrobust.solvers import WSU as WSU
    from softrobust.solvers import Behaviour as Behaviour
    from softrobust.solvers import ContinuousSolution as ContinuousSolution
    from softrobust.solvers import ContinuousSolver as ContinuousSolver
    from softrobust.solvers import Deterministic as Deterministic
    from softrobust.solvers import Empirical as Empirical
    from softrobust.solvers import Exact as Exact
    from softrobust.solvers import L1Robust as L1Robust
    from softrobust.solvers import LInfRobust as LInfRobust
    from softrobust.solvers import LocalSearch as LocalSearch
    from softrobust.solvers import Nominal as Nominal
    from softrobust.solvers import PosteriorDraws as PosteriorDraws
    from softrobust.solvers import RandomizedAscent as RandomizedAscent
    from softrobust.solvers import RobustSAC as RobustSAC
    from softrobust.solvers import RSVFSimple as RSVFSimple
    from softrobust.solvers import SARect as SARect
    from softrobust.solvers import SaturationWarning as SaturationWarning
    from softrobust.solvers import SoftRobustSAC as SoftRobustSAC
    from softrobust.solvers import Solution as Solution
    from softrobust.solvers import Solver as Solver
    from softrobust.solvers import SRect as SRect
    from softrobust.solvers import Status as Status
    from softrobust.solvers import VaRBellman as VaRBellman
    from softrobust.solvers import WorstModel as WorstModel
    from softrobust.solvers import WorstModelVI as WorstModelVI
    from softrobust.solvers import behaviour_policy as behaviour_policy
    from softrobust.solvers import continuous_behaviour as continuous_behaviour
    from softrobust.solvers import solve as solve
    from softrobust.solvers import solve_grid as solve_grid
    from softrobust.solvers import write_milp as write_milp
    from softrobust.study.confounding import tipping_point as tipping_point
    from softrobust.study.explain import Explanation as Explanation
    from softrobust.study.explain import explain as explain
    from softrobust.study.frontier import Frontier as Frontier
    from softrobust.study.frontier import FrontierPoint as FrontierPoint
    from softrobust.study.frontier import frontier as frontier
    from softrobust.study.off_policy import OffPolicy as OffPolicy
    from softrobust.study.off_policy import episodes_of as episodes_of
    from softrobust.study.off_policy import off_policy as off_policy
    from softrobust.study.rules import Rules as Rules
    from softrobust.study.rules import simplify as simplify
    from softrobust.study.value_of_data import DataValue as DataValue
    from softrobust.study.value_of_data import value_of_data as value_of_data

_STAGES = {
    "bounds": "Bound Covers best_bound clairvoyant_bound paper_errors replication_bound",
    "certificate": "Certificate Comparison PosteriorCertificate SimulatedCertificate certify "
    "certify_posterior certify_simulated compare_policies compare_simulated "
    "draw_heldout load_solution paired_difference save_solution",
    "continuous_problem": "ContinuousProblem",
    "data": "Bins ContinuousLog Labels MarkovCheck Rewards Trajectories TrajectoryReport "
    "TransitionLog markov_check read_continuous_log read_log read_minari "
    "read_trajectories roll_out save_log write_log_csv",
    "data.inspection.findings": "Inspection",
    "domains": "DOMAINS CancerGrowth Domain Inventory PestControl RandomMDP RiverSwim "
    "make_domain random_mdp register_envs",
    "errors": "InputError MissingExtraError SoftRobustError SolverError",
    "models": "CallableModels ConstantPolicy ContinuousModels ContinuousPolicy FourierFeatures "
    "GaussianModels LinearReward ModelSet NetworkPolicy Policy PolynomialFeatures "
    "RBFFeatures TabularModels TimedPolicy fit_linear_reward from_gymnasium "
    "from_mdptoolbox load_models load_policy read_models read_policy save_models "
    "save_policy to_gymnasium to_mdptoolbox write_models_csv",
    "objective": "Objective Percentile SoftRobust cvar mean tail_weights var var_upper",
    "posterior": "DemandPosterior Diagnostics DirichletPosterior ExternalPosterior Fitted Frame "
    "HierarchicalPosterior Nuts PopulationPosterior Posterior PosteriorWarning "
    "RegressionPosterior Shop TiedPosterior load_posterior predictive_check "
    "save_posterior",
    "problem": "Problem load_problem save_problem",
    "report": "plot_frontier make_report save_frontier_csv",
    "returns": "dynamic_return follow horizon_return occupancies optimal_returns policy_return "
    "policy_values reduce_models roll_out_policy s_rect_return sa_rect_return "
    "simulate simulate_returns static_gradient static_return",
    "run": "load_run",
    "run.checks": "Check check_run",
    "run.inspect": "inspect_file",
    "run.rehearsal": "Rehearsal rehearse",
    "solvers": "BCR CADP MILP MVP RPVI RSVF SAC SPIBB SRVI SRVISA WSU Behaviour "
    "ContinuousSolution ContinuousSolver Deterministic Empirical Exact L1Robust "
    "LInfRobust LocalSearch Nominal PosteriorDraws RandomizedAscent RobustSAC "
    "RSVFSimple SARect SaturationWarning SoftRobustSAC Solution Solver SRect Status "
    "VaRBellman WorstModel WorstModelVI behaviour_policy continuous_behaviour solve "
    "solve_grid write_milp",
    "study.confounding": "tipping_point",
    "study.explain": "Explanation explain",
    "study.frontier": "Frontier FrontierPoint frontier",
    "study.off_policy": "OffPolicy episodes_of off_policy",
    "study.rules": "Rules simplify",
    "study.value_of_data": "DataValue value_of_data",
}
_HOME = {name: stage for stage, names in _STAGES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'softrobust' has no attribute '{name}'")
    value = getattr(import_module(f"softrobust.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
