"""Where a collection is: a directory or a URL, reached with the project's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Argument, Context
from lading.cli.terminal.invocation import config_of, invocation_of

if TYPE_CHECKING:
    from lading.collection import Collection

Dir = Annotated[str, Argument(metavar="DIR", help="The collection's directory or s3://bucket/prefix.")]


def s3_of(ctx: Context, folder: str) -> dict[str, str] | None:
    """What the project's `s3:` says, for a URL; None means the environment and the AWS files."""
    in_bucket = "://" in folder and invocation_of(ctx).is_project
    return (dict(config_of(ctx).s3) or None) if in_bucket else None


def collection_at(ctx: Context, folder: str) -> Collection:
    from lading.collection import Collection

    s3 = s3_of(ctx, folder)
    return Collection(folder, s3=s3)
