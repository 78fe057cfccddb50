"""A stand-in for one vLLM engine on one Radeon R9700: same command line, same HTTP answers, modelled time, no GPU."""

ENGINE_VERSION = "0.32.0"
"""The vLLM release whose answers are imitated."""
