"""What can be promised of one policy, and the file that says so."""

from softrobust.certificate.certify import Certificate as Certificate
from softrobust.certificate.certify import certify as certify
from softrobust.certificate.certify import simulated_certificate as simulated_certificate
from softrobust.certificate.comparison import PRACTICE as PRACTICE
from softrobust.certificate.comparison import Comparison as Comparison
from softrobust.certificate.comparison import compare_policies as compare_policies
from softrobust.certificate.comparison import paired as paired
from softrobust.certificate.comparison import paired_difference as paired_difference
from softrobust.certificate.intervals import Estimate as Estimate
from softrobust.certificate.intervals import Sample as Sample
from softrobust.certificate.intervals import held_out as held_out
from softrobust.certificate.intervals import sample_of as sample_of
from softrobust.certificate.posterior import PosteriorCertificate as PosteriorCertificate
from softrobust.certificate.posterior import certify_posterior as certify_posterior
from softrobust.certificate.posterior import draw_heldout as draw_heldout
from softrobust.certificate.record import load_solution as load_solution
from softrobust.certificate.record import save_solution as save_solution
from softrobust.certificate.record import solution_record as solution_record
from softrobust.solvers.promise import Promise as Promise
