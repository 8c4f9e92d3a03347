"""What operators see of a running process: metrics for Prometheus and, as an extra, traces."""
