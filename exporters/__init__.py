"""How findings leave: the metric catalogue, Prometheus text, the HTTP API, files."""
