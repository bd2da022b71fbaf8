"""What tests share: where public data may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("public data (../shared/data) is not here")
    return SHARED
