"""What every stage may use: arrays, files, settings, limits, notes, and the version."""

__version__ = "0.1.0"
