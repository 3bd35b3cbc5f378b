"""`lading watch`: a run whenever files arrive, change or vanish."""
