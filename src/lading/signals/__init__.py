"""What other systems are told of runs: metrics for Prometheus, events for OpenLineage."""
