"""A table in a bucket: locations are URLs, and engines read it there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.iceberg import seen
from support.servers import S3Server
from support.shown import Shown, lines

import lading
from lading.layout.table import SOURCE


@pytest.mark.acceptance("I15")
def test_engines_read_a_table_in_a_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    options = s3_server.options()
    url = f"{s3_server.bucket('iceberg')}/warehouse"
    shown = Shown(tmp_path, warehouse=f"{url}\ns3: {json.dumps(options)}")
    shown.put("a", lines(range(25)))
    shown.put("b", lines(range(25)))
    shown.run()
    shown.put("b", lines(range(5, 20)))
    shown.run()
    with lading.open(f"{url}/t", s3=options) as reader:
        wanted = reader.scan().to_table().drop_columns([SOURCE])
    properties = {
        "s3.endpoint": options["endpoint"],
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": options.get("region", "us-east-1"),
    }
    table = StaticTable.from_metadata(f"{url}/t/metadata/v2.metadata.json", properties=properties)
    assert table.location() == f"{url}/t"
    found: pa.Table = table.scan().to_arrow()
    assert seen(found) == seen(wanted)
