"""Models and problems as `.npz` files: plain arrays with a format name and version, no pickles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.data.labels import Labels
from softrobust.data.npz import (
    read_npz,
    rewards_from_arrays,
    rewards_to_arrays,
    write_npz,
)
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MODELS_FORMAT = "softrobust-models"
FORMAT_VERSION = 1


def save_models(path: str | Path, models: ModelSet) -> None:
    """Write a set of models with all that came with it, atomically."""
    write_npz(path, MODELS_FORMAT, FORMAT_VERSION, models_to_arrays(models))


def load_models(path: str | Path) -> ModelSet:
    """Read what `save_models` wrote."""
    return models_from_arrays(read_npz(path, MODELS_FORMAT, FORMAT_VERSION), path)


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


def models_from_arrays(arrays: Mapping[str, NDArray[Any]], path: str | Path) -> ModelSet:
    """The inverse of `models_to_arrays`; everything is validated again."""
    try:
        return ModelSet(
            indptr=arrays["indptr"],
            next_states=arrays["next_states"],
            prob=arrays["prob"],
            f=arrays["f"],
            states=Labels(tuple(str(x) for x in arrays["states"]), noun="state"),
            actions=Labels(tuple(str(x) for x in arrays["actions"]), noun="action"),
            sinks=arrays["sinks"],
            p0=arrays.get("p0"),
            gamma=float(arrays["gamma"]) if "gamma" in arrays else None,
            rewards=rewards_from_arrays(arrays),
        )
    except InputError:
        raise
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise InputError(
            f"The file {Path(path).name} lacks or garbles an array of the models ({error}). "
            "Write it again."
        ) from None
