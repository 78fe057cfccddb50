"""Routing proxy: one endpoint for several vLLM replicas that keeps a conversation on the replica that has it cached."""
