"""What a folder of files was made from, and the proof that it still is that.

One file for an archive or a script that works file by file, all files of a table for a script that
works on them together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from lading.model import FoundFile
from lading.sources.fingerprint import digest, digest_all, is_elsewhere, joined_spot
from lading.sources.schema import keyed_hash


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The input as it was."""

    hash: str
    sha256: str
    size: int
    mtime_ns: int
    racy: bool = False
    spot: int = 0


def proof_of(entry: Mapping[str, Any]) -> Proof | None:
    """The proof in an entry of `preprocessing`; None when it is not as lading writes it."""
    try:
        return msgspec.convert({**entry, "hash": entry.get("file_hash")}, Proof)
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True)
class Input:
    """The input as it is. Its content is looked at only when that decides."""

    key: str
    files: tuple[FoundFile, ...]
    hash: str
    size: int
    mtime_ns: int
    racy: bool
    remote: bool  # its hash is the store's word for the content: there is nothing to compare
    spot: int = 0

    @cached_property
    def sha256(self) -> str:
        if len(self.files) == 1:
            return digest(self.files[0].path).sha256
        return joined_sha256({key: one.sha256 for key, one in digest_all(self.files).items()})

    def proof(self, *, full: bool, sha256: str | None = None) -> Proof:
        """`sha256` is that of the input, where somebody else has worked it out."""
        digest = self.sha256 if full and not self.remote else self.hash
        return Proof(
            hash=digest,
            sha256=self.sha256 if sha256 is None else sha256,
            size=self.size,
            mtime_ns=self.mtime_ns,
            racy=self.racy,
            spot=self.spot,
        )

    def is_still(self, proof: Proof, *, full: bool) -> bool:
        """Whether the input is what it was. A hash that somebody changed by hand says no."""
        if self.remote:
            return self.hash == proof.hash
        if self.size != proof.size:
            return False
        elsewhere = is_elsewhere(self.spot, proof.spot)
        if self.mtime_ns != proof.mtime_ns or proof.racy or full or elsewhere:
            return self.sha256 == proof.sha256
        return proof.hash in (self.hash, proof.sha256)

    def renewed(self, proof: Proof) -> Proof:
        """The proof of the same content under a new time, in the form that it has."""
        if self.remote:
            return proof
        digest = proof.sha256 if proof.hash == proof.sha256 else self.hash
        return msgspec.structs.replace(
            proof, hash=digest, size=self.size, mtime_ns=self.mtime_ns, racy=self.racy, spot=self.spot
        )


def joined_sha256(digests: Mapping[str, str]) -> str:
    """Of an input, from those of its files by key."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    text = "\n".join(f"{digests[key]} {key}" for key in sorted(digests))
    return hashlib.sha256(text.encode()).hexdigest()


def one_file(found: FoundFile) -> Input:
    remote = found.fingerprint is not None
    return Input(found.key, (found,), found.hash, found.size, found.mtime_ns, found.racy, remote, found.spot)


def all_files(key: str, found: Sequence[FoundFile]) -> Input:
    """All files of a table as one input; `key` is how people know them: the table's `path`."""
    return Input(
        key,
        tuple(found),
        keyed_hash({file.key: file.hash for file in found}),
        sum(file.size for file in found),
        max((file.mtime_ns for file in found), default=0),
        any(file.racy for file in found),
        all(file.fingerprint is not None for file in found) and bool(found),
        joined_spot([file.spot for file in found]),
    )
