"""Which column of a table plays which role.

Tables come with many headers; each role knows the usual names, and `columns={"state": "site"}`
names the rest. Names are compared without case and surrounding spaces.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, final

from softrobust.errors import InputError

CellKind = Literal["label", "number", "flag", "group"]


@final
class Role(NamedTuple):
    """What a column can be.

    Attributes
    ----------
    name : str
        The role, which is also its first alias.
    aliases : tuple of str
        Lower-case names under which the column is found.
    kind : "label", "number", "flag" or "group"
        How its cells are read: a name, a finite number, true or false, or an anonymous group.
    vocabulary : str
        Label columns that share names, such as state and next state, share this.
    required : bool
        Whether a table without it is an error.
    """

    name: str
    aliases: tuple[str, ...]
    kind: CellKind
    vocabulary: str = ""
    required: bool = True


STATE = Role("state", ("state", "s", "idstatefrom", "obs", "observation"), "label", "state")
ACTION = Role("action", ("action", "a", "idaction"), "label", "action")
NEXT_STATE = Role(
    "next_state", ("next_state", "s_next", "sp", "idstateto", "next_obs"), "label", "state"
)
REWARD = Role("reward", ("reward", "r"), "number", required=False)
EPISODE = Role("episode", ("episode", "episode_id", "idepisode"), "group", required=False)
TERMINAL = Role("terminal", ("terminal", "done", "terminated"), "flag", required=False)

LOG_ROLES = (STATE, ACTION, NEXT_STATE, REWARD, EPISODE, TERMINAL)
# A row index and a clock carry nothing that the log needs; they are passed over without a note.
_UNREMARKABLE = {"", "step", "rownames", "__index_level_0__"}


@final
class Resolved(NamedTuple):
    """Position of the column of each role, and the names of columns that have none."""

    position: dict[str, int]
    unused: tuple[str, ...]


def resolve_columns(
    found: Sequence[str],
    roles: Sequence[Role],
    columns: Mapping[str, str] | None = None,
    source: str = "the table",
) -> Resolved:
    """Return which of the `found` column names plays which role.

    Parameters
    ----------
    found : sequence of str
        Column names in order.
    roles : sequence of Role
        What is looked for.
    columns : mapping, optional
        Role → column name; goes before the aliases.
    source : str
        Name of the table, for messages.
    """
    plain = [_plain(name) for name in found]
    position = _given_columns(found, plain, roles, columns or {}, source)
    taken = set(position.values())
    for role in roles:
        if role.name in position:
            continue
        fits = [i for i, name in enumerate(plain) if name in role.aliases and i not in taken]
        if len(fits) > 1:
            names = " and ".join(f"'{found[i].strip()}'" for i in fits)
            raise InputError(
                f"One column must be the {role.name}: in {source} both {names} could be. Say which "
                f"with columns={{'{role.name}': …}} (--columns {role.name}=…)."
            )
        if fits:
            position[role.name] = fits[0]
        elif role.required:
            raise InputError(_missing(role, found, source))
    used = set(position.values())
    unused = tuple(
        found[i].strip()
        for i, name in enumerate(plain)
        if i not in used and name not in _UNREMARKABLE
    )
    return Resolved(position, unused)


def resolvable(
    found: Sequence[str], roles: Sequence[Role], columns: Mapping[str, str] | None = None
) -> bool:
    """Whether all required roles have a column."""
    try:
        resolve_columns(found, roles, columns)
    except InputError:
        return False
    return True


def _plain(name: str) -> str:
    return name.strip().casefold()


def _given_columns(
    found: Sequence[str],
    plain: Sequence[str],
    roles: Sequence[Role],
    columns: Mapping[str, str],
    source: str,
) -> dict[str, int]:
    """Positions of the columns that the user named."""
    known = {role.name for role in roles}
    position: dict[str, int] = {}
    for role, name in columns.items():
        if role not in known:
            raise InputError(
                f"Unknown role '{role}' in columns=. Roles are {', '.join(r.name for r in roles)}."
            )
        fits = [i for i, other in enumerate(found) if other.strip() == name.strip()]
        fits = fits or [i for i, other in enumerate(plain) if other == _plain(name)]
        if not fits:
            close = difflib.get_close_matches(_plain(name), plain, n=1)
            hint = f" Did you mean '{found[plain.index(close[0])].strip()}'?" if close else ""
            raise InputError(
                f"The column '{name}' given for the {role} is not in {source}, whose columns are "
                f"{_listed(found)}.{hint}"
            )
        if len(fits) > 1:
            raise InputError(
                f"The column '{name}' given for the {role} stands {len(fits)} times in {source}. "
                "Rename all but one of them."
            )
        if fits[0] in position.values():
            raise InputError(
                f"The column '{name}' of {source} is given two roles in columns=. "
                "Name another column for one of them."
            )
        position[role] = fits[0]
    return position


def _missing(role: Role, found: Sequence[str], source: str) -> str:
    visits = ""
    if role is NEXT_STATE or role is STATE:
        visits = (
            " If it is a table of visits, with one row per id and time, begin with "
            "`softrobust inspect`."
        )
        if any(f"next_{name}" in found for name in found):
            visits = " States are measurements here (columns x and next_x): add --continuous."
    return (
        f"A column for the {role.name} is missing in {source}: its columns are {_listed(found)}, "
        f"and none is called {', '.join(role.aliases[:-1])} or {role.aliases[-1]}. Rename it, or "
        f"say which it is with columns={{'{role.name}': …}} (--columns {role.name}=…)." + visits
    )


def _listed(found: Sequence[str], most: int = 12) -> str:
    names = ", ".join(f"'{name.strip()}'" for name in found[:most])
    return names if len(found) <= most else f"{names} and {len(found) - most} more"
