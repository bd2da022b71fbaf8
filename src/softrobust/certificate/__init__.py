"""What can be promised of one policy, and the file that says so."""

from softrobust.certificate.certify import (
    Certificate,
    certify,
    load_solution,
    save_solution,
    solution_record,
)
from softrobust.certificate.comparison import Comparison, compare_policies
from softrobust.certificate.intervals import Estimate, HeldOut, held_out
from softrobust.certificate.posterior import PosteriorCertificate, certify_posterior, draw_heldout
from softrobust.certificate.simulated import (
    SimulatedCertificate,
    SimulatedFigure,
    SimulatedFigures,
    certify_simulated,
    compare_simulated,
    paired_difference,
)

__all__ = [
    "Certificate",
    "Comparison",
    "Estimate",
    "HeldOut",
    "PosteriorCertificate",
    "SimulatedCertificate",
    "SimulatedFigure",
    "SimulatedFigures",
    "certify",
    "certify_posterior",
    "certify_simulated",
    "compare_policies",
    "compare_simulated",
    "draw_heldout",
    "held_out",
    "load_solution",
    "paired_difference",
    "save_solution",
    "solution_record",
]
