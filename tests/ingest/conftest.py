from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.workshop import Workshop

from lading.ingest.tasks.outcome import Ingested


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """In this process: no Spark is started."""
    return Workshop(tmp_path)


@pytest.fixture
def rows_of(shop: Workshop) -> Callable[[Ingested], list[dict[str, Any]]]:
    return shop.rows
