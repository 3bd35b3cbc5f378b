"""Predicates. A new operator is read in text.py, has its node in tree.py, is settled against a column's type
in bind.py, and rules out members in prune.py and rows in filter.py."""
