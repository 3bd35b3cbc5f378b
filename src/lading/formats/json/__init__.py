"""JSON: one object a line, or with `multiline` one document a file, an object or an array of objects."""

from lading.formats.json.rows import may_be_cut, reader

__all__ = ["may_be_cut", "reader"]
