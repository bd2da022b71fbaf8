"""Models and problems as `.npz` files: plain arrays with a format name and version, no pickles."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.data.files import atomic_write
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MODELS_FORMAT = "softrobust-models"
FORMAT_VERSION = 1
_REWARD_LAYERS = (
    "pairs", "known", "nexts", "next_listed", "by_next", "keys", "triples", "per_model",
)  # fmt: skip


def save_models(path: str | Path, models: ModelSet) -> None:
    """Write a set of models with all that came with it, atomically."""
    write_npz(path, MODELS_FORMAT, models_to_arrays(models))


def load_models(path: str | Path) -> ModelSet:
    """Read what `save_models` wrote."""
    return models_from_arrays(read_npz(path, MODELS_FORMAT))


def models_to_arrays(models: ModelSet) -> dict[str, NDArray[Any]]:
    """The arrays that make up a `ModelSet`, by name."""
    out: dict[str, NDArray[Any]] = {
        "indptr": models.indptr,
        "next_states": models.next_states,
        "prob": models.prob,
        "f": models.f,
        "states": np.array(list(models.states), dtype=np.str_),
        "actions": np.array(list(models.actions), dtype=np.str_),
        "sinks": np.asarray(models.sinks),
    }
    if models.p0 is not None:
        out["p0"] = models.p0
    if models.gamma is not None:
        out["gamma"] = np.array(models.gamma)
    if models.rewards is not None:
        out |= rewards_to_arrays(models.rewards)
    return out


def models_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> ModelSet:
    """The inverse of `models_to_arrays`; everything is validated again."""
    return ModelSet(
        indptr=arrays["indptr"],
        next_states=arrays["next_states"],
        prob=arrays["prob"],
        f=arrays["f"],
        states=Labels(tuple(str(x) for x in arrays["states"])),
        actions=Labels(tuple(str(x) for x in arrays["actions"])),
        sinks=arrays["sinks"],
        p0=arrays.get("p0"),
        gamma=float(arrays["gamma"]) if "gamma" in arrays else None,
        rewards=rewards_from_arrays(arrays),
    )


def rewards_to_arrays(rewards: Rewards) -> dict[str, NDArray[Any]]:
    """The layers of `Rewards` that are in use, each under `reward_…`."""
    layers = {f"reward_{name}": getattr(rewards, name) for name in _REWARD_LAYERS}
    out = {name: np.asarray(layer) for name, layer in layers.items() if layer is not None}
    return out | {"reward_note": np.array(rewards.note)}


def rewards_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Rewards | None:
    """The inverse of `rewards_to_arrays`; None if there are none."""
    if "reward_pairs" not in arrays:
        return None
    layers = {name: arrays.get(f"reward_{name}") for name in _REWARD_LAYERS}
    return Rewards(**layers, note=str(arrays["reward_note"]))  # type: ignore[arg-type]


def write_npz(path: str | Path, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays with `format` and `format_version`, atomically."""
    with atomic_write(path, "wb") as file:
        head = {"format": np.array(kind), "format_version": np.array(FORMAT_VERSION)}
        np.savez(file, allow_pickle=False, **head, **arrays)


def read_npz(path: str | Path, kind: str) -> dict[str, NDArray[Any]]:
    """Read all arrays of a file of this kind; nothing in it can run code."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a readable .npz file ({error}). It may be truncated; write it again."
        ) from None
    found = str(arrays.get("format", "none"))
    if found != kind:
        raise InputError(f"{path} should be a '{kind}' file; its format is '{found}'.")
    if int(arrays["format_version"]) > FORMAT_VERSION:
        raise InputError(
            f"{path} was written by a newer softrobust (format {int(arrays['format_version'])}, "
            f"this one reads up to {FORMAT_VERSION}). Upgrade: pip install -U softrobust"
        )
    return arrays
