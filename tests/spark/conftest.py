from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.workshop import Workshop

from lading.ingest.tasks.outcome import Ingested


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(tmp_path, spark)


@pytest.fixture
def rows_of(shop: Workshop) -> Callable[[Ingested], list[dict[str, Any]]]:
    return shop.rows
