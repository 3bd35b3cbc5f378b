"""Where snapshot manifests and the pointer live; one protocol, one file a store."""
