"""Every speed claim beside its peers and its floor, in one run: `make bench`. Not part of the package."""
