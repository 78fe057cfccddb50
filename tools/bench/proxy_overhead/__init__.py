"""What a proxy costs in front of two engines: direct, nginx, ours and the Rust LLM routers, measured in one run."""
