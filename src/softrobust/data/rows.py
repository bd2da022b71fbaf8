"""Where the rows of a table came from, so that a message can point at one."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of rows as the user counts them.

    Attributes
    ----------
    source : str
        File name, or words such as "the DataFrame".
    first : int
        Number of the first data row: 2 in a file whose first row is the header, 1 in a table.
    blank : tuple of int
        Numbers of the blank rows of the file, ascending; they were skipped.
    """

    source: str
    first: int = 1
    blank: tuple[int, ...] = ()

    def number(self, i: int) -> int:
        """Return the number, counted from 1, of data row `i`, counted from 0."""
        number = self.first + int(i)
        skipped = 0
        while (found := bisect_right(self.blank, number + skipped)) != skipped:
            skipped = found
        return number + skipped

    def where(self, i: int) -> str:
        """Return "row 17 of log.csv" for data row `i`, counted from 0."""
        return f"row {self.number(i)} of {self.source}"
