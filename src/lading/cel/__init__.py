"""CEL. A new operator is read in parse.py, gets its types in check.py and its value for a row in rows.py; if
Arrow computes it exactly as CEL does, it gets its kernel in columns.py. A new function begins in check.py."""
