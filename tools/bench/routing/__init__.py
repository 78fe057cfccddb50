"""The routing experiment on simulated replicas behind the real proxy: `make bench-routing`."""
