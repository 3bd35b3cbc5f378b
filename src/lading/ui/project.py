"""The project that is shown: its config, read anew for every page, and the runs that were started here."""

from __future__ import annotations

from pathlib import Path

from lading.config.file import load
from lading.config.project import Config
from lading.ui.live import Live
from lading.ui.looks import Looks
from lading.ui.plans import Plans


class Project:
    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self.folder = folder
        self.read_only = read_only
        self.live = Live(folder)
        self.plans = Plans()
        self.looks = Looks()
        self._notices: list[str] = []

    def config(self) -> Config:
        """As lading.yaml is now: who edits it need not restart anything."""
        return load(self.folder)

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def notify(self, text: str) -> None:
        """Say something on the next page that is shown."""
        self._notices.append(text)

    def take_notices(self) -> list[str]:
        said, self._notices = self._notices, []
        return said
