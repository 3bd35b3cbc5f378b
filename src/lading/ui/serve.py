"""The page on a socket, until it is told to end."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from types import FrameType

import uvicorn

from lading.ui.app import make_app
from lading.ui.project import Project

_PATIENCE = 20  # seconds that requests under way are given to end


class _Server(uvicorn.Server):
    """Streams have no end of their own, so that they are ended first."""

    def __init__(self, config: uvicorn.Config, project: Project) -> None:
        super().__init__(config)
        self._project = project

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._project.live.close()
        super().handle_exit(sig, frame)


def serve(folder: Path, listener: socket.socket, *, token: str, read_only: bool) -> None:
    """Until Ctrl-C or SIGTERM; then a run that was started from the page is waited for."""
    app = make_app(folder, token=token, read_only=read_only)
    settings = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
    )
    project: Project = app.state.project
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it once more when all is done
    try:
        _Server(settings, project).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # that is how it ends
    finally:
        signal.signal(signal.SIGTERM, before)
    project.live.wait()
