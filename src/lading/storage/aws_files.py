"""Keys and region from `~/.aws`: the part of the usual AWS chain that obstore leaves out.

The order is everybody's: options, environment, these files, then the machine's own role, which obstore
finds by itself. Keys made on the fly (SSO, assumed roles) reach lading through the environment:
`eval "$(aws configure export-credentials --format env)"`.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

from lading.errors import ConfigError

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}


def from_files(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the profile (`AWS_PROFILE`, or `default`) says that the environment doesn't."""
    profile = environ.get("AWS_PROFILE") or "default"
    home = Path(environ.get("HOME") or "~").expanduser() / ".aws"
    keys = _read(Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"), profile)
    settings = _read(
        Path(environ.get("AWS_CONFIG_FILE") or home / "config"),
        profile if profile == "default" else f"profile {profile}",
    )
    found: dict[str, str] = {}
    if not environ.get("AWS_ACCESS_KEY_ID"):  # never a key from here with a secret from there
        source = keys if "aws_access_key_id" in keys else settings
        found = {name: source[text] for text, name in _KEYS.items() if source.get(text)}
    if not (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")) and settings.get("region"):
        found["region"] = settings["region"]
    return found


def _read(file: Path, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except OSError:  # not there, or not ours to read: the chain goes on
        return {}
    except (configparser.Error, UnicodeError):  # its text would show the line, and that may be a key
        raise ConfigError(f"{file} is malformed", hint="`aws configure` writes it", file=str(file)) from None
    return dict(parser.items(section)) if parser.has_section(section) else {}
