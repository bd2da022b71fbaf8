"""What can be promised of one policy, and the file that says so."""

from softrobust.certificate.certify import Certificate, certify, simulated_certificate
from softrobust.certificate.comparison import (
    PRACTICE,
    Comparison,
    compare_policies,
    paired,
    paired_difference,
)
from softrobust.certificate.intervals import Estimate, Sample, held_out, sample_of
from softrobust.certificate.posterior import PosteriorCertificate, certify_posterior, draw_heldout
from softrobust.certificate.record import load_solution, save_solution, solution_record
from softrobust.solvers.promise import Promise

__all__ = [
    "PRACTICE",
    "Certificate",
    "Comparison",
    "Estimate",
    "PosteriorCertificate",
    "Promise",
    "Sample",
    "certify",
    "certify_posterior",
    "compare_policies",
    "draw_heldout",
    "held_out",
    "load_solution",
    "paired",
    "paired_difference",
    "sample_of",
    "save_solution",
    "simulated_certificate",
    "solution_record",
]
