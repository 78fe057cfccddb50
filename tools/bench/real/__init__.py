"""The routing experiment on two real vLLM CPU engines: `make bench-real`."""
