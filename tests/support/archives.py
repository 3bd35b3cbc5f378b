"""Archives for tests: good ones, and all the bad ones that a stranger might send."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROW = b"id,name\n1,Ada\n"


def zip_of(path: Path, members: Mapping[str, bytes | str], *, age: float = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return aged(path, age)


def tar_of(path: Path, members: Mapping[str, bytes], *, age: float = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as out:
        for name, data in members.items():
            _add(out, name, data)
    return aged(path, age)


def aged(path: Path, age: float = 100) -> Path:
    stamp = path.stat().st_mtime - age
    os.utime(path, (stamp, stamp))
    return path


def _add(out: tarfile.TarFile, name: str, data: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    out.addfile(info, io.BytesIO(data))


def _zip(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    memory = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as out:
        warnings.simplefilter("ignore")  # zipfile warns of duplicate names
        for name, data in entries:
            out.writestr(name, data)
    return memory.getvalue()


def _tar(*entries: tuple[str, bytes, dict[str, object]], packed: bool = False) -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz" if packed else "w") as out:
        for name, data, fields in entries:
            _add(out, name, data, **fields)
    return memory.getvalue()


def _special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def _patched(data: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new) and old in data
    return data.replace(old, new)


def _lying_size(shown: int) -> bytes:
    """The directory says another size than the data has; the checksum is right for what is there."""
    data = bytearray(_zip(("a.csv", ROW * 50)))
    at = data.rfind(b"PK\x01\x02")
    struct.pack_into("<L", data, at + 24, shown)
    return bytes(data)


def _broken_middle() -> bytes:
    """A tar whose second header is damaged: tarfile alone takes that for the end."""
    data = bytearray(_tar(("a.csv", ROW, {}), ("b.csv", ROW, {})))
    at = data.find(b"b.csv")
    data[at + 150] ^= 0xFF
    return bytes(data)


def _aes() -> bytes:
    data = bytearray(_zip(("a.csv", ROW)))
    for mark, flags, method in ((b"PK\x03\x04", 6, 8), (b"PK\x01\x02", 8, 10)):
        at = data.find(mark)
        struct.pack_into("<H", data, at + flags, 1)
        struct.pack_into("<H", data, at + method, 99)
    return bytes(data)


def _huge_header() -> bytes:
    """A tar whose extended header claims a gigabyte."""
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 30
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(10_000))


def streamed_zip(*entries: tuple[str, bytes], wide: bool = False) -> bytes:
    """As a program writes it that can't seek: CRC and sizes stand behind the data."""

    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation("seek")

    out = Stream()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries:
            with packed.open(name, "w", force_zip64=wide) as member:
                member.write(data)
    return out.getvalue()


def commented_zip(comment: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("a.csv", ROW)
        packed.comment = comment
    return out.getvalue()


def _unlisted() -> bytes:
    """Three members, of which the directory has lost the middle one."""
    data = _zip(("a.csv", ROW), ("b.csv", ROW), ("c.csv", ROW))
    entries = data[data.index(b"PK\x01\x02") : data.index(b"PK\x05\x06")].split(b"PK\x01\x02")[1:]
    directory = b"".join(b"PK\x01\x02" + entry for entry in (entries[0], entries[2]))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), data.index(b"PK\x01\x02"), 0)
    return data[: data.index(b"PK\x01\x02")] + directory + end


def _miscounted() -> bytes:
    data = _zip(("a.csv", ROW), ("b.csv", ROW))
    at = data.rindex(b"PK\x05\x06")
    return data[: at + 8] + struct.pack("<2H", 3, 3) + data[at + 12 :]


def _disagreeing() -> bytes:
    """The CRC at the member itself is another than in the directory."""
    data = _zip((_stored("a.csv"), ROW))
    return data[:14] + b"\1\2\3\4" + data[18:]


LINK = stat.S_IFLNK | 0o777

# What is wrong: the file's name, its bytes, the member (or the archive) that the error names, a word of it.
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str, str]] = {
    "zip slip": ("x.zip", lambda: _zip(("a.csv", ROW), ("../evil.csv", ROW)), "../evil.csv", "'..'"),
    "tar slip": ("x.tar", lambda: _tar(("a/../../evil.csv", ROW, {})), "a/../../evil.csv", "'..'"),
    "absolute in zip": ("x.zip", lambda: _zip(("/tmp/evil.csv", ROW)), "/tmp/evil.csv", "absolute"),
    "absolute in tar": ("x.tgz", lambda: _tar(("/etc/evil", ROW, {}), packed=True), "/etc/evil", "absolute"),
    "link in zip": ("x.zip", lambda: _zip((_special("l.csv", LINK), b"/etc/passwd")), "l.csv", "link"),
    "link in tar": (
        "x.tar",
        lambda: _tar(("l.csv", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})),
        "l.csv",
        "link",
    ),
    "hard link in tar": (
        "x.tar",
        lambda: _tar(("l.csv", b"", {"type": tarfile.LNKTYPE, "linkname": "../../x"})),
        "l.csv",
        "link",
    ),
    "file through a link": (
        "x.tar",
        lambda: _tar(
            ("d", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}),
            ("d/evil.csv", ROW, {}),
        ),
        "d",
        "link",
    ),
    "device in tar": ("x.tar", lambda: _tar(("zero", b"", {"type": tarfile.CHRTYPE})), "zero", "device"),
    "block device in tar": ("x.tar", lambda: _tar(("sda", b"", {"type": tarfile.BLKTYPE})), "sda", "device"),
    "pipe in tar": (
        "x.tar.gz",
        lambda: _tar(("p", b"", {"type": tarfile.FIFOTYPE}), packed=True),
        "p",
        "pipe",
    ),
    "device in zip": ("x.zip", lambda: _zip((_special("null", stat.S_IFCHR | 0o666), b"")), "null", "device"),
    "ratio in zip": ("x.zip", lambda: _zip(("bomb.csv", bytes(30_000_000))), "bomb.csv", "200 times"),
    "ratio in tar": (
        "x.tar.gz",
        lambda: _tar(("bomb.csv", bytes(30_000_000), {}), packed=True),
        "bomb.csv",
        "200 times",
    ),
    "count in zip": ("x.zip", lambda: _zip(*((f"{i}.csv", b"") for i in range(30))), "x.zip", "30 members"),
    "count in tar": (
        "x.tar",
        lambda: _tar(*((f"{i}.csv", b"", {}) for i in range(30))),
        "20.csv",
        "20 members",
    ),
    "bytes": ("x.zip", lambda: _zip(("big.csv", os.urandom(250_000))), "big.csv", "200,000 bytes"),
    "nested": (
        "x.zip",
        lambda: _zip(("in/inner.zip", _zip(("a.csv", ROW)))),
        "in/inner.zip",
        "inside an archive",
    ),
    "nested tar": ("x.tar", lambda: _tar(("inner.tgz", ROW, {})), "inner.tgz", "inside an archive"),
    "truncated zip": ("x.zip", lambda: _zip(("a.csv", ROW * 9))[:-30], "x.zip", "damaged"),
    "truncated tar": ("x.tar", lambda: _tar(("a.csv", ROW * 90, {}))[:800], "a.csv", "damaged"),
    "tar cut between members": (
        "x.tar",
        lambda: _tar(("a.csv", ROW, {}), ("b.csv", ROW, {}))[:1024],
        "a.csv",
        "cut off",
    ),
    "tar damaged in the middle": ("x.tar", _broken_middle, "a.csv", "damaged"),
    "truncated tar.gz": ("x.tgz", lambda: _tar(("a.csv", ROW, {}), packed=True)[:-12], "x.tgz", "damaged"),
    "two zips in one": (
        "x.zip",
        lambda: _zip(("a.csv", ROW)) + _zip(("b.csv", ROW)),
        "x.zip",
        "bytes that belong to no member",
    ),
    "text in front of a zip": (
        "x.zip",
        lambda: b"hello\n" + _zip(("a.csv", ROW)),
        "x.zip",
        "starts with 6 bytes",
    ),
    "text behind a zip": ("x.zip", lambda: _zip(("a.csv", ROW)) + b"hello\n", "x.zip", "followed by 6 bytes"),
    "zeros behind a zip": ("x.zip", lambda: _zip(("a.csv", ROW)) + bytes(512), "x.zip", "512 bytes"),
    "a zip cut in its comment": ("x.zip", lambda: commented_zip(b"hello")[:-2], "x.zip", "cut off"),
    "a member that is not listed": ("x.zip", _unlisted, "x.zip", "after its member 'a.csv'"),
    "more members than listed": ("x.zip", _miscounted, "x.zip", "claims 3"),
    "a member that says otherwise": ("x.zip", _disagreeing, "x.zip", "describes 'a.csv' differently"),
    "text behind a gz": (
        "x.tar.gz",
        lambda: _tar(("a.csv", ROW, {}), packed=True) + b"x",
        "x.tar.gz",
        "damaged",
    ),
    "two tars in one": ("x.tar", lambda: _tar(("a.csv", ROW, {})) * 2, "a.csv", "data after the end"),
    "bad checksum": (
        "x.zip",
        lambda: _patched(_zip((_stored("a.csv"), b"id,name\n1,Ada\n")), b"1,Ada", b"9,Ada"),
        "a.csv",
        "damaged",
    ),
    "says less than it has": ("x.zip", lambda: _lying_size(20), "a.csv", "claims 20 bytes"),
    "says more than it has": ("x.zip", lambda: _lying_size(5_000), "a.csv", "claims 5,000 bytes"),
    "huge header": ("x.tar.gz", _huge_header, "x.tar.gz", "header"),
    "duplicate in zip": ("x.zip", lambda: _zip(("a.csv", ROW), ("a.csv", b"id\n")), "a.csv", "twice"),
    "duplicate in tar": ("x.tar", lambda: _tar(("a.csv", ROW, {}), ("./a.csv", ROW, {})), "./a.csv", "twice"),
    "duplicate in other letters": (
        "x.zip",
        lambda: _zip(("caf\u00e9.csv", ROW), ("cafe\u0301.csv", ROW)),
        "cafe\u0301.csv",
        "looks like",
    ),
    "file and folder": ("x.zip", lambda: _zip(("a", ROW), ("a/b.csv", ROW)), "a/b.csv", "folder"),
    "backslash": ("x.tar", lambda: _tar(("..\\evil.csv", ROW, {})), "..\\evil.csv", "backslash"),
    "drive": ("x.tar", lambda: _tar(("C:/evil.csv", ROW, {})), "C:/evil.csv", "drive"),
    "device name": ("x.zip", lambda: _zip(("data/NUL.csv", ROW)), "data/NUL.csv", "device name on Windows"),
    "control characters": ("x.tar", lambda: _tar(("a\x1b[2J.csv", ROW, {})), "a\x1b[2J.csv", "control"),
    "nul in a name": (
        "x.zip",
        lambda: _patched(_zip(("aXb.csv", ROW)), b"aXb", b"a\0b"),
        "a\0b.csv",
        "control",
    ),
    "lading's own name": (
        "x.zip",
        lambda: _zip((".lading-index.json", b"{}")),
        ".lading-index.json",
        "reserved for lading",
    ),
    "too deep": ("x.zip", lambda: _zip(("a/" * 200 + "x.csv", ROW)), "a/" * 200 + "x.csv", "too deep"),
    "encrypted": ("x.zip", lambda: _flagged(_zip(("a.csv", ROW))), "a.csv", "encrypted"),
    "aes": ("x.zip", _aes, "a.csv", "AES"),
    "not a zip": ("x.zip", lambda: b"hello", "x.zip", "damaged"),
    "not a tar": ("x.tar", lambda: b"hello" * 300, "x.tar", "damaged"),
    "empty": ("x.zip", lambda: b"", "x.zip", "damaged"),
}


def _stored(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name)


def _flagged(data: bytes) -> bytes:
    changed = bytearray(data)
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", changed, changed.find(mark) + flags, 1)
    return bytes(changed)


# A zip with ZipCrypto, made by hand: zipfile reads such files and can't write them.
def zip_with_password(path: Path, name: str, data: bytes, password: bytes, *, age: float = 100) -> Path:
    import binascii

    crc = binascii.crc32(data)
    keys = _Keys(password)
    cipher = keys.encrypt(bytes(11) + bytes([crc >> 24]) + data)
    encoded = name.encode()
    common = struct.pack("<HHHHHLLLHH", 20, 1, 0, 0, 33, crc, len(cipher), len(data), len(encoded), 0)
    local = b"PK\x03\x04" + common + encoded + cipher
    entry = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHLL", 0, 0, 0, 0, 0) + encoded
    end = b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, 1, 1, len(entry), len(local), 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(local + entry + end)
    return aged(path, age)


class _Keys:
    def __init__(self, password: bytes) -> None:
        self._keys = [0x12345678, 0x23456789, 0x34567890]
        for byte in password:
            self._update(byte)

    def encrypt(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            mix = (self._keys[2] | 2) & 0xFFFF
            out.append(byte ^ ((mix * (mix ^ 1)) >> 8) & 0xFF)
            self._update(byte)
        return bytes(out)

    def _update(self, byte: int) -> None:
        one, two, three = self._keys
        one = _crc(one, byte)
        two = ((two + (one & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        self._keys = [one, two, _crc(three, two >> 24)]


def _crc(crc: int, byte: int) -> int:
    crc ^= byte
    for _ in range(8):
        crc = (crc >> 1) ^ 0xEDB88320 if crc & 1 else crc >> 1
    return crc
