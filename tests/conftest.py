"""What tests share: where public data may lie, and how properties are searched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"

# A change is judged on the same examples everywhere; `make test-search` looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)  # kernels compile once
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("public data (../shared/data) is not here")
    return SHARED


@pytest.fixture(autouse=True)
def width_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners in parallel name a width for their own output; what is tested is a plain pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
