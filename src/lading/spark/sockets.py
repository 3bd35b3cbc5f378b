"""How Spark and its Python workers talk on one machine: by sockets in a folder rather than over TCP.

Over TCP a task waits 40 ms or more for nothing: what Spark sends in two pieces goes in two packets, and the
second is held back until the first is acknowledged, which the other end puts off in the hope of an answer.
Spark before 4.1 knows no other way and passes these settings over.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from contextlib import suppress

ENABLED = "spark.python.unix.domain.socket.enabled"
FOLDER = "spark.python.unix.domain.socket.dir"
_LONGEST = 61  # characters of a folder's path, for Spark; what a socket is called has to fit in as well
_SHORT = "/tmp"  # a system's own folder for temporary files may have a long name

_folder: str | None = None  # this process's


def socket_settings() -> dict[str, str]:
    """For a session on this machine; none where a folder can't hold sockets, and TCP has to do."""
    global _folder
    if _folder is None:
        found = (_fresh(base) for base in dict.fromkeys((tempfile.gettempdir(), _SHORT)))
        _folder = next((one for one in found if one is not None), None)
    return {} if _folder is None else {ENABLED: "true", FOLDER: _folder}


def _fresh(base: str) -> str | None:
    """A folder in `base` that only this user may enter, gone when the process ends."""
    try:
        folder = tempfile.mkdtemp(prefix="lading-", dir=base)
    except OSError:
        return None
    if len(folder) <= _LONGEST and _holds_sockets(folder):
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    with suppress(OSError):
        os.rmdir(folder)
    return None


def _holds_sockets(folder: str) -> bool:
    """Some file systems don't (those that a virtual machine shares with its host, for instance)."""
    if not hasattr(socket, "AF_UNIX"):
        return False
    path = os.path.join(folder, "trial")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.bind(path)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(path)
    return True
