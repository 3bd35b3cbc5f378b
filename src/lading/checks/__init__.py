"""Checks. A new kind is read in config/checks.py. `Check.on_rows` in model.py says whether it is asked of
each row, in spark/row_checks.py, or of the whole table, in table.py. relaxed.py compares a changed check on
rows with the old one: a field that it leaves out could change without a file being read again."""
