"""Replicas killed and restarted under mixed load, through the real proxy: every request must be accounted for."""
