"""lading keeps tables true to the raw files they come from."""

from lading.api import Reader, open
from lading.collection import Collection
from lading.errors import LadingError
from lading.reading.asynchronous import AsyncReader, open_async

__all__ = ["AsyncReader", "Collection", "LadingError", "Reader", "open", "open_async"]
