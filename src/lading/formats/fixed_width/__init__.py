"""Lines whose columns stand at fixed places; a spec says which."""
