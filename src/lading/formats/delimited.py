"""What the two readers of delimited text, lading's and Spark's, say to each other."""

from __future__ import annotations

# What Spark is to take for null, so that it can tell a field with nothing in it from one with "" in it. In
# every encoding, and not at the edge of a field that is trimmed.
NOTHING = "lading\x1anothing"
