"""Reading a log, and telling a log from a file of models.

log = read_log("log.csv")          # state, action, next_state[, reward, episode, terminal]
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from softrobust.data.build import build_log
from softrobust.data.columns import LOG_ROLES
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.npz import npz_columns, npz_format
from softrobust.data.rewards import Rewards
from softrobust.data.saved import load_log, saved_in_parquet
from softrobust.data.source import file_kind
from softrobust.data.table import read_table, table_columns
from softrobust.errors import InputError


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    states: Labels | Sequence[str | int] | str | Path | None = None,
    actions: Labels | Sequence[str | int] | str | Path | None = None,
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path | None = None,
    rewards: Rewards | Callable[..., float] | npt.ArrayLike | None = None,
    reward_table: Any = None,
    reward_default: float | None = None,
) -> TransitionLog:
    """Read a log of transitions.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table or mapping of columns
        A file is CSV (.gz, .xz), Parquet or NPZ, by its content. Columns: `state, action,
        next_state`, and optionally `reward, episode, terminal`, under these names or aliases.
    columns : mapping, optional
        Role → column name, e.g. ``{"state": "site"}``, for names that are no alias.
    states, actions : labels, or a path to a file with one label per line, optional
        Order of the labels; may add unvisited ones. A label of the log that is not listed is an
        error.
    initial : array, mapping or path, optional
        p₀. Without it: the episode starts if there is an episode column, else uniform over
        visited states.
    rewards : Rewards, callable or array, optional
        Rewards that replace the reward column.
    reward_table : path or table, optional
        Columns `state, action, reward[, next_state]`; goes before the reward column.
    reward_default : float, optional
        Reward of pairs whose reward is known from nowhere else.

    Returns
    -------
    TransitionLog
        Its `notes` say what was assumed.

    Examples
    --------
    >>> log = read_log({"s": ["a", "a"], "action": [0, 1], "s_next": ["a", "b"], "r": [0.0, 1.0]})
    >>> log.n_rows, log.states.names, log.rewards.kind
    (2, ('a', 'b'), 'pair')
    """
    options: dict[str, Any] = {
        "states": _names(states, "state"),
        "actions": _names(actions, "action"),
        "initial": initial,
        "rewards": rewards,
        "reward_table": reward_table,
        "reward_default": reward_default,
    }
    if isinstance(source, (str, Path)):
        path = Path(source)
        kind = file_kind(path)
        if kind == "npz":
            if npz_format(path) is not None:
                return _refit(load_log(path), options)
            source = npz_columns(path)
        elif kind == "parquet" and (saved := saved_in_parquet(path)) is not None:
            return _refit(saved, options)
        else:
            _refuse_models(path)
    return build_log(read_table(source, LOG_ROLES, columns), **options)


def sniff(path: str | Path) -> str:
    """Return what a file holds, by its content: "log", "models", or the name in its `format` key.

    A table with a column `probability` describes models; any other table is taken for a log.
    """
    path = Path(path)
    if file_kind(path) == "npz":
        return (npz_format(path) or "softrobust-log").removeprefix("softrobust-")
    names = {name.strip().casefold() for name in table_columns(path)}
    return "models" if "probability" in names else "log"


def read_labels(path: str | Path, noun: str = "label") -> Labels:
    """Read labels from a text file, one per line; blank lines are skipped."""
    from softrobust.data.source import text_of

    names = [line.strip() for line in text_of(Path(path)).splitlines()]
    names = [name for name in names if name]
    if not names:
        raise InputError(f"The file {Path(path).name} lists no {noun}s. Put one on each line.")
    return Labels(tuple(names), noun=noun)


def _names(given: Labels | Sequence[str | int] | str | Path | None, noun: str) -> Labels | None:
    if given is None:
        return None
    return read_labels(given, noun) if isinstance(given, (str, Path)) else Labels.of(given, noun)


def _refuse_models(path: Path) -> None:
    if sniff(path) == "models":
        raise InputError(
            f"The file {path.name} has a column 'probability': it describes models, not a log of "
            "transitions. Read it as models; if it is a log, rename that column."
        )


def _refit(log: TransitionLog, options: Mapping[str, Any]) -> TransitionLog:
    """Apply the options to a saved log, which carries its own labels."""
    if options["states"] is not None or options["actions"] is not None:
        raise InputError("A saved log carries its own labels: give no others with it.")
    if options["initial"] is not None:
        log = log.with_initial(options["initial"])
    if options["rewards"] is not None:
        log = log.with_rewards(options["rewards"])
    return log.with_reward_table(options["reward_table"], options["reward_default"])
