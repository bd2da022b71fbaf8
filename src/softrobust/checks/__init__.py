"""Reasons to trust the answer, or not: each check gives a verdict, a sentence and its figures."""

from softrobust.checks.check import Check, Verdict
from softrobust.checks.run import check_run, checks_record

__all__ = ["Check", "Verdict", "check_run", "checks_record"]
