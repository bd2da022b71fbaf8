"""What is in a file, in plain words: for people who have a log and have not looked at it yet."""

from softrobust.inspection.inspect import inspect_file
from softrobust.inspection.result import Grid, Inspection, Section, Step

__all__ = ["Grid", "Inspection", "Section", "Step", "inspect_file"]
