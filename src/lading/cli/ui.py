"""lading ui: the project in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lading.cli.terminal.command import Context, Option
from lading.cli.terminal.invocation import config_of
from lading.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    import socket

Port = Annotated[
    int, Option("--port", metavar="PORT", min=0, help="Listen on this port; 8321 by default, 0 for any.")
]
ReadOnly = Annotated[bool, Option("--read-only", help="Show everything, change nothing.")]
NoBrowser = Annotated[bool, Option("--no-browser", help="Don't open a browser.")]
UrlAsJson = Annotated[bool, Option("--json", help="Print the address as one JSON object, for scripts.")]


def ui(
    ctx: Context,
    port: Port = 8321,
    read_only: ReadOnly = False,
    no_browser: NoBrowser = False,
    json: UrlAsJson = False,
) -> None:
    """Show the project in a browser.

    Serves pages on this machine alone: tables and what readers see, what a run would do and why, runs, and
    history with rollback. Prints the address, which has a key in it that nobody else knows, and opens it in
    a browser. Every page shows the command that says the same. Ctrl-C ends it.

    \b
    Example:
      lading ui
      lading -C shipping ui --port 9000 --read-only --no-browser
    """
    config = config_of(ctx)
    _refuse_missing()
    import secrets
    import sys

    from lading.cli.terminal.screen import print_json, say
    from lading.ui.serve import serve

    listener = _listener(port)
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    url = f"http://127.0.0.1:{port}/?token={token}"
    if json:
        print_json({"url": url, "port": port, "token": token, "read_only": read_only})
    else:
        say(f"{config.project.name} is shown at {url}")
        say("Ctrl-C ends it.")
    sys.stdout.flush()
    if not no_browser and not json:
        import webbrowser

        webbrowser.open(url)  # the connection waits until the server answers
    serve(config.project, listener, token=token, read_only=read_only)


def _refuse_missing() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"lading ui needs {', '.join(missing)}", hint="install it with: pip install 'lading[ui]'"
        )


def _listener(port: int) -> socket.socket:
    import errno
    import socket

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OverflowError:
        listener.close()
        raise ConfigError(f"--port {port} is no port", hint="choose one up to 65535") from None
    except OSError as error:
        listener.close()
        taken = error.errno == errno.EADDRINUSE
        said = "another program listens there" if taken else error.strerror
        raise ConfigError(
            f"--port {port}: {said}", hint="choose another one with --port, or --port 0 for any"
        ) from error
    return listener
