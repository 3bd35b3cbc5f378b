"""lading keeps tables true to the raw files they come from."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lading.api import Reader, open, open_all
    from lading.asynchronous import AsyncReader, open_async
    from lading.collection import Collection
    from lading.errors import LadingError

__all__ = ["AsyncReader", "Collection", "LadingError", "Reader", "open", "open_all", "open_async"]

_ROOMS = {
    "AsyncReader": "asynchronous",
    "Collection": "collection",
    "LadingError": "errors",
    "Reader": "api",
    "open": "api",
    "open_all": "api",
    "open_async": "asynchronous",
}


def __getattr__(name: str) -> Any:
    # Late: a task, a transform or a command needs none of these doors, and it needs this package.
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"lading.{_ROOMS[name]}"), name)
