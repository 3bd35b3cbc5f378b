"""The small project of support.project with its warehouse in a bucket, and the same oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.project import Project

import lading
from lading.model import Place
from lading.storage.bucket import ObjectStorage
from lading.storage.place import place


class BucketProject(Project):
    """Everything that a run makes goes to `url`, except what people read and edit."""

    def __init__(self, folder: Path, url: str, options: dict[str, str], more: str = "") -> None:
        self.url, self.options, self.more = url, options, more
        super().__init__(folder)

    def write_recipe(self) -> None:
        super().write_recipe()
        file = self.folder / "lading.yaml"
        there = f"warehouse: {self.url}\ns3: {json.dumps(self.options)}\n"
        file.write_text(file.read_text().replace("warehouse: warehouse\n", there) + self.more)

    @property
    def place(self) -> Place:
        return place(f"{self.url}/events", self.options, self.folder / ".lading_cache")

    @property
    def storage(self) -> ObjectStorage:
        return ObjectStorage(f"{self.url}/events", self.options)

    def names(self, prefix: str = "") -> list[str]:
        return [one.name for one in self.storage.list(prefix)]

    def open(self, **which: Any) -> lading.Reader:
        cache = self.folder / "reader-cache"
        return lading.open(f"{self.url}/events", s3=self.options, cache=cache, **which)
