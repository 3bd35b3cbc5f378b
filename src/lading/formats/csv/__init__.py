"""Delimited text: csv and tsv."""
