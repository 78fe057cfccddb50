"""Four harnesses that measure any OpenAI endpoint: corpus, sweep, turns, soak; see docs/benchmarks.md."""
