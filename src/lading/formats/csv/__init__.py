"""Delimited text: csv and tsv."""

from lading.formats.csv.rows import may_be_cut, reader

__all__ = ["may_be_cut", "reader"]
