"""What can go wrong, said once: the rule, what came, where, and what to do.

Every error the package raises on purpose is a `SoftRobustError`; the command line prints its text
as one paragraph and turns the class into an exit code.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any


class SoftRobustError(Exception):
    """Anything this package raises on purpose.

    `arguments` are those that the text asks for, perhaps each with an example of its value: how
    they are written on the command line is for the command line to add.
    """

    def __init__(
        self, *text: object, arguments: Mapping[str, str] | Iterable[str] | None = None
    ) -> None:
        super().__init__(*text)
        given = arguments if isinstance(arguments, Mapping) else dict.fromkeys(arguments or (), "")
        self.arguments = dict(given)


class InputError(SoftRobustError, ValueError):
    """The input breaks a rule; the text says which, where, and how to mend it."""


class SolverError(SoftRobustError, RuntimeError):
    """A solver ended without a usable policy; the text carries the solver's own reason."""


class MissingExtraError(SoftRobustError, ImportError):
    """An optional package is needed and absent; the text is the line that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Run: pip install 'softrobust[{extra}]' (in a clone: pip install '.[{extra}]')"
        )


def optional(package: str, extra: str, purpose: str) -> Any:
    """A package that may be absent; where it is, the error is the line that installs it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package.partition(".")[0], extra, purpose) from error
