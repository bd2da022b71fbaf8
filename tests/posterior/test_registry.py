"""Every posterior can be written and read, and draws the same models again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from softrobust._core.files import write_npz
from softrobust.data import TransitionLog
from softrobust.domains import CancerGrowth, Inventory, RiverSwim, random_mdp
from softrobust.errors import InputError
from softrobust.models import ModelSet
from softrobust.posterior import (
    DirichletPosterior,
    FittedPosterior,
    HierarchicalPosterior,
    Posterior,
    load_posterior,
)
from softrobust.posterior.registry import NAMES, make_posterior

RING = random_mdp("ring", 6, 2, steps=60)
CASES: list[tuple[Posterior, Any]] = [
    (DirichletPosterior(strength=2.0), RING.collect(0)),
    (RING.posterior(), RING.collect(0)),
    (HierarchicalPosterior(), RING.collect(0)),
    (RiverSwim().posterior(), RiverSwim().collect(0)),
    (Inventory().posterior(), Inventory().collect(0)),
    (CancerGrowth().posterior(), CancerGrowth().collect(0)),
]


@pytest.mark.parametrize(("settings", "log"), CASES, ids=lambda x: type(x).__name__)
def test_written_and_read(settings: Posterior, log: Any, tmp_path: Path) -> None:
    fitted = settings.fit(log)
    fitted.save(tmp_path / "posterior.npz")
    read = load_posterior(tmp_path / "posterior.npz")
    before, after = fitted.sample(4, seed=9), read.sample(4, seed=9)
    name = "prob" if isinstance(before, ModelSet) else "weights"
    np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert read.describe() == fitted.describe()
    assert "data_hash" in read.describe()
    assert read.diagnostics().exact


@pytest.mark.parametrize(("settings", "log"), CASES, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("n", ["a", 2.5, 0, -1, None, True, np.nan])
def test_a_number_of_models_is_a_whole_number(settings: Posterior, log: Any, n: Any) -> None:
    with pytest.raises(
        InputError, match=r"number of models must be a whole number in 1…\d+; it is"
    ):
        settings.fit(log).sample(n)


@dataclass(frozen=True)
class Certain(Posterior):
    """A posterior of one's own: every pair leads to one state."""

    name: ClassVar[str] = "certain"
    to: int = 0

    def fit(self, log: TransitionLog) -> FittedCertain:
        return FittedCertain(self, log)


@dataclass(frozen=True, eq=False)
class FittedCertain(FittedPosterior):
    settings: Certain
    log: TransitionLog

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        P = np.zeros((n, *self.log.shape, self.log.n_states))
        P[..., self.settings.to] = 1.0
        return ModelSet.from_dense(P, states=self.log.states, actions=self.log.actions)


def test_ones_own_posterior(tmp_path: Path) -> None:
    fitted = Certain(2).fit(RING.collect(0))
    fitted.save(tmp_path / "own.npz")
    with pytest.raises(InputError, match=r"'certain', which is not known.*kinds"):
        load_posterior(tmp_path / "own.npz")
    read = load_posterior(tmp_path / "own.npz", kinds=[Certain])
    assert read.describe()["to"] == 2
    assert not read.diagnostics().problems


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "posterior.npz"
    write_npz(path, "softrobust-posterior", 1, {"record": np.array("{")})
    with pytest.raises(InputError, match="lacks or garbles"):
        load_posterior(path)
    write_npz(path, "softrobust-models", 1, {})
    with pytest.raises(InputError, match="should be a 'softrobust-posterior'"):
        load_posterior(path)


def test_by_name() -> None:
    assert set(NAMES) == {
        "dirichlet", "learned", "tied", "hierarchical", "demand", "population", "regression",
        "draws",
    }  # fmt: skip
    assert make_posterior("demand", max_backlog=3).shop.max_backlog == 3  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"Unknown posterior 'stan'.*demand"):
        make_posterior("stan")
    with pytest.raises(InputError, match=r"no setting 'strenth'.*strength"):
        make_posterior("dirichlet", strenth=1)
