"""lading keeps tables true to the raw files they come from."""

from lading.api import Reader, open
from lading.errors import LadingError

__all__ = ["LadingError", "Reader", "open"]
