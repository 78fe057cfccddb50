# What people type. Each target sets up what it needs (Debian or Ubuntu; demo and molecule need root).
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup demo demo-down test lint unit units molecule bench-proxy soak-proxy

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Make .venv with everything the controller needs
	@tools/setup

demo: setup ## Deploy a fleet onto a local test host and talk to it (about 4 minutes the first time, 1 after that)
	@tools/demo

demo-down: ## Remove the demo's host
	@tools/test_host/host down demo

test: setup ## Everything that CI runs (about 10 minutes)
	@tools/run_tests lint unit units molecule

lint unit units molecule: setup ## One tier of the tests
	@tools/run_tests $@

bench-proxy: setup ## What the proxy costs beside nginx and the Rust routers (about 14 minutes; needs nginx-light and wrk)
	@PYTHONPATH=tools python -m bench.proxy_overhead

soak-proxy: setup ## 2,000 requests through the proxy while replicas are killed (about a minute)
	@PYTHONPATH=tools python -m bench.proxy_soak
