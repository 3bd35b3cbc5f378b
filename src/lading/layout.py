"""Every name below a project and below a table: how it is made, and how it is told from others."""

from __future__ import annotations


def bucket_key(bucket_id: int) -> str:
    """`000123`, `-000123`: at least six digits after the sign, as in the directory `bucket=000123`."""
    return f"-{-bucket_id:06d}" if bucket_id < 0 else f"{bucket_id:06d}"
