"""lading keeps tables true to the raw files they come from."""

from lading.api import Reader, open, open_all
from lading.asynchronous import AsyncReader, open_async
from lading.collection import Collection
from lading.errors import LadingError

__all__ = ["AsyncReader", "Collection", "LadingError", "Reader", "open", "open_all", "open_async"]
