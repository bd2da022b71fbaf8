"""What can be promised of one policy, and the file that says so."""

from softrobust.certificate.certify import Certificate, certify
from softrobust.certificate.draws import draw_heldout
from softrobust.certificate.files import load_solution, save_solution, solution_record
from softrobust.certificate.intervals import Estimate, HeldOut, held_out

__all__ = [
    "Certificate",
    "Estimate",
    "HeldOut",
    "certify",
    "draw_heldout",
    "held_out",
    "load_solution",
    "save_solution",
    "solution_record",
]
