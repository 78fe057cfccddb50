"""Routing proxy: one endpoint in front of several vLLM replicas that keeps each conversation where its prefix is cached."""
