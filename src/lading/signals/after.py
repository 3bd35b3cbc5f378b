"""What follows a run: metrics and lineage events, as the config wants them. None of it can fail a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lading.config.project import Config
from lading.run import RunReport
from lading.secrets import hide
from lading.signals.metrics import Metrics, observe, read_textfile, write_textfile
from lading.signals.openlineage import deliver, run_events
from lading.signals.phases import Phases


class Signals:
    """Give a run `phases` to watch it, and tell of its end with `finished`. `complain` hears, once, of what
    could not be told."""

    def __init__(self, config: Config, complain: Callable[[str], None], file: Path | None = None) -> None:
        self.phases = Phases()
        self.metrics = Metrics()
        self._file = file or config.metrics_file
        self._said: set[str] = set()
        self._complain = complain
        if self._file is not None:
            read_textfile(self.metrics, self._file)

    def finished(self, config: Config, report: RunReport) -> None:
        try:
            observe(self.metrics, config, report, self.phases)
            if self._file is not None:
                write_textfile(self.metrics, self._file)
        except Exception as error:  # a full disk, a folder that is gone: the run is done all the same
            self._once(f"metrics can't be written: {error}")
        if config.openlineage is not None:
            try:
                deliver(config.openlineage, run_events(config, report))
            except Exception as error:  # nobody listens, or the events themselves can't be made
                self._once(hide(f"OpenLineage events can't be delivered: {error}"))

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._complain(text)
