"""Logs whose states are vectors of numbers: (s, a, s′) with s ∈ ℝ^d and labelled actions.

On disk a table with one column per variable, the same names with the prefix `next_`, and
`action`, and optionally `episode`, `reward` and `terminal`. Rows of an episode are in order of
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, Rows, Sealed, digest, shaped
from softrobust._core.files import write_csv
from softrobust._core.notes import Note
from softrobust.data.columns import Role, listed, number_groups
from softrobust.data.labels import Labels, order_names
from softrobust.data.table import dated, opened
from softrobust.errors import InputError

NEXT = "next_"
LARGEST = 1e50  # products of squares must stay numbers
_DTYPES: dict[str, type[Any]] = {
    "s": np.float64, "a": np.int32, "s_next": np.float64, "reward": np.float64,
    "episode": np.int32, "terminal": np.bool_,
}  # fmt: skip


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ContinuousLog(Sealed):
    """Observed transitions between vectors.

    s and s_next are (n_rows, n_variables), the other columns (n_rows,); a are indices into
    `actions`; `terminal` says whether a transition ended its episode for good (a cut-off one did
    not), `notes` what was assumed on reading.
    """

    s: FloatArray
    a: CodeArray
    s_next: FloatArray
    variables: Labels
    actions: Labels
    reward: FloatArray | None = None
    episode: CodeArray | None = None
    terminal: BoolArray | None = None
    rows: Rows = Rows("the log")  # noqa: RUF009 (frozen)
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        n, d = np.size(self.a), len(self.variables)
        for name, dtype in _DTYPES.items():
            shape = (n, d) if name in ("s", "s_next") else (n,)
            if getattr(self, name) is not None:
                column = shaped(f"'{name}'", getattr(self, name), dtype, shape)
                object.__setattr__(self, name, column)
        if n == 0:
            raise InputError(f"A log needs at least one transition: {self.rows.source} has none.")
        for name, prefix in (("s", ""), ("s_next", NEXT)):
            values = getattr(self, name)
            bad = np.argwhere(~(np.abs(values) <= LARGEST))
            if bad.size:
                i, j = (int(at) for at in bad[0])
                rule, cure = "finite numbers", "Remove or complete the row"
                if np.isfinite(values[i, j]):
                    rule, cure = f"at most {LARGEST:g} in size", "Choose another unit"
                raise InputError(
                    f"Observations must be {rule}: {self.rows.where(i)}, "
                    f"'{prefix}{self.variables[j]}' is {values[i, j]}. {cure}."
                )
        if self.a.min() < 0 or self.a.max() >= len(self.actions):
            raise InputError(f"Action indices must lie in 0…{len(self.actions) - 1}.")

    @classmethod
    def from_arrays(
        cls,
        s: npt.ArrayLike,
        actions: Sequence[Any] | npt.NDArray[Any],
        s_next: npt.ArrayLike,
        reward: npt.ArrayLike | None = None,
        episode: npt.ArrayLike | None = None,
        terminal: npt.ArrayLike | None = None,
        *,
        variables: Sequence[str] | None = None,
        action_names: Labels | Sequence[str | int] | None = None,
        source: str | Rows = "the arrays",
    ) -> ContinuousLog:
        """Make a log; actions are labels or integers."""
        states = np.atleast_2d(np.asarray(s, dtype=np.float64))
        names = [str(a) for a in np.asarray(actions).tolist()]
        if action_names is None:
            labels = order_names(sorted(set(names)), "action", fill=False).labels
        else:
            labels = Labels.of(action_names, "action")
        given = variables or [f"x{j}" for j in range(states.shape[1])]
        columns: dict[str, Any] = {"reward": reward, "episode": episode, "terminal": terminal}
        return cls(
            s=states,
            a=np.array([labels.index(name) for name in names], dtype=np.int32),
            s_next=np.atleast_2d(np.asarray(s_next, dtype=np.float64)),
            variables=Labels.of(given, "variable"),
            actions=labels,
            rows=source if isinstance(source, Rows) else Rows(source),
            **columns,
        )

    def __len__(self) -> int:
        return int(self.a.size)

    def __repr__(self) -> str:
        return f"ContinuousLog({len(self)} transitions of {', '.join(self.variables)})"

    @property
    def starts(self) -> FloatArray | None:
        """(n_episodes, n_variables) first states of episodes; None where these are not known."""
        if self.episode is None:
            return None
        _, first = np.unique(self.episode, return_index=True)
        return np.array(self.s[np.sort(first)])

    @property
    def longest(self) -> int | None:
        """Rows of the longest episode; None where these are not known."""
        if self.episode is None:
            return None
        return int(np.unique(self.episode, return_counts=True)[1].max())

    @property
    def data_hash(self) -> str:
        """SHA-256 of all columns and names."""
        columns = (getattr(self, name) for name in _DTYPES)
        return digest("softrobust-continuous-log-1", columns, self.variables, self.actions)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All columns and names as plain arrays."""
        columns = {name: getattr(self, name) for name in _DTYPES}
        names = {name: np.array(list(getattr(self, name))) for name in ("variables", "actions")}
        return {name: column for name, column in columns.items() if column is not None} | names

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> ContinuousLog:
        """The inverse of `to_arrays`."""
        return cls(
            **{name: arrays.get(name) for name in _DTYPES},  # type: ignore[arg-type]
            variables=Labels(tuple(map(str, arrays["variables"])), noun="variable"),
            actions=Labels(tuple(map(str, arrays["actions"])), noun="action"),
            rows=Rows(source),
        )

    def save_csv(self, path: str | Path) -> None:
        """Write the table, atomically; numbers keep all their digits."""
        columns: dict[str, Any] = {
            "episode": self.episode,
            **dict(zip(self.variables, self.s.T, strict=True)),
            "action": [self.actions[a] for a in self.a],
            **{NEXT + name: x for name, x in zip(self.variables, self.s_next.T, strict=True)},
            "reward": self.reward,
            "terminal": None if self.terminal is None else self.terminal.astype(int),
        }
        write_csv(path, {name: x for name, x in columns.items() if x is not None})


def as_numbers(given: npt.ArrayLike) -> FloatArray:
    """Numbers as an array; other things, and rows of several lengths, are refused."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Observations are rows of finite numbers, all of one length ({error}). Correct them."
        ) from None


def vectors(
    given: npt.ArrayLike, variables: Labels | Sequence[str] | None
) -> tuple[FloatArray, Labels]:
    """Observations (…, n_variables) as finite numbers, and the names of their entries."""
    x = as_numbers(given)
    usual = [f"x{j}" for j in range(x.shape[-1] if x.ndim else 0)]
    names = Labels.of(usual if variables is None else variables, "variable")
    if x.shape[-1:] != (len(names),):
        raise InputError(
            f"An observation is {len(names)} finite numbers, one entry for each of "
            f"{', '.join(names)}; the shape is {x.shape}."
        )
    flat = x.reshape(-1, len(names))
    holes = np.argwhere(~np.isfinite(flat))
    if holes.size:
        i, j = (int(at) for at in holes[0])
        raise InputError(
            f"Observations must be finite numbers: '{names[j]}' is {flat[i, j]:g} in row {i + 1} "
            f"({len(holes)} such values). Fill it in, or leave the row out."
        )
    return x, names


# -- reading the table -------------------------------------------------------------------------

# Only these names: "a" or "r" may well be a variable here.
_ROLES = (
    Role("action", ("action",), "label", "action"),
    Role("episode", ("episode",), "group", required=False),
    Role("reward", ("reward",), "number", required=False),
    Role("terminal", ("terminal",), "flag", required=False),
)


@names_arguments
def read_continuous_log(
    source: Any,
    actions: Labels | Sequence[str | int] | None = None,
    columns: Mapping[str, str] | None = None,
) -> ContinuousLog:
    """Read a table with columns x…, action, next_x…[, episode, reward, terminal].

    `source` is a path (CSV, also .gz or .xz, or Parquet), a frame or a mapping of columns. Actions
    that are not among `actions`, if these are given, are an error; `columns`, role → column, is for
    tables that call action, episode, reward or terminal something else.
    """
    with opened(source) as table:
        found = table.names
        variables = [name[len(NEXT) :] for name in found if name.startswith(NEXT) and name != NEXT]
        lacking = [name for name in variables if name not in found]
        if not variables or lacking:
            what = f"'{lacking[0]}' is missing" if variables else f"no column starts with '{NEXT}'"
            raise InputError(
                f"{table.source} must have columns x, next_x for every variable and 'action': "
                f"{what}. Its columns are {listed(found)}."
            )
        numbers = [f"{prefix}{name}" for prefix in ("", NEXT) for name in variables]
        roles = [Role(f"value of {name}", (), "number") for name in numbers]
        named = {f"value of {name}": name for name in numbers}
        read = table.read([*_ROLES, *roles], named | dict(columns or {}))
        when = dated(table, read.notes, read.codes["action"].size)
    read.refuse_empty()
    read.require("action")
    episode = read.groups.get("episode")
    if episode is not None:  # whole numbers as they are, names by first appearance
        small = int(np.abs(episode).max()) < 10**8
        episode = episode.astype(np.int32) if small else number_groups(episode)
    if actions is None:
        ordered = order_names(read.names["action"], "action", fill=False)
        names, place = ordered.labels, np.array(ordered.positions)
    else:
        names = Labels.of(actions, "action")
        place = np.array([names.index(name) for name in read.names["action"]])
    return ContinuousLog(
        s=np.column_stack([read.numbers[f"value of {name}"] for name in variables]),
        a=place[read.codes["action"]],
        s_next=np.column_stack([read.numbers[f"value of {NEXT}{name}"] for name in variables]),
        variables=Labels.of(variables, "variable"),
        actions=names,
        reward=read.numbers.get("reward"),
        episode=episode,
        terminal=read.flags.get("terminal"),
        rows=read.rows,
        notes=(*read.notes, *when),
    )
