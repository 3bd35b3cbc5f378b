"""Processes that share no folder with anybody: mount namespaces of their own, on Linux.

Where a process would find somebody else's folder it sees an empty file system in memory. What it has to see
all the same, its installation, is put back in its place.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_WAYS = (("unshare", "--mount"), ("unshare", "--mount", "--map-root-user"))  # the second: without being root
_TRIAL = ("sh", "-c", "mount -t tmpfs tmpfs /mnt")
# A new file system is furnished at its stage, then moved over the folder that it hides: what is to be seen
# there can't be reached any more after that.
_HIDE = """\
set -e
while [ "$1" != -- ]; do
  hidden=$1 stage=$2; shift 2
  mkdir -p "$stage"
  mount -t tmpfs -o mode=1777 tmpfs "$stage"
  while [ "$1" != . ]; do
    mkdir -p "$stage/$1"
    mount --rbind "$hidden/$1" "$stage/$1"
    shift
  done
  shift
  mount --move "$stage" "$hidden"
done
shift
cd /
exec "$@"
"""


@functools.cache
def _way() -> tuple[str, ...] | None:
    if shutil.which("unshare") is None:
        return None
    return next(
        (way for way in _WAYS if not subprocess.run((*way, *_TRIAL), capture_output=True).returncode), None
    )


def why_not() -> str | None:
    """Why this machine can't have processes apart; None if it can."""
    return None if _way() else "needs mount namespaces: `unshare --mount` and the right to mount"


def apart(hidden: Iterable[Path], kept: Iterable[Path], stage: Path) -> list[str]:
    """What to put before a command, so that it finds the `hidden` folders empty but for what is `kept`.
    `stage` is a folder of its own to set up in."""
    way = _way()
    assert way is not None, why_not()
    seen = _outermost(kept)
    steps: list[str] = []
    for number, folder in enumerate(_outermost(hidden)):
        inside = [str(one.relative_to(folder)) for one in seen if folder in one.parents]
        steps += [str(folder), str(stage / str(number)), *inside, "."]
    return [*way, "sh", "-c", _HIDE, "sh", *steps, "--"]


def _outermost(folders: Iterable[Path]) -> list[Path]:
    found = sorted({Path(os.path.realpath(one)) for one in folders})
    return [one for one in found if not any(other in one.parents for other in found)]
